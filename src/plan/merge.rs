//! Existing volume and update: the new volume, or every reason why not.
//!
//! A server that already has a volume of that name does not replace it; it merges
//! (`csi-orchestration` 2.4, 2.5, 2.7; `nomad-http-api` 3.5; B01 to B09). Which fields may change is
//! the same everywhere; how absent and equal are understood is not, and is a value:
//! [`MergeRules::NOMAD`] says what a Nomad 2.x cluster does, so that a plan can predict it,
//! [`MergeRules::AGENT`] what our agent does (W19, W20, W21).
//!
//! Nothing is called here. Whether an expansion can be carried out is the caller's to find out:
//! [`Expansion::Needed`] says that it has to be. All refusals are found at once and stand in Nomad's
//! order; those of the capacity only if there are no others, as on Nomad. On a refusal nothing of
//! the update holds, so that merging again after a crash or a conflict starts from the same volume.

use std::collections::BTreeMap;

use crate::model::{
    Bytes, Capability, CapacityRange, ExternalId, MountOptions, TopologyRequest, Volume,
    WantedRequest,
};

/// How a server understands what is absent or reordered. A value per server and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergeRules {
    /// When two topology requests are the same, and what happens while none is in force (W21).
    pub topologies: TopologyRule,
    /// When two mount options are the same (W19).
    pub mount_options: MountOptionsRule,
    /// What happens to stored secrets if the update says nothing of them (W20). An empty map clears
    /// them on every server.
    pub omitted_secrets: OmittedMap,
    /// What happens to the stored context if the update has none or an empty one (GH-24922).
    pub omitted_context: OmittedMap,
    /// Whether a volume whose size nobody knows is large enough for the least that is asked for.
    pub unknown_capacity: UnknownCapacityRule,
}

/// What a map that is not in the update means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OmittedMap {
    /// What is stored stays.
    Keep,
    /// What is stored is lost.
    Wipe,
}

/// How topology requests are merged. While the volume has topologies, a different request is
/// refused under either rule (B03).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyRule {
    /// Compared in order, absent differs from empty; ignored while the volume has no topologies.
    ByPosition,
    /// Compared as sets, absent is empty; stored while the volume has no topologies.
    AsSets,
}

/// How mount options are merged. They are replaced by the update's, and an update that says nothing
/// of them says that there are none: clients send an empty object for that. While the volume is
/// claimed, different ones are refused under either rule: what is mounted keeps the old ones, and
/// one volume would be mounted in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountOptionsRule {
    /// Stored as absent differs from empty (`null` from `{}`).
    AbsentDiffers,
    /// Stored as absent is empty.
    AbsentIsEmpty,
}

/// How large a volume is whose provider reported no size (zero on the wire: a directory, or a volume
/// that was only registered; `csi-orchestration` 2.7). A raised minimum asks for an expansion under
/// either rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownCapacityRule {
    /// It has no bytes: any minimum asks for an expansion, also the one it was made with.
    IsZero,
    /// It has the least that was asked for before.
    HoldsRecordedMinimum,
}

impl MergeRules {
    /// A Nomad server from 2.0 on.
    pub const NOMAD: Self = Self {
        topologies: TopologyRule::ByPosition,
        mount_options: MountOptionsRule::AbsentDiffers,
        omitted_secrets: OmittedMap::Wipe,
        omitted_context: OmittedMap::Keep,
        unknown_capacity: UnknownCapacityRule::IsZero,
    };

    /// Our agent: secrets are not lost by leaving them out, absent is empty, order does not matter where
    /// it has no meaning, and a volume of unknown size holds what it was made for.
    pub const AGENT: Self = Self {
        topologies: TopologyRule::AsSets,
        mount_options: MountOptionsRule::AbsentIsEmpty,
        omitted_secrets: OmittedMap::Keep,
        omitted_context: OmittedMap::Keep,
        unknown_capacity: UnknownCapacityRule::HoldsRecordedMinimum,
    };
}

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
    let refusals = refusals(existing, update, rules);
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let expansion = expansion(existing, update.capacity, rules.unknown_capacity)
        .map_err(|refusal| vec![refusal])?;
    let requested_capacity = match expansion {
        Expansion::None => existing.requested_capacity,
        Expansion::Record | Expansion::Needed { .. } => update.capacity,
    };
    let volume = Volume {
        capabilities: update.capabilities.clone(),
        topology_request: merged_topology_request(existing, update, rules.topologies),
        mount_options: merged_mount_options(existing, update, rules.mount_options),
        context: merged_context(existing, update, rules.omitted_context),
        requested_capacity,
        ..existing.clone()
    };
    Ok(Merged {
        volume,
        secrets: secrets_change(update, rules.omitted_secrets),
        expansion,
    })
}

fn refusals(existing: &Volume, update: &WantedRequest, rules: MergeRules) -> Vec<Refusal> {
    let mut refusals = changed_identity(existing, update);
    if !holds_capability_in_force(existing, &update.capabilities) {
        refusals.push(Refusal {
            field: "capability",
            text: "volume requested capabilities update was not compatible with existing capability in use".into(),
            reason: "it is in use with a capability that the update leaves out".into(),
        });
    }
    if !existing.topologies.is_empty() && !same_topology_request(existing, update, rules.topologies)
    {
        refusals.push(Refusal {
            field: "topology_request",
            text: "volume topology request update was not compatible with existing topology".into(),
            reason: "the topology request of a volume that has its place cannot change".into(),
        });
    }
    if existing.is_claimed() && !same_mount_options(existing, update, rules.mount_options) {
        refusals.push(Refusal {
            field: "mount_options",
            text: "can not update mount options while volume is in use".into(),
            reason: "its mount options cannot change while it is in use".into(),
        });
    }
    if given(update.parameters.as_ref()).is_some_and(|wanted| *wanted != existing.parameters) {
        refusals.push(cannot_change("parameters", "parameters"));
    }
    refusals
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
