//! Reads a file with one map of texts: parameters or secrets.
//!
//! The file is YAML, which includes JSON. A secret may be a reference, `{env: NAME}` or `{file:
//! PATH}`, as in a specification. Numbers and booleans are refused, because `010` could become
//! another text. No error shows the content, which may be secret.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::given::{GivenFile, PIPE_LIMIT};
use nomad_csi_model::{Secret, SecretRef, SecretRefs};

/// Limit of the file: more than any map in CSI (4 KiB).
const MAX_SIZE: u64 = 64 << 10;

/// Reads a map of texts.
///
/// # Errors
/// The reason, without any of the content.
pub fn read_pairs(file: &Path) -> Result<BTreeMap<String, String>, String> {
    read(file, "expected a map of keys to texts")
}

/// Reads a map of secrets. Resolves no reference.
///
/// # Errors
/// The reason, without any of the content.
pub fn read_secret_refs(file: &Path) -> Result<SecretRefs, String> {
    let expected = "expected a map of keys to texts, `{env: NAME}` or `{file: PATH}`";
    let pairs: BTreeMap<String, SecretValue> = read(file, expected)?;
    let pairs = pairs.into_iter().map(|(key, given)| Some((key, given.reference()?)));
    pairs.collect::<Option<_>>().ok_or_else(|| expected.to_owned())
}

/// A secret or a reference to it.
#[derive(Deserialize)]
#[serde(untagged)]
enum SecretValue {
    Text(String),
    Reference(BTreeMap<String, String>),
}

impl SecretValue {
    /// Returns the reference; `None` if it is invalid.
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

fn read<T: DeserializeOwned + Default>(file: &Path, expected: &str) -> Result<T, String> {
    let opened = GivenFile::open(file, PIPE_LIMIT).map_err(|error| error.to_string())?;
    let mut text = String::new();
    let read = opened.take(MAX_SIZE + 1).read_to_string(&mut text);
    read.map_err(|error| error.to_string())?;
    if text.len() as u64 > MAX_SIZE {
        return Err(format!("the file is larger than {MAX_SIZE} bytes"));
    }
    if text.trim().is_empty() {
        return Ok(T::default());
    }
    serde_yaml::from_str(&text).map_err(|_| expected.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("the file is created");
        std::fs::write(file.path(), text).expect("the file is writable");
        file
    }

    fn read(text: &str) -> Result<BTreeMap<String, String>, String> {
        read_pairs(file(text).path())
    }

    #[test]
    fn a_secret_is_a_value_or_a_reference() {
        let text = "a: hunter2\nb: {env: TOKEN}\nc: {file: key.pem}\n";
        let read = read_secret_refs(file(text).path()).expect("the file is a map of secrets");
        let shown: Vec<String> = read.iter().map(|(key, from)| format!("{key} {from:?}")).collect();
        assert_eq!(shown, ["a [REDACTED]", "b env(\"TOKEN\")", "c file(\"key.pem\")"]);
        for text in ["a: 17", "a: {env: X, file: hunter2}", "a: [hunter2]", "a: {vault: hunter2}"] {
            let error = read_secret_refs(file(text).path()).expect_err("the value is invalid");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn yaml_and_json_are_read_and_errors_show_no_content() {
        let map = BTreeMap::from([("token".to_owned(), "hunter2".to_owned())]);
        assert_eq!(read("token: hunter2\n"), Ok(map.clone()));
        assert_eq!(read("{\"token\": \"hunter2\"}"), Ok(map));
        assert_eq!(read("# nothing\n").unwrap_or_default(), BTreeMap::new());
        for text in ["- hunter2", "a: {b: hunter2}", "hunter2"] {
            let error = read(text).expect_err("the file is not a map of texts");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
