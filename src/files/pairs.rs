//! A file that holds one map of texts: parameters, secrets.
//!
//! YAML, and so JSON too. A secret may be a reference instead, `{env: NAME}` or `{file: PATH}`, as in
//! a specification. Numbers and booleans are refused rather than guessed at: `010` would be
//! another text than the one that was written. No error shows what the file holds, since it may be
//! secrets.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::model::{Secret, SecretRef, SecretRefs};

/// Larger than any map that CSI carries (4 KiB), whatever its syntax.
const LARGEST: u64 = 64 << 10;

/// Reads the map.
///
/// # Errors
/// Why it cannot be read, without what it holds.
pub fn read_pairs(file: &Path) -> Result<BTreeMap<String, String>, String> {
    read(file, "it is not one map of keys to texts")
}

/// Reads a map of secrets; nothing is looked up.
///
/// # Errors
/// Why it cannot be read, without what it holds.
pub fn read_secret_refs(file: &Path) -> Result<SecretRefs, String> {
    let no_map = "it is not one map of keys to texts, `{env: NAME}` or `{file: PATH}`";
    let pairs: BTreeMap<String, Given> = read(file, no_map)?;
    let pairs = pairs
        .into_iter()
        .map(|(key, given)| Some((key, given.reference()?)));
    pairs
        .collect::<Option<_>>()
        .ok_or_else(|| no_map.to_owned())
}

/// A value, or where it is.
#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    Text(String),
    Reference(BTreeMap<String, String>),
}

impl Given {
    /// What is meant; `None` if it is no reference that can be followed.
    fn reference(self) -> Option<SecretRef> {
        match self {
            Self::Text(value) => Some(SecretRef::Literal(Secret::new(value))),
            Self::Reference(reference) if reference.len() == 1 => {
                let (source, argument) = reference.into_iter().next()?;
                match source.as_str() {
                    "env" => Some(SecretRef::Env(argument)),
                    "file" => Some(SecretRef::File(argument)),
                    _ => None,
                }
            }
            Self::Reference(_) => None,
        }
    }
}

fn read<T: DeserializeOwned + Default>(file: &Path, no_map: &str) -> Result<T, String> {
    let opened = std::fs::File::open(file).map_err(|error| error.to_string())?;
    let mut text = String::new();
    let read = opened.take(LARGEST + 1).read_to_string(&mut text);
    read.map_err(|error| error.to_string())?;
    if text.len() as u64 > LARGEST {
        return Err(format!("it has more than {LARGEST} bytes"));
    }
    if text.trim().is_empty() {
        return Ok(T::default());
    }
    serde_yaml::from_str(&text).map_err(|_| no_map.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file can be made");
        std::fs::write(file.path(), text).expect("it is writable");
        file
    }

    fn read(text: &str) -> Result<BTreeMap<String, String>, String> {
        read_pairs(file(text).path())
    }

    #[test]
    fn a_secret_is_a_value_or_a_reference_and_nothing_else() {
        let text = "a: hunter2\nb: {env: TOKEN}\nc: {file: key.pem}\n";
        let read = read_secret_refs(file(text).path()).expect("it is a map of secrets");
        let shown: Vec<String> = read
            .iter()
            .map(|(key, from)| format!("{key} {from:?}"))
            .collect();
        assert_eq!(
            shown,
            ["a [REDACTED]", "b env(\"TOKEN\")", "c file(\"key.pem\")"]
        );
        for text in [
            "a: 17",
            "a: {env: X, file: hunter2}",
            "a: [hunter2]",
            "a: {vault: hunter2}",
        ] {
            let error = read_secret_refs(file(text).path()).expect_err("it is none");
            assert!(!error.contains("hunter2"), "{error}");
        }
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
