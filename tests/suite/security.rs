//! `docs/security.md` lists the limits of the program. `NOMAD_CSI_BLESS=1` updates its tables.

use std::path::Path;

use nomad_csi_client::nomad::{RESPONSE_LIMITS, ResponseLimits};
use nomad_csi_model::LimitField;
use nomad_csi_server::http::{LIMITS, Limits};
use nomad_csi_server::{STATE_LIMITS, StateLimits};

fn row<L: Clone + Default>(limit: &LimitField<L>) -> String {
    let value = limit.get(&L::default());
    let default = match value {
        _ if !limit.is_size => value.to_string(),
        _ if value.is_multiple_of(1 << 20) => format!("{} MiB", value >> 20),
        _ => format!("{} KiB", value >> 10),
    };
    format!("| `{}` | {default} | {} |\n", limit.name, limit.what)
}

/// Replaces the rows of the table with this head.
fn with_rows<L: Clone + Default>(text: &str, head: &str, limits: &[LimitField<L>]) -> String {
    let head = format!("| {head} | default | of what |\n| --- | --- | --- |\n");
    let (before, rest) = text.split_once(&head).expect("the document has the table");
    let rows_end = rest.find("\n\n").filter(|_| rest.starts_with('|'));
    let after = rows_end.map_or(rest, |at| &rest[at + 1..]);
    let rows: String = limits.iter().map(row).collect();
    format!("{before}{head}{rows}{after}")
}

#[test]
fn every_limit_is_documented_with_its_default() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/security.md");
    let text = std::fs::read_to_string(&path).expect("the document is readable");
    let expected = with_rows::<Limits>(&text, "limit", LIMITS);
    let expected = with_rows::<StateLimits>(&expected, "limit of the state", STATE_LIMITS);
    let expected = with_rows::<ResponseLimits>(&expected, "limit of responses", RESPONSE_LIMITS);
    if std::env::var_os("NOMAD_CSI_BLESS").is_some() {
        std::fs::write(&path, &expected).expect("the document is writable");
        return;
    }
    assert!(text == expected, "docs/security.md is outdated: NOMAD_CSI_BLESS=1 updates it");
}

/// Returns where the test of a cell is: the files, and its name.
fn places(cell: &str) -> Vec<(Vec<String>, String)> {
    let parts = cell.split('`').skip(1).step_by(2);
    let tests = parts.filter(|part| part.contains("::"));
    let place = |test: &str| {
        let parts: Vec<_> = test.split("::").collect();
        let (name, path) = parts.split_last().expect("a name");
        let folder = match path[0] {
            "lib" => "src".to_owned(),
            kind => format!("tests/{kind}"),
        };
        let file = format!("{folder}/{}", path[1..].join("/"));
        (vec![format!("{file}.rs"), format!("{file}/tests.rs")], (*name).to_owned())
    };
    tests.map(place).collect()
}

/// A cell that says *no* or *nothing* names a test, and every test that is named exists.
#[test]
fn every_cell_of_the_table_of_rights_has_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("docs/security.md")).expect("a document");
    let (_, table) = text
        .split_once("## Who can do what, and which test holds it")
        .expect("the document has the table");
    let rows = table.lines().skip_while(|line| !line.starts_with("| a task"));
    let rows: Vec<_> = rows.take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() >= 8, "{rows:?}");
    let mut problems = vec![];
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 6, "{row}");
        for cell in &cells[1..] {
            let places = places(cell);
            let claims = ["no: ", " no: ", "nothing: ", "repeats: "];
            let is_claim = claims.iter().any(|claim| cell.contains(claim));
            if is_claim && places.is_empty() {
                problems.push(format!("no test holds: {cell}"));
            }
            for (files, name) in places {
                let has_test = files.iter().any(|file| {
                    let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
                    text.contains(&format!("fn {name}("))
                });
                if !has_test {
                    problems.push(format!("{files:?} has no test `{name}`"));
                }
            }
        }
    }
    assert_eq!(problems, Vec::<String>::new());
}
