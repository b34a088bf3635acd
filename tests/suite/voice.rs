//! Words that `docs/style.md` replaces do not come back.

use std::path::{Path, PathBuf};

/// Words and phrases with a better word in `docs/style.md`.
const REPLACED: &[&str] = &[
    "nobody",
    "somebody",
    "whoever",
    "anew",
    "aloud",
    "told",
    "held against",
    "taken in",
    "lets go",
    "otherwise than",
    "meanwhile",
    "heard",
    "unheard",
    "whom",
    "wish",
    "lane",
    "lanes",
];
/// Names of Linux that are such words, as they are quoted.
const NAMES: &[&str] = &["`nobody`", "\"nobody\""];
/// Documents that quote them.
const EXCEPTIONS: &[&str] = &["docs/style.md", "tests/suite/voice.rs"];

fn texts(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the folder is readable") {
        let path = entry.expect("the entry is readable").path();
        let is_text =
            path.extension().is_some_and(|extension| extension == "rs" || extension == "md");
        if path.is_dir() && !path.ends_with("tests/data") {
            texts(&path, found);
        } else if is_text {
            found.push(path);
        }
    }
}

/// Returns whether a line contains a word, also with a capital at the start of a sentence.
fn contains_word(line: &str, word: &str) -> bool {
    let capital = word[..1].to_uppercase() + &word[1..];
    is_word_in(line, word) || is_word_in(line, &capital)
}

fn is_word_in(line: &str, word: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        !is_letter(line[..at].chars().next_back())
            && !is_letter(line[at + word.len()..].chars().next())
    })
}

#[test]
fn replaced_words_do_not_come_back() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files =
        vec![root.join("README.md"), root.join("CHANGELOG.md"), root.join("CONTRIBUTING.md")];
    for folder in ["src", "tests", "benches", "docs"] {
        texts(&root.join(folder), &mut files);
    }
    let mut problems = vec![];
    for path in files {
        let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        if EXCEPTIONS.contains(&shown.as_str()) {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("the file is readable");
        for (at, line) in text.lines().enumerate() {
            let line = NAMES.iter().fold(line.to_owned(), |line, name| line.replace(name, ""));
            let found = REPLACED.iter().filter(|word| contains_word(&line, word));
            problems
                .extend(found.map(|word| format!("{shown}:{}: `{word}`: {}", at + 1, line.trim())));
        }
    }
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}
