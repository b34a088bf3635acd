//! Words of a command line in the quoting of a shell. Names come from others, so a candidate must never become code.
//!
//! bash and PowerShell insert a candidate as it is, so this file quotes it, for the quotes that the user has opened.
//! zsh, fish and Elvish quote candidates themselves. What cannot be quoted for sure is not offered: characters that a
//! terminal obeys, and words that look like an option of the command and are none.

use std::ffi::OsStr;

use clap::ValueEnum;

use nomad_csi_model::{is_invisible, shell_quoted};

/// The supported shells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// `source <(nomad-csi completion bash)`
    Bash,
    /// `source <(nomad-csi completion zsh)`
    Zsh,
    /// `nomad-csi completion fish | source`
    Fish,
    /// `nomad-csi completion powershell | Out-String | Invoke-Expression`
    Powershell,
    /// `eval (nomad-csi completion elvish | slurp)`
    Elvish,
}

impl Shell {
    /// Its name for the engine.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
            Self::Powershell => "powershell",
            Self::Elvish => "elvish",
        }
    }

    /// Returns the shell with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let mut shells = Self::value_variants().iter().copied();
        shells.find(|shell| shell.name() == name)
    }
}

/// The word before the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TypedWord {
    /// Its text without quotes.
    pub(super) text: String,
    quoting: Quoting,
}

/// How a candidate must be written in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quoting {
    /// The shell does it.
    ByShell,
    /// As a word of a POSIX shell.
    Posix,
    /// After an open single quote of a POSIX shell.
    InSingleQuotes,
    /// After an open double quote of a POSIX shell.
    InDoubleQuotes,
    /// As a word of PowerShell.
    PowerShell,
}

/// The characters that bash expands or ends a word at inside of double quotes.
const SPECIAL_IN_DOUBLE_QUOTES: [char; 5] = ['"', '$', '`', '\\', '!'];

impl TypedWord {
    /// Reads the word that the script of a shell passes. Returns `None` if it is unclear what a candidate in its
    /// place would mean.
    pub(super) fn read(shell: Shell, word: &OsStr) -> Option<Self> {
        let word = word.to_str()?;
        let (text, quoting) = match shell {
            Shell::Zsh | Shell::Fish | Shell::Elvish => (word.to_owned(), Quoting::ByShell),
            Shell::Powershell => (word.to_owned(), Quoting::PowerShell),
            Shell::Bash => bash_word(word)?,
        };
        Some(Self { text, quoting })
    }

    /// Returns a candidate as the shell must get it; `None` if it cannot be offered.
    pub(super) fn offer(&self, candidate: &str) -> Option<String> {
        if candidate.is_empty() || candidate.chars().any(is_invisible) {
            return None;
        }
        match self.quoting {
            Quoting::ByShell => Some(candidate.to_owned()),
            Quoting::Posix => Some(shell_quoted(candidate)),
            Quoting::InSingleQuotes => (!candidate.contains('\'')).then(|| candidate.to_owned()),
            Quoting::InDoubleQuotes => {
                (!candidate.contains(SPECIAL_IN_DOUBLE_QUOTES)).then(|| candidate.to_owned())
            }
            Quoting::PowerShell => powershell_word(candidate),
        }
    }
}

/// Reads a word of bash up to the cursor, with the quote that is open there.
fn bash_word(word: &str) -> Option<(String, Quoting)> {
    if let Some(rest) = word.strip_prefix('\'') {
        return (!rest.contains('\'')).then(|| (rest.to_owned(), Quoting::InSingleQuotes));
    }
    if let Some(rest) = word.strip_prefix('"') {
        let is_plain = !rest.contains(SPECIAL_IN_DOUBLE_QUOTES);
        return is_plain.then(|| (rest.to_owned(), Quoting::InDoubleQuotes));
    }
    let mut text = String::new();
    let mut rest = word.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => text.push(rest.next()?),
            '\'' | '"' | '$' | '`' => return None,
            c => text.push(c),
        }
    }
    Some((text, Quoting::Posix))
}

/// Quotes a word for PowerShell, which takes typographic quotes for quotes as well.
fn powershell_word(word: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:+".contains(c);
    if word.chars().all(plain) {
        return Some(word.to_owned());
    }
    let is_typographic = |c: char| matches!(c, '\u{2018}'..='\u{201f}');
    (!word.contains(is_typographic)).then(|| format!("'{}'", word.replace('\'', "''")))
}

/// Returns whether a candidate that begins with `-` is an option of the program, and not a name.
pub(super) fn is_option(command: &clap::Command, candidate: &str) -> bool {
    let name = candidate.split('=').next().unwrap_or_default();
    let has = |argument: &clap::Arg| match name.strip_prefix("--") {
        Some(long) => {
            argument.get_long_and_visible_aliases().is_some_and(|longs| longs.contains(&long))
        }
        None => {
            let shorts = argument.get_short_and_visible_aliases().unwrap_or_default();
            let mut letters = name.chars().skip(1).peekable();
            letters.peek().is_some() && letters.all(|letter| shorts.contains(&letter))
        }
    };
    command.get_arguments().any(has)
        || command.get_subcommands().any(|inner| is_option(inner, candidate))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(shell: Shell, word: &str) -> Option<TypedWord> {
        TypedWord::read(shell, OsStr::new(word))
    }

    #[test]
    fn a_candidate_is_one_word_in_the_quotes_that_are_open() {
        for (word, text, candidate, expected) in [
            ("d", "d", "db-0", Some("db-0")),
            ("d", "d", "d;id", Some("'d;id'")),
            ("d", "d", "d'$(id)`id`", Some("'d'\\''$(id)`id`'")),
            ("", "", "*", Some("'*'")),
            ("d\\;", "d;", "d;id", Some("'d;id'")),
            ("'d", "d", "d;id", Some("d;id")),
            ("'d", "d", "d';id'", None),
            ("\"d", "d", "d;id", Some("d;id")),
            ("\"d", "d", "d$(id)", None),
            ("\"d", "d", "d\";id", None),
            ("\"d", "d", "d`id`", None),
            ("\"d", "d", "d\\", None),
            ("\"d", "d", "d!!", None),
            ("d", "d", "d\nid", None),
            ("d", "d", "d\u{1b}[2J", None),
            ("d", "d", "d\u{202e}", None),
            ("d", "d", "dü日", Some("'dü日'")),
        ] {
            let typed = typed(Shell::Bash, word).unwrap();
            assert_eq!(typed.text, text, "{word}");
            assert_eq!(typed.offer(candidate).as_deref(), expected, "{word} {candidate}");
        }
    }

    #[test]
    fn nothing_is_offered_where_the_meaning_of_a_candidate_is_unclear() {
        for word in ["a'b", "'a'b", "a\"b", "$a", "`a", "a\\", "\"a\\", "\"$a"] {
            assert_eq!(typed(Shell::Bash, word), None, "{word}");
        }
    }

    #[test]
    fn powershell_gets_its_own_quotes() {
        let typed = typed(Shell::Powershell, "d").unwrap();
        for (candidate, expected) in [
            ("db-0", Some("db-0")),
            ("d;id", Some("'d;id'")),
            ("d'$(id)", Some("'d''$(id)'")),
            ("d@x", Some("'d@x'")),
            ("d\u{2019};id", None),
            ("d\u{201c}", None),
        ] {
            assert_eq!(typed.offer(candidate).as_deref(), expected, "{candidate}");
        }
    }

    #[test]
    fn a_shell_that_quotes_gets_candidates_as_they_are_without_control_characters() {
        for shell in [Shell::Zsh, Shell::Fish, Shell::Elvish] {
            let typed = typed(shell, "d").unwrap();
            assert_eq!(typed.offer("d;'id").as_deref(), Some("d;'id"));
            assert_eq!(typed.offer("d\tx"), None);
        }
    }

    #[test]
    fn only_options_of_the_program_look_like_options() {
        let command = clap::Command::new("x")
            .arg(clap::Arg::new("output").long("output").short('o'))
            .subcommand(clap::Command::new("y").arg(clap::Arg::new("z").long("zone")));
        for (candidate, expected) in [
            ("--output", true),
            ("--output=json", true),
            ("-o", true),
            ("--zone", true),
            ("-rf", false),
            ("--", false),
            ("-", false),
            ("--other", false),
        ] {
            assert_eq!(is_option(&command, candidate), expected, "{candidate}");
        }
    }
}
