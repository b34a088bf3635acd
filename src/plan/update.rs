//! A volume that exists and is wanted otherwise: what an update would do, or why not.
//!
//! What a server would refuse is found here, before anything is sent: its rules are run by
//! [`super::merge::merge`], the same code that our agent runs. A refusal that ends with the volume's
//! use is no refusal but a wait, if nothing else stands against the update.

use super::action::{Action, Update, Wait};
use super::diff::diff;
use super::holder::Holder;
use super::inputs::Inputs;
use super::merge::{Expansion, MergeRules, Merged, Refusal, SecretsChange, TopologyRule, merge};
use super::precondition::{Needs, plugin_problem};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{TopologyRequest, Volume, WantedRequest};
use crate::spec::{Purpose, VolumeSpec};

/// What is to be done with a volume that exists, and what will surprise.
pub(super) fn update(
    spec: &VolumeSpec,
    existing: &Volume,
    inputs: &Inputs<'_>,
) -> (Action, Vec<Diagnostic>) {
    let request = comparable(&spec.request, existing, inputs.rules);
    let merged = match merge(existing, &request, inputs.rules) {
        Ok(merged) => merged,
        Err(refusals) => {
            let action = refused_or_waits(spec, existing, &request, refusals, inputs.rules);
            return (action, vec![]);
        }
    };
    let changes = diff(existing, &merged.volume);
    let needed = is_needed(merged.expansion);
    let ignored = ignored_topology_request(spec, existing, inputs.rules);
    if changes.is_empty() && !needed && inputs.purpose == Purpose::ByExternalId {
        return (Action::Unchanged, ignored.into_iter().collect());
    }
    let needs = if needed {
        Needs::Expansion
    } else {
        Needs::Registration
    };
    if let Some(problem) = plugin_problem(spec, inputs.observed, needs) {
        return (Action::Blocked(vec![problem]), vec![]);
    }
    let erased = erased_secrets(spec, merged.secrets);
    let Merged {
        secrets, expansion, ..
    } = merged;
    let update = Box::new(Update {
        request,
        changes,
        secrets,
        expansion,
        losses: vec![],
    });
    let action = if needed {
        Action::Expand(update)
    } else {
        Action::Update(update)
    };
    (action, ignored.into_iter().chain(erased).collect())
}

fn is_needed(expansion: Expansion) -> bool {
    match expansion {
        Expansion::Needed { .. } => true,
        Expansion::None | Expansion::Record => false,
    }
}

/// Waits if nothing would stand against the update once nobody uses the volume any more.
fn refused_or_waits(
    spec: &VolumeSpec,
    existing: &Volume,
    request: &WantedRequest,
    refusals: Vec<Refusal>,
    rules: MergeRules,
) -> Action {
    let mut all = refusals;
    let mut waits = existing.is_claimed();
    if waits && let Err(others) = merge(&unused(existing), request, rules) {
        waits = false;
        all.extend(
            others
                .into_iter()
                .filter(|other| !all.contains(other))
                .collect::<Vec<_>>(),
        );
    }
    let reasons = all.iter().map(|refusal| refused(spec, refusal)).collect();
    if waits {
        let holders = Holder::of(existing);
        return Action::Waits(Wait { reasons, holders });
    }
    Action::Blocked(reasons)
}

/// The volume as it is when the last claim is gone: a server then clears the modes in force
/// (`csi-orchestration` 3.2).
fn unused(volume: &Volume) -> Volume {
    Volume {
        access_mode: None,
        attachment_mode: None,
        read_allocs: [].into(),
        write_allocs: [].into(),
        allocs: vec![],
        ..volume.clone()
    }
}

/// The request in the shape that a server compares without surprise: where one takes absent and
/// empty, or another order, for a difference, what it has stored is sent back to it
/// (`nomad-http-api` 10.1, item 7; W21).
fn comparable(request: &WantedRequest, existing: &Volume, rules: MergeRules) -> WantedRequest {
    let mut request = request.clone();
    if rules.topologies == TopologyRule::ByPosition {
        let nothing = TopologyRequest::default();
        let stored = existing.topology_request.as_ref().unwrap_or(&nothing);
        if request
            .topology_request
            .as_ref()
            .unwrap_or(&nothing)
            .same_as(stored)
        {
            request
                .topology_request
                .clone_from(&existing.topology_request);
        }
    }
    request
}

/// Fields in which a volume still differs from what was asked for; empty if it is as wanted.
pub fn remaining(
    request: &WantedRequest,
    existing: &Volume,
    rules: MergeRules,
) -> Vec<&'static str> {
    match merge(existing, &comparable(request, existing, rules), rules) {
        Ok(merged) => {
            let mut fields: Vec<_> = diff(existing, &merged.volume)
                .into_iter()
                .map(|change| change.field)
                .collect();
            if matches!(merged.expansion, Expansion::Needed { .. }) {
                fields.push("capacity");
            }
            fields
        }
        Err(refusals) => refusals.into_iter().map(|refusal| refusal.field).collect(),
    }
}

fn refused(spec: &VolumeSpec, refusal: &Refusal) -> Diagnostic {
    let (code, help) = match refusal.field {
        "capability" => (
            Code::VolumeInUse,
            "keep the capability that is in use among the others, or stop the allocations that use the volume",
        ),
        "mount_options" => (
            Code::VolumeInUse,
            "stop the allocations that use the volume, or leave its mount options as they are",
        ),
        "topology_request" => (
            Code::VolumeImmutableField,
            "write the topology request that the volume was created with; to move it, create another volume and copy the data",
        ),
        "capacity_min" | "capacity_max" => (
            Code::VolumeCapacity,
            "raise `capacity_max`, or remove it: then only `capacity_min` counts",
        ),
        _ => (
            Code::VolumeImmutableField,
            "write what the volume has, or create another volume with another ID",
        ),
    };
    Diagnostic::error(
        code,
        format!(
            "volume {} cannot be updated: {}",
            spec.key(),
            refusal.reason
        ),
    )
    .label(spec.field_span(refusal.field), "")
    .note(format!("the server would say: {}", refusal.text))
    .help(help)
}

/// Nomad keeps no topology request for a volume that has no topologies yet, and says nothing (W21).
fn ignored_topology_request(
    spec: &VolumeSpec,
    existing: &Volume,
    rules: MergeRules,
) -> Option<Diagnostic> {
    let nothing = TopologyRequest::default();
    let wanted = spec.request.topology_request.as_ref().unwrap_or(&nothing);
    let stored = existing.topology_request.as_ref().unwrap_or(&nothing);
    let ignored = rules.topologies == TopologyRule::ByPosition
        && existing.topologies.is_empty()
        && !wanted.same_as(stored);
    ignored.then(|| {
        Diagnostic::warning(
            Code::PlanIgnoredField,
            format!(
                "the server will ignore the new topology request of volume {}",
                spec.key()
            ),
        )
        .label(spec.field_span("topology_request"), "")
        .note("Nomad stores a topology request when it creates a volume, and later never")
    })
}

/// Nomad forgets the stored secrets of a volume whose update has none (W20).
fn erased_secrets(spec: &VolumeSpec, secrets: SecretsChange) -> Option<Diagnostic> {
    let unasked = secrets == SecretsChange::Clear && spec.request.secrets.is_none();
    unasked.then(|| {
        Diagnostic::warning(
            Code::PlanErasesSecrets,
            format!("the update of volume {} erases its secrets, if it has any", spec.key()),
        )
        .label(spec.span, "there is no `secrets` block here")
        .note("Nomad replaces the stored secrets by those of the update, also by none")
        .help("if the volume has secrets, add them to the specification; if it has none, `secrets {}` says so")
    })
}
