//! The sessions in the README and in docs/apply.md run as written and print the documented output.
//!
//! A session is a `console` block: commands after `$ `, each followed by its output on both streams.
//! Generated IDs and the home directory are replaced on both sides. `NOMAD_CSI_BLESS=1` updates the
//! sessions. Commands that start with `cargo test` or `export` do not run, and neither do the blocks
//! after them in the same section.

use std::path::Path;
use std::process::Command;

use crate::agent_process::PROGRAM;

/// The prefix of commands that build the program first.
const BUILD_AND_RUN: &str = "cargo run -- ";
const HOME: &str = "/home/operator";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs one command in the root directory of the repository.
fn run(command: &str, home: &Path) -> String {
    let program = Path::new(PROGRAM).parent().expect("a parent directory");
    let command = command.replace(BUILD_AND_RUN, "nomad-csi ");
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; {command}")])
        .current_dir(root())
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", program.display()))
        .env("HOME", home)
        .stdin(std::process::Stdio::null())
        .output()
        .expect("a shell");
    let text = String::from_utf8(output.stdout).expect("UTF-8 output");
    text.replace(&home.display().to_string(), HOME)
}

/// Replaces every UUID with the nil UUID.
fn without_ids(text: &str) -> String {
    const PLAIN: &str = "00000000-0000-0000-0000-000000000000";
    let is_uuid = |word: &str| {
        word.len() == 36
            && word.bytes().enumerate().all(|(at, byte)| match at {
                8 | 13 | 18 | 23 => byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            })
    };
    let mut plain = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        if rest.get(..36).is_some_and(is_uuid) {
            plain.push_str(PLAIN);
            rest = &rest[36..];
        } else {
            let next = rest.chars().next().map_or(1, char::len_utf8);
            plain.push_str(&rest[..next]);
            rest = &rest[next..];
        }
    }
    plain
}

/// Removes sizes, which the plugin reports only as root, and ages.
fn without_sizes(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let varies = ["Capacity  ", "    lost: ", "error[plan/applied]: "];
        let start = varies.into_iter().find(|start| line.starts_with(start));
        start.unwrap_or(line)
    });
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    text.replace(", 1.0 GiB)", ")")
}

/// Returns the document with the actual output of every session.
fn replayed(document: &str, home: &Path) -> String {
    let mut lines = document.lines().peekable();
    let mut written = String::new();
    let mut runs = true;
    while let Some(line) = lines.next() {
        written.push_str(line);
        written.push('\n');
        if line.starts_with("## ") {
            runs = true;
        }
        if line != "```console" {
            continue;
        }
        while let Some(line) = lines.next_if(|line| *line != "```") {
            let command = line.strip_prefix("$ ");
            let Some(command) = command else {
                if !runs {
                    written.push_str(line);
                    written.push('\n');
                }
                continue;
            };
            written.push_str(line);
            written.push('\n');
            runs &= !(command.starts_with("cargo test") || command.starts_with("export"));
            if runs {
                written.push_str(&run(command, home));
            }
        }
    }
    written
}

#[test]
fn the_sessions_of_the_readme_match_the_program() {
    assert_sessions_match("README.md");
}

#[test]
fn the_sessions_of_the_apply_page_match_the_program() {
    assert_sessions_match("docs/apply.md");
}

fn assert_sessions_match(document: &str) {
    let path = root().join(document);
    let document = std::fs::read_to_string(&path).expect("a readable document");
    let home = tempfile::tempdir().expect("a new home directory");
    let replayed = replayed(&document, home.path());
    if std::env::var_os("NOMAD_CSI_BLESS").is_some() {
        std::fs::write(&path, &replayed).expect("a writable document");
        return;
    }
    let plain = |text: &str| without_sizes(&without_ids(text));
    let (expected, found) = (plain(&document), plain(&replayed));
    let differing = expected
        .lines()
        .zip(found.lines())
        .find(|(left, right)| left != right);
    assert_eq!(expected, found, "first difference: {differing:#?}");
}
