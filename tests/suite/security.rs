//! `docs/security.md` lists the limits of the program. `NOMAD_CSI_BLESS=1` updates its tables.

use std::path::Path;

use nomad_csi::model::LimitField;
use nomad_csi::nomad::{RESPONSE_LIMITS, ResponseLimits};
use nomad_csi::server::http::{LIMITS, Limits};

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
    let expected = with_rows::<ResponseLimits>(&expected, "limit of responses", RESPONSE_LIMITS);
    if std::env::var_os("NOMAD_CSI_BLESS").is_some() {
        std::fs::write(&path, &expected).expect("the document is writable");
        return;
    }
    assert!(
        text == expected,
        "docs/security.md is outdated: NOMAD_CSI_BLESS=1 updates it"
    );
}
