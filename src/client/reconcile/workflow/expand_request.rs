//! A volume to expand.

use super::ledger_access::{LedgerAccess, SetSelection};
use super::specifications::Specifications;
use nomad_csi_model::{HiddenField, ServerVersion, Volume};

/// A volume to expand.
pub struct ExpandRequest<'a> {
    /// The volume as it is.
    pub existing: &'a Volume,
    /// The volume with its new size.
    pub specifications: &'a Specifications,
    /// True if a file declares the volume, rather than only a new size being given.
    pub is_from_file: bool,
    /// Hidden values that may be lost.
    pub accepted_losses: &'a [HiddenField],
    /// The server's version, if it is given rather than read.
    pub server_version: Option<ServerVersion>,
    /// The ledger whose sets may own the volume; `None` if the command uses none.
    pub ledger: Option<&'a LedgerAccess>,
    /// The set that may own the volume.
    pub set: Option<&'a SetSelection>,
    /// True if the set must own the volume.
    pub requires_set: bool,
}
