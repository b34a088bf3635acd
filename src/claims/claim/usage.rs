//! The usage of a claim: what a staging and an attachment are made for.
//!
//! Usages are compared by value. Read-only access is a property of the target, so readers and a writer
//! can share a staging. Mount flags may contain passwords, so the record holds them sealed, with a
//! keyed fingerprint to compare them.

use serde::{Deserialize, Serialize};

use nomad_csi_model::{AttachmentMode, Capability, SealedSecrets};

/// Sealed mount flags that can be compared without the key.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SealedFlags {
    /// The flags; empty if there are none.
    pub sealed: SealedSecrets,
    /// The keyed fingerprint of the flags, equal exactly for equal flags; empty if there are none.
    pub fingerprint: String,
}

impl PartialEq for SealedFlags {
    /// Sealing the same flags twice gives different bytes, so only fingerprints are compared.
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl Eq for SealedFlags {}

/// Capability and mount options of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimUsage {
    /// The access and attachment mode.
    pub capability: Capability,
    /// The file system type; empty if the plugin chooses, and for a block device.
    pub fs_type: String,
    /// The mount flags; none for a block device.
    pub flags: SealedFlags,
}

impl ClaimUsage {
    /// Creates a usage. A block device has no mount options.
    pub fn new(capability: Capability, fs_type: impl Into<String>, flags: SealedFlags) -> Self {
        match capability.attachment_mode {
            AttachmentMode::FileSystem => Self { capability, fs_type: fs_type.into(), flags },
            AttachmentMode::BlockDevice => {
                Self { capability, fs_type: String::new(), flags: SealedFlags::default() }
            }
        }
    }
}
