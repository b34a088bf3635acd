//! Replaces a volume: removes it, then creates it again.
//!
//! Between the two steps the volume does not exist. A run that ends after the first step leaves no
//! volume, and the next plan creates it. If a snapshot is requested, nothing is removed until it is
//! ready, and the volume must not have been used since before it was asked for: each claim moves the volume's
//! modify index, so a snapshot holds all data exactly if the index is the same before it and after it. The
//! index is in the snapshot's name. A second run finds the snapshot of the first one if the volume was not used
//! between them, and otherwise takes another.

use std::time::Duration;

use super::change::{Before, Call, CallKind, change};
use super::execution::Execution;
use super::outcome::{Outcome, Status};
use super::remove::{check_removable, secrets_for, send_planned};
use super::until_sent::{Check, until_sent};
use crate::ports::SnapshotRequest;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{NamespacedId, Snapshot, UnresolvedRequest, Volume, shell_quoted};
use nomad_csi_plan::{ClaimDrops, PlannedVolume, Removal, Replace, ReplaceSteps};

/// Replaces the volume of a plan's entry.
pub(super) async fn replace(
    execution: &Execution<'_>,
    planned: &PlannedVolume,
    replace: &Replace,
) -> Outcome {
    let (removal, kind) = match replace.steps {
        ReplaceSteps::DeleteThenCreate => (Removal::Delete, CallKind::Create),
        ReplaceSteps::DeregisterThenRegister => {
            (Removal::Deregister { force: false }, CallKind::Register)
        }
    };
    let replacement = Replacement {
        snapshot_first: replace.snapshot_first,
        removal,
        call: Call::new(kind, &replace.request),
        help: "run the same command again to create the new volume",
    };
    replacement.run(execution, planned).await
}

/// Registers the recorded data of a volume in the place of other data that has its name.
pub(super) async fn register_in_place(
    execution: &Execution<'_>,
    planned: &PlannedVolume,
    request: &UnresolvedRequest,
) -> Outcome {
    let replacement = Replacement {
        snapshot_first: false,
        removal: Removal::Deregister { force: false },
        call: Call::new(CallKind::Register, request),
        help: "run the same command again to register the recorded data",
    };
    replacement.run(execution, planned).await
}

/// A removal and the call that follows it.
struct Replacement<'a> {
    snapshot_first: bool,
    removal: Removal,
    call: Call<'a>,
    /// The remedy if the call fails after the removal.
    help: &'static str,
}

impl Replacement<'_> {
    async fn run(self, execution: &Execution<'_>, planned: &PlannedVolume) -> Outcome {
        let key = &planned.key;
        let removed = until_sent(execution.api, &execution.wait, key, async || {
            remove_old(execution, planned, self.snapshot_first, self.removal).await
        })
        .await;
        if !removed.status.is_success() {
            return removed;
        }
        let created = change(execution, key, Before::Removed, self.call).await;
        let status = match created.status {
            Status::Failed(why) | Status::ServerUnreachable(why) => Status::Failed(
                why.note(format!("the old volume {key} was removed", key = key.quoted()))
                    .help(self.help),
            ),
            Status::Unchanged
            | Status::Blocked
            | Status::Done(_)
            | Status::Removed
            | Status::Stale(_)
            | Status::DependencyFailed(_)
            | Status::NotStarted => created.status,
        };
        Outcome { status, warnings: [removed.warnings, created.warnings].concat() }
    }
}

/// Removes the old volume, after its snapshot if one is requested. A volume that is gone is removed.
async fn remove_old(
    execution: &Execution<'_>,
    planned: &PlannedVolume,
    snapshot_first: bool,
    removal: Removal,
) -> Outcome {
    let mut warnings = vec![];
    let removed = async {
        let check = Check::begin();
        let Some(mut existing) = check_old(execution, planned, removal).await? else {
            return Ok(Outcome::plain(Status::Removed));
        };
        if !snapshot_first {
            return Ok(send_planned(execution, &existing, removal, check).await);
        }
        for _ in 0..MAX_SNAPSHOTS {
            let snapshot = take_snapshot(execution, planned, &existing, &mut warnings)
                .await
                .map_err(Outcome::plain)?;
            let check = Check::begin();
            let now = check_old(execution, planned, removal).await;
            if let Ok(Some(now)) = &now
                && now.modify_index != existing.modify_index
            {
                warnings.push(snapshot_outdated(&existing, &snapshot));
                existing = now.clone();
                continue;
            }
            warnings.push(snapshot_taken(&existing, &snapshot));
            return Ok(match now? {
                Some(now) => send_planned(execution, &now, removal, check).await,
                None => Outcome::plain(Status::Removed),
            });
        }
        Err(Outcome::plain(Status::Stale(used_in_the_meantime(&planned.key))))
    };
    let (Ok(mut outcome) | Err(mut outcome)): Result<Outcome, Outcome> = removed.await;
    warnings.append(&mut outcome.warnings);
    Outcome { status: outcome.status, warnings }
}

/// Checks that the old volume can be removed now. `None` if it is gone.
async fn check_old(
    execution: &Execution<'_>,
    planned: &PlannedVolume,
    removal: Removal,
) -> Result<Option<Volume>, Outcome> {
    let (key, version) = (&planned.key, planned.expected_version);
    let drops = ClaimDrops::default();
    let existing = check_removable(execution.api, key, version, removal, &drops).await?;
    if execution.wait.stop.is_cancelled() {
        return Err(Outcome::plain(Status::NotStarted));
    }
    Ok(existing)
}

/// How many snapshots are taken of a volume that is used while each of them is made.
const MAX_SNAPSHOTS: usize = 3;

fn used_in_the_meantime(key: &NamespacedId) -> Diagnostic {
    let message = format!(
        "cannot replace volume {}: it was used while each of its snapshots was made",
        key.quoted()
    );
    Diagnostic::error(Code::PlanStale, message)
        .note("what was written after a snapshot would be lost")
        .help("stop the jobs that use the volume, then run the command again")
}

/// The pauses before each request for a snapshot that is not ready yet.
const SNAPSHOT_PAUSES: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
    Duration::from_secs(40),
];

/// Takes a snapshot and waits until it is ready. Reports one that is not.
async fn take_snapshot(
    execution: &Execution<'_>,
    planned: &PlannedVolume,
    existing: &Volume,
    warnings: &mut Vec<Diagnostic>,
) -> Result<Snapshot, Status> {
    let key = &planned.key;
    let request = SnapshotRequest {
        volume: key.clone(),
        plugin_id: existing.plugin_id.clone(),
        name: format!("nomad-csi-{}-{}", key.id, existing.modify_index),
        parameters: [].into(),
        secrets: secrets_for(execution, existing),
    };
    let mut taken = None;
    for pause in SNAPSHOT_PAUSES {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = execution.wait.stop.cancelled() => {
                warnings.extend(taken);
                return Err(Status::NotStarted);
            }
        }
        match execution.snapshots.create_snapshot(&request).await {
            Ok(snapshot) if snapshot.is_ready => return Ok(snapshot),
            Ok(snapshot) => taken = Some(snapshot_taken(existing, &snapshot)),
            Err(error) => {
                warnings.extend(taken);
                return Err(Status::not_sent(not_replaced(key, error.diagnostic())));
            }
        }
    }
    warnings.extend(taken);
    let message =
        format!("snapshot `{}` of volume {key} is not ready", request.name, key = key.quoted());
    let not_ready = Diagnostic::error(Code::ApplySnapshotNotReady, message)
        .help(Code::ApplySnapshotNotReady.advice());
    Err(Status::Failed(not_replaced(key, not_ready)))
}

/// Reports where the old data is.
fn snapshot_taken(existing: &Volume, snapshot: &Snapshot) -> Diagnostic {
    let (key, id, plugin) = (existing.key(), &snapshot.id, &existing.plugin_id);
    let message = if snapshot.is_ready {
        format!(
            "the old data of volume {key} is in snapshot `{id}` of plugin `{plugin}`",
            key = key.quoted()
        )
    } else {
        format!(
            "snapshot `{id}` of volume {key} at plugin `{plugin}` is not ready yet",
            key = key.quoted()
        )
    };
    Diagnostic::warning(Code::ApplySnapshotTaken, message).help(Code::ApplySnapshotTaken.advice())
}

/// Reports a snapshot that does not have all data, so that it is not restored by mistake.
fn snapshot_outdated(existing: &Volume, snapshot: &Snapshot) -> Diagnostic {
    let (id, plugin) = (&snapshot.id, &existing.plugin_id);
    let message = format!(
        "snapshot `{id}` of volume {} at plugin `{plugin}` lacks what was written while it was made",
        existing.key().quoted()
    );
    Diagnostic::warning(Code::ApplySnapshotTaken, message).help(format!(
        "another one is taken; to delete this one, run `nomad-csi snapshot delete {} {}`",
        shell_quoted(plugin.as_str()),
        shell_quoted(id.as_str())
    ))
}

fn not_replaced(key: &NamespacedId, why: Diagnostic) -> Diagnostic {
    why.note(format!(
        "volume {key} was not changed: a snapshot is required before it is replaced",
        key = key.quoted()
    ))
}
