//! Seals secrets for keeping.

use crate::model::{NamespacedId, SealedSecrets, Secrets};

/// Sealed secrets could not be opened: another key, another volume, or damaged bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sealed secrets do not open with this agent's key")]
pub struct SealError;

/// Seals and opens. What is sealed for one volume does not open for another.
pub trait Sealer: Send + Sync {
    /// Seals; no secrets seal to nothing.
    fn seal(&self, volume: &NamespacedId, secrets: &Secrets) -> SealedSecrets;
    /// Opens what [`Sealer::seal`] made for the same volume.
    ///
    /// # Errors
    /// If the bytes are not of this key and this volume.
    fn open(&self, volume: &NamespacedId, sealed: &SealedSecrets) -> Result<Secrets, SealError>;
}
