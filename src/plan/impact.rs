//! The impact of each action: one table.

use super::action::{Action, PlannedVolume, Recreate, ReplaceSteps};
use super::inputs::ObservedState;
use super::lost_access::loses_access;
use super::risk::{DataLoss, Impact, LastSnapshot, Recovery, Risk};
use nomad_csi_model::{Bytes, Volume};

/// Returns the impact of an entry of a plan; `None` if it changes nothing.
pub(super) fn impact_of(planned: &PlannedVolume, observed: &ObservedState) -> Option<Impact> {
    let impact = |risk, loss, recovery| Some(Impact { risk, loss, recovery });
    let existing = observed.volumes.get(&planned.key);
    let snapshot = || observed.snapshots.get(&planned.key).cloned().unwrap_or_default();
    let loss =
        |destroys_data| existing.map(|volume| DataLoss::of(volume, destroys_data, snapshot()));
    match &planned.action {
        Action::Create(_) => impact(Risk::Reversible, None, Recovery::Delete),
        Action::Register(_) => impact(Risk::Reversible, None, Recovery::Deregister),
        Action::RegisterAgain(again) if again.replaces.is_none() => {
            impact(Risk::Reversible, None, Recovery::Deregister)
        }
        Action::RegisterAgain(_) => {
            impact(Risk::NeedsDowntime, loss(false), register_again(existing))
        }
        Action::Recreate(recreate) => {
            let recovery = recreate.lost.as_ref().map_or(Recovery::Impossible, |lost| {
                Recovery::RegisterAgain(lost.external_id.clone())
            });
            impact(Risk::DestroysData, Some(lost_data(recreate)), recovery)
        }
        Action::Update(update) | Action::Expand(update)
            if existing.is_some_and(|volume| loses_access(volume, &update.changes)) =>
        {
            impact(Risk::LosesAccess, None, Recovery::ReapplyPrevious)
        }
        Action::Update(_) => impact(Risk::Reversible, None, Recovery::ReapplyPrevious),
        Action::Expand(_) => impact(Risk::Reversible, None, Recovery::StaysLarger),
        Action::Deregister => impact(Risk::NeedsDowntime, loss(false), register_again(existing)),
        Action::DeleteData => impact(Risk::DestroysData, loss(true), restore(&snapshot())),
        Action::Replace(replace) => match replace.steps {
            ReplaceSteps::DeleteThenCreate if replace.snapshot_first => {
                impact(Risk::DestroysData, loss(true), Recovery::RestoreOwnSnapshot)
            }
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

/// The loss of data that is not registered any more, so that its size is unknown.
fn lost_data(recreate: &Recreate) -> DataLoss {
    let lost = recreate.lost.as_ref();
    let plugin_id = lost.map_or(&recreate.request.plugin_id, |lost| &lost.plugin_id);
    DataLoss {
        destroys_data: true,
        capacity: Bytes::ZERO,
        plugin_id: plugin_id.clone(),
        external_id: lost.map(|lost| lost.external_id.clone()),
        last_snapshot: LastSnapshot::Unknown,
    }
}

fn register_again(existing: Option<&Volume>) -> Recovery {
    existing.map_or(Recovery::Impossible, |volume| Recovery::RegisterAgain(volume.remote_id()))
}

fn restore(snapshot: &LastSnapshot) -> Recovery {
    match snapshot {
        LastSnapshot::Taken { id, .. } => Recovery::RestoreSnapshot(id.clone()),
        LastSnapshot::Unknown | LastSnapshot::None => Recovery::Impossible,
    }
}
