//! Existing volume and update: the new volume, or every reason why not.
//!
//! A server that already has a volume of that name does not replace it; it merges
//! (`csi-orchestration` 2.4, 2.5, 2.7; `nomad-http-api` 3.5; B01 to B09). Which fields may change is
//! the same everywhere since Nomad 1.6.3; how absent and equal are understood is not, and is a value
//! ([`MergeRules`], W19, W20, W21). Earlier servers refuse or overwrite more, and that is here too.
//!
//! Nothing is called here. Whether an expansion can be carried out is the caller's to find out:
//! [`Expansion::Needed`] says that it has to be. All refusals are found at once and stand in Nomad's
//! order; those of the capacity only if there are no others, as on Nomad. On a refusal nothing of
//! the update holds, so that merging again after a crash or a conflict starts from the same volume.

use std::collections::BTreeMap;

use super::rules::{
    MergeRules, MountOptionsRule, OmittedMap, TopologyRule, UnknownCapacityRule, UpdateRule,
};
use crate::model::{
    Bytes, Capability, CapacityRange, ExternalId, MountOptions, TopologyRequest, Volume,
    WantedRequest,
};

/// One reason why an update is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The field's key in a specification: `external_id`, `capacity_max`.
    pub field: &'static str,
    /// Nomad's own words, exactly.
    pub text: String,
    /// One sentence for people, without a full stop, that can stand after "the volume cannot be
    /// updated:".
    pub reason: String,
}

/// What an update makes of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The volume as it is to be stored.
    pub volume: Volume,
    /// What becomes of its secrets.
    pub secrets: SecretsChange,
    /// What becomes of its size.
    pub expansion: Expansion,
}

/// What an update does to the stored secrets. Their values are not in a [`Volume`], so they are
/// taken from the update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretsChange {
    /// Nothing.
    Keep,
    /// The update's take their place.
    Replace,
    /// There are none afterwards.
    Clear,
}

/// What an update does to the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expansion {
    /// Nothing.
    None,
    /// The wanted range is stored; the volume is large enough for it already.
    Record,
    /// The volume is too small: it must be expanded before the update may be stored.
    Needed {
        /// The range that is wanted.
        to: CapacityRange,
    },
}

/// Merges `update` into `existing` by `rules`.
///
/// Fields that only a server may set come from `existing`, whatever the update says (B07).
///
/// # Errors
/// Every refusal, in Nomad's order; never an empty list.
pub fn merge(
    existing: &Volume,
    update: &WantedRequest,
    rules: MergeRules,
) -> Result<Merged, Vec<Refusal>> {
    let refusals = match rules.update {
        UpdateRule::FieldByField => refusals(existing, update, rules),
        UpdateRule::WhileUnused => refusals_while_unused(existing, update, rules),
        UpdateRule::Overwrite => return overwritten(existing, update, rules),
    };
    if !refusals.is_empty() {
        return Err(refusals);
    }
    if rules.update == UpdateRule::WhileUnused {
        return Ok(merged_before_expansion(existing, update, rules));
    }
    let expansion = expansion(existing, update.capacity, rules.unknown_capacity)
        .map_err(|refusal| vec![refusal])?;
    let requested_capacity = match expansion {
        Expansion::None => existing.requested_capacity,
        Expansion::Record | Expansion::Needed { .. } => update.capacity,
    };
    Ok(Merged {
        volume: Volume {
            requested_capacity,
            ..merged_fields(existing, update, rules)
        },
        secrets: secrets_change(update, rules.omitted_secrets),
        expansion,
    })
}

/// Everything but the capacity.
fn merged_fields(existing: &Volume, update: &WantedRequest, rules: MergeRules) -> Volume {
    Volume {
        capabilities: update.capabilities.clone(),
        topology_request: merged_topology_request(existing, update, rules.topologies),
        mount_options: merged_mount_options(existing, update, rules.mount_options),
        context: merged_context(existing, update, rules.omitted_context),
        ..existing.clone()
    }
}

/// Nomad 1.3 to 1.6.2 expands nothing and updates nothing that is in use, so that mount options need
/// no rule of their own there; that it is in use is said only if nothing else is
/// (`nomad-http-api` 8.3).
fn refusals_while_unused(
    existing: &Volume,
    update: &WantedRequest,
    rules: MergeRules,
) -> Vec<Refusal> {
    let refusals = changed_identity(existing, update).into_iter();
    let mut refusals: Vec<_> = refusals
        .chain(unenclosed_capacity(existing.capacity, update.capacity))
        .chain(dropped_capability(existing, update))
        .chain(changed_topology_request(existing, update, rules.topologies))
        .chain(changed_parameters(existing, update))
        .collect();
    if refusals.is_empty() && existing.is_claimed() {
        refusals.push(Refusal {
            field: "id",
            text: "volume cannot be updated while in use".into(),
            reason: "before Nomad 1.6.3 nothing of a volume can change while it is in use".into(),
        });
    }
    refusals
}

fn unenclosed_capacity(size: Bytes, wanted: CapacityRange) -> Option<Refusal> {
    let is_enclosed = wanted.min <= size && size <= wanted.max;
    (!size.is_zero() && !is_enclosed).then(|| Refusal {
        field: if wanted.min > size {
            "capacity_min"
        } else {
            "capacity_max"
        },
        text: "volume requested capacity update was not compatible with existing capacity".into(),
        reason: format!(
            "before Nomad 1.6.3 `capacity_min` and `capacity_max` have to enclose the {size} it has"
        ),
    })
}

/// A size is recorded where one is known, and never changed.
fn merged_before_expansion(existing: &Volume, update: &WantedRequest, rules: MergeRules) -> Merged {
    let recorded = !existing.capacity.is_zero() && update.capacity != existing.requested_capacity;
    let requested_capacity = if recorded {
        update.capacity
    } else {
        existing.requested_capacity
    };
    Merged {
        volume: Volume {
            requested_capacity,
            ..merged_fields(existing, update, rules)
        },
        secrets: secrets_change(update, rules.omitted_secrets),
        expansion: if recorded {
            Expansion::Record
        } else {
            Expansion::None
        },
    }
}

/// Nomad 1.1 and 1.2 put the update in the place of the volume, unless it is in use or another one
/// (`nomad-http-api` 8.3): what the update does not say is lost, and so is the size that the
/// provider reported, which no update says. The provider is asked for nothing.
fn overwritten(
    existing: &Volume,
    update: &WantedRequest,
    rules: MergeRules,
) -> Result<Merged, Vec<Refusal>> {
    let another = if update.plugin_id != existing.plugin_id {
        Some((
            "plugin_id",
            "the plugin ID of an existing volume cannot change",
        ))
    } else if update.external_id != existing.external_id {
        Some((
            "external_id",
            "the external ID of an existing volume cannot change",
        ))
    } else if existing.is_claimed() {
        Some((
            "id",
            "before Nomad 1.3 nothing of a volume can change while it is in use",
        ))
    } else {
        None
    };
    if let Some((field, reason)) = another {
        return Err(vec![Refusal {
            field,
            text: format!("volume exists: {}", existing.id),
            reason: reason.into(),
        }]);
    }
    let expansion = if update.capacity == existing.requested_capacity {
        Expansion::None
    } else {
        Expansion::Record
    };
    let volume = Volume {
        name: update.name.clone().unwrap_or_default(),
        clone_id: update.clone_id.clone(),
        snapshot_id: update.snapshot_id.clone(),
        parameters: update.parameters.clone().unwrap_or_default(),
        requested_capacity: update.capacity,
        capacity: Bytes::ZERO,
        topology_request: update.topology_request.clone(),
        ..merged_fields(existing, update, rules)
    };
    Ok(Merged {
        volume,
        secrets: secrets_change(update, rules.omitted_secrets),
        expansion,
    })
}

fn refusals(existing: &Volume, update: &WantedRequest, rules: MergeRules) -> Vec<Refusal> {
    let refusals = changed_identity(existing, update).into_iter();
    refusals
        .chain(dropped_capability(existing, update))
        .chain(changed_topology_request(existing, update, rules.topologies))
        .chain(changed_mount_options(existing, update, rules.mount_options))
        .chain(changed_parameters(existing, update))
        .collect()
}

fn dropped_capability(existing: &Volume, update: &WantedRequest) -> Option<Refusal> {
    let holds = holds_capability_in_force(existing, &update.capabilities);
    (!holds).then(|| Refusal {
        field: "capability",
        text: "volume requested capabilities update was not compatible with existing capability in use".into(),
        reason: "it is in use with a capability that the update leaves out".into(),
    })
}

fn changed_topology_request(
    existing: &Volume,
    update: &WantedRequest,
    rule: TopologyRule,
) -> Option<Refusal> {
    let has_its_place = !existing.topologies.is_empty();
    (has_its_place && !same_topology_request(existing, update, rule)).then(|| Refusal {
        field: "topology_request",
        text: "volume topology request update was not compatible with existing topology".into(),
        reason: "the topology request of a volume that has its place cannot change".into(),
    })
}

fn changed_mount_options(
    existing: &Volume,
    update: &WantedRequest,
    rule: MountOptionsRule,
) -> Option<Refusal> {
    (existing.is_claimed() && !same_mount_options(existing, update, rule)).then(|| Refusal {
        field: "mount_options",
        text: "can not update mount options while volume is in use".into(),
        reason: "its mount options cannot change while it is in use".into(),
    })
}

fn changed_parameters(existing: &Volume, update: &WantedRequest) -> Option<Refusal> {
    given(update.parameters.as_ref())
        .is_some_and(|wanted| *wanted != existing.parameters)
        .then(|| cannot_change("parameters", "parameters"))
}

fn changed_identity(existing: &Volume, update: &WantedRequest) -> Vec<Refusal> {
    let changed = |wanted: Option<&str>, stored: &str| {
        wanted.is_some_and(|wanted| !wanted.is_empty() && wanted != stored)
    };
    let external_id = existing.external_id.as_ref().map_or("", ExternalId::as_str);
    let wanted_external_id = update.external_id.as_ref().map(ExternalId::as_str);
    let stored = |text: &Option<String>| text.clone().unwrap_or_default();
    let fields = [
        (
            changed(update.name.as_deref(), &existing.name),
            "name",
            "name",
        ),
        (
            changed(wanted_external_id, external_id),
            "external_id",
            "external ID",
        ),
        (
            update.plugin_id != existing.plugin_id,
            "plugin_id",
            "plugin ID",
        ),
        (
            changed(update.clone_id.as_deref(), &stored(&existing.clone_id)),
            "clone_id",
            "clone ID",
        ),
        (
            changed(
                update.snapshot_id.as_deref(),
                &stored(&existing.snapshot_id),
            ),
            "snapshot_id",
            "snapshot ID",
        ),
    ];
    fields
        .into_iter()
        .filter(|(changed, ..)| *changed)
        .map(|(_, field, name)| cannot_change(field, name))
        .collect()
}

fn cannot_change(field: &'static str, name: &str) -> Refusal {
    Refusal {
        field,
        text: format!("volume {name} cannot be updated"),
        reason: format!("the {name} of an existing volume cannot change"),
    }
}

/// A volume that has modes in force must keep exactly that pair (B04); half a pair, which only old
/// records have, matches nothing.
fn holds_capability_in_force(existing: &Volume, wanted: &[Capability]) -> bool {
    match (existing.access_mode, existing.attachment_mode) {
        (None, None) => true,
        (Some(access_mode), Some(attachment_mode)) => wanted.contains(&Capability {
            access_mode,
            attachment_mode,
        }),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn same_topology_request(existing: &Volume, update: &WantedRequest, rule: TopologyRule) -> bool {
    let (stored, wanted) = (&existing.topology_request, &update.topology_request);
    match rule {
        TopologyRule::ByPosition => stored == wanted,
        TopologyRule::AsSets => {
            let nothing = TopologyRequest::default();
            let of = |request: &Option<TopologyRequest>| request.clone().unwrap_or(nothing.clone());
            of(stored).same_as(&of(wanted))
        }
    }
}

fn merged_topology_request(
    existing: &Volume,
    update: &WantedRequest,
    rule: TopologyRule,
) -> Option<TopologyRequest> {
    let stored = existing.topology_request.clone();
    match rule {
        TopologyRule::ByPosition => stored,
        TopologyRule::AsSets if existing.topologies.is_empty() => {
            update.topology_request.clone().or(stored)
        }
        TopologyRule::AsSets => stored,
    }
}

fn same_mount_options(existing: &Volume, update: &WantedRequest, rule: MountOptionsRule) -> bool {
    let wanted = update.mount_options.clone().unwrap_or_default();
    match (rule, &existing.mount_options) {
        (_, Some(stored)) => as_far_as_seen(stored, &wanted),
        (MountOptionsRule::AbsentDiffers, None) => false,
        (MountOptionsRule::AbsentIsEmpty, None) => wanted.is_empty(),
    }
}

/// A server that hides flags shows only that there are some: then it is compared whether there are
/// (`nomad-http-api` 10.1, item 5).
fn as_far_as_seen(stored: &MountOptions, wanted: &MountOptions) -> bool {
    if stored.are_redacted() {
        return stored.fs_type == wanted.fs_type && !wanted.mount_flags.is_empty();
    }
    stored.same_as(wanted)
}

/// Those that say the same stay as they are, so that saying it again changes nothing.
fn merged_mount_options(
    existing: &Volume,
    update: &WantedRequest,
    rule: MountOptionsRule,
) -> Option<MountOptions> {
    if same_mount_options(existing, update, rule) {
        return existing.mount_options.clone();
    }
    Some(update.mount_options.clone().unwrap_or_default())
}

fn merged_context(
    existing: &Volume,
    update: &WantedRequest,
    omitted: OmittedMap,
) -> BTreeMap<String, String> {
    match (given(update.context.as_ref()), omitted) {
        (Some(context), _) => context.clone(),
        (None, OmittedMap::Keep) => existing.context.clone(),
        (None, OmittedMap::Wipe) => BTreeMap::new(),
    }
}

fn secrets_change(update: &WantedRequest, omitted: OmittedMap) -> SecretsChange {
    match (&update.secrets, omitted) {
        (Some(secrets), _) if secrets.is_empty() => SecretsChange::Clear,
        (Some(_), _) => SecretsChange::Replace,
        (None, OmittedMap::Keep) => SecretsChange::Keep,
        (None, OmittedMap::Wipe) => SecretsChange::Clear,
    }
}

/// The map, unless it is absent or empty: servers do not tell these two apart.
fn given(map: Option<&BTreeMap<String, String>>) -> Option<&BTreeMap<String, String>> {
    map.filter(|map| !map.is_empty())
}

fn expansion(
    existing: &Volume,
    wanted: CapacityRange,
    unknown: UnknownCapacityRule,
) -> Result<Expansion, Refusal> {
    if wanted.is_unset() || wanted == existing.requested_capacity {
        return Ok(Expansion::None);
    }
    if !wanted.max.is_zero() {
        if wanted.max < wanted.min {
            return Err(too_small_maximum(wanted.max, "min", wanted.min));
        }
        if wanted.max < existing.capacity {
            return Err(too_small_maximum(wanted.max, "current", existing.capacity));
        }
    }
    Ok(if wanted.min <= least_capacity(existing, unknown) {
        Expansion::Record
    } else {
        Expansion::Needed { to: wanted }
    })
}

/// The size that a volume has for certain.
fn least_capacity(existing: &Volume, unknown: UnknownCapacityRule) -> Bytes {
    match unknown {
        UnknownCapacityRule::HoldsRecordedMinimum if existing.capacity.is_zero() => {
            existing.requested_capacity.min
        }
        UnknownCapacityRule::HoldsRecordedMinimum | UnknownCapacityRule::IsZero => {
            existing.capacity
        }
    }
}

fn too_small_maximum(max: Bytes, than: &str, other: Bytes) -> Refusal {
    let (max, other) = (max.decimal(), other.decimal());
    let reason = if than == "min" {
        format!("the largest capacity ({max}) is less than the least that is asked for ({other})")
    } else {
        format!(
            "the largest capacity ({max}) is less than the {other} it has, and a volume never shrinks"
        )
    };
    Refusal {
        field: "capacity_max",
        text: format!("max requested capacity ({max}) less than or equal to {than} ({other})"),
        reason,
    }
}

#[cfg(test)]
mod tests;
