//! A volume that exists and is wanted otherwise: what an update would do, or why not.
//!
//! What a server would refuse is found here, before anything is sent: its rules are run by
//! [`super::merge::merge`], the same code that our agent runs. A refusal that ends with the volume's
//! use is no refusal but a wait, if nothing else stands against the update.
//!
//! First it is asked whether anything differs at all, then whether the server would take the update:
//! servers before 1.6.3 refuse a volume in use also what it has already.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::action::{Action, Update, Wait};
use super::diff::{Change, diff};
use super::hidden::HiddenValues;
use super::holder::Holder;
use super::inputs::Inputs;
use super::merge::{Expansion, Merged, Refusal, merge};
use super::precondition::{Needs, plugin_problem};
use super::rules::{MergeRules, MountOptionsRule, OmittedMap, TopologyRule, UpdateRule};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{HiddenField, NamespacedId, TopologyRequest, Volume, WantedRequest};
use crate::spec::{Purpose, VolumeSpec};

/// What is to be done with a volume that exists, and what will surprise.
pub(super) fn update(
    spec: &VolumeSpec,
    existing: &Volume,
    inputs: &Inputs<'_>,
) -> (Action, Vec<Diagnostic>) {
    let rules = inputs.rules;
    let hidden = HiddenValues::of(spec, existing, inputs.owned);
    let existing = &hidden.marked(rules.unseen.filled_in(existing, &spec.request));
    let request = comparable(&spec.request, existing, rules);
    let ignored: Vec<_> = ignored_topology_request(spec, existing, rules)
        .into_iter()
        .chain(ignored_capacity(spec, existing, rules))
        .chain(only_recorded(spec, existing, rules))
        .collect();
    let compared = hidden.with_unsaid(&request);
    let is_wanted = inputs.purpose == Purpose::ByExternalId
        && differences(existing, &compared, rules).is_ok_and(|fields| fields.is_empty())
        && hidden.changed_secrets().is_none();
    if is_wanted {
        return (Action::Unchanged, ignored);
    }
    let losses = hidden.losses(rules.omitted_secrets);
    let refused = unaccepted(spec, &losses, inputs);
    if !refused.is_empty() {
        let refusals = merge(existing, &compared, rules).err().unwrap_or_default();
        let reasons = refusals
            .iter()
            .map(|refusal| refusal_words(spec, refusal, rules));
        return (Action::Blocked(reasons.chain(refused).collect()), vec![]);
    }
    let merged = match merge(existing, &request, rules) {
        Ok(merged) => merged,
        Err(refusals) => {
            let action = refused_or_waits(spec, existing, &request, refusals, rules);
            return (action, vec![]);
        }
    };
    let needs = if is_needed(merged.expansion) {
        Needs::Expansion
    } else {
        Needs::Registration
    };
    if let Some(problem) = plugin_problem(spec, inputs.observed, needs) {
        return (Action::Blocked(vec![problem]), vec![]);
    }
    let changes = diff(existing, &merged.volume).into_iter();
    let changes = changes.chain(hidden.changed_secrets()).collect();
    let warned = hidden.may_lose_secrets(rules.omitted_secrets);
    let warned = warned.then(|| erased_secrets(spec));
    let request = request.into_owned();
    let action = planned_update(spec, existing, request, &merged, changes, losses);
    (action, ignored.into_iter().chain(warned).collect())
}

fn planned_update(
    spec: &VolumeSpec,
    existing: &Volume,
    request: WantedRequest,
    merged: &Merged,
    changes: Vec<Change>,
    losses: Vec<HiddenField>,
) -> Action {
    let update = Box::new(Update {
        sent_again: sent_again(&spec.request, &request, existing),
        request,
        changes,
        secrets: merged.secrets,
        expansion: merged.expansion,
        losses,
    });
    if is_needed(merged.expansion) {
        Action::Expand(update)
    } else {
        Action::Update(update)
    }
}

/// Fields in which a volume differs from what is wanted, whether or not the server would take that.
fn differences(
    existing: &Volume,
    request: &WantedRequest,
    rules: MergeRules,
) -> Result<Vec<&'static str>, Vec<Refusal>> {
    let mut request = Cow::Borrowed(request);
    if ignores_capacity(existing, rules) {
        request.to_mut().capacity = existing.requested_capacity;
    }
    let lenient = MergeRules {
        update: UpdateRule::FieldByField,
        mount_options: MountOptionsRule::AbsentIsEmpty,
        ..rules
    };
    let merged = merge(existing, &request, lenient)?;
    let changes = diff(existing, &merged.volume);
    let mut fields: Vec<_> = changes.iter().map(|change| change.field).collect();
    if is_needed(merged.expansion) {
        fields.push("capacity");
    }
    Ok(fields)
}

/// Before 1.6.3 a server records the size of a volume only if it knows one, and says nothing.
fn ignores_capacity(existing: &Volume, rules: MergeRules) -> bool {
    rules.update == UpdateRule::WhileUnused && existing.capacity.is_zero()
}

/// Fields in which a volume still differs from what was asked for; empty if it is as wanted.
pub fn remaining(
    request: &WantedRequest,
    existing: &Volume,
    rules: MergeRules,
) -> Vec<&'static str> {
    let existing = &rules.unseen.filled_in(existing, request);
    match differences(existing, &comparable(request, existing, rules), rules) {
        Ok(fields) => fields,
        Err(refusals) => refusals.into_iter().map(|refusal| refusal.field).collect(),
    }
}

/// Why a write is not even tried: hidden values would be lost, and nobody said that they may.
fn unaccepted(spec: &VolumeSpec, losses: &[HiddenField], inputs: &Inputs<'_>) -> Vec<Diagnostic> {
    let accepted = |field: HiddenField| {
        let accepted = &inputs.requests.accept_loss;
        accepted.contains(&(field, spec.key()))
    };
    let losses = losses.iter().filter(|field| !accepted(**field));
    losses.map(|field| hidden_loss(spec, *field)).collect()
}

fn hidden_loss(spec: &VolumeSpec, field: HiddenField) -> Diagnostic {
    let key = spec.key();
    let (what, nothing, at) = match field {
        HiddenField::Secrets => ("secrets", "secrets {}", "secrets"),
        HiddenField::MountFlags => ("mount flags", "mount_options {}", "mount_options"),
    };
    let message = format!(
        "volume {key} cannot be updated: its {what} would be lost, which the server hides and the file does not give"
    );
    Diagnostic::error(Code::PlanHiddenValue, message)
        .label(spec.field_span(at), "")
        .note(format!("an update replaces the stored {what} by its own, also by none"))
        .help(format!(
            "give the {what} in the file; if there shall be none, write `{nothing}`, or say `--accept-loss {field}:{}`",
            selector(&key)
        ))
}

/// As a volume is named on the command line: `db`, or `prod/db` outside of the default namespace.
fn selector(key: &NamespacedId) -> String {
    if key.namespace == crate::model::Namespace::default() {
        return key.id.to_string();
    }
    format!("{}/{}", key.namespace, key.id)
}

/// Fields that are sent although the file does not give them, because this server would lose them.
fn sent_again(
    wanted: &WantedRequest,
    request: &WantedRequest,
    existing: &Volume,
) -> Vec<&'static str> {
    let mut fields = vec![];
    if request.context != wanted.context && !existing.context.is_empty() {
        fields.push("context");
    }
    if request.parameters != wanted.parameters && !existing.parameters.is_empty() {
        fields.push("parameters");
    }
    fields
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
    let reasons = all
        .iter()
        .map(|refusal| refusal_words(spec, refusal, rules))
        .collect();
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
/// (`nomad-http-api` 10.1, item 7; W21); and what it would forget if it were not said, too (`users`
/// 10).
fn comparable<'a>(
    request: &'a WantedRequest,
    existing: &Volume,
    rules: MergeRules,
) -> Cow<'a, WantedRequest> {
    let mut request = Cow::Borrowed(request);
    if rules.topologies == TopologyRule::ByPosition {
        let nothing = TopologyRequest::default();
        let (wanted, stored) = (&request.topology_request, &existing.topology_request);
        let same = wanted
            .as_ref()
            .unwrap_or(&nothing)
            .same_as(stored.as_ref().unwrap_or(&nothing));
        if same && wanted != stored {
            request.to_mut().topology_request.clone_from(stored);
        }
    }
    if rules.omitted_context == OmittedMap::Wipe && forgets(&request.context, &existing.context) {
        request.to_mut().context = Some(existing.context.clone());
    }
    if rules.update == UpdateRule::Overwrite {
        fill_in_identity(request.to_mut(), existing);
    }
    request
}

/// Whether something is stored and nothing is said.
fn forgets(wanted: &Option<BTreeMap<String, String>>, stored: &BTreeMap<String, String>) -> bool {
    wanted.as_ref().is_none_or(BTreeMap::is_empty) && !stored.is_empty()
}

/// Where an update takes the volume's place, what it does not say is what is stored.
fn fill_in_identity(request: &mut WantedRequest, existing: &Volume) {
    if forgets(&request.parameters, &existing.parameters) {
        request.parameters = Some(existing.parameters.clone());
    }
    let stored = &existing.external_id;
    request.external_id = request.external_id.take().or_else(|| stored.clone());
    let name = (!existing.name.is_empty()).then(|| existing.name.clone());
    request.name = request.name.take().or(name);
    let (clone, snapshot) = (&existing.clone_id, &existing.snapshot_id);
    request.clone_id = request.clone_id.take().or_else(|| clone.clone());
    request.snapshot_id = request.snapshot_id.take().or_else(|| snapshot.clone());
    if request.capacity.is_unset() {
        request.capacity = existing.requested_capacity;
    }
}

fn refusal_words(spec: &VolumeSpec, refusal: &Refusal, rules: MergeRules) -> Diagnostic {
    let (code, help) = match refusal.field {
        "id" => (
            Code::VolumeInUse,
            "stop the allocations that use the volume",
        ),
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
        "capacity_min" | "capacity_max" if rules.update == UpdateRule::WhileUnused => (
            Code::VolumeCapacity,
            "give both, so that they enclose the size it has: this server makes no volume larger",
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

fn ignored_capacity(spec: &VolumeSpec, existing: &Volume, rules: MergeRules) -> Option<Diagnostic> {
    let wanted = spec.request.capacity;
    let ignored = ignores_capacity(existing, rules)
        && !wanted.is_unset()
        && wanted != existing.requested_capacity;
    ignored.then(|| {
        let message = format!(
            "the server will ignore the other size of volume {}",
            spec.key()
        );
        Diagnostic::warning(Code::PlanIgnoredField, message)
            .label(spec.field_span("capacity_min"), "")
            .note("before Nomad 1.6.3 a size is recorded only where the provider reported one")
    })
}

/// Nomad 1.1 and 1.2 write down whatever an update says, and ask no provider for it.
fn only_recorded(spec: &VolumeSpec, existing: &Volume, rules: MergeRules) -> Option<Diagnostic> {
    let wanted = &spec.request;
    let other = |wanted: Option<&str>, stored: Option<&str>| wanted.is_some() && wanted != stored;
    let parameters = wanted.parameters.as_ref();
    let fields = [
        ("name", other(wanted.name.as_deref(), Some(&existing.name))),
        (
            "clone_id",
            other(wanted.clone_id.as_deref(), existing.clone_id.as_deref()),
        ),
        (
            "snapshot_id",
            other(
                wanted.snapshot_id.as_deref(),
                existing.snapshot_id.as_deref(),
            ),
        ),
        (
            "capacity_min",
            wanted.capacity.min > existing.requested_capacity.min,
        ),
        (
            "parameters",
            parameters.is_some_and(|wanted| !wanted.is_empty() && *wanted != existing.parameters),
        ),
    ];
    let changed = fields.into_iter().filter(|(_, changed)| *changed);
    let fields: Vec<_> = changed.map(|(field, _)| field).collect();
    let first = fields.first().copied()?;
    (rules.update == UpdateRule::Overwrite).then(|| {
        let message = format!(
            "the server will only write down the new {} of volume {}: the volume itself stays as it is",
            fields.join(", "),
            spec.key()
        );
        Diagnostic::warning(Code::PlanIgnoredField, message)
            .label(spec.field_span(first), "")
            .note("before Nomad 1.3 an update replaces the server's record, and the storage provider hears nothing of it")
    })
}

/// Nomad forgets the stored secrets of a volume whose update has none (W20).
fn erased_secrets(spec: &VolumeSpec) -> Diagnostic {
    let message = format!(
        "the update of volume {} erases its secrets, if it has any",
        spec.key()
    );
    Diagnostic::warning(Code::PlanErasesSecrets, message)
        .label(spec.span, "there is no `secrets` block here")
        .note("Nomad replaces the stored secrets by those of the update, also by none")
        .help("if the volume has secrets, add them to the specification; if it has none, `secrets {}` says so")
}
