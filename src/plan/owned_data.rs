//! Plans an owned volume whose registration is gone, or names other data than the set recorded.
//!
//! The set recorded where the data is. A registration is made again for that data if the provider
//! lists it, or if the file names it. Otherwise a new, empty volume is created only if a person
//! approves it for this volume, and for a protected volume only with `--replace`. Other data under
//! the same name is never treated as the volume: the recorded data is registered again with approval,
//! or the volume is blocked.

use super::action::{Action, Recreate, RegisterAgain, UnconfirmedReason};
use super::inputs::{OwnedVolume, PlanInputs};
use super::ledger::{DataIdentity, IntentStep, RecordedData};
use super::owned_data_messages::{changed_data, other_data, protected_data, unconfirmed_data};
use super::preconditions::{PluginOperation, missing_maximum, plugin_problem, unknown_namespace};
use super::provider_list::{Evidence, UnlistedReason, evidence};
use super::removals::claims_before_deregistration;
use nomad_csi_model::diagnostic::Diagnostic;
use nomad_csi_model::{ExternalVolume, UnresolvedRequest, Volume};
use nomad_csi_spec::VolumeSpec;

/// Returns the set's record of a volume that is missing, unless a step of the set itself removed the
/// volume or was creating it.
pub(super) fn lost_volume<'a>(
    spec: &VolumeSpec,
    inputs: &PlanInputs<'a>,
) -> Option<&'a OwnedVolume> {
    let owned = inputs.owned?.volumes.get(&spec.key())?;
    let is_own_step = match owned.open_step {
        Some(IntentStep::Create | IntentStep::Delete) => true,
        Some(IntentStep::Deregister) => !inputs.purpose.creates(spec),
        Some(IntentStep::Register | IntentStep::Expand | IntentStep::Snapshot) | None => false,
    };
    (!is_own_step && owned.data != RecordedData::Removed).then_some(owned)
}

/// Returns the data that the set recorded, if the volume on the server has other data. An interrupted
/// create of the set may have made that data. `--replace` with a file that names its data says which
/// data is desired, whatever the server has.
pub(super) fn replaced_data<'a>(
    spec: &VolumeSpec,
    existing: &Volume,
    inputs: &PlanInputs<'a>,
) -> Option<&'a DataIdentity> {
    let owned = inputs.owned?.volumes.get(&spec.key())?;
    let recorded = owned.changed_data(existing)?;
    (!names_desired_data(spec, inputs)).then_some(recorded)
}

fn names_desired_data(spec: &VolumeSpec, inputs: &PlanInputs<'_>) -> bool {
    !inputs.purpose.creates(spec) && inputs.options.replace.contains(&spec.key())
}

/// Plans an owned volume that the server no longer has.
pub(super) fn missing_volume(
    spec: &VolumeSpec,
    owned: &OwnedVolume,
    inputs: &PlanInputs<'_>,
) -> (Action, Vec<Diagnostic>) {
    let recorded = owned.data.identity();
    if !inputs.purpose.creates(spec) {
        return (registered_by_file(spec, recorded, inputs), vec![]);
    }
    let why = match confirmation(spec, recorded, inputs) {
        Confirmation::Confirmed(data, listed) => {
            return (register_again(spec, data, listed, None, inputs), vec![]);
        }
        Confirmation::Unconfirmed(why) => why,
    };
    recreation(spec, owned, why, inputs)
}

/// Plans an owned volume whose registration names other data than the set recorded.
pub(super) fn changed_volume(
    spec: &VolumeSpec,
    existing: &Volume,
    recorded: &DataIdentity,
    inputs: &PlanInputs<'_>,
) -> Action {
    let now = DataIdentity::of(existing);
    let set = inputs.owned.map_or("", |owned| owned.set.as_str());
    match confirmation(spec, Some(recorded), inputs) {
        Confirmation::Confirmed(data, listed) if !names_other_data(spec, recorded) => {
            match claims_before_deregistration(existing) {
                Some(waiting) => waiting,
                None => register_again(spec, data, listed, Some(now), inputs),
            }
        }
        Confirmation::Confirmed(..) => {
            Action::Blocked(vec![changed_data(spec, recorded, &now, set, None)])
        }
        Confirmation::Unconfirmed(why) => {
            Action::Blocked(vec![changed_data(spec, recorded, &now, set, Some(&why))])
        }
    }
}

fn names_other_data(spec: &VolumeSpec, recorded: &DataIdentity) -> bool {
    DataIdentity::of_registration(&spec.request).is_some_and(|named| named != *recorded)
}

/// Plans a missing volume whose file names its data.
fn registered_by_file(
    spec: &VolumeSpec,
    recorded: Option<&DataIdentity>,
    inputs: &PlanInputs<'_>,
) -> Action {
    let set = inputs.owned.map_or("", |owned| owned.set.as_str());
    let Some(named) = DataIdentity::of_registration(&spec.request) else {
        return Action::Register(Box::new(spec.request.clone()));
    };
    match recorded {
        Some(recorded) if *recorded != named && !names_desired_data(spec, inputs) => {
            Action::Blocked(vec![other_data(spec, recorded, &named, set)])
        }
        Some(_) | None => {
            let listed = match evidence(&inputs.observed.provided, &named) {
                Evidence::Listed(listed) => Some(listed),
                Evidence::NotListed | Evidence::Unknown(_) => None,
            };
            register_again(spec, &named, listed, None, inputs)
        }
    }
}

/// The result of the search for the recorded data.
enum Confirmation<'a> {
    Confirmed(&'a DataIdentity, Option<&'a ExternalVolume>),
    Unconfirmed(UnconfirmedReason),
}

fn confirmation<'a>(
    spec: &VolumeSpec,
    recorded: Option<&'a DataIdentity>,
    inputs: &PlanInputs<'a>,
) -> Confirmation<'a> {
    let Some(recorded) = recorded else {
        return Confirmation::Unconfirmed(UnconfirmedReason::NotRecorded);
    };
    if recorded.plugin_id != spec.request.plugin_id {
        return Confirmation::Unconfirmed(UnconfirmedReason::OtherPlugin);
    }
    match evidence(&inputs.observed.provided, recorded) {
        Evidence::Listed(listed) => Confirmation::Confirmed(recorded, Some(listed)),
        Evidence::NotListed => Confirmation::Unconfirmed(UnconfirmedReason::NotListed),
        Evidence::Unknown(reason) => Confirmation::Unconfirmed(match reason {
            UnlistedReason::NotAsked => UnconfirmedReason::NotAsked,
            UnlistedReason::Unsupported => UnconfirmedReason::Unlistable,
            UnlistedReason::Failed(why) => UnconfirmedReason::ListFailed(why.clone()),
        }),
    }
}

fn register_again(
    spec: &VolumeSpec,
    data: &DataIdentity,
    listed: Option<&ExternalVolume>,
    replaces: Option<DataIdentity>,
    inputs: &PlanInputs<'_>,
) -> Action {
    if let Some(problem) = unknown_namespace(spec, inputs.observed) {
        return Action::Blocked(vec![problem]);
    }
    if let Some(problem) = plugin_problem(spec, inputs.observed, PluginOperation::Register) {
        return Action::Blocked(vec![problem]);
    }
    let listed_context = listed.map(|listed| &listed.context);
    let listed_context = listed_context.filter(|context| !context.is_empty());
    let request = UnresolvedRequest {
        external_id: Some(data.external_id.clone()),
        context: spec.request.context.clone().or(listed_context.cloned()),
        ..spec.request.clone()
    };
    Action::RegisterAgain(Box::new(RegisterAgain { request, replaces }))
}

/// Plans a new, empty volume in the place of data that is not confirmed.
fn recreation(
    spec: &VolumeSpec,
    owned: &OwnedVolume,
    why: UnconfirmedReason,
    inputs: &PlanInputs<'_>,
) -> (Action, Vec<Diagnostic>) {
    let observed = inputs.observed;
    let problem = unknown_namespace(spec, observed)
        .or_else(|| plugin_problem(spec, observed, PluginOperation::Create))
        .or_else(|| missing_maximum(spec, inputs.rules, false));
    if let Some(problem) = problem {
        return (Action::Blocked(vec![problem]), vec![]);
    }
    let lost = owned.data.identity();
    let is_protected = owned.protect || spec.protect == Some(true);
    if is_protected && !inputs.options.replace.contains(&spec.key()) {
        let set = inputs.owned.map_or("", |owned| owned.set.as_str());
        let refused = protected_data(spec, lost, &why, set);
        return (Action::Blocked(vec![refused]), vec![]);
    }
    let warning = unconfirmed_data(spec, lost, &why);
    let recreate = Recreate { request: spec.request.clone(), lost: lost.cloned(), why };
    (Action::Recreate(Box::new(recreate)), vec![warning])
}

#[cfg(test)]
mod tests;
