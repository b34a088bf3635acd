//! A file that holds one map of texts: parameters, secrets.
//!
//! YAML, and so JSON too. Numbers and booleans are refused rather than guessed at: `010` would be
//! another text than the one that was written. No error shows what the file holds, since it may be
//! secrets.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

/// Larger than any map that CSI carries (4 KiB), whatever its syntax.
const LARGEST: u64 = 64 << 10;

/// Reads the map.
///
/// # Errors
/// Why it cannot be read, without what it holds.
pub fn read_pairs(file: &Path) -> Result<BTreeMap<String, String>, String> {
    let opened = std::fs::File::open(file).map_err(|error| error.to_string())?;
    let mut text = String::new();
    let read = opened.take(LARGEST + 1).read_to_string(&mut text);
    read.map_err(|error| error.to_string())?;
    if text.len() as u64 > LARGEST {
        return Err(format!("it has more than {LARGEST} bytes"));
    }
    if text.trim().is_empty() {
        return Ok(BTreeMap::new());
    }
    serde_yaml::from_str(&text).map_err(|_| "it is not one map of keys to texts".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<BTreeMap<String, String>, String> {
        let file = tempfile::NamedTempFile::new().expect("a file can be made");
        std::fs::write(file.path(), text).expect("it is writable");
        read_pairs(file.path())
    }

    #[test]
    fn yaml_and_json_are_read_and_nothing_is_shown_of_what_is_neither() {
        let map = BTreeMap::from([("token".to_owned(), "hunter2".to_owned())]);
        assert_eq!(read("token: hunter2\n"), Ok(map.clone()));
        assert_eq!(read("{\"token\": \"hunter2\"}"), Ok(map));
        assert_eq!(read("# nothing\n").unwrap_or_default(), BTreeMap::new());
        for text in ["- hunter2", "a: {b: hunter2}", "hunter2"] {
            let error = read(text).expect_err("it is no map of texts");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
