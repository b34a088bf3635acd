//! The list of a provider: the evidence that the data of a volume still exists.
//!
//! A list proves that data exists. A list that could not be read proves nothing, and says why.

use std::collections::BTreeMap;

use super::ledger::DataIdentity;
use nomad_csi_model::{ExternalId, ExternalVolume, PluginId};

/// The volumes that the provider of a plugin lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderList {
    /// The list, by external ID.
    Listed(BTreeMap<ExternalId, ExternalVolume>),
    /// No list was read.
    Unknown(UnlistedReason),
}

/// Why the volumes of a provider are unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnlistedReason {
    /// The command does not ask the provider (`--no-provider`).
    NotAsked,
    /// The plugin does not list volumes.
    Unsupported,
    /// The list could not be read: why.
    Failed(String),
}

/// The evidence of a provider about the data of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence<'a> {
    /// The provider lists the data.
    Listed(&'a ExternalVolume),
    /// The provider does not list it.
    NotListed,
    /// The provider's volumes are unknown.
    Unknown(&'a UnlistedReason),
}

/// Looks for the data of a volume in the lists of its plugin.
pub(super) fn evidence<'a>(
    lists: &'a BTreeMap<PluginId, ProviderList>,
    data: &DataIdentity,
) -> Evidence<'a> {
    match lists.get(&data.plugin_id) {
        Some(ProviderList::Listed(volumes)) => {
            volumes.get(&data.external_id).map_or(Evidence::NotListed, Evidence::Listed)
        }
        Some(ProviderList::Unknown(reason)) => Evidence::Unknown(reason),
        None => Evidence::Unknown(&UnlistedReason::NotAsked),
    }
}
