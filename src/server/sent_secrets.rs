//! What earlier calls sent to a plugin, from the records of its volumes.
//!
//! A plugin outlives an agent, and may repeat to the next one what it got from the one before.

use std::sync::Arc;

use super::cell::StateCell;
use super::sealing::VolumeSealer;
use crate::model::PluginId;
use crate::ports::{Sealer, SentSecrets, SentSecretsReader};
use crate::state::State;

/// Reads it from the state of a server.
pub struct RecordedSecrets {
    cell: StateCell,
    sealer: VolumeSealer,
}

impl RecordedSecrets {
    /// Returns a reader of this state, whose secrets this sealer opens.
    pub fn new(cell: StateCell, sealer: Arc<dyn Sealer>) -> Self {
        Self {
            cell,
            sealer: VolumeSealer::new(sealer),
        }
    }
}

impl SentSecretsReader for RecordedSecrets {
    /// What cannot be opened was sent by an agent with another key, and is not known to this one.
    fn sent(&self, plugin: Option<&PluginId>) -> SentSecrets {
        let is_meant = |id: &PluginId| plugin.is_none_or(|plugin| plugin == id);
        let state = self.cell.read(State::clone);
        let mut sent = SentSecrets::default();
        for record in state.records() {
            if !is_meant(&record.definition.plugin_id) {
                continue;
            }
            if let Ok(secrets) = self.sealer.secrets_of(record) {
                let values = secrets.expose().map(|(_, value)| value);
                values.for_each(|value| sent.add_secret(value));
            }
            if let Ok(Some(options)) = self.sealer.mount_options_of(&record.definition) {
                let flags = options.mount_flags.iter();
                flags.for_each(|flag| sent.add_sealed(flag));
            }
        }
        for record in state.all_claims() {
            if !is_meant(&record.volume.plugin_id) {
                continue;
            }
            for attachment in record.claims.attachments.values() {
                let context = self
                    .sealer
                    .open_context(&record.volume, &attachment.context);
                let values = context.unwrap_or_default().into_values();
                values.for_each(|value| sent.add_sealed(&value));
            }
        }
        sent
    }
}
