//! Merges an update into an existing volume, or returns every reason why the server refuses it.
//!
//! Nomad's Register Volume API merges into an existing volume instead of replacing it. Since 1.6.3
//! all versions allow the same fields to change. They differ in how they compare absent, empty and
//! reordered values, which [`MergeRules`] describes. Earlier versions refuse or overwrite more.
//!
//! The merge calls no plugin: [`Expansion::Needed`] tells the caller to expand the volume. Refusals
//! are complete and in Nomad's order; capacity refusals appear only if there are no others. A refused
//! update changes nothing.

use std::collections::BTreeMap;

use super::rules::{
    MergeRules, MountOptionsRule, OmittedMap, TopologyRule, UnknownCapacityRule, UpdateRule,
};
use nomad_csi_model::{
    Bytes, Capability, CapacityRange, ExternalId, MountOptions, TopologyRequest, UnresolvedRequest,
    Volume,
};

/// One reason why an update is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The field's key in a specification: `external_id`, `capacity_max`.
    pub field: &'static str,
    /// Nomad's exact message.
    pub text: String,
    /// A clause without a full stop that follows "cannot update volume `db`:".
    pub reason: String,
}

/// The result of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The volume to store.
    pub volume: Volume,
    /// The effect on the stored secrets.
    pub secrets: SecretsChange,
    /// The effect on the size.
    pub expansion: Expansion,
}

/// The effect of an update on the stored secrets. A [`Volume`] does not contain their values; the
/// update does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretsChange {
    /// The stored secrets stay.
    Keep,
    /// The update's secrets replace the stored ones.
    Replace,
    /// The stored secrets are cleared.
    Clear,
}

/// The effect of an update on the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expansion {
    /// No effect.
    None,
    /// The requested range is stored; the volume is already large enough.
    Record,
    /// The volume is too small and must be expanded before the update is stored.
    Needed {
        /// The requested range.
        to: CapacityRange,
    },
}

/// Merges `update` into `existing` by `rules`.
///
/// Fields that only the server sets come from `existing`, whatever the update contains (B07).
///
/// # Errors
/// Every refusal, in Nomad's order; never an empty list.
pub fn merge(
    existing: &Volume,
    update: &UnresolvedRequest,
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
        volume: Volume { requested_capacity, ..merged_fields(existing, update, rules) },
        secrets: secrets_change(update, rules.omitted_secrets),
        expansion,
    })
}

/// Merges every field except the capacity.
fn merged_fields(existing: &Volume, update: &UnresolvedRequest, rules: MergeRules) -> Volume {
    Volume {
        capabilities: update.capabilities.clone(),
        topology_request: merged_topology_request(existing, update, rules.topologies),
        mount_options: merged_mount_options(existing, update, rules.mount_options),
        context: merged_context(existing, update, rules.omitted_context),
        ..existing.clone()
    }
}

/// The refusals of Nomad 1.3 to 1.6.2, which never expands and never updates a volume in use. The
/// refusal for use appears only if there are no others.
fn refusals_while_unused(
    existing: &Volume,
    update: &UnresolvedRequest,
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
            reason: "before Nomad 1.6.3 a volume in use cannot change".into(),
        });
    }
    refusals
}

fn unenclosed_capacity(size: Bytes, desired: CapacityRange) -> Option<Refusal> {
    let is_enclosed = desired.min <= size && size <= desired.max;
    (!size.is_zero() && !is_enclosed).then(|| Refusal {
        field: if desired.min > size {
            "capacity_min"
        } else {
            "capacity_max"
        },
        text: "volume requested capacity update was not compatible with existing capacity".into(),
        reason: format!(
            "before Nomad 1.6.3 `capacity_min` and `capacity_max` must enclose its current size of {size}"
        ),
    })
}

/// Records the requested size if the volume has a known size. The size itself never changes.
fn merged_before_expansion(
    existing: &Volume,
    update: &UnresolvedRequest,
    rules: MergeRules,
) -> Merged {
    let recorded = !existing.capacity.is_zero() && update.capacity != existing.requested_capacity;
    let requested_capacity = if recorded { update.capacity } else { existing.requested_capacity };
    Merged {
        volume: Volume { requested_capacity, ..merged_fields(existing, update, rules) },
        secrets: secrets_change(update, rules.omitted_secrets),
        expansion: if recorded { Expansion::Record } else { Expansion::None },
    }
}

/// The update of Nomad 1.1 and 1.2, which overwrites the volume unless it is in use or has another
/// identity. Omitted fields are lost, and so is the size that the provider reported. The provider is
/// not called.
fn overwritten(
    existing: &Volume,
    update: &UnresolvedRequest,
    rules: MergeRules,
) -> Result<Merged, Vec<Refusal>> {
    let another = if update.plugin_id != existing.plugin_id {
        Some(("plugin_id", "the plugin ID of an existing volume cannot change"))
    } else if update.external_id != existing.external_id {
        Some(("external_id", "the external ID of an existing volume cannot change"))
    } else if existing.is_claimed() {
        Some(("id", "before Nomad 1.3 a volume in use cannot change"))
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
    Ok(Merged { volume, secrets: secrets_change(update, rules.omitted_secrets), expansion })
}

fn refusals(existing: &Volume, update: &UnresolvedRequest, rules: MergeRules) -> Vec<Refusal> {
    let refusals = changed_identity(existing, update).into_iter();
    refusals
        .chain(dropped_capability(existing, update))
        .chain(changed_topology_request(existing, update, rules.topologies))
        .chain(changed_mount_options(existing, update, rules.mount_options))
        .chain(changed_parameters(existing, update))
        .collect()
}

fn dropped_capability(existing: &Volume, update: &UnresolvedRequest) -> Option<Refusal> {
    let holds = holds_capability_in_force(existing, &update.capabilities);
    (!holds).then(|| Refusal {
        field: "capability",
        text: "volume requested capabilities update was not compatible with existing capability in use".into(),
        reason: "the update removes the capability that is in use".into(),
    })
}

fn changed_topology_request(
    existing: &Volume,
    update: &UnresolvedRequest,
    rule: TopologyRule,
) -> Option<Refusal> {
    let has_topology = !existing.topologies.is_empty();
    (has_topology && !same_topology_request(existing, update, rule)).then(|| Refusal {
        field: "topology_request",
        text: "volume topology request update was not compatible with existing topology".into(),
        reason: "the topology request of a volume that has a topology cannot change".into(),
    })
}

fn changed_mount_options(
    existing: &Volume,
    update: &UnresolvedRequest,
    rule: MountOptionsRule,
) -> Option<Refusal> {
    (existing.is_claimed() && !same_mount_options(existing, update, rule)).then(|| Refusal {
        field: "mount_options",
        text: "can not update mount options while volume is in use".into(),
        reason: "its mount options cannot change while it is in use".into(),
    })
}

fn changed_parameters(existing: &Volume, update: &UnresolvedRequest) -> Option<Refusal> {
    non_empty(update.parameters.as_ref())
        .is_some_and(|desired| *desired != existing.parameters)
        .then(|| cannot_change("parameters", "parameters"))
}

fn changed_identity(existing: &Volume, update: &UnresolvedRequest) -> Vec<Refusal> {
    let changed = |desired: Option<&str>, stored: &str| {
        desired.is_some_and(|desired| !desired.is_empty() && desired != stored)
    };
    let UnresolvedRequest {
        namespace: _,
        id: _,
        name,
        external_id,
        plugin_id,
        clone_id,
        snapshot_id,
        // These are merged, or compared each by its own rule.
        capabilities: _,
        capacity: _,
        topology_request: _,
        mount_options: _,
        secrets: _,
        parameters: _,
        context: _,
        share: _,
    } = update;
    let stored_external_id = existing.external_id.as_ref().map_or("", ExternalId::as_str);
    let external_id = external_id.as_ref().map(ExternalId::as_str);
    let stored = |text: &Option<String>| text.clone().unwrap_or_default();
    let fields = [
        (changed(name.as_deref(), &existing.name), "name", "name"),
        (changed(external_id, stored_external_id), "external_id", "external ID"),
        (*plugin_id != existing.plugin_id, "plugin_id", "plugin ID"),
        (changed(clone_id.as_deref(), &stored(&existing.clone_id)), "clone_id", "clone ID"),
        (
            changed(snapshot_id.as_deref(), &stored(&existing.snapshot_id)),
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

/// Returns whether the update keeps the access mode and attachment mode that are in force, as a pair (B04). A
/// record with only one of them, which only old records have, matches nothing.
fn holds_capability_in_force(existing: &Volume, desired: &[Capability]) -> bool {
    match (existing.access_mode, existing.attachment_mode) {
        (None, None) => true,
        (Some(access_mode), Some(attachment_mode)) => {
            desired.contains(&Capability { access_mode, attachment_mode })
        }
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn same_topology_request(
    existing: &Volume,
    update: &UnresolvedRequest,
    rule: TopologyRule,
) -> bool {
    let (stored, desired) = (&existing.topology_request, &update.topology_request);
    match rule {
        TopologyRule::ByPosition => stored == desired,
        TopologyRule::AsSets => {
            let nothing = TopologyRequest::default();
            let of = |request: &Option<TopologyRequest>| request.clone().unwrap_or(nothing.clone());
            of(stored).is_equivalent_to(&of(desired))
        }
    }
}

fn merged_topology_request(
    existing: &Volume,
    update: &UnresolvedRequest,
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

fn same_mount_options(
    existing: &Volume,
    update: &UnresolvedRequest,
    rule: MountOptionsRule,
) -> bool {
    let desired = update.mount_options.clone().unwrap_or_default();
    match (rule, &existing.mount_options) {
        (_, Some(stored)) => same_visible_options(stored, &desired),
        (MountOptionsRule::AbsentDiffers, None) => false,
        (MountOptionsRule::AbsentIsEmpty, None) => desired.is_empty(),
    }
}

/// Compares mount options. If the server redacts the flags, only their presence is compared.
fn same_visible_options(stored: &MountOptions, desired: &MountOptions) -> bool {
    if stored.are_redacted() {
        return stored.fs_type == desired.fs_type && !desired.mount_flags.is_empty();
    }
    stored.is_equivalent_to(desired)
}

/// Returns the stored options if the update's are equal, so that sending them again changes nothing.
fn merged_mount_options(
    existing: &Volume,
    update: &UnresolvedRequest,
    rule: MountOptionsRule,
) -> Option<MountOptions> {
    if same_mount_options(existing, update, rule) {
        return existing.mount_options.clone();
    }
    Some(update.mount_options.clone().unwrap_or_default())
}

fn merged_context(
    existing: &Volume,
    update: &UnresolvedRequest,
    omitted: OmittedMap,
) -> BTreeMap<String, String> {
    match (non_empty(update.context.as_ref()), omitted) {
        (Some(context), _) => context.clone(),
        (None, OmittedMap::Keep) => existing.context.clone(),
        (None, OmittedMap::Clear) => BTreeMap::new(),
    }
}

fn secrets_change(update: &UnresolvedRequest, omitted: OmittedMap) -> SecretsChange {
    match (&update.secrets, omitted) {
        (Some(secrets), _) if secrets.is_empty() => SecretsChange::Clear,
        (Some(_), _) => SecretsChange::Replace,
        (None, OmittedMap::Keep) => SecretsChange::Keep,
        (None, OmittedMap::Clear) => SecretsChange::Clear,
    }
}

/// Returns the map unless it is absent or empty, which servers treat alike.
fn non_empty(map: Option<&BTreeMap<String, String>>) -> Option<&BTreeMap<String, String>> {
    map.filter(|map| !map.is_empty())
}

fn expansion(
    existing: &Volume,
    desired: CapacityRange,
    unknown: UnknownCapacityRule,
) -> Result<Expansion, Refusal> {
    if desired.is_unset() || desired == existing.requested_capacity {
        return Ok(Expansion::None);
    }
    if !desired.max.is_zero() {
        if desired.max < desired.min {
            return Err(too_small_maximum(desired.max, "min", desired.min));
        }
        if desired.max < existing.capacity {
            return Err(too_small_maximum(desired.max, "current", existing.capacity));
        }
    }
    Ok(if desired.min <= known_capacity(existing, unknown) {
        Expansion::Record
    } else {
        Expansion::Needed { to: desired }
    })
}

/// Returns the size that the volume certainly has.
fn known_capacity(existing: &Volume, unknown: UnknownCapacityRule) -> Bytes {
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
        format!("the maximum capacity ({max}) is less than the minimum ({other})")
    } else {
        format!(
            "the maximum capacity ({max}) is less than its size ({other}), and volumes never shrink"
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
