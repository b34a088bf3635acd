//! Accepts options and words as `nomad`, `terraform` and `kubectl` write them.
//!
//! An option with one dash becomes the one with two dashes, if the command has it. `-json` and `-auto-approve` become
//! options of ours. The parser would read `-json` as `-j`, `-s`, `-o` and `-n`. Letters that are options of the command
//! stay as they are, and so does what follows `--`. Nothing becomes an option that changes more than the typed one.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

/// Returns the arguments in the words of this program.
pub(super) fn in_own_words(arguments: &[OsString], command_line: &Command) -> Vec<OsString> {
    if !arguments.iter().skip(1).any(may_differ) {
        return arguments.to_vec();
    }
    let mut command_line = command_line.clone();
    command_line.build();
    let mut reader = Reader { command: &command_line, depth: 0, awaits_value: false, asks: false };
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let (words, others) = arguments.split_at(end);
    let mut own = words.iter().take(1).cloned().collect::<Vec<_>>();
    for word in words.iter().skip(1) {
        own.extend(match word.to_str() {
            Some(text) => reader.read(text).map(OsString::from),
            None => Some(reader.value(word)),
        });
    }
    if reader.asks && !own.is_empty() {
        own.insert(1, "help".into());
    }
    own.extend(others.iter().cloned());
    own
}

/// Returns whether a word may be one of another program.
fn may_differ(word: &OsString) -> bool {
    let Some(text) = word.to_str() else {
        return false;
    };
    match text.strip_prefix("--") {
        Some(option) => ["json", "timeout", "auto-approve"].contains(&name_and_value(option).0),
        None => text == "help" || (text.starts_with('-') && text.len() > 2),
    }
}

/// The place on the command line.
struct Reader<'c> {
    /// The command so far.
    command: &'c Command,
    /// The number of commands around it.
    depth: usize,
    /// True if the next word is the value of an option.
    awaits_value: bool,
    /// True if a command is asked for its help, as in `volume help create`.
    asks: bool,
}

impl Reader<'_> {
    /// Returns a word as this program has it; `None` if it says what is so without it.
    fn read(&mut self, text: &str) -> Option<String> {
        if self.awaits_value {
            self.awaits_value = false;
            return Some(text.to_owned());
        }
        if text.len() > 1 && text.starts_with('-') {
            let own = self.option(text)?;
            self.awaits_value = expects_value(self.command, &own);
            return Some(own);
        }
        if let Some(inner) = self.command.find_subcommand(text) {
            self.command = inner;
            self.depth += 1;
            return Some(text.to_owned());
        }
        match text {
            "help" if self.depth > 0 && self.command.has_subcommands() && !self.asks => {
                self.asks = true;
                None
            }
            _ => Some(text.to_owned()),
        }
    }

    fn value(&mut self, word: &OsString) -> OsString {
        self.awaits_value = false;
        word.clone()
    }

    fn option(&self, text: &str) -> Option<String> {
        if let Some(option) = text.strip_prefix("--") {
            let (name, value) = name_and_value(option);
            let is_own = has_long(self.command, name);
            return match self.renamed(name, value).filter(|_| !is_own) {
                Some(own) => Some(own),
                None => Some(text.to_owned()),
            };
        }
        let option = text.strip_prefix('-').unwrap_or_default();
        let (name, value) = name_and_value(option);
        let is_word = name.len() > 1
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if !is_word {
            return Some(text.to_owned());
        }
        // Nomad prints whole IDs with it.
        if name == "verbose" && value.is_none() && takes_output(self.command, "wide") {
            return Some("--output=wide".to_owned());
        }
        if let Some(argument) = find_long(self.command, name) {
            let is_flag = matches!(argument.get_action(), ArgAction::SetTrue | ArgAction::Count);
            return match value {
                Some("true") if is_flag => Some(format!("--{name}")),
                Some("false") if is_flag => None,
                Some(_) | None => Some(format!("--{option}")),
            };
        }
        // In Nomad, it says that the job file is JSON.
        if name == "json" && has_long(self.command, "syntax") && self.depth == 2 {
            return Some("--syntax=json".to_owned());
        }
        if let Some(own) = self.renamed(name, value) {
            return Some(own);
        }
        let is_letter = name.chars().next().is_some_and(|letter| has_short(self.command, letter));
        // With two dashes, the error names the whole option.
        Some(if is_letter { text.to_owned() } else { format!("--{option}") })
    }

    /// Returns the option of this program with the meaning of another one.
    fn renamed(&self, name: &str, value: Option<&str>) -> Option<String> {
        let has = |long| has_long(self.command, long);
        match (name, value) {
            ("json", None | Some("true")) if takes_output(self.command, "json") => {
                Some("--output=json".to_owned())
            }
            ("auto-approve", None | Some("true")) if has("yes") => Some("--yes".to_owned()),
            ("timeout", None) if has(REQUEST_TIMEOUT) => Some(format!("--{REQUEST_TIMEOUT}")),
            ("timeout", Some(value)) if has(REQUEST_TIMEOUT) => {
                Some(format!("--{REQUEST_TIMEOUT}={value}"))
            }
            _ => None,
        }
    }
}

/// The option that `--timeout` means in a command without one.
const REQUEST_TIMEOUT: &str = "request-timeout";

fn name_and_value(option: &str) -> (&str, Option<&str>) {
    option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)))
}

fn find_long<'c>(command: &'c Command, name: &str) -> Option<&'c Arg> {
    command.get_arguments().find(|argument| argument.get_long() == Some(name))
}

fn has_long(command: &Command, name: &str) -> bool {
    find_long(command, name).is_some()
}

fn has_short(command: &Command, letter: char) -> bool {
    command.get_arguments().any(|argument| argument.get_short() == Some(letter))
}

/// Returns whether a command has `--output` with this format.
fn takes_output(command: &Command, format: &str) -> bool {
    let output = find_long(command, "output");
    output.is_some_and(|output| {
        let formats = output.get_possible_values();
        formats.is_empty() || formats.iter().any(|one| one.get_name() == format)
    })
}

/// Returns whether the word after an option is its value.
fn expects_value(command: &Command, option: &str) -> bool {
    let argument = match option.strip_prefix("--") {
        Some(name) => find_long(command, name),
        None => {
            let mut letters = option.chars().skip(1);
            let (letter, rest) = (letters.next(), letters.next());
            let mut arguments = command.get_arguments();
            arguments.find(|argument| rest.is_none() && argument.get_short() == letter)
        }
    };
    argument.is_some_and(|argument| {
        argument.get_action().takes_values() && !argument.is_require_equals_set()
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::command_line::Cli;

    fn own(line: &str) -> String {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let words = in_own_words(&arguments, &Cli::command());
        words.join(std::ffi::OsStr::new(" ")).into_string().unwrap_or_default()
    }

    #[test]
    fn options_with_one_dash_are_those_of_the_command() {
        for (line, expected) in [
            ("x plan -var a=1 x.hcl", "x plan --var a=1 x.hcl"),
            ("x plan -var=a=1", "x plan --var=a=1"),
            ("x plan -var-file prod.hcl", "x plan --var-file prod.hcl"),
            ("x plan -var-file=prod.hcl", "x plan --var-file=prod.hcl"),
            ("x plan --var a=-var", "x plan --var a=-var"),
            ("x plan -v -vv -vara", "x plan -v -vv -vara"),
            (
                "x volume status -address=http://h -namespace n",
                "x volume status --address=http://h --namespace n",
            ),
            ("x volume status -tls-skip-verify", "x volume status --tls-skip-verify"),
            ("x volume deregister db -force=true", "x volume deregister db --force"),
            ("x volume deregister db -force=false", "x volume deregister db"),
            ("x apply -fx.hcl", "x apply -fx.hcl"),
            ("x apply -f -", "x apply -f -"),
            ("x volume status -per-page 5", "x volume status --per-page 5"),
            ("x alloc logs ab -n5", "x alloc logs ab -n5"),
            ("x -namespace volume volume status", "x --namespace volume volume status"),
            ("x volume status -- -json", "x volume status -- -json"),
        ] {
            assert_eq!(own(line), expected, "{line}");
        }
    }

    #[test]
    fn options_of_other_programs_become_ours_where_the_command_has_them() {
        for (line, expected) in [
            ("x volume status -json", "x volume status --output=json"),
            ("x volume status db --json", "x volume status db --output=json"),
            ("x plan --json x.hcl", "x plan --output=json x.hcl"),
            ("x job run -json db.json", "x job run --syntax=json db.json"),
            ("x job plan -json db.json", "x job plan --syntax=json db.json"),
            ("x context use --json", "x context use --json"),
            ("x alloc status -verbose", "x alloc status --output=wide"),
            ("x plan -verbose x.hcl", "x plan --verbose x.hcl"),
            ("x apply -auto-approve x.hcl", "x apply --yes x.hcl"),
            ("x apply --auto-approve", "x apply --yes"),
            ("x volume status -auto-approve", "x volume status --auto-approve"),
            ("x volume status --timeout 5s", "x volume status --request-timeout 5s"),
            ("x volume wait db --timeout=5s", "x volume wait db --timeout=5s"),
            ("x volume status --filter --json", "x volume status --filter --json"),
        ] {
            assert_eq!(own(line), expected, "{line}");
        }
    }

    #[test]
    fn help_is_a_word_too() {
        for (line, expected) in [
            ("x volume help create", "x help volume create"),
            ("x volume help", "x help volume"),
            ("x help volume", "x help volume"),
            ("x volume status help", "x volume status help"),
            ("x --namespace help volume status", "x --namespace help volume status"),
        ] {
            assert_eq!(own(line), expected, "{line}");
        }
    }
}
