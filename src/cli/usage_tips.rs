//! Tips for words that are no command here: those of other programs, and typing mistakes.
//!
//! A tip never names a command that changes more than the typed word. `list` leads to a command that reads, `rm` of a
//! volume to the removal that keeps the data. A command that changes something is named only if one letter is missing,
//! wrong, in excess or in the wrong place.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

use nomad_csi_model::shell_quoted;

/// The commands that change nothing, by their last word, and the groups of commands.
const READING: [&str; 48] = [
    "acl",
    "token",
    "policy",
    "self",
    "validate",
    "render",
    "fmt",
    "schema",
    "lsp",
    "convert",
    "plan",
    "drift",
    "set",
    "volume",
    "snapshot",
    "job",
    "alloc",
    "namespace",
    "node",
    "plugin",
    "auth",
    "context",
    "explain",
    "completion",
    "man",
    "version",
    "help",
    "status",
    "list",
    "show",
    "claims",
    "doctor",
    "wait",
    "init",
    "lint",
    "history",
    "logs",
    "fs",
    "impact",
    "probe",
    "diff",
    "check",
    "journal",
    "placement",
    "function",
    "periodic",
    "orphans",
    "import",
];

/// Words of other programs for a command that shows things.
const SHOWING: [&str; 9] =
    ["list", "ls", "get", "describe", "show", "status", "info", "inspect", "view"];

/// Words of other programs for a removal.
const REMOVING: [&str; 6] = ["rm", "remove", "destroy", "del", "unregister", "purge"];

/// Replaces the tips of a usage error. `words` is the command line, the program first.
pub(super) fn with_own_tips(mut error: Error, words: &[String], command_line: &Command) -> Error {
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let Some(word) = text_of(&error, ContextKind::InvalidSubcommand) else {
                return error;
            };
            let (path, rest) = place_of(&word, words, command_line);
            let commands = tips(&path, &word, &rest);
            if commands.is_empty() {
                keep_safe_suggestions(&mut error, &word);
            } else {
                error.remove(ContextKind::SuggestedSubcommand);
                add_tips(&mut error, commands.iter().map(|command| format!("use '{command}'")));
            }
        }
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            let argument = text_of(&error, ContextKind::InvalidArg).unwrap_or_default();
            let value = text_of(&error, ContextKind::InvalidValue).unwrap_or_default();
            let is_name = value.starts_with(|c: char| c.is_ascii_alphabetic() || c == '*');
            if argument.starts_with("--lines ") && is_name {
                let namespace = format!("--namespace {}", shell_quoted(&value));
                add_tips(
                    &mut error,
                    [format!("'-n' is the number of lines here; use '{namespace}'")],
                );
            }
        }
        _ => {}
    }
    error
}

fn add_tips(error: &mut Error, lines: impl IntoIterator<Item = String>) {
    let lines = lines.into_iter().map(StyledStr::from).collect();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(lines));
}

fn text_of(error: &Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// Removes suggestions of commands that may change more than the typed word.
fn keep_safe_suggestions(error: &mut Error, word: &str) {
    let suggested = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::String(name)) => vec![name.clone()],
        Some(ContextValue::Strings(names)) => names.clone(),
        _ => return,
    };
    let safe: Vec<_> = suggested.into_iter().filter(|name| may_be_meant(word, name)).collect();
    if safe.is_empty() {
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::Suggested);
    } else {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(safe));
    }
}

/// Returns whether a tip may name a command for a word.
fn may_be_meant(word: &str, command: &str) -> bool {
    READING.contains(&command) || is_one_mistake(word, command)
}

/// Returns whether one letter is missing, wrong, in excess, or exchanged with its neighbour.
fn is_one_mistake(word: &str, other: &str) -> bool {
    let (word, other): (Vec<char>, Vec<char>) = (word.chars().collect(), other.chars().collect());
    let start = word.iter().zip(&other).take_while(|(a, b)| a == b).count();
    let (word, other) = (&word[start..], &other[start..]);
    match (word, other) {
        ([], []) => true,
        ([a, b, rest @ ..], [c, d, others @ ..]) if a == d && b == c && rest == others => true,
        _ => {
            let after = |letters: &[char]| letters.get(1..).map(<[char]>::to_vec);
            let (shorter, others) = (after(word), after(other));
            shorter.is_some() && shorter == others
                || shorter.as_deref() == Some(other)
                || others.as_deref() == Some(word)
        }
    }
}

/// Returns the commands before a word that is none, and the words after it that are no options.
fn place_of(word: &str, words: &[String], command_line: &Command) -> (Vec<String>, Vec<String>) {
    let (mut command, mut path) = (command_line, vec![]);
    let mut words = words.iter().skip(1).skip_while(|one| one.starts_with('-'));
    for one in words.by_ref() {
        if one == word {
            break;
        }
        if let Some(inner) = command.find_subcommand(one) {
            command = inner;
            path.push(inner.get_name().to_owned());
        }
    }
    (path, words.take_while(|one| !one.starts_with('-')).cloned().collect())
}

/// Returns the commands that a word of another program means, after the commands of `path` and before `rest`.
fn tips(path: &[String], word: &str, rest: &[String]) -> Vec<String> {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let command = |command: &str, rest: &[String]| {
        let rest: String = rest.iter().map(|word| format!(" {}", shell_quoted(word))).collect();
        format!("nomad-csi {command}{rest}")
    };
    let (shows, removes) = (SHOWING.contains(&word), REMOVING.contains(&word));
    match (&*path, word) {
        ([], _) if shows || removes || word == "delete" => {
            let noun = rest.first().and_then(|noun| noun_of(noun));
            let names = if noun.is_some() { &rest[1..] } else { rest };
            let reads = shows.then_some(reading_command(noun.unwrap_or("volume")));
            let verb = reads.unwrap_or_else(|| removing_command(noun.unwrap_or("volume")));
            verb.map(|verb| command(verb, names)).into_iter().collect()
        }
        ([noun], _) if shows => {
            reading_command(noun).map(|verb| command(verb, &[])).into_iter().collect()
        }
        ([noun], _) if removes || word == "delete" => {
            removing_command(noun).map(|verb| command(verb, rest)).into_iter().collect()
        }
        ([], "diff") => vec![command("plan", rest)],
        (["volume"], "diff") => vec!["nomad-csi plan".to_owned(), "nomad-csi drift".to_owned()],
        (["job"], "diff") => vec![command("job plan", rest)],
        ([], "refresh") => vec![command("drift", rest)],
        ([], "logs") => vec![command("alloc logs", rest)],
        ([], "doctor") => vec![command("volume doctor", rest)],
        ([], "claims") => vec![command("volume claims", rest)],
        ([], "init") => vec![command("volume init", rest)],
        (
            [],
            "jobs" | "allocs" | "volumes" | "plugins" | "nodes" | "namespaces" | "snapshots"
            | "sets" | "contexts",
        ) => {
            let reads = noun_of(word).and_then(reading_command);
            reads.map(|verb| command(verb, rest)).into_iter().collect()
        }
        (["volume"], "snapshot") => match rest.first().map(String::as_str) {
            Some("list") => vec![command("snapshot list", &rest[1..])],
            _ => vec!["nomad-csi snapshot --help".to_owned()],
        },
        _ => vec![],
    }
}

/// Returns the command that shows the objects of a group.
fn reading_command(noun: &str) -> Option<&'static str> {
    Some(match noun {
        "volume" => "volume status",
        "job" => "job status",
        "alloc" => "alloc status",
        "plugin" => "plugin status",
        "node" => "node status",
        "namespace" => "namespace list",
        "snapshot" => "snapshot list",
        "context" => "context list",
        "set" => "set list",
        _ => return None,
    })
}

/// Returns the command that removes an object of a group and loses the least.
fn removing_command(noun: &str) -> Option<&'static str> {
    Some(match noun {
        "volume" => "volume deregister",
        "job" => "job stop",
        "alloc" => "alloc stop",
        "snapshot" => "snapshot delete",
        "namespace" => "namespace delete",
        "set" => "forget",
        _ => return None,
    })
}

/// Returns the group of commands that a noun of another program means.
fn noun_of(word: &str) -> Option<&'static str> {
    Some(match word {
        "volume" | "volumes" | "vol" | "pv" | "pvc" => "volume",
        "job" | "jobs" => "job",
        "alloc" | "allocs" | "allocation" | "allocations" | "pod" | "pods" => "alloc",
        "plugin" | "plugins" => "plugin",
        "node" | "nodes" => "node",
        "namespace" | "namespaces" | "ns" => "namespace",
        "snapshot" | "snapshots" => "snapshot",
        "context" | "contexts" => "context",
        "set" | "sets" => "set",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::command_line::Cli;

    /// The commands that change something, by their last word.
    const CHANGING: &[&str] = &[
        "apply",
        "reconcile",
        "forget",
        "agent",
        "create",
        "register",
        "deregister",
        "delete",
        "abandon",
        "detach",
        "claim",
        "release",
        "expand",
        "modify",
        "run",
        "stop",
        "dispatch",
        "force",
        "revert",
        "restart",
        "signal",
        "eligibility",
        "drain",
        "fence",
        "unfence",
        "serve",
        "use",
        "add",
        "server",
        "node",
        "tls",
        "migrate",
        "etcd",
        "reclaim",
        "key",
        "rotate",
        "bootstrap",
        "update",
    ];

    /// The typed words, and the tips in the error of them.
    fn tips_of(line: &str) -> Vec<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let Err(error) = Cli::command().try_get_matches_from(&words) else {
            return vec!["parsed".to_owned()];
        };
        let error = with_own_tips(error, &words, &Cli::command());
        let text = error.to_string();
        let tips = text.lines().filter_map(|line| line.trim().strip_prefix("tip: "));
        tips.map(str::to_owned).collect()
    }

    #[test]
    fn words_of_other_programs_lead_to_the_command_that_changes_least() {
        for (line, expected) in [
            ("x get volumes", "use 'nomad-csi volume status'"),
            ("x describe volume db", "use 'nomad-csi volume status db'"),
            ("x ls", "use 'nomad-csi volume status'"),
            ("x status", "use 'nomad-csi volume status'"),
            ("x list jobs", "use 'nomad-csi job status'"),
            ("x rm db", "use 'nomad-csi volume deregister db'"),
            ("x delete volume db", "use 'nomad-csi volume deregister db'"),
            ("x delete pod ab", "use 'nomad-csi alloc stop ab'"),
            ("x diff x.hcl", "use 'nomad-csi plan x.hcl'"),
            ("x volumes", "use 'nomad-csi volume status'"),
            ("x volume rm db -y", "use 'nomad-csi volume deregister db'"),
            ("x volume destroy $(id)", "use 'nomad-csi volume deregister '$(id)''"),
            ("x job rm db", "use 'nomad-csi job stop db'"),
            ("x snapshot show", "use 'nomad-csi snapshot list'"),
            ("x job diff db.hcl", "use 'nomad-csi job plan db.hcl'"),
            ("x volume snapshot create db", "use 'nomad-csi snapshot --help'"),
            ("x volume stauts", "a similar subcommand exists: 'status'"),
            ("x volum status", "a similar subcommand exists: 'volume'"),
            ("x volume detatch db", "a similar subcommand exists: 'detach'"),
            ("x alloc logs ab -n prod", "'-n' is the number of lines here; use '--namespace prod'"),
        ] {
            assert_eq!(tips_of(line), [expected], "{line}");
        }
    }

    #[test]
    fn words_that_show_things_are_commands_of_their_groups() {
        for noun in ["volume", "job", "alloc", "plugin", "node"] {
            for verb in ["list", "ls", "get", "describe", "show"] {
                assert_eq!(tips_of(&format!("x {noun} {verb}")), ["parsed"], "{noun} {verb}");
            }
        }
        for line in [
            "x context ls",
            "x context get",
            "x context describe",
            "x set ls",
            "x set describe web",
        ] {
            assert_eq!(tips_of(line), ["parsed"], "{line}");
        }
    }

    #[test]
    fn no_tip_names_a_command_that_changes_something_for_a_word_that_is_not_almost_it() {
        for (word, command, expected) in [
            ("deleted", "delete", true),
            ("delte", "delete", true),
            ("dleete", "delete", true),
            ("dleeet", "delete", false),
            ("deleet", "delete", true),
            ("relase", "release", true),
            ("detac", "detach", true),
            ("stats", "stop", false),
            ("start", "restart", false),
            ("get", "delete", false),
            ("stat", "status", true),
            ("delxte", "delete", true),
            ("x", "use", false),
        ] {
            assert_eq!(may_be_meant(word, command), expected, "{word} {command}");
        }
        for line in ["x job start db", "x alloc start ab", "x volume undeleted", "x node fen"] {
            let tips = tips_of(line).concat();
            let named = CHANGING.iter().find(|command| tips.contains(&format!("'{command}'")));
            assert_eq!(named, None, "{line}: {tips}");
        }
    }

    #[test]
    fn every_command_reads_or_changes() {
        fn visit(command: &Command) {
            for inner in command.get_subcommands() {
                let name = inner.get_name();
                let (reads, changes) = (READING.contains(&name), CHANGING.contains(&name));
                assert!(reads || changes, "say whether `{name}` changes something");
                assert!(reads != changes || name == "node", "{name}");
                visit(inner);
            }
        }
        visit(&Cli::command());
    }
}
