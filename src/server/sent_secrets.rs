//! The secrets that earlier calls sent to plugins, from the records of volumes.
//!
//! A plugin outlives an agent, and may repeat to the next one what it got from the one before. What was sent for a volume
//! that has no record any more, or for an attachment that has ended, is not known.

use std::sync::Arc;

use async_trait::async_trait;

use super::cell::StateCell;
use super::sealing::VolumeSealer;
use crate::sealer::Sealer;
use nomad_csi_claims::state::State;
use nomad_csi_model::PluginId;
use nomad_csi_ports::{SentSecrets, SentSecretsReader};

/// Reads it from the state of a server.
pub struct RecordedSecrets {
    cell: StateCell,
    sealer: VolumeSealer,
}

impl RecordedSecrets {
    /// Returns a reader of this state, whose secrets this sealer opens.
    pub fn new(cell: StateCell, sealer: Arc<dyn Sealer>) -> Self {
        Self { cell, sealer: VolumeSealer::new(sealer) }
    }
}

#[async_trait]
impl SentSecretsReader for RecordedSecrets {
    async fn sent(&self, plugin: Option<&PluginId>) -> SentSecrets {
        let state = self.cell.read(State::clone);
        let (sealer, plugin) = (self.sealer.clone(), plugin.cloned());
        let opening = tokio::task::spawn_blocking(move || {
            let mut sent = SentSecrets::default();
            let is_own = |id: &PluginId| plugin.as_ref() == Some(id);
            // Of too many values the newest are kept, so its own come last.
            add(&mut sent, &state, &sealer, |id| !is_own(id), false);
            add(&mut sent, &state, &sealer, is_own, true);
            sent
        });
        match opening.await {
            Ok(sent) => sent,
            Err(stopped) => match stopped.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends, and nothing is sent or shown any more.
                Err(_) => SentSecrets::default(),
            },
        }
    }
}

/// Adds what the volumes of some plugins were sent. What cannot be opened was sealed with another key, and is not known.
fn add(
    sent: &mut SentSecrets,
    state: &State,
    sealer: &VolumeSealer,
    is_meant: impl Fn(&PluginId) -> bool,
    are_own: bool,
) {
    let records = state.records();
    for record in records.filter(|record| is_meant(&record.definition.plugin_id)) {
        if let Ok(secrets) = sealer.secrets_of(record) {
            for (_, value) in secrets.expose() {
                match are_own {
                    true => sent.add_secret(value),
                    false => sent.add_sealed(value),
                }
            }
        }
        if let Ok(Some(options)) = sealer.mount_options_of(&record.definition) {
            let flags = options.mount_flags.iter();
            flags.for_each(|flag| sent.add_sealed(flag));
        }
    }
    let records = state.all_claims();
    for record in records.filter(|record| is_meant(&record.volume.plugin_id)) {
        for attachment in record.claims.attachments.values() {
            if let Ok(context) = sealer.open_context(&record.volume, &attachment.context) {
                let values = context.into_values();
                values.for_each(|value| sent.add_sealed(&value));
            }
        }
    }
}
