//! A volume is removed, then made anew, because somebody asked for that by name.
//!
//! Between the two steps there is none. Each is noted by itself, and both are level-triggered: a run
//! that was cut short after the first finds no volume, and the next plan creates it. With a snapshot
//! wanted first, nothing is removed before the provider has said that it is cut and ready; that takes
//! its time, so whoever has come to use the volume meanwhile is looked for again. A snapshot is named
//! after the volume and the index at which it was seen, so that a repetition finds the one that is
//! there.

use std::time::Duration;

use super::change::{Call, Verb, send};
use super::execution::Execution;
use super::outcome::{Ending, Outcome};
use super::remove::{Clear, clear, secrets_for, take_away};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{NamespacedId, Snapshot, Volume};
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
    let mut warnings = vec![];
    if let Err(ending) = make_room(execution, planned, order, removal, &mut warnings).await {
        return Outcome { ending, warnings };
    }
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

/// Takes the old volume away, after its snapshot if one is wanted. Warnings are told also if it stays.
async fn make_room(
    execution: &Execution<'_>,
    planned: &Planned,
    order: &Replace,
    removal: Removal,
    warnings: &mut Vec<Diagnostic>,
) -> Result<(), Ending> {
    let mut found = look(execution, planned, removal).await?;
    if let Clear::There(existing) = &found
        && order.snapshot_first
    {
        snapshot(execution, planned, existing, warnings).await?;
        found = look(execution, planned, removal).await?;
    }
    let Clear::There(existing) = found else {
        return Ok(());
    };
    let removed = take_away(execution, planned, &existing, removal).await;
    warnings.extend(removed.warnings);
    if removed.ending.is_success() {
        Ok(())
    } else {
        Err(removed.ending)
    }
}

/// Whether the old volume may go now.
async fn look(
    execution: &Execution<'_>,
    planned: &Planned,
    removal: Removal,
) -> Result<Clear, Ending> {
    let found = clear(execution, &planned.key, planned.pin, removal).await?;
    if execution.stop.is_cancelled() {
        return Err(Ending::NotBegun);
    }
    Ok(found)
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

/// Cuts a snapshot and waits until a volume can be made from it. One that was cut is told, whatever
/// happens then.
async fn snapshot(
    execution: &Execution<'_>,
    planned: &Planned,
    existing: &Volume,
    warnings: &mut Vec<Diagnostic>,
) -> Result<(), Ending> {
    let key = &planned.key;
    let request = SnapshotRequest {
        volume: key.clone(),
        plugin_id: existing.plugin_id.clone(),
        name: format!("nomad-csi-{}-{}", key.id, existing.modify_index),
        parameters: [].into(),
        secrets: secrets_for(execution, existing),
    };
    let mut cut = None;
    for pause in READY {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = execution.stop.cancelled() => {
                warnings.extend(cut);
                return Err(Ending::NotBegun);
            }
        }
        match execution.snapshots.create_snapshot(&request).await {
            Ok(snapshot) if snapshot.is_ready => {
                warnings.push(taken(existing, &snapshot));
                return Ok(());
            }
            Ok(snapshot) => cut = Some(taken(existing, &snapshot)),
            Err(error) => {
                warnings.extend(cut);
                return Err(Ending::Failed(left(key, error.diagnostic())));
            }
        }
    }
    warnings.extend(cut);
    let message = format!("the snapshot {} of volume {key} is not ready", request.name);
    let unready = Diagnostic::error(Code::ApplySnapshotNotReady, message);
    let unready = unready.help(Code::ApplySnapshotNotReady.remedy());
    Err(Ending::Failed(left(key, unready)))
}

/// Says where the old data is.
fn taken(existing: &Volume, snapshot: &Snapshot) -> Diagnostic {
    let message = if snapshot.is_ready {
        format!(
            "the old data of volume {} is in snapshot {} of plugin {}",
            existing.key(),
            snapshot.id,
            existing.plugin_id
        )
    } else {
        format!(
            "a snapshot {} of volume {} was cut at plugin {}, and is not ready yet",
            snapshot.id,
            existing.key(),
            existing.plugin_id
        )
    };
    let told = Diagnostic::warning(Code::ApplySnapshotTaken, message);
    told.help(Code::ApplySnapshotTaken.remedy())
}

fn left(key: &NamespacedId, why: Diagnostic) -> Diagnostic {
    why.note(format!(
        "volume {key} was left as it is: a snapshot was wanted before it is replaced"
    ))
}
