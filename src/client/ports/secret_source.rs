//! Resolution of secret references.

use std::path::Path;

use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{Secret, SecretRef};

/// The value of a resolved reference.
#[derive(Clone, PartialEq, Eq)]
pub struct ResolvedSecret {
    /// The value.
    pub value: Secret,
    /// A problem to warn about.
    pub warning: Option<SecretProblem>,
}

/// Omits the value.
impl std::fmt::Debug for ResolvedSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResolvedSecret").field("warning", &self.warning).finish_non_exhaustive()
    }
}

/// A problem with a reference. It never contains a secret value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SecretProblem {
    /// The kind of problem.
    pub code: Code,
    /// A clause without the value: "the environment variable `X` is not set".
    pub message: String,
}

/// Resolves references, immediately before a request is sent.
pub trait SecretSource: Send + Sync {
    /// Returns the value. Relative paths start at `directory`. Blocks while reading.
    ///
    /// # Errors
    /// Fails if the value is missing or unusable.
    fn resolve(
        &self,
        reference: &SecretRef,
        directory: &Path,
    ) -> Result<ResolvedSecret, SecretProblem>;
}
