//! Where the values of referenced secrets are had.

use std::path::Path;

use crate::diagnostic::Code;
use crate::model::{Secret, SecretRef};

/// A value that was found.
#[derive(Clone, PartialEq, Eq)]
pub struct FoundSecret {
    /// The value.
    pub value: Secret,
    /// What to warn of, a clause without the value: "others on this machine can read `key.pem`".
    pub warning: Option<SecretRemark>,
}

/// Without the value.
impl std::fmt::Debug for FoundSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FoundSecret")
            .field("warning", &self.warning)
            .finish_non_exhaustive()
    }
}

/// What is to be said of a reference; never a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{clause}")]
pub struct SecretRemark {
    /// What kind of remark.
    pub code: Code,
    /// A clause that can stand after a colon: "the environment variable `X` is not set".
    pub clause: String,
}

/// Follows references. Asked as late as possible: right before a request is sent.
pub trait SecretSource: Send + Sync {
    /// The value; relative paths start from `directory`. Blocks while reading.
    ///
    /// # Errors
    /// If there is no value, or none that may be used.
    fn find(&self, reference: &SecretRef, directory: &Path) -> Result<FoundSecret, SecretRemark>;
}
