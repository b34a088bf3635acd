//! A request for a volume that exists: merged into what there is (`plan::merge`), validated by the
//! plugin, and written if it changes anything.

use super::desk::{Desk, unchanged};
use super::plugin::PluginFacts;
use crate::model::{Secrets, Volume, VolumeRequest};
use crate::plan::{Expansion, MergeRules, SecretsChange, merge};
use crate::ports::ValidateVolume;
use crate::server::cell::Expected;
use crate::server::error::{
    Aftermath, CannotExpand, Operation, PluginFailure, ServerError, UpdateRequest,
};
use crate::state::{EventKind, VolumeView};

/// A write that was decided, and not made yet.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) expected: Expected,
    pub(super) event: EventKind,
}

/// A volume as an update would leave it.
#[derive(Debug)]
pub(super) struct Updated {
    pub(super) volume: Volume,
    pub(super) secrets: Secrets,
    /// `None` if it is as it was.
    pub(super) write: Option<Write>,
}

impl Desk {
    /// Merges a request into a registered volume (W08: what is expected stands in the write, so
    /// that a change in between is found and nothing is overwritten).
    pub(super) fn update(
        &self,
        existing: &VolumeView,
        request: &VolumeRequest,
        plugin: &PluginFacts,
        on: UpdateRequest,
    ) -> Result<Updated, ServerError> {
        let record = &existing.record;
        let before = Volume {
            mount_options: self.mount_options_of(&record.definition)?,
            ..existing.volume()
        };
        let merged =
            merge(&before, &request.to_wanted(), MergeRules::AGENT).map_err(|refusals| {
                ServerError::UpdateRefused {
                    volume: before.key(),
                    refusals,
                    on,
                }
            })?;
        cannot_expand(merged.expansion, plugin, &before, on)?;
        let stored = self.secrets_of(record);
        let secrets = match (merged.secrets, &request.secrets) {
            (SecretsChange::Keep, _) => stored.clone()?,
            (SecretsChange::Replace, Some(secrets)) => secrets.clone(),
            (SecretsChange::Clear | SecretsChange::Replace, _) => Secrets::default(),
        };
        let sealed = match stored {
            Ok(stored) if stored == secrets => record.secrets.clone(),
            Ok(_) | Err(_) => self.seal(record.key(), &secrets),
        };
        let is_same = merged.volume == before && sealed == record.secrets;
        let were = before.mount_options.as_ref();
        let write = (!is_same).then(|| Write {
            expected: unchanged(record),
            event: EventKind::VolumeUpdated {
                definition: Box::new(self.updated_definition(
                    &merged.volume,
                    were,
                    &record.definition,
                )),
                provided: Box::new((&merged.volume).into()),
                secrets: sealed,
            },
        });
        Ok(Updated {
            volume: merged.volume,
            secrets,
            write,
        })
    }

    /// Has the plugin say whether the volume is what it is said to be (B11, W24); without a
    /// controller nobody can be asked.
    pub(super) async fn validate(
        &self,
        volume: &Volume,
        secrets: &Secrets,
        plugin: &PluginFacts,
    ) -> Result<(), ServerError> {
        if !plugin.needs_controller() {
            return Ok(());
        }
        let failed = |error| {
            ServerError::Plugin(Box::new(PluginFailure {
                operation: Operation::Validate,
                volume: volume.key(),
                subject: volume.remote_id().to_string(),
                plugin: plugin.id().clone(),
                error,
                aftermath: Aftermath::Nothing,
            }))
        };
        let candidates = plugin.candidates().map_err(|error| failed(error.into()))?;
        let _slot = self.slot(&self.creates, plugin.id()).await?;
        let request = ValidateVolume {
            external_id: volume.remote_id(),
            capabilities: volume.capabilities.clone(),
            mount_options: volume.mount_options.clone().unwrap_or_default(),
            parameters: volume.parameters.clone(),
            context: volume.context.clone(),
            secrets: secrets.clone(),
        };
        let call = self
            .forward
            .call(&candidates, Operation::Validate.rpc(), |controller| {
                let request = request.clone();
                async move { controller.validate_volume(request).await }
            });
        call.await.map_err(failed)
    }
}

fn cannot_expand(
    expansion: Expansion,
    plugin: &PluginFacts,
    volume: &Volume,
    on: UpdateRequest,
) -> Result<(), ServerError> {
    let reason = match expansion {
        Expansion::None | Expansion::Record => return Ok(()),
        Expansion::Needed { .. } if plugin.can(|c| c.expand_volume) => CannotExpand::Server,
        Expansion::Needed { .. } => CannotExpand::Plugin,
    };
    Err(ServerError::CannotExpand {
        volume: volume.key(),
        reason,
        on,
    })
}
