//! A directory of a node that jobs can mount by name.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A host volume: a directory that the operator of a node offers to jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostVolume {
    /// The absolute path on the node.
    pub path: PathBuf,
    /// True if jobs can only read it.
    pub read_only: bool,
}

impl HostVolume {
    /// Reads `NAME=PATH`, or `NAME=PATH:ro` for a volume that jobs can only read.
    ///
    /// # Errors
    /// Returns why the text is not a host volume.
    pub fn parse(text: &str) -> Result<(String, Self), String> {
        let Some((name, path)) = text.split_once('=') else {
            return Err("it is not of the form NAME=PATH".to_owned());
        };
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > 128 || !name.chars().all(is_allowed) {
            return Err(format!(
                "`{name}` is not a name: it must have 1 to 128 letters, digits, `-`, `_` and `.`"
            ));
        }
        let (path, read_only) = match path.strip_suffix(":ro") {
            Some(path) => (path, true),
            None => (path, false),
        };
        if !Path::new(path).is_absolute() {
            return Err(format!("`{path}` is not an absolute path"));
        }
        let volume = Self { path: PathBuf::from(path), read_only };
        Ok((name.to_owned(), volume))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_volume_has_a_name_and_an_absolute_path() {
        let volume = |path: &str, read_only| HostVolume { path: path.into(), read_only };
        for (text, expected) in [
            ("logs=/var/log", Ok(("logs", volume("/var/log", false)))),
            ("logs=/var/log:ro", Ok(("logs", volume("/var/log", true)))),
            ("a=/b=c", Ok(("a", volume("/b=c", false)))),
            ("logs", Err("it is not of the form NAME=PATH")),
            ("logs=var", Err("`var` is not an absolute path")),
            ("logs=", Err("`` is not an absolute path")),
            (
                "a b=/x",
                Err("`a b` is not a name: it must have 1 to 128 letters, digits, `-`, `_` and `.`"),
            ),
        ] {
            let expected =
                expected.map(|(name, volume)| (name.to_owned(), volume)).map_err(str::to_owned);
            assert_eq!(HostVolume::parse(text), expected, "{text}");
        }
    }
}
