//! Benchmarks a keystroke in a file of 2,000 lines: from the change of the text to its problems, and to suggestions.
//!
//! The goal is less than 20 ms. `cargo bench --profile dist --bench language_server` prints times.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use nomad_csi_lsp::{Encoding, Position, Range, TextChange, Workspace, analyse, published};

fn main() {
    divan::main();
}

/// Returns a file of about 2,000 lines, with expressions.
fn volumes() -> String {
    let mut text = "variable \"env\" {\n  default = \"dev\"\n}\n".to_owned();
    for at in 0..200 {
        let _ = write!(
            text,
            "volume \"pg-{at}\" {{
  name         = \"${{var.env}}-{at}\"
  type         = \"csi\"
  plugin_id    = \"ceph-${{var.env}}\"
  capacity_min = \"${{10 + 1}}GiB\"
  capability {{
    access_mode     = \"single-node-writer\"
    attachment_mode = \"file-system\"
  }}
}}
"
        );
    }
    text
}

fn workspace() -> (Workspace, PathBuf) {
    let mut workspace = Workspace::new(Some(PathBuf::from("/folder")), Encoding::Utf16);
    let path = Path::new("/folder/v.hcl").to_owned();
    workspace.open(path.clone(), &volumes(), "hcl", None);
    (workspace, path)
}

/// A letter that is typed into a name, in the middle of the file.
fn keystroke() -> TextChange {
    let at = Position { line: 1004, character: 20 };
    TextChange { range: Some(Range { start: at, end: at }), text: "x".to_owned() }
}

#[divan::bench(sample_count = 50)]
fn from_a_keystroke_to_problems(bencher: divan::Bencher<'_, '_>) {
    let (mut workspace, path) = workspace();
    assert_eq!(published(&workspace, &analyse(&workspace)).len(), 0);
    let change = [keystroke()];
    bencher.bench_local(|| {
        workspace.change(&path, &change, None);
        published(&workspace, &analyse(&workspace))
    });
}
