//! `docs/behaviours.md` lists every numbered behaviour and weakness with the tests that prove it.
//!
//! The sentences are written by hand; the columns `Status` and `Tests` are generated. A test proves a
//! row if its documentation or its body contains the row's number. A row without such a test is open.
//! `NOMAD_CSI_BLESS=1` rewrites the file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const DOCUMENT: &str = "docs/behaviours.md";
/// A hand-written mark in the column `Status`: the tests cover only a part of the sentence.
const IN_PART: &str = "tested in part";
/// How many behaviours (B) and weaknesses (W) there are.
const ROWS: [(char, usize); 2] = [('B', 106), ('W', 62)];

/// The functions in `text` that run as tests, each with its documentation and its body.
fn tests(text: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = vec![];
    for (at, line) in lines.iter().enumerate() {
        let attribute = line.trim_start();
        if !attribute.starts_with("#[test]") && !attribute.starts_with("#[tokio::test") {
            continue;
        }
        let is_header = |line: &&&str| {
            let line = line.trim_start();
            line.starts_with("///") || line.starts_with("#[")
        };
        let above = lines[..at].iter().rev().take_while(is_header).count();
        let Some(start) = (at..lines.len()).find(|i| lines[*i].contains("fn ")) else {
            continue;
        };
        let indent = line.len() - attribute.len();
        let close = format!("{}}}", " ".repeat(indent));
        let end = (start..lines.len()).find(|i| lines[*i] == close).unwrap_or(lines.len() - 1);
        let whole = lines[at - above..=end].join("\n");
        if whole.contains("#[ignore") {
            continue;
        }
        let name = lines[start].split("fn ").nth(1).unwrap_or_default();
        let name = name.split(['(', '<']).next().unwrap_or_default();
        found.push((name.to_owned(), whole));
    }
    found
}

/// The row numbers that `text` contains, such as `B27`.
fn numbers(text: &str) -> BTreeSet<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !is_word(c))
        .filter(|word| {
            let digits = word.strip_prefix(['B', 'W']).unwrap_or_default();
            matches!(digits.len(), 2 | 3) && digits.bytes().all(|digit| digit.is_ascii_digit())
        })
        .map(ToOwned::to_owned)
        .collect()
}

/// Every number with the tests that carry it, and every number that occurs in the sources at all.
fn cited() -> (BTreeMap<String, BTreeSet<String>>, BTreeSet<String>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut by_number: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut anywhere = BTreeSet::new();
    for folder in ["src", "tests"] {
        for path in super::architecture::rust_files(&root.join(folder)) {
            let text = std::fs::read_to_string(&path).expect("sources are readable");
            let shown = path.strip_prefix(root).expect("the file is below the root");
            let shown = shown.display().to_string();
            if shown != "tests/suite/behaviours.rs" {
                anywhere.extend(numbers(&text));
            }
            for (name, whole) in tests(&text) {
                for number in numbers(&whole) {
                    let place = format!("`{name}` ({shown})");
                    by_number.entry(number).or_default().insert(place);
                }
            }
        }
    }
    (by_number, anywhere)
}

/// One row of the document: number, sentence and status.
fn cells(line: &str) -> Option<[&str; 3]> {
    let mut cells = line.strip_prefix("| ")?.split(" | ");
    let [number, sentence, status] = [cells.next()?, cells.next()?, cells.next()?];
    (numbers(number).len() == 1).then_some([number, sentence, status])
}

fn regenerated(text: &str) -> String {
    let (cited, _) = cited();
    let mut result = String::new();
    for line in text.lines() {
        if let Some([number, sentence, status]) = cells(line) {
            let proofs: Vec<_> = cited.get(number).into_iter().flatten().cloned().collect();
            let status = match (proofs.is_empty(), status) {
                (true, _) => "open",
                (false, IN_PART) => IN_PART,
                (false, _) => "tested",
            };
            let proofs = proofs.join("<br>");
            let row = ["", number, sentence, status, &proofs, ""].join(" | ");
            result += row.trim();
        } else {
            result += line;
        }
        result.push('\n');
    }
    result
}

#[test]
fn the_list_of_behaviours_names_the_tests_that_prove_them() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(DOCUMENT);
    let written = std::fs::read_to_string(&path).expect("the document is readable");
    let expected = regenerated(&written);
    if written != expected && std::env::var_os("NOMAD_CSI_BLESS").is_some() {
        std::fs::write(&path, &expected).expect("the document is writable");
        return;
    }
    assert!(
        written == expected,
        "{DOCUMENT} is out of date: run the tests with NOMAD_CSI_BLESS=1 to rewrite it"
    );
}

#[test]
fn the_list_of_behaviours_is_complete_and_every_cited_number_is_in_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(DOCUMENT);
    let text = std::fs::read_to_string(path).expect("the document is readable");
    let listed: Vec<&str> = text.lines().filter_map(|line| Some(cells(line)?[0])).collect();
    let desired: Vec<String> = ROWS
        .iter()
        .flat_map(|(letter, last)| (1..=*last).map(move |row| format!("{letter}{row:02}")))
        .collect();
    assert_eq!(listed, desired);
    let (_, anywhere) = cited();
    let unknown: Vec<_> = anywhere.iter().filter(|number| !desired.contains(number)).collect();
    assert!(unknown.is_empty(), "not in {DOCUMENT}: {unknown:?}");
}
