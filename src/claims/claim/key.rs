//! The key of a claim.

use serde::{Deserialize, Serialize};

use nomad_csi_model::{AllocId, VolumeAlias};

/// The key of a claim: an allocation may claim a volume under several names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimKey {
    /// The allocation.
    pub alloc: AllocId,
    /// The name by which it knows the volume.
    pub alias: VolumeAlias,
}
