//! Long input with many mistakes is read at a cost that grows with its size.
//!
//! The limit is many times what a debug build needs, and a small part of what work in the square of the size would need.

use std::sync::mpsc;
use std::time::Duration;

use super::harness;
use crate::defaults::Defaults;
use crate::interpolation::{malformed_part, runtime_text};
use crate::job::parse_job;
use crate::syntax::Syntax;
use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};

const SIZE: usize = 512 << 10;

/// A text of nearly the largest expression that is read.
const LONGEST_EXPRESSION: usize = 255 << 10;

const MOST: Duration = Duration::from_secs(8);

/// Returns the result of a function, which must return in time.
fn in_time<T: Send + 'static>(name: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(run()).ok());
    let result = receiver.recv_timeout(MOST);
    result.unwrap_or_else(|_| panic!("{name}: not read within {MOST:?}"))
}

fn repeated(before: &str, unit: &str, after: &str) -> String {
    format!("{before}{}{after}", unit.repeat(SIZE / unit.len()))
}

/// Repeats a unit with a number in place of `#`, half as often.
fn numbered(before: &str, unit: &str, after: &str) -> String {
    let units = (0..SIZE / 2 / (unit.len() + 5)).map(|at| unit.replace('#', &at.to_string()));
    format!("{before}{}{after}", units.collect::<String>())
}

/// Returns the code of the first problem, and the number of all.
fn of_specification(name: &str, text: String, syntax: Syntax) -> (String, usize) {
    in_time(name, move || {
        let read = harness::read(&text, syntax);
        counted(&read.diagnostics)
    })
}

fn of_job(name: &str, text: String) -> (String, usize) {
    in_time(name, move || {
        let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
        let source = sources.add("test", text);
        let defaults = Defaults::default();
        parse_job(&mut sources, source, Syntax::Hcl, &defaults, &mut diagnostics);
        counted(&diagnostics)
    })
}

fn counted(diagnostics: &Diagnostics) -> (String, usize) {
    let first = diagnostics.iter().next().map(|one| one.code.as_str().to_owned());
    (first.unwrap_or_default(), diagnostics.iter().count())
}

#[test]
fn texts_that_end_in_hcl2_and_not_in_hcl1_cost_their_size() {
    for (name, unit, after) in [
        ("escapes", "a = \"$${\"\n", String::new()),
        ("escapes that end late", "a = \"$${\"\n", format!("#{}\"\n", "}".repeat(SIZE / 10))),
        ("braces in a text", "a = \"${\"{\"}\"\n", String::new()),
    ] {
        for in_list in [false, true] {
            let text = match in_list {
                false => repeated("", unit, &after),
                true => repeated(
                    "a = [\n",
                    &unit.replace("a = ", "").replace('\n', ",\n"),
                    &format!("]\n{after}"),
                ),
            };
            let (code, _) = of_specification(name, text.clone(), Syntax::Hcl);
            assert!(code.starts_with("spec/"), "{name}: {code}");
            let (code, _) = of_job(name, text);
            assert!(code.contains('/'), "{name}: {code}");
        }
    }
}

#[test]
fn many_parts_of_one_text_cost_its_size() {
    for text in [repeated("", "%{if}", "${b c}"), repeated("", "%{if\n", "${b c")] {
        let part = in_time("first", {
            let text = text.clone();
            move || malformed_part(&text)
        });
        assert_eq!(part.map(|part| part.start), text.find("${"));
        let found = in_time("all", move || runtime_text(&text).map(|_| ()).unwrap_err());
        assert!(!found.is_empty());
    }
}

#[test]
fn here_documents_without_an_end_cost_the_size_of_the_text() {
    let text = repeated("a = x(\"${b c}\")\n", "<<A\n", "");
    assert_eq!(of_job("malformed", text).0, "spec/syntax");
    for (name, text) in [
        ("unrendered", repeated("a = (\n", "<<A\n", "")),
        ("comments", repeated("a = (\n", "<<A /*\n", "")),
    ] {
        let (code, _) = of_specification(name, text, Syntax::Hcl);
        assert!(code.starts_with("spec/"), "{name}: {code}");
    }
    let lines = "<<A\n".repeat(LONGEST_EXPRESSION / "<<A\n".len());
    let text = format!("volume \"a\" {{\nname = <<E\n{lines}${{jsonencode({{a=1,a=2}})}}\nE\n}}\n");
    let (code, _) = of_specification("keys", text, Syntax::Hcl);
    assert_eq!(code, "spec/duplicate-field");
}

#[test]
fn the_search_for_templates_costs_the_size_of_the_text() {
    for (name, text) in [
        ("open texts", repeated("}\n", "\"${\n", "")),
        ("quotes on a line", repeated("a = [", "\"\",", "")),
        ("open quotes on a line", repeated("a = [", "\"${\",", "")),
    ] {
        let (code, _) = of_specification(name, text, Syntax::Hcl);
        assert!(code.starts_with("spec/"), "{name}: {code}");
    }
    let text = numbered("x = \"{{ a }}\"\njob \"j\" {\n", "k#=1\n", "}\n");
    assert_eq!(of_job("errors", text), ("spec/unknown-field".to_owned(), 1_000));
}

#[test]
fn unknown_keys_cost_the_size_of_the_text() {
    let text = numbered("job \"j\" {\n", "k#=1\n", "}\n");
    assert_eq!(of_job("job", text), ("spec/unknown-field".to_owned(), 1_000));
    let text = repeated("", "volume_id=1\n", "");
    let found = of_specification("volume_id", text, Syntax::Hcl);
    assert_eq!(found, ("spec/unknown-field".to_owned(), 1_000));
}

#[test]
fn blocks_of_terraform_cost_the_size_of_the_text() {
    let half = |unit: &str| unit.repeat(SIZE / 2 / unit.len());
    let text = half("data a b {}\n") + &half("module b {}\n");
    let found = of_specification("other", text.clone(), Syntax::Hcl);
    assert_eq!(found, ("spec/other-form".to_owned(), 2));
    let text = format!("resource nomad_csi_volume a {{}}\n{text}");
    let found = of_specification("volumes", text, Syntax::Hcl);
    assert_eq!(found, ("spec/other-form".to_owned(), 1));
}

#[test]
fn problems_in_one_text_cost_its_size() {
    let parts = "${f()}".repeat(LONGEST_EXPRESSION / "${f()}".len());
    let text = format!("{{\"volume\":{{\"a\":{{\"name\":\"\\u0041{parts}\"}}}}}}");
    let (code, count) = of_specification("parts", text, Syntax::Json);
    assert_eq!((&*code, count), ("spec/unknown-function", 1_000));
    for (name, unit) in [("quotes", "\\\""), ("references", "${a}"), ("brackets", "$${(}")] {
        let units = unit.repeat(LONGEST_EXPRESSION / unit.len());
        let text = format!("volume \"a\" {{\nname = \"{units}${{jsonencode({{a=1,a=2}})}}\"\n}}\n");
        let (code, _) = of_specification(name, text, Syntax::Hcl);
        assert_eq!(code, "spec/duplicate-field", "{name}");
    }
}
