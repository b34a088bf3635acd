//! Which events are the history of one volume.
//!
//! These are the events of the volume, those of its claims, and those of the allocations and nodes that
//! claim it at that time. Claims belong to the external volume, so the claims of another registration
//! of it are part of the history too.

use std::collections::{BTreeMap, BTreeSet};

use super::event::EventKind;
use super::record::ProviderFacts;
use super::tables::State;
use crate::claim::{ClaimEvent, ClaimKey};
use nomad_csi_model::{ExternalId, NamespacedId, NodeId, PluginId, RemoteVolume};

/// Selects the events of one volume, which it must see in order.
#[derive(Clone, Debug)]
pub struct VolumeHistory {
    key: NamespacedId,
    plugin: Option<PluginId>,
    remote_volumes: BTreeSet<RemoteVolume>,
    claims: BTreeMap<ClaimKey, NodeId>,
}

impl VolumeHistory {
    /// Begins the history of a volume with the first event that is left. The state makes up for the events
    /// before its time: it has the external ID, and the claims that were granted before.
    pub fn new(state: &State, key: &NamespacedId, first_at: i64) -> Self {
        let remote = state.remote_volume(key);
        let record = remote.as_ref().and_then(|volume| state.claims(volume));
        let claims = record.into_iter().flat_map(|record| &record.claims.claims);
        let earlier = claims.filter(|(_, claim)| claim.granted_at < first_at);
        Self {
            key: key.clone(),
            plugin: state.record(key).map(|record| record.definition.plugin_id.clone()),
            claims: earlier.map(|(key, claim)| (key.clone(), claim.node.clone())).collect(),
            remote_volumes: remote.into_iter().collect(),
        }
    }

    /// Returns whether the next event belongs to the history.
    pub fn contains(&mut self, kind: &EventKind) -> bool {
        match kind {
            EventKind::Claim { volume, event } => {
                let is_own = self.remote_volumes.contains(volume);
                if is_own {
                    self.note_claim(event);
                }
                is_own
            }
            EventKind::AllocEnded { alloc } => self.claims.keys().any(|key| key.alloc == *alloc),
            EventKind::NodeBooted { node, .. }
            | EventKind::NodeDisconnected { node }
            | EventKind::NodeDown { node }
            | EventKind::NodeLost { node, .. }
            | EventKind::NodeReturned { node }
            | EventKind::NodeSwept { node } => self.claims.values().any(|used| used == node),
            _ if kind.volume() == Some(&self.key) => {
                self.note_volume(kind);
                true
            }
            _ => false,
        }
    }

    fn note_claim(&mut self, event: &ClaimEvent) {
        match event {
            ClaimEvent::Granted { key, claim } => {
                self.claims.insert(key.clone(), claim.node.clone());
            }
            ClaimEvent::Released { key } => drop(self.claims.remove(key)),
            ClaimEvent::ReleaseRequested { .. }
            | ClaimEvent::StepStarted { .. }
            | ClaimEvent::StepDone { .. }
            | ClaimEvent::StepFailed { .. }
            | ClaimEvent::AccessChanged { .. }
            | ClaimEvent::NodeAssumedGone { .. }
            | ClaimEvent::NodeRebooted { .. }
            | ClaimEvent::MountsLost { .. }
            | ClaimEvent::ExpansionRequired { .. }
            | ClaimEvent::Orphaned { .. } => {}
        }
    }

    fn note_volume(&mut self, kind: &EventKind) {
        match kind {
            EventKind::VolumeCreateIntended { definition, .. } => {
                self.plugin = Some(definition.plugin_id.clone());
            }
            EventKind::VolumeRegistered { definition, provided, .. }
            | EventKind::VolumeUpdated { definition, provided, .. } => {
                self.plugin = Some(definition.plugin_id.clone());
                self.note_external_id(provided);
            }
            EventKind::VolumeCreated { provided, .. } => self.note_external_id(provided),
            _ => {}
        }
    }

    fn note_external_id(&mut self, provided: &ProviderFacts) {
        let external_id: Option<&ExternalId> = provided.external_id.as_ref();
        if let (Some(plugin_id), Some(external_id)) = (&self.plugin, external_id) {
            self.remote_volumes.insert(RemoteVolume {
                plugin_id: plugin_id.clone(),
                external_id: external_id.clone(),
            });
        }
    }
}

#[cfg(test)]
mod tests;
