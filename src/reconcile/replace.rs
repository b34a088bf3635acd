//! A volume is removed, then made anew, because somebody asked for that by name.
//!
//! Between the two steps there is none. Each is noted by itself, and both are level-triggered: a run
//! that was cut short after the first finds no volume, and the next plan creates it. With a snapshot
//! wanted first, nothing is removed before the provider has said that it is cut and ready. A snapshot
//! is named after the volume and the index at which it was seen, so that a repetition finds the one
//! that is there.

use std::time::Duration;

use super::change::{Call, Verb, send};
use super::execution::Execution;
use super::outcome::{Ending, Outcome};
use super::remove::{Clear, clear, take_away};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{NamespacedId, Snapshot};
use crate::plan::{Pin, Planned, Removal, Replace, ReplaceSteps};
use crate::ports::SnapshotRequest;

/// Carries out a replacement.
pub(super) async fn replace(
    execution: &Execution<'_>,
    planned: &Planned,
    order: &Replace,
) -> Outcome {
    let (removal, verb) = match order.steps {
        ReplaceSteps::DeleteThenCreate => (Removal::Delete, Verb::Create),
        ReplaceSteps::DeregisterThenRegister => {
            (Removal::Deregister { force: false }, Verb::Register)
        }
    };
    let mut warnings = match clear(execution, &planned.key, planned.pin, removal).await {
        Err(ending) => return Outcome::plain(ending),
        Ok(_) if execution.stop.is_cancelled() => return Outcome::plain(Ending::NotBegun),
        Ok(Clear::Gone) => vec![],
        Ok(Clear::There) => {
            let taken = match snapshot_first(execution, planned, order).await {
                Ok(taken) => taken,
                Err(why) => return Outcome::plain(Ending::Failed(why)),
            };
            let removed = take_away(execution, planned, removal).await;
            let warnings = taken.into_iter().chain(removed.warnings).collect();
            if !removed.ending.is_success() {
                let ending = removed.ending;
                return Outcome { ending, warnings };
            }
            warnings
        }
    };
    let call = Call::new(verb, &order.request);
    let made = send(execution, &planned.key, Pin::Absent, call).await;
    warnings.extend(made.warnings);
    let ending = match made.ending {
        Ending::Failed(why) => Ending::Failed(why.note(format!(
            "the first step was done: the old volume {} is gone; run the same command again to make the new one",
            planned.key
        ))),
        Ending::Unchanged
        | Ending::Blocked
        | Ending::Done(_)
        | Ending::Removed
        | Ending::Stale(_)
        | Ending::Held(_)
        | Ending::NotBegun => made.ending,
    };
    Outcome { ending, warnings }
}

/// How often and after which pauses a snapshot is asked for that is not ready yet.
const READY: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
    Duration::from_secs(40),
];

/// Cuts a snapshot if one is wanted, and says where the old data is.
async fn snapshot_first(
    execution: &Execution<'_>,
    planned: &Planned,
    order: &Replace,
) -> Result<Option<Diagnostic>, Diagnostic> {
    if !order.snapshot_first {
        return Ok(None);
    }
    let taken = snapshot(execution, planned).await?;
    let message = format!(
        "the old data of volume {} is in snapshot {} of plugin {}",
        planned.key, taken.id, order.request.plugin_id
    );
    let told = Diagnostic::warning(Code::ApplySnapshotTaken, message);
    Ok(Some(told.help(Code::ApplySnapshotTaken.remedy())))
}

/// Cuts a snapshot and waits until a volume can be made from it.
async fn snapshot(execution: &Execution<'_>, planned: &Planned) -> Result<Snapshot, Diagnostic> {
    let key = &planned.key;
    let (Some(wanted), Pin::At(index)) = (planned.request(), planned.pin) else {
        let message = format!("volume {key} has nothing to take a snapshot of");
        return Err(Diagnostic::error(Code::Internal, message));
    };
    let resolved = execution.resolved.request(key);
    let given = resolved.and_then(|request| request.secrets.clone());
    let request = SnapshotRequest {
        volume: key.clone(),
        plugin_id: wanted.plugin_id.clone(),
        name: format!("nomad-csi-{}-{index}", key.id),
        parameters: [].into(),
        secrets: given.unwrap_or_default(),
    };
    for pause in READY {
        tokio::time::sleep(pause).await;
        match execution.snapshots.create_snapshot(&request).await {
            Ok(snapshot) if snapshot.is_ready => return Ok(snapshot),
            Ok(_) => {}
            Err(error) => return Err(left(key, error.diagnostic())),
        }
    }
    let message = format!("the snapshot {} of volume {key} is not ready", request.name);
    let unready = Diagnostic::error(Code::ApplySnapshotNotReady, message);
    Err(left(
        key,
        unready.help(Code::ApplySnapshotNotReady.remedy()),
    ))
}

fn left(key: &NamespacedId, why: Diagnostic) -> Diagnostic {
    why.note(format!(
        "volume {key} was left as it is: a snapshot was wanted before it is replaced"
    ))
}
