//! The impact of each action: one table.

use super::action::{Action, PlannedVolume, ReplaceSteps};
use super::inputs::ObservedState;
use super::risk::{DataLoss, Impact, LastSnapshot, Recovery, Risk};
use crate::model::Volume;

/// Returns the impact of an entry of a plan; `None` if it changes nothing.
pub(super) fn impact_of(planned: &PlannedVolume, observed: &ObservedState) -> Option<Impact> {
    let impact = |risk, loss, recovery| {
        Some(Impact {
            risk,
            loss,
            recovery,
        })
    };
    let existing = observed.volumes.get(&planned.key);
    let snapshot = || {
        observed
            .snapshots
            .get(&planned.key)
            .cloned()
            .unwrap_or_default()
    };
    let loss =
        |destroys_data| existing.map(|volume| DataLoss::of(volume, destroys_data, snapshot()));
    match &planned.action {
        Action::Create(_) => impact(Risk::Reversible, None, Recovery::Delete),
        Action::Register(_) => impact(Risk::Reversible, None, Recovery::Deregister),
        Action::Update(_) => impact(Risk::Reversible, None, Recovery::ReapplyPrevious),
        Action::Expand(_) => impact(Risk::Reversible, None, Recovery::StaysLarger),
        Action::Deregister => impact(Risk::NeedsDowntime, loss(false), register_again(existing)),
        Action::DeleteData => impact(Risk::DestroysData, loss(true), restore(&snapshot())),
        Action::Replace(replace) => match replace.steps {
            ReplaceSteps::DeleteThenCreate => {
                impact(Risk::DestroysData, loss(true), restore(&snapshot()))
            }
            ReplaceSteps::DeregisterThenRegister => {
                impact(Risk::NeedsDowntime, loss(false), register_again(existing))
            }
        },
        Action::Unchanged | Action::WaitingForClaims(_) | Action::Blocked(_) => None,
    }
}

fn register_again(existing: Option<&Volume>) -> Recovery {
    existing.map_or(Recovery::Impossible, |volume| {
        Recovery::RegisterAgain(volume.remote_id())
    })
}

fn restore(snapshot: &LastSnapshot) -> Recovery {
    match snapshot {
        LastSnapshot::Taken { id, .. } => Recovery::RestoreSnapshot(id.clone()),
        LastSnapshot::Unknown | LastSnapshot::None => Recovery::Impossible,
    }
}
