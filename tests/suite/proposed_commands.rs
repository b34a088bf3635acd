//! A command that a message proposes is copied into a shell, so a name in it is quoted.
//!
//! Every text of the sources that contains `nomad-csi …` or `nomad …` with a placeholder is found. What fills the
//! placeholder is quoted where it stands, or is a variable that is; the few others are listed with the reason.

use std::path::{Path, PathBuf};

use regex::Regex;

/// What quotes: a word for a shell, or all words of an object.
const QUOTING: [&str; 2] = ["shell_quoted(", "command_words("];

/// Placeholders that need no quotes: the file, what fills it, and why.
const EXEMPT: [(&str, &str, &str); 12] = [
    ("cli/commands/man.rs", "env!(\"CARGO_PKG_VERSION\")", "no command: the version"),
    ("cli/ui/formats/junit.rs", "report.command", "no command: the name of a suite"),
    ("plan/doctor/remedies.rs", "verb", "a word of this program"),
    ("plan/doctor/remedies.rs", "rest", "its callers quote each word"),
    ("plan/owned_data_messages.rs", "set", "a set's name has no character that a shell obeys"),
    ("client/reconcile/workflow/expand.rs", "name", "the name of a set"),
    ("client/reconcile/workflow/expand.rs", "access.flags", "options whose values are quoted"),
    ("client/reconcile/workflow/forget.rs", "name", "the name of a set"),
    ("client/reconcile/workflow/forget.rs", "access.flags", "options whose values are quoted"),
    ("client/reconcile/workflow/ledger_access.rs", "set", "the name of a set"),
    ("client/reconcile/workflow/ledger_access.rs", "self.flags", "options whose values are quoted"),
    ("spec/plugin_template.rs", "verb", "a word of this program"),
];

fn sources() -> Vec<PathBuf> {
    let mut files = vec![];
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let is_test = path.ends_with("tests.rs") || path.ends_with("tests");
            match path.is_dir() {
                true if !is_test => folders.push(path),
                false if !is_test && path.extension().is_some_and(|end| end == "rs") => {
                    files.push(path);
                }
                _ => {}
            }
        }
    }
    files
}

/// Returns the arguments of the macro call whose first argument is the text that ends here.
fn arguments_after(text: &str, end: usize) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, end, vec![]);
    for (at, letter) in text[end..].char_indices().map(|(at, c)| (end + at, c)) {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth > 0 => depth -= 1,
            ')' | ']' | '}' => {
                found.push(text[start..at].trim());
                break;
            }
            ',' if depth == 0 => {
                found.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }

    let others = found.into_iter().skip(1);
    others.filter(|one| !one.is_empty()).collect()
}

/// Returns whether a variable of the file is bound to something quoted.
fn is_bound_quoted(text: &str, name: &str) -> bool {
    let pattern =
        format!(r"let (?:mut )?(?:\([^)]*\b{name}\b[^)]*\)|{name})\s*(?::[^=]*)?=([^;]*);");
    let bound = Regex::new(&pattern).expect("a valid expression");
    bound.captures_iter(text).any(|bound| {
        let value = bound.get(1).map_or("", |value| value.as_str());
        QUOTING.iter().any(|quoting| value.contains(quoting))
    })
}

/// Returns what fills a placeholder of a proposed command and is not quoted, and how many placeholders there are.
fn unquoted_in(text: &str) -> (Vec<String>, usize) {
    let literal = Regex::new(r#""((?:[^"\\]|\\.)*)""#).expect("a valid expression");
    let command = Regex::new(r"(?:`|^|  )(nomad(?:-csi)? [^`]*)").expect("a valid expression");
    let placeholder = Regex::new(r"\{([a-z_]*)(?::[^}]*)?\}").expect("a valid expression");
    let variable = Regex::new(r"^&?([a-z_]+)$").expect("a valid expression");
    let (mut unquoted, mut count) = (vec![], 0);
    for found in literal.captures_iter(text) {
        let (whole, inner) = (found.get(0).expect("a match"), found.get(1).expect("a group"));
        let line = text[..whole.start()].rfind('\n').map_or(0, |at| at + 1);
        if text[line..whole.start()].trim_start().starts_with("//") {
            continue;
        }
        for proposed in command.captures_iter(inner.as_str()) {
            let proposed = proposed.get(1).expect("a group");
            let before = &inner.as_str()[..proposed.start()];
            let is_positional = |found: &regex::Captures<'_>| found[1].is_empty();
            let mut position = placeholder.captures_iter(before).filter(is_positional).count();
            let arguments = arguments_after(text, whole.end());
            for one in placeholder.captures_iter(proposed.as_str()) {
                count += 1;
                let value = match &one[1] {
                    "" => {
                        position += 1;
                        arguments.get(position - 1).copied().unwrap_or("nothing").to_owned()
                    }
                    name => name.to_owned(),
                };
                let is_quoted = QUOTING.iter().any(|quoting| value.contains(quoting))
                    || variable
                        .captures(&value)
                        .is_some_and(|name| is_bound_quoted(text, &name[1]));
                if !is_quoted {
                    unquoted.push(value);
                }
            }
        }
    }
    (unquoted, count)
}

#[test]
fn every_name_in_a_proposed_command_is_quoted() {
    let (mut problems, mut count) = (vec![], 0);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut used = vec![];
    for file in sources() {
        let text = std::fs::read_to_string(&file).expect("a readable file");
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let name = file.strip_prefix(&root).expect("below src").display().to_string();
        let (unquoted, found) = unquoted_in(text);
        count += found;
        for value in unquoted {
            let is_exempt = |one: &&(&str, &str, &str)| one.0 == name && one.1 == value;
            match EXEMPT.iter().find(is_exempt) {
                Some(exempt) => used.push(*exempt),
                None => problems.push(format!("{name}: `{value}` is not quoted")),
            }
        }
    }
    assert_eq!(problems, Vec::<String>::new(), "use `shell_quoted`");
    assert!(count > 50, "{count} placeholders");
    let unused: Vec<_> = EXEMPT.iter().filter(|one| !used.contains(one)).collect();
    assert_eq!(unused, Vec::<&(&str, &str, &str)>::new(), "remove what is not needed");
}

#[test]
fn an_unquoted_name_is_found() {
    for (text, expected) in [
        ("format!(\"run `nomad-csi volume status {}`\", volume.id)", vec!["volume.id"]),
        ("format!(\"run `nomad job run {file}`\")", vec!["file"]),
        ("let file = shell_quoted(name); format!(\"run `nomad job run {file}`\")", vec![]),
        ("format!(\"{} `nomad-csi set show {}`\", a, shell_quoted(b))", vec![]),
        (
            "format!(\"nomad-csi volume status {} --namespace {ns}\", id.command_words())",
            vec!["ns"],
        ),
        ("// \"run `nomad-csi {}`\", x", vec![]),
    ] {
        assert_eq!(unquoted_in(text).0, expected, "{text}");
    }
}
