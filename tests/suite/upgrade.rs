//! `docs/upgrade.md` has the numbers of the formats that this version stores.

use std::path::Path;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The rows of the page, and the constant with the newest number of each.
const ROWS: [(&str, &str, &str); 13] = [
    ("events of the journal", "src/server/store/codec.rs", "EVENT_VERSION"),
    ("snapshots of the journal", "src/server/store/codec.rs", "SNAPSHOT_VERSION"),
    ("tables of the journal", "src/server/store/failure.rs", "FORMAT_VERSION"),
    ("layout of the keys in etcd", "src/etcd/failure.rs", "FORMAT"),
    ("batches of events in etcd", "src/etcd/batch.rs", "FORMAT"),
    ("sealed secrets", "src/server/store/seal.rs", "VERSION"),
    ("catalogue of the embedded plugin", "src/hostpath/catalog/store.rs", "FORMAT"),
    ("record of a task", "src/node/task_record.rs", "VERSION"),
    ("files of a run", "src/node/driver/shim/run_files.rs", "FORMAT"),
    ("shards of a ledger", "src/plan/ledger/stored_set.rs", "FORMAT"),
    ("file of a ledger", "src/client/files/ledger.rs", "FORMAT"),
    ("saved plans", "src/plan/saved_plan.rs", "FORMAT"),
    ("plugin files", "src/plan/plugin_snapshots/document.rs", "VERSION"),
];

fn read(path: &str) -> String {
    let text = std::fs::read_to_string(Path::new(ROOT).join(path));
    text.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the number that a constant of a file has.
fn constant(path: &str, name: &str) -> u64 {
    let text = read(path);
    let start = format!("const {name}: ");
    let line = text.lines().find(|line| line.contains(&start)).expect("the constant");
    let (_, value) = line.split_once(" = ").expect("a value");
    value.trim_matches(['"', ';']).parse().unwrap_or_else(|_| panic!("{path}: {line}"))
}

/// Returns the names of the stored things, and their cells in the last column.
fn newest_column() -> (String, Vec<(String, String)>) {
    let page = read("docs/upgrade.md");
    let mut rows = page.lines().filter(|line| line.starts_with("| ")).map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        (cells[0].to_owned(), cells[cells.len() - 1].to_owned())
    });
    let (_, version) = rows.next().expect("a head of the table");
    (version, rows.collect())
}

#[test]
fn the_page_of_upgrades_has_the_numbers_of_this_version() {
    let (version, rows) = newest_column();
    assert_eq!(version, env!("CARGO_PKG_VERSION"), "a version has a column of its own");
    let expected = ROWS.map(|(name, path, constant_name)| {
        let cell = match constant(path, constant_name) {
            1 => "1".to_owned(),
            newest => format!("1 to {newest}"),
        };
        (name.to_owned(), cell)
    });
    assert_eq!(rows, expected);
}

#[test]
fn the_changelog_and_the_page_of_upgrades_have_a_heading_of_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    let changelog = read("CHANGELOG.md");
    let heading = changelog.lines().find(|line| line.starts_with(&format!("## {version} (")));
    let heading = heading.expect("`.ci/release` needs the heading of the version");
    let (_, date) = heading.trim_end_matches(')').split_once('(').unwrap();
    assert!(date.parse::<jiff::civil::Date>().is_ok(), "{heading}");
}
