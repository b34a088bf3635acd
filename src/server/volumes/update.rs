//! Plans the update of a registered volume: merges the request and decides what to write. Pure.

use std::collections::BTreeMap;

use super::expand::{ExpansionNeed, ExpansionStep};
use super::plugin::VolumePlugin;
use super::store::{unchanged, unused};
use crate::cell::Expected;
use crate::error::{ServerError, UpdateOrigin};
use crate::sealing::VolumeSealer;
use nomad_csi_claims::state::{EventKind, VolumeView};
use nomad_csi_model::{CapacityRange, MountOptions, SealedSecrets, Secrets, Volume, VolumeRequest};
use nomad_csi_plan::{Expansion, MergeRules, SecretsChange, merge};

/// A write that is decided and not yet made.
#[derive(Debug)]
pub(super) struct PlannedWrite {
    pub(super) expected: Expected,
    /// `None` if the record needs no change.
    pub(super) event: Option<EventKind>,
    /// The expansion that comes first. If it changes the volume, the update is planned again.
    pub(super) expansion: Option<ExpansionStep>,
}

/// A volume as a write would leave it.
#[derive(Debug)]
pub(super) struct PlannedUpdate {
    pub(super) volume: Volume,
    pub(super) secrets: Secrets,
    /// `None` if nothing changes.
    pub(super) write: Option<PlannedWrite>,
}

/// Merges a request into a registered volume. The write expects the record that was merged, so a
/// change in between is detected and not overwritten.
pub(super) fn plan_update(
    sealer: &VolumeSealer,
    existing: &VolumeView,
    request: &VolumeRequest,
    plugin: &VolumePlugin,
    origin: UpdateOrigin,
) -> Result<PlannedUpdate, ServerError> {
    let record = &existing.record;
    let before = Volume {
        mount_options: sealer.mount_options_of(&record.definition)?,
        context: record.provided.context.to_map(),
        ..existing.volume()
    };
    let request = &with_kept_context(request, &before.context)?;
    let merged =
        merge(&before, &request.to_unresolved(), MergeRules::AGENT).map_err(|refusals| {
            ServerError::UpdateRefused { volume: before.key(), refusals, origin }
        })?;
    let expansion = required_expansion(merged.expansion, plugin, existing, origin)?;
    let stored = sealer.secrets_of(record);
    let secrets = match (merged.secrets, &request.secrets) {
        (SecretsChange::Keep, _) => stored.clone()?,
        (SecretsChange::Replace, Some(secrets)) => secrets.clone(),
        (SecretsChange::Clear | SecretsChange::Replace, _) => Secrets::default(),
    };
    let sealed = match stored {
        Ok(stored) if stored == secrets => record.secrets.clone(),
        Ok(_) | Err(_) => sealer.seal(record.key(), &secrets),
    };
    let is_same = merged.volume == before && sealed == record.secrets;
    let expansion = expansion.map(|(capacity, need)| ExpansionStep {
        key: before.key(),
        capacity,
        need,
        secrets: secrets.clone(),
        origin,
    });
    let options_before = before.mount_options.as_ref();
    let write = (!is_same || expansion.is_some()).then(|| PlannedWrite {
        expected: match narrows(&before, &merged.volume) {
            true => unused(record),
            false => unchanged(record),
        },
        expansion,
        event: (!is_same).then(|| EventKind::VolumeUpdated {
            definition: Box::new(sealer.updated_definition(
                &merged.volume,
                options_before,
                &record.definition,
            )),
            provided: Box::new((&merged.volume).into()),
            secrets: sealed,
        }),
    });
    Ok(PlannedUpdate { volume: merged.volume, secrets, write })
}

/// Returns whether an update changes what a claim is granted for: the mount options, or a mode that is no longer offered. The
/// merge refuses that while the volume is claimed, and a claim may come while the plugin is asked.
fn narrows(before: &Volume, after: &Volume) -> bool {
    let is_kept = |capability| after.capabilities.contains(capability);
    before.mount_options != after.mount_options || !before.capabilities.iter().all(is_kept)
}

/// Returns the request with the recorded values where its context has what a reader gets instead of them.
///
/// # Errors
/// If such a value is not on record, or if a value looks sealed.
pub(super) fn with_kept_context(
    request: &VolumeRequest,
    recorded: &BTreeMap<String, String>,
) -> Result<VolumeRequest, ServerError> {
    let mut request = request.clone();
    let mut problems = vec![];
    for (key, value) in request.context.iter_mut().flatten() {
        let kept = recorded.get(key).filter(|kept| SealedSecrets::is_text(kept));
        match kept {
            Some(kept) if value == MountOptions::REDACTED => value.clone_from(kept),
            Some(_) | None if value == MountOptions::REDACTED => problems.push(format!(
                "`{key}` in the context is [REDACTED], which a server shows instead of the value"
            )),
            Some(_) | None if SealedSecrets::is_text(value) => {
                problems.push(format!("`{key}` in the context begins as a sealed value does"));
            }
            Some(_) | None => {}
        }
    }
    match problems.is_empty() {
        true => Ok(request),
        false => Err(ServerError::Invalid { volume: request.id, problems }),
    }
}

/// The expansion that comes first: a pending one, because the volume's size is unknown until it is
/// resolved, or the one that the update needs.
fn required_expansion(
    expansion: Expansion,
    plugin: &VolumePlugin,
    existing: &VolumeView,
    origin: UpdateOrigin,
) -> Result<Option<(CapacityRange, ExpansionNeed)>, ServerError> {
    let can_expand = plugin.can(|controller| controller.expand_volume);
    let pending = existing.record.expanding;
    match expansion {
        Expansion::Needed { to } if can_expand => Ok(Some(match pending {
            Some(pending) if pending != to => (pending, ExpansionNeed::LargerSize),
            Some(_) | None => (to, ExpansionNeed::ThisSize),
        })),
        Expansion::Needed { .. } => {
            Err(ServerError::CannotExpand { volume: existing.record.key().clone(), origin })
        }
        Expansion::None | Expansion::Record => {
            Ok(pending.filter(|_| can_expand).map(|pending| (pending, ExpansionNeed::None)))
        }
    }
}
