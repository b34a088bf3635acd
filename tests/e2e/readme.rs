//! The README and the pages with sessions, followed to the letter: they are run, and say what stands
//! there.
//!
//! A session is a `console` block: commands after `$ `, each with what it prints on both streams. IDs
//! that differ at every run and the home are replaced on both sides. `NOMAD_CSI_BLESS=1` writes the
//! sessions anew. What builds or needs a cluster is not run: the commands that begin with `cargo test`
//! or `export`, and the blocks after them in the same section.

use std::path::Path;
use std::process::Command;

use crate::agent_process::PROGRAM;

/// What people type to have the program built first.
const BUILD_AND_RUN: &str = "cargo run --release -- ";
const HOME: &str = "/home/operator";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs one command as a newcomer would, in the repository.
fn run(command: &str, home: &Path) -> String {
    let program = Path::new(PROGRAM)
        .parent()
        .expect("the program lies somewhere");
    let command = command.replace(BUILD_AND_RUN, "nomad-csi ");
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; {command}")])
        .current_dir(root())
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", program.display()))
        .env("HOME", home)
        .stdin(std::process::Stdio::null())
        .output()
        .expect("a shell runs");
    let text = String::from_utf8(output.stdout).expect("what is printed is text");
    text.replace(&home.display().to_string(), HOME)
}

/// With every UUID replaced by one.
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

/// Without how large a volume is, which has a size of its own only where the plugin runs as root, and
/// without how long ago something was.
fn without_sizes(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let varies = ["Capacity  ", "    lost: ", "error[plan/applied]: "];
        let start = varies.into_iter().find(|start| line.starts_with(start));
        start.unwrap_or(line)
    });
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    text.replace(", 1.0 GiB)", ")")
}

/// The document with every session run anew.
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
fn the_readme_says_what_happens() {
    says_what_happens("README.md");
}

#[test]
fn the_page_on_applying_says_what_happens() {
    says_what_happens("docs/apply.md");
}

fn says_what_happens(document: &str) {
    let path = root().join(document);
    let document = std::fs::read_to_string(&path).expect("the document is readable");
    let home = tempfile::tempdir().expect("a home can be made");
    let replayed = replayed(&document, home.path());
    if std::env::var_os("NOMAD_CSI_BLESS").is_some() {
        std::fs::write(&path, &replayed).expect("the document can be written");
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
