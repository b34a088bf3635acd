//! The specifications that a command works with, and where they come from.

use std::path::{Path, PathBuf};

use crate::diagnostic::SourceMap;
use crate::model::SetName;
use crate::spec::VolumeSpec;

/// The specifications that a command works with.
#[derive(Debug)]
pub struct Specifications {
    /// The volumes, in the order of the files.
    pub volumes: Vec<VolumeSpec>,
    /// The texts of the files.
    pub sources: SourceMap,
    /// The number of files.
    pub file_count: usize,
    /// The set that owns the volumes, if the files or the command line name one.
    pub set: Option<SetName>,
    /// The directory that file names are relative to.
    pub base_directory: PathBuf,
}

impl Specifications {
    /// Returns the directory that relative paths in a specification start from: that of its file, or
    /// the base directory for standard input.
    pub fn directory_of(&self, spec: &VolumeSpec) -> PathBuf {
        let name = Path::new(self.sources.name(spec.span.source));
        let parent = name.parent().unwrap_or(Path::new(""));
        self.base_directory.join(parent)
    }
}
