//! [`TlsError`]: why a file with a certificate or a key cannot be made or used.

use std::path::{Path, PathBuf};

/// A file with a certificate or a key cannot be made or used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {action} `{}`: {reason}; {help}", .file.display())]
pub struct TlsError {
    /// The verb.
    pub action: &'static str,
    /// The file or directory.
    pub file: PathBuf,
    /// Why.
    pub reason: String,
    /// What to do, as an imperative.
    pub help: String,
}

impl TlsError {
    pub(super) fn new(
        action: &'static str,
        file: &Path,
        reason: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        let file = file.to_owned();
        Self { action, file, reason: reason.into(), help: help.into() }
    }
}
