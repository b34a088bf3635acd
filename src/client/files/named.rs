//! Tells a file that an argument names from one that is only in a named directory, or fits a pattern.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The files that arguments name, by their real paths: one file can be named and lie in a named directory, under different
/// names.
pub struct NamedFiles {
    base_directory: PathBuf,
    real_paths: BTreeSet<PathBuf>,
}

impl NamedFiles {
    /// Returns what arguments name, relative to `base_directory`.
    pub fn new(base_directory: &Path, arguments: &[String]) -> Self {
        let real = |argument: &String| std::fs::canonicalize(base_directory.join(argument)).ok();
        let real_paths = arguments.iter().filter_map(real).collect();
        Self { base_directory: base_directory.to_owned(), real_paths }
    }

    /// Returns whether an argument names the file. What is not found by its name is named, such as standard input.
    pub fn has(&self, name: &str) -> bool {
        let real = std::fs::canonicalize(self.base_directory.join(name));
        real.map_or(true, |path| self.real_paths.contains(&path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_every_name_of_it_but_not_by_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("a")).unwrap();
        for name in ["a/one.hcl", "a/two.hcl"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let arguments = ["a".to_owned(), "./a/../a/one.hcl".to_owned(), "-".to_owned()];
        let named = NamedFiles::new(directory.path(), &arguments);
        assert!(named.has("a/one.hcl") && named.has("./a/one.hcl") && named.has("<stdin>"));
        assert!(!named.has("a/two.hcl"));
    }
}
