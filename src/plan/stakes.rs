//! Action to [`Stakes`]: one table.

use super::action::{Action, Planned, ReplaceSteps};
use super::inputs::Observed;
use super::risk::{LastSnapshot, Loss, Risk, Stakes, Undo};
use crate::model::Volume;

/// What is at stake with an entry of a plan; `None` if nothing is done.
pub(super) fn stakes(planned: &Planned, observed: &Observed) -> Option<Stakes> {
    let stakes = |risk, lost, undo| Some(Stakes { risk, lost, undo });
    let existing = observed.volumes.get(&planned.key);
    let snapshot = || {
        observed
            .snapshots
            .get(&planned.key)
            .cloned()
            .unwrap_or_default()
    };
    let loss = |data| existing.map(|volume| Loss::of(volume, data, snapshot()));
    match &planned.action {
        Action::Create(_) => stakes(Risk::Reversible, None, Undo::Delete),
        Action::Register(_) => stakes(Risk::Reversible, None, Undo::Deregister),
        Action::Update(_) => stakes(Risk::Reversible, None, Undo::WriteBack),
        Action::Expand(_) => stakes(Risk::Reversible, None, Undo::StaysLarger),
        Action::Deregister => stakes(Risk::NeedsDowntime, loss(false), register_again(existing)),
        Action::DeleteData => stakes(Risk::DestroysData, loss(true), restore(&snapshot())),
        Action::Replace(replace) => match replace.steps {
            ReplaceSteps::DeleteThenCreate => {
                stakes(Risk::DestroysData, loss(true), restore(&snapshot()))
            }
            ReplaceSteps::DeregisterThenRegister => {
                stakes(Risk::NeedsDowntime, loss(false), register_again(existing))
            }
        },
        Action::Unchanged | Action::Waits(_) | Action::Blocked(_) => None,
    }
}

fn register_again(existing: Option<&Volume>) -> Undo {
    existing.map_or(Undo::Impossible, |volume| {
        Undo::RegisterAgain(volume.remote_id())
    })
}

fn restore(snapshot: &LastSnapshot) -> Undo {
    match snapshot {
        LastSnapshot::Taken { id, .. } => Undo::Restore(id.clone()),
        LastSnapshot::Unknown | LastSnapshot::None => Undo::Impossible,
    }
}
