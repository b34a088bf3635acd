//! Encryption of stored secrets.

use nomad_csi_model::{SealedSecrets, SecretOwner, Secrets};

/// The stored secrets cannot be decrypted: wrong key, wrong owner, or damaged bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot decrypt the stored secrets with this agent's key")]
pub struct SealError;

/// Encrypts and decrypts secrets. Secrets sealed for one owner do not open for another.
pub trait Sealer: Send + Sync {
    /// Encrypts secrets. An empty map seals to nothing.
    fn seal(&self, owner: &SecretOwner, secrets: &Secrets) -> SealedSecrets;
    /// Returns a keyed fingerprint, equal exactly for equal secrets; empty for none. It reveals nothing
    /// without the key.
    fn fingerprint(&self, secrets: &Secrets) -> String;
    /// Decrypts what [`Sealer::seal`] returned for the same owner.
    ///
    /// # Errors
    /// Fails if the bytes belong to another key or another owner.
    fn open(&self, owner: &SecretOwner, sealed: &SealedSecrets) -> Result<Secrets, SealError>;
}
