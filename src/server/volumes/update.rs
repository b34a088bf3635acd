//! A request for a volume that exists: merged into what there is (`plan::merge`), validated by the
//! plugin, and written if it changes anything.

use super::desk::{Desk, unchanged};
use super::expand::{Growth, Need};
use super::plugin::PluginFacts;
use crate::model::{CapacityRange, Secrets, Volume, VolumeRequest};
use crate::plan::{Expansion, MergeRules, SecretsChange, merge};
use crate::ports::ValidateVolume;
use crate::server::cell::Expected;
use crate::server::error::{
    Aftermath, Object, Operation, PluginFailure, ServerError, UpdateRequest,
};
use crate::state::{EventKind, VolumeView};

/// A write that was decided, and not made yet.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) expected: Expected,
    /// `None` if the volume is as it should be, as far as is known.
    pub(super) event: Option<EventKind>,
    /// What goes first. If that changes the volume, all is decided again.
    pub(super) growth: Option<Growth>,
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
        let growth = growth(merged.expansion, plugin, existing, on)?;
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
        let growth = growth.map(|(to, need)| Growth {
            key: before.key(),
            to,
            need,
            secrets: secrets.clone(),
            on,
        });
        let were = before.mount_options.as_ref();
        let write = (!is_same || growth.is_some()).then(|| Write {
            expected: unchanged(record),
            growth,
            event: (!is_same).then(|| EventKind::VolumeUpdated {
                definition: Box::new(self.updated_definition(
                    &merged.volume,
                    were,
                    &record.definition,
                )),
                provided: Box::new((&merged.volume).into()),
                secrets: sealed,
            }),
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
                object: Object::Volume(volume.key()),
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

/// The call that goes first: what is on record of an expansion that has not come to its end, because
/// nobody knows how large the volume is then, or what the update needs.
fn growth(
    expansion: Expansion,
    plugin: &PluginFacts,
    existing: &VolumeView,
    on: UpdateRequest,
) -> Result<Option<(CapacityRange, Need)>, ServerError> {
    let can = plugin.can(|controller| controller.expand_volume);
    let open = existing.record.expanding;
    match expansion {
        Expansion::Needed { to } if can => Ok(Some(match open {
            Some(open) if open != to => (open, Need::AnotherSize),
            Some(_) | None => (to, Need::ThisSize),
        })),
        Expansion::Needed { .. } => Err(ServerError::CannotExpand {
            volume: existing.record.key().clone(),
            on,
        }),
        Expansion::None | Expansion::Record => {
            Ok(open.filter(|_| can).map(|open| (open, Need::None)))
        }
    }
}
