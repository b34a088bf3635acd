//! Specifications that are long: every one is accepted or refused, at a cost that grows with its size.
//!
//! The limits of the process are the assertion: the kernel ends a program that needs more processor
//! time or memory. The time is several times what a debug build needs, and a small part of what work
//! in the square of the size would need.

use std::path::Path;
use std::process::{Command, Output};

/// Returns what the kernel may count for this much memory: the allocator of packages reserves address space in
/// advance, which counts too.
const fn allowance(memory: usize) -> usize {
    if cfg!(feature = "jemalloc") { 2 * memory } else { memory }
}

const SIZE: usize = 1 << 20;

/// Validates a text within 20 s of processor time and `memory` bytes.
fn validate(directory: &Path, name: &str, text: &str, memory: usize) -> Output {
    std::fs::write(directory.join(name), text).unwrap();
    let program = env!("CARGO_BIN_EXE_nomad-csi");
    let limits = format!("ulimit -t 20 -c 0; ulimit -d {}", allowance(memory) >> 10);
    let ended = Command::new("sh")
        .args(["-c", &format!("{limits}; exec \"$@\""), "sh", program])
        .args(["validate", "-f", name])
        .env_clear()
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(ended.status.code().is_some(), "{name}: {}", ended.status);
    ended
}

/// Returns what the program says about a text, without the output of a problem that has nothing to do with it.
fn problems(name: &str, text: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let ended = validate(directory.path(), name, text, 200 << 20);
    let output = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{name}: {output}");
    let most = 4 * SIZE;
    assert!(output.len() < most, "{name}: {} bytes", output.len());
    output
}

fn repeated(before: &str, unit: &str, after: &str) -> String {
    format!("{before}{}{after}", unit.repeat(SIZE / unit.len()))
}

/// Repeats a unit with a number in place of `#`.
fn numbered(before: &str, unit: &str, after: &str) -> String {
    let units = (0..SIZE / (unit.len() + 5)).map(|at| unit.replace('#', &at.to_string()));
    format!("{before}{}{after}", units.collect::<String>())
}

#[test]
fn equal_lines_are_counted() {
    for (name, text) in [
        ("a.hcl", repeated("", "id = \"a\"\n", "")),
        ("a.yaml", repeated("", "id: a\n", "")),
        ("a.json", repeated("{", "\"id\":\"a\",\n", "\"x\":1}")),
        ("line.json", repeated("{", "\"id\":\"a\",", "\"x\":1}")),
        ("capabilities.hcl", repeated("type=\"csi\"\n", "capability {}\n", "")),
    ] {
        let output = problems(name, &text);
        assert!(output.contains(" errors (1000 shown)"), "{name}: {output}");
    }
}

#[test]
fn a_text_after_a_syntax_error_is_masked_once() {
    for (name, text) in [
        ("a.hcl", repeated("a = {\n}}\n", "secrets = \"token\"\n", "")),
        ("fields.hcl", repeated("}\n", "secrets {}\nid = \"a\"\n", "")),
        ("line.hcl", repeated("}\n", "secret ", "")),
        ("a.yaml", repeated("a: {\n}}\n", "secrets: \"token\"\n", "")),
        ("a.json", repeated("{\"a\":}", "\"secrets\": \"token\",", "")),
        ("here.hcl", repeated("a = (\n", "<<B\n", "")),
        ("comment.hcl", repeated("a = (\n", "<<B /*\n", "")),
    ] {
        let output = problems(name, &text);
        assert!(output.contains("error[spec/syntax]"), "{name}: {output}");
        assert!(!output.contains("token"), "{name}: {output}");
    }
}

#[test]
fn unknown_and_misspelt_keys_are_counted() {
    for (name, text) in [
        ("a.hcl", numbered("", "k#=1\n", "")),
        ("a.yaml", numbered("", "k#: 1\n", "")),
        ("a.json", numbered("{", "\"k#\":1,", "\"x\":1}")),
        ("near.hcl", repeated("", "nme=1\nname=1\n", "")),
        ("long.hcl", repeated("", "a", "=1\n")),
        ("parameters.hcl", repeated("type=\"csi\"\nparameters {\n", "a=1\n", "}\n")),
    ] {
        let output = problems(name, &text);
        assert!(output.contains("error[spec/"), "{name}: {output}");
    }
}

#[test]
fn invalid_values_are_counted() {
    for (name, text) in [
        ("bare.hcl", repeated("", "a = b\n", "")),
        ("list.hcl", repeated("a = [", "f(1),", "]")),
        ("template.hcl", repeated("a = f(\"", "${a}", "\")")),
        ("brackets.hcl", repeated("a = ", "[]", "")),
        ("spaces.json", repeated("{\"a\":[", "1 ", "]}")),
        ("commas.json", repeated("{\"a\":[", ",", "]}")),
        ("merge.yaml", repeated("a: &a {x: 1}\nb:\n  <<: [", "*a,", "]")),
        ("anchors.yaml", numbered("b: [", "&a# x,", "]")),
        ("documents.yaml", repeated("", "id: a\n---\n", "")),
    ] {
        let output = problems(name, &text);
        assert!(output.contains("error["), "{name}: {output}");
    }
}

#[test]
fn empty_volumes_cost_little() {
    for (name, text) in [
        ("a.hcl", numbered("", "volume \"#\" {}\n", "")),
        ("a.yaml", numbered("volume:\n", "  #: {}\n", "")),
        ("a.json", numbered("{\"volume\":{", "\"#\":{},", "\"x\":{}}}")),
    ] {
        let output = problems(name, &text);
        assert!(output.contains(" errors (1000 shown)"), "{name}: {output}");
    }
}

#[test]
fn a_file_of_nothing_costs_its_size() {
    for (name, text) in [
        ("lines.hcl", repeated("", "\n", "")),
        ("lines.yaml", repeated("", "\n", "")),
        ("comments.hcl", repeated("", "# c\n", "")),
        ("comments.yaml", repeated("", "# c\n", "")),
    ] {
        let output = problems(name, &text);
        assert!(output.contains("error[spec/no-volume]"), "{name}: {output}");
    }
}

#[test]
fn a_file_of_16_mib_costs_less_than_500_mb() {
    let directory = tempfile::tempdir().unwrap();
    let text = format!("{{\"a\":[{}1]}}", "1,".repeat(8_000_000));
    let ended = validate(directory.path(), "a.json", &text, 500 << 20);
    let output = String::from_utf8_lossy(&ended.stderr);
    assert!(output.contains("error[spec/too-many-values]"), "{output}");
}
