//! Sessions at the command line: one test per file of `tests/transcripts`.

use std::path::{Path, PathBuf};

use crate::support::transcript;

macro_rules! transcripts {
    ($($name:ident = $file:literal;)*) => {
        const LISTED: &[&str] = &[$($file,)*];

        $(#[test]
        fn $name() {
            transcript::check(&folder().join($file));
        })*
    };
}

transcripts! {
    a_misspelt_key_is_underlined = "validate/misspelt-key.md";
    everything_wrong_is_told_at_once = "validate/everything-at-once.md";
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts")
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder)
        .expect("the folder is readable")
        .flatten()
    {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

#[test]
fn no_transcript_is_forgotten() {
    let mut found = vec![];
    files(&folder(), &mut found);
    let mut found: Vec<String> = found
        .iter()
        .map(|path| {
            path.strip_prefix(folder())
                .expect("it lies in it")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    found.sort();
    let mut listed = LISTED.to_vec();
    listed.sort_unstable();
    assert_eq!(
        found, listed,
        "left: files; right: what is listed in this file"
    );
}
