//! Plans the update of an existing volume.
//!
//! [`super::merge::merge`], which the agent also runs, predicts what the server would refuse. If only
//! claims prevent the update, the plan waits for them. The comparison comes first: Nomad before 1.6.3
//! refuses every update of a volume in use, even one that changes nothing. A field that the file ignores
//! stays as the server has it, for a plan as for drift ([`with_ignored_as_stored`]).

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::action::{Action, ClaimWait, Update};
use super::claiming_alloc::ClaimingAlloc;
use super::diff::{Change, FieldValue, diff};
use super::hidden_values::HiddenValues;
use super::inputs::{OwnedSet, OwnedVolume, PlanInputs};
use super::merge::{Expansion, Merged, Refusal, merge};
use super::preconditions::{PluginOperation, plugin_problem};
use super::rules::{MergeRules, MountOptionsRule, OmittedMap, TopologyRule, UpdateRule};
use super::selector::selector;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{
    HiddenField, MountOptions, TopologyRequest, UnresolvedRequest, Volume, VolumeField,
    shell_quoted,
};
use nomad_csi_spec::{InstanceKey, Purpose, VolumeSpec};

/// Returns the action for an existing volume, with warnings.
pub(super) fn planned_update(
    spec: &VolumeSpec,
    existing: &Volume,
    inputs: &PlanInputs<'_>,
) -> (Action, Vec<Diagnostic>) {
    let rules = inputs.rules;
    let spec: &VolumeSpec = &with_ignored_as_stored(spec, existing);
    let FileComparison { hidden, existing, request, compared } =
        &FileComparison::of(spec, existing, owned_volume(spec, inputs.owned), rules);
    let existing: &Volume = existing;
    let ignored = ignored_fields(spec, existing, rules);
    let is_unchanged = inputs.purpose == Purpose::ByExternalId
        && is_as_compared(existing, compared, rules)
        && hidden.changed_secrets().is_none();
    if is_unchanged {
        return (Action::Unchanged, ignored);
    }
    let cleared_fields = hidden.cleared_fields(rules.omitted_secrets);
    let refused = unaccepted_losses(spec, &cleared_fields, inputs);
    if !refused.is_empty() {
        let refusals = merge(existing, compared, rules).err().unwrap_or_default();
        let reasons = refusals.iter().map(|refusal| refusal_error(spec, refusal, rules));
        return (Action::Blocked(reasons.chain(refused).collect()), vec![]);
    }
    let merged = match merge(existing, request, rules) {
        Ok(merged) => merged,
        Err(refusals) => {
            let action = refused_or_waiting(spec, existing, request, refusals, rules);
            return (action, vec![]);
        }
    };
    let needs = if requires_expansion(merged.expansion) {
        PluginOperation::Expand
    } else {
        PluginOperation::Register
    };
    if let Some(problem) = plugin_problem(spec, inputs.observed, needs) {
        return (Action::Blocked(vec![problem]), vec![]);
    }
    let changes = diff(existing, &merged.volume).into_iter();
    let changes = changes.chain(hidden.changed_secrets()).collect();
    let merged = Merged { secrets: hidden.effect_on_secrets(merged.secrets), ..merged };
    let may_clear = hidden.may_clear_secrets(rules.omitted_secrets);
    let warning = may_clear.then(|| cleared_secrets_warning(spec));
    let request = request.clone().into_owned();
    let action = update_action(spec, existing, request, &merged, changes, cleared_fields);
    (action, ignored.into_iter().chain(warning).collect())
}

/// Returns whether a plan leaves a volume unchanged without a warning, provided that its secrets are the same.
pub(super) fn is_unchanged_but_for_secrets(
    spec: &VolumeSpec,
    existing: &Volume,
    owned: &OwnedVolume,
    rules: MergeRules,
) -> bool {
    let spec: &VolumeSpec = &with_ignored_as_stored(spec, existing);
    let comparison = FileComparison::of(spec, existing, Some(owned), rules);
    is_as_compared(&comparison.existing, &comparison.compared, rules)
        && ignored_fields(spec, &comparison.existing, rules).is_empty()
}

fn is_as_compared(existing: &Volume, compared: &UnresolvedRequest, rules: MergeRules) -> bool {
    differences(existing, compared, rules).is_ok_and(|fields| fields.is_empty())
}

/// Warns about the changes of a file that the server would not make.
fn ignored_fields(spec: &VolumeSpec, existing: &Volume, rules: MergeRules) -> Vec<Diagnostic> {
    let topology = ignored_topology_request(spec, existing, rules).into_iter();
    let capacity = ignored_capacity(spec, existing, rules);
    let recorded = only_recorded(spec, existing, rules);
    topology.chain(capacity).chain(recorded).collect()
}

/// Returns the specification with the fields that it ignores as the server has them. Redacted mount flags cannot be
/// sent back, so those of the file remain, which are never a difference.
fn with_ignored_as_stored<'a>(spec: &'a VolumeSpec, existing: &Volume) -> Cow<'a, VolumeSpec> {
    let mut spec = Cow::Borrowed(spec);
    let options = existing.mount_options.as_ref();
    let are_redacted = options.is_some_and(MountOptions::are_redacted);
    for field in VolumeField::ALL {
        let is_hidden = field == VolumeField::MountFlags && are_redacted;
        if !spec.ignores(field.key()) || is_hidden {
            continue;
        }
        let (in_file, stored) = (spec.request.field(field), existing.field(field));
        let in_file = in_file.map_or(FieldValue::Absent, FieldValue::from);
        // Different flags are one hidden value.
        let is_stored = in_file == FieldValue::from(stored) && in_file != FieldValue::Hidden;
        if !is_stored {
            spec.to_mut().request.set_field(field, stored);
        }
    }
    // Where a server distinguishes absent from empty, a block without values is as the server has it.
    let is_empty = |options: &MountOptions| options.is_empty();
    if matches!(spec, Cow::Owned(_))
        && spec.request.mount_options.as_ref().is_some_and(is_empty)
        && existing.mount_options.as_ref().is_none_or(is_empty)
    {
        spec.to_mut().request.mount_options.clone_from(&existing.mount_options);
    }
    spec
}

/// A volume and its specification in the forms that compare correctly. Plans and drift both compare
/// these, so what one of them sees, the other sees too.
struct FileComparison<'a> {
    hidden: HiddenValues,
    /// The volume, with the fields that the server does not show as the file has them.
    existing: Cow<'a, Volume>,
    /// The request that an update sends.
    request: Cow<'a, UnresolvedRequest>,
    /// The request with the values that the server hides and the file omits. Never sent.
    compared: Cow<'a, UnresolvedRequest>,
}

impl<'a> FileComparison<'a> {
    fn of(
        spec: &'a VolumeSpec,
        existing: &'a Volume,
        owned: Option<&OwnedVolume>,
        rules: MergeRules,
    ) -> Self {
        let hidden = HiddenValues::of(spec, existing, owned);
        let shown = rules.unreported.filled_in(existing, &spec.request);
        let existing = hidden.with_distinct_flags(shown);
        let request = comparable(&spec.request, &existing, rules);
        let compared = hidden.with_stored_flags(request.clone(), &existing);
        Self { hidden, existing, request, compared }
    }
}

/// Returns the fields in which a volume differs from its file, as a plan of the file sees it. Values
/// that no server shows are not compared.
pub(super) fn fields_unlike_file(
    spec: &VolumeSpec,
    existing: &Volume,
    owned: Option<&OwnedSet>,
    rules: MergeRules,
) -> Vec<&'static str> {
    let comparison = FileComparison::of(spec, existing, owned_volume(spec, owned), rules);
    match differences(&comparison.existing, &comparison.compared, rules) {
        Ok(fields) => fields,
        Err(refusals) => refusals.into_iter().map(|refusal| refusal.field).collect(),
    }
}

fn owned_volume<'a>(spec: &VolumeSpec, owned: Option<&'a OwnedSet>) -> Option<&'a OwnedVolume> {
    owned?.recorded_values(&spec.key())
}

fn update_action(
    spec: &VolumeSpec,
    existing: &Volume,
    request: UnresolvedRequest,
    merged: &Merged,
    changes: Vec<Change>,
    cleared_fields: Vec<HiddenField>,
) -> Action {
    let update = Box::new(Update {
        resent_fields: resent_fields(&spec.request, &request, existing),
        request,
        changes,
        secrets: merged.secrets,
        expansion: merged.expansion,
        cleared_fields,
    });
    if requires_expansion(merged.expansion) {
        Action::Expand(update)
    } else {
        Action::Update(update)
    }
}

/// Returns the fields in which a volume differs from a request, even if the server would refuse it.
fn differences(
    existing: &Volume,
    request: &UnresolvedRequest,
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
    if requires_expansion(merged.expansion) {
        fields.push("capacity");
    }
    Ok(fields)
}

/// Returns whether the server silently ignores the size: before 1.6.3 it records one only if it knows one.
fn ignores_capacity(existing: &Volume, rules: MergeRules) -> bool {
    rules.update == UpdateRule::WhileUnused && existing.capacity.is_zero()
}

/// Returns the fields in which a volume differs from a request; empty if the request took effect.
pub fn remaining_differences(
    request: &UnresolvedRequest,
    existing: &Volume,
    rules: MergeRules,
) -> Vec<&'static str> {
    let existing = &rules.unreported.filled_in(existing, request);
    match differences(existing, &comparable(request, existing, rules), rules) {
        Ok(fields) => fields,
        Err(refusals) => refusals.into_iter().map(|refusal| refusal.field).collect(),
    }
}

/// Returns an error for each hidden value that the update would clear without approval.
fn unaccepted_losses(
    spec: &VolumeSpec,
    cleared_fields: &[HiddenField],
    inputs: &PlanInputs<'_>,
) -> Vec<Diagnostic> {
    let accepted = |field: HiddenField| {
        let accepted = &inputs.options.accept_loss;
        accepted.contains(&(field, spec.key()))
    };
    let cleared_fields = cleared_fields.iter().filter(|field| !accepted(**field));
    cleared_fields.map(|field| hidden_loss(spec, *field)).collect()
}

fn hidden_loss(spec: &VolumeSpec, field: HiddenField) -> Diagnostic {
    let key = spec.key();
    let (what, empty, at) = match field {
        HiddenField::Secrets => ("secrets", "secrets {}", "secrets"),
        HiddenField::MountFlags => ("mount flags", "mount_options {}", "mount_options"),
    };
    let message = format!(
        "cannot update volume {}: the update would clear its {what}, which the file does not set",
        key.quoted()
    );
    Diagnostic::error(Code::PlanHiddenValue, message)
        .label(spec.field_span(at), "")
        .note(format!("the server hides the stored {what}, and every update replaces them"))
        .help(format!(
            "set the {what} in the file; to clear them, write `{empty}` or use `--accept-loss {}`",
            shell_quoted(format_args!("{field}:{}", selector(&key)))
        ))
}

/// Returns the fields that are sent although the file omits them, because this server would clear
/// them.
fn resent_fields(
    desired: &UnresolvedRequest,
    request: &UnresolvedRequest,
    existing: &Volume,
) -> Vec<&'static str> {
    let mut fields = vec![];
    if request.context != desired.context && !existing.context.is_empty() {
        fields.push("context");
    }
    if request.parameters != desired.parameters && !existing.parameters.is_empty() {
        fields.push("parameters");
    }
    fields
}

fn requires_expansion(expansion: Expansion) -> bool {
    match expansion {
        Expansion::Needed { .. } => true,
        Expansion::None | Expansion::Record => false,
    }
}

/// Waits if only the claims of the volume prevent the update; otherwise blocks it.
fn refused_or_waiting(
    spec: &VolumeSpec,
    existing: &Volume,
    request: &UnresolvedRequest,
    refusals: Vec<Refusal>,
    rules: MergeRules,
) -> Action {
    let mut all = refusals;
    let mut is_waiting = existing.is_claimed();
    if is_waiting && let Err(others) = merge(&unused(existing), request, rules) {
        is_waiting = false;
        all.extend(others.into_iter().filter(|other| !all.contains(other)).collect::<Vec<_>>());
    }
    let reasons = all.iter().map(|refusal| refusal_error(spec, refusal, rules)).collect();
    if is_waiting {
        let claims = ClaimingAlloc::of(existing);
        return Action::WaitingForClaims(ClaimWait { reasons, claims });
    }
    Action::Blocked(reasons)
}

/// Returns the volume as it is after its last claim: the server then clears the modes in force.
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

/// Returns the request in the form that this server compares correctly. Where the server treats absent
/// and empty, or another order, as different (W21), the stored value is sent. A field that the server
/// would clear is also sent with its stored value.
fn comparable<'a>(
    request: &'a UnresolvedRequest,
    existing: &Volume,
    rules: MergeRules,
) -> Cow<'a, UnresolvedRequest> {
    let mut request = Cow::Borrowed(request);
    if rules.topologies == TopologyRule::ByPosition {
        let nothing = TopologyRequest::default();
        let (desired, stored) = (&request.topology_request, &existing.topology_request);
        let same = desired
            .as_ref()
            .unwrap_or(&nothing)
            .is_equivalent_to(stored.as_ref().unwrap_or(&nothing));
        if same && desired != stored {
            request.to_mut().topology_request.clone_from(stored);
        }
    }
    if rules.omitted_context == OmittedMap::Clear
        && would_clear(&request.context, &existing.context)
    {
        request.to_mut().context = Some(existing.context.clone());
    }
    if rules.update == UpdateRule::Overwrite {
        fill_omitted_fields(request.to_mut(), existing);
    }
    request
}

/// Returns whether a map is stored and the request omits it.
fn would_clear(
    desired: &Option<BTreeMap<String, String>>,
    stored: &BTreeMap<String, String>,
) -> bool {
    desired.as_ref().is_none_or(BTreeMap::is_empty) && !stored.is_empty()
}

/// Fills omitted fields from the volume, for a server that overwrites it with the update.
fn fill_omitted_fields(request: &mut UnresolvedRequest, existing: &Volume) {
    if would_clear(&request.parameters, &existing.parameters) {
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

fn refusal_error(spec: &VolumeSpec, refusal: &Refusal, rules: MergeRules) -> Diagnostic {
    let (code, help) = match refusal.field {
        "id" => (Code::VolumeInUse, "stop the allocations that use the volume"),
        "capability" => (
            Code::VolumeInUse,
            "keep the capability that is in use, or stop the allocations that use the volume",
        ),
        "mount_options" => (
            Code::VolumeInUse,
            "stop the allocations that use the volume, or keep its mount options",
        ),
        "topology_request" => (
            Code::VolumeImmutableField,
            "keep the topology request of the volume; to move the data, copy it to another volume",
        ),
        "capacity_min" | "capacity_max" if rules.update == UpdateRule::WhileUnused => (
            Code::VolumeCapacity,
            "set both so that they enclose the current size; this server does not expand volumes",
        ),
        "capacity_min" | "capacity_max" => {
            (Code::VolumeCapacity, "raise `capacity_max`, or remove it")
        }
        _ => (
            Code::VolumeImmutableField,
            "keep the current value, or create another volume with another ID",
        ),
    };
    Diagnostic::error(
        code,
        format!("cannot update volume {}: {}", spec.key().quoted(), refusal.reason),
    )
    .label(spec.field_span(refusal.field), "")
    .note(format!("the server would return: {}", refusal.text))
    .help(help_of_position(spec, code).unwrap_or(help))
}

/// Returns the help for a volume of a `count` whose fields are those of another index now.
fn help_of_position(spec: &VolumeSpec, code: Code) -> Option<&'static str> {
    let instance = spec.origin.as_deref()?.instance.as_ref()?;
    let is_indexed = matches!(instance.key, InstanceKey::Index(_));
    (is_indexed && code == Code::VolumeImmutableField).then_some(
        "volumes of a `count` are identified by position: use `for_each` with stable keys",
    )
}

/// Warns that Nomad silently ignores the topology request of a volume without topologies (W21).
fn ignored_topology_request(
    spec: &VolumeSpec,
    existing: &Volume,
    rules: MergeRules,
) -> Option<Diagnostic> {
    let nothing = TopologyRequest::default();
    let desired = spec.request.topology_request.as_ref().unwrap_or(&nothing);
    let stored = existing.topology_request.as_ref().unwrap_or(&nothing);
    let ignored = rules.topologies == TopologyRule::ByPosition
        && existing.topologies.is_empty()
        && !desired.is_equivalent_to(stored);
    ignored.then(|| {
        Diagnostic::warning(
            Code::PlanIgnoredField,
            format!(
                "the server ignores the new topology request of volume {}",
                spec.key().quoted()
            ),
        )
        .label(spec.field_span("topology_request"), "")
        .note("Nomad stores a topology request only when it creates a volume")
    })
}

fn ignored_capacity(spec: &VolumeSpec, existing: &Volume, rules: MergeRules) -> Option<Diagnostic> {
    let desired = spec.request.capacity;
    let ignored = ignores_capacity(existing, rules)
        && !desired.is_unset()
        && desired != existing.requested_capacity;
    ignored.then(|| {
        let message = format!("the server ignores the new size of volume {}", spec.key().quoted());
        Diagnostic::warning(Code::PlanIgnoredField, message)
            .label(spec.field_span("capacity_min"), "")
            .note("before Nomad 1.6.3 the server records a size only if the provider reported one")
    })
}

/// Warns that Nomad 1.1 and 1.2 record an update without calling the provider.
fn only_recorded(spec: &VolumeSpec, existing: &Volume, rules: MergeRules) -> Option<Diagnostic> {
    let desired = &spec.request;
    let other =
        |desired: Option<&str>, stored: Option<&str>| desired.is_some() && desired != stored;
    let parameters = desired.parameters.as_ref();
    let fields = [
        ("name", other(desired.name.as_deref(), Some(&existing.name))),
        ("clone_id", other(desired.clone_id.as_deref(), existing.clone_id.as_deref())),
        ("snapshot_id", other(desired.snapshot_id.as_deref(), existing.snapshot_id.as_deref())),
        ("capacity_min", desired.capacity.min > existing.requested_capacity.min),
        (
            "parameters",
            parameters
                .is_some_and(|desired| !desired.is_empty() && *desired != existing.parameters),
        ),
    ];
    let changed = fields.into_iter().filter(|(_, changed)| *changed);
    let fields: Vec<_> = changed.map(|(field, _)| field).collect();
    let first = fields.first().copied()?;
    (rules.update == UpdateRule::Overwrite).then(|| {
        let message = format!(
            "the server records the new {} of volume {} without changing the volume",
            fields.join(", "),
            spec.key().quoted()
        );
        Diagnostic::warning(Code::PlanIgnoredField, message)
            .label(spec.field_span(first), "")
            .note("before Nomad 1.3 an update changes only the server's record; the provider is not called")
    })
}

/// Warns that Nomad clears the stored secrets if the update has none (W20).
fn cleared_secrets_warning(spec: &VolumeSpec) -> Diagnostic {
    let message =
        format!("the update of volume {} clears its secrets, if it has any", spec.key().quoted());
    Diagnostic::warning(Code::PlanErasesSecrets, message)
        .label(spec.span, "this volume has no `secrets` block")
        .note("every update replaces the stored secrets, and an update without secrets clears them")
        .help("add the secrets to the file, or write `secrets {}` if there are none")
}
