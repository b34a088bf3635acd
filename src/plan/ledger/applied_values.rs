//! The values that a volume was last given and that no server shows, as far as hashes tell them.

use super::entry::StoredValue;
use super::hash::{FieldHash, FieldHashes, LedgerKey};
use nomad_csi_model::{NamespacedId, Secrets, VolumeField};

/// The names of the hashes of hidden fields.
pub(super) const SECRETS: &str = "secrets";
pub(crate) const MOUNT_FLAGS: &str = VolumeField::MountFlags.key();

/// The hidden values that a volume was last given.
#[derive(Clone, Copy, Debug)]
pub struct AppliedValues<'s> {
    pub(super) key: &'s LedgerKey,
    pub(super) volume: &'s NamespacedId,
    pub(super) hashes: &'s FieldHashes,
}

impl AppliedValues<'_> {
    /// Returns what is recorded of the secrets.
    pub fn secrets(&self) -> StoredValue {
        let empty = || self.key.of_secrets(self.volume, &Secrets::default());
        self.stored(SECRETS, empty)
    }

    /// Returns whether these secrets are the last applied ones; `None` if unknown.
    pub fn are_secrets(&self, secrets: &Secrets) -> Option<bool> {
        let applied = self.hashes.get(SECRETS)?;
        Some(*applied == self.key.of_secrets(self.volume, secrets))
    }

    /// Returns what is recorded of the mount flags.
    pub fn mount_flags(&self) -> StoredValue {
        self.stored(MOUNT_FLAGS, || self.key.of_mount_flags(self.volume, &[]))
    }

    /// Returns whether these flags are the last applied ones; `None` if unknown.
    pub fn are_mount_flags(&self, flags: &[String]) -> Option<bool> {
        let applied = self.hashes.get(MOUNT_FLAGS)?;
        Some(*applied == self.key.of_mount_flags(self.volume, flags))
    }

    fn stored(&self, field: &str, empty: impl FnOnce() -> FieldHash) -> StoredValue {
        match self.hashes.get(field) {
            None => StoredValue::Unknown,
            Some(hash) if *hash == empty() => StoredValue::Empty,
            Some(_) => StoredValue::Given,
        }
    }
}
