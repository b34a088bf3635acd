//! `docs/security.md` lists the limits that the agent has. `NOMAD_CSI_BLESS=1` updates the table.

use std::path::Path;

use nomad_csi::server::http::{LIMITS, LimitField, Limits};

const HEAD: &str = "| limit | default | of what |\n| --- | --- | --- |\n";

fn row(limit: &LimitField) -> String {
    let value = Limits::default().get(limit);
    let default = match value {
        _ if !limit.is_size => value.to_string(),
        _ if value.is_multiple_of(1 << 20) => format!("{} MiB", value >> 20),
        _ => format!("{} KiB", value >> 10),
    };
    format!("| `{}` | {default} | {} |\n", limit.name, limit.what)
}

#[test]
fn every_limit_is_documented_with_its_default() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/security.md");
    let text = std::fs::read_to_string(&path).expect("the document is readable");
    let (before, rest) = text.split_once(HEAD).expect("the document has the table");
    let rows_end = rest.find("\n\n").filter(|_| rest.starts_with('|'));
    let after = rows_end.map_or(rest, |at| &rest[at + 1..]);
    let rows: String = LIMITS.iter().map(row).collect();
    let expected = format!("{before}{HEAD}{rows}{after}");
    if std::env::var_os("NOMAD_CSI_BLESS").is_some() {
        std::fs::write(&path, &expected).expect("the document is writable");
        return;
    }
    assert!(
        text == expected,
        "docs/security.md is outdated: NOMAD_CSI_BLESS=1 updates it"
    );
}
