//! Seals secrets for keeping.

use crate::model::{SealedSecrets, SecretOwner, Secrets};

/// Sealed secrets could not be opened: another key, another owner, or damaged bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sealed secrets do not open with this agent's key")]
pub struct SealError;

/// Seals and opens. What is sealed for one owner does not open for another.
pub trait Sealer: Send + Sync {
    /// Seals; no secrets seal to nothing.
    fn seal(&self, owner: &SecretOwner, secrets: &Secrets) -> SealedSecrets;
    /// Opens what [`Sealer::seal`] made for the same owner.
    ///
    /// # Errors
    /// If the bytes are not of this key and this owner.
    fn open(&self, owner: &SecretOwner, sealed: &SealedSecrets) -> Result<Secrets, SealError>;
}
