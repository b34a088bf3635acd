//! Removes one volume: read it, check claims and shared data, call, confirm that it is gone.
//!
//! Nomad deletes the data before it checks for claims. So the checks are made here, on a volume that
//! was read right before: which allocations claim it, and which other registration has its data (W09).
//! A volume that is already gone is a success.
//!
//! The server may go away while it removes a volume. Once it is back and the volume is still there as before, the
//! removal is sent again: removing twice has the result of removing once.

use super::execution::Execution;
use super::outcome::{Outcome, Status};
use super::precondition::recheck;
use super::record::{Record, Recorded};
use super::until_sent::{CONFIRMATION_PAUSES, Check, until_sent};
use super::volume_list::list_all_volumes;
use crate::ports::{ApiError, VolumeApi};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{NamespacedId, Secrets, Volume};
use nomad_csi_plan::{
    ClaimDrops, IntentStep, PlannedVolume, Removal, VolumeVersion, removal_problems,
};

/// Removes the volume of a plan's entry.
pub(super) async fn remove(
    execution: &Execution<'_>,
    planned: &PlannedVolume,
    removal: Removal,
) -> Outcome {
    let key = &planned.key;
    let step = async || {
        let check = Check::begin();
        let drops = ClaimDrops::default();
        match check_removable(execution.api, key, planned.expected_version, removal, &drops).await {
            Ok(None) => removed(&*execution.record, key, vec![]).await,
            Ok(Some(_)) if execution.wait.stop.is_cancelled() => Outcome::plain(Status::NotStarted),
            Ok(Some(existing)) => send_planned(execution, &existing, removal, check).await,
            Err(outcome) => outcome,
        }
    };
    let outcome = until_sent(execution.api, &execution.wait, key, step).await;
    if is_unknown_after_outage(execution, &outcome) {
        return until_sent(execution.api, &execution.wait, key, step).await;
    }
    outcome
}

/// Returns whether the server went away while it may have removed the volume, and is back.
fn is_unknown_after_outage(execution: &Execution<'_>, outcome: &Outcome) -> bool {
    outcome.status.is_unknown()
        && execution.api.has_recovered()
        && !execution.wait.stop.is_cancelled()
}

/// Sends the removal of a volume that was checked, with the secrets of its file.
pub(super) async fn send_planned(
    execution: &Execution<'_>,
    existing: &Volume,
    removal: Removal,
    check: Check,
) -> Outcome {
    let secrets = secrets_for(execution, existing);
    let (api, record, key) = (execution.api, &*execution.record, existing.key());
    send_removal(api, record, &key, removal, &secrets, check).await
}

/// Reads the volume right before its removal, and checks that nothing prevents the removal. Returns
/// `None` if the volume is gone. `drops` decides which claims a forced removal drops.
pub(super) async fn check_removable(
    api: &dyn VolumeApi,
    key: &NamespacedId,
    expected_version: VolumeVersion,
    removal: Removal,
    drops: &ClaimDrops,
) -> Result<Option<Volume>, Outcome> {
    let now = match recheck(api, key, expected_version).await {
        Ok(now) => now,
        // Another user may have removed it since it was read.
        Err(status @ Status::Stale(_)) => match api.read_volume(key).await {
            Ok(None) => None,
            Ok(Some(_)) | Err(_) => return Err(Outcome::plain(status)),
        },
        Err(status) => return Err(Outcome::plain(status)),
    };
    let Some(now) = now else {
        return Ok(None);
    };
    let others = match removal {
        Removal::Delete => list_all_volumes(api).await.map_err(|error| {
            let failed = error.diagnostic().note(format!(
                "volume {key} was not deleted: its data may belong to another registration",
                key = key.quoted()
            ));
            Outcome::plain(Status::not_sent(failed))
        })?,
        Removal::Deregister { .. } => vec![],
    };
    let mut problems = removal_problems(&now, removal, &others, drops).into_iter();
    match problems.next() {
        None => Ok(Some(now)),
        Some(problem) => {
            Err(Outcome { status: Status::Stale(problem), warnings: problems.collect() })
        }
    }
}

/// Returns the secrets for a call about an existing volume: those of its file, unless they are for
/// another plugin.
pub(super) fn secrets_for(execution: &Execution<'_>, existing: &Volume) -> Secrets {
    let desired = execution.resolved.request(&existing.key());
    let given = desired.filter(|desired| desired.plugin_id == existing.plugin_id);
    given.and_then(|desired| desired.secrets.clone()).unwrap_or_default()
}

/// Sends the removal of a volume that was checked, and finds out how it ended.
pub(super) async fn send_removal(
    api: &dyn VolumeApi,
    record: &dyn Record,
    key: &NamespacedId,
    removal: Removal,
    secrets: &Secrets,
    check: Check,
) -> Outcome {
    let step = match removal {
        Removal::Delete => IntentStep::Delete,
        Removal::Deregister { .. } => IntentStep::Deregister,
    };
    if let Err(refused) = record.begin(key, step).await {
        return Outcome::plain(Status::not_sent(refused));
    }
    if let Some(status) = check.too_old(key) {
        return Outcome::plain(status);
    }
    let sent = match removal {
        Removal::Delete => api.delete_volume(key, secrets).await,
        Removal::Deregister { force } => api.deregister_volume(key, force).await,
    };
    match sent {
        Ok(()) => removed(record, key, vec![]).await,
        Err(error) if error.code == Code::VolumeNotFound => {
            removed(record, key, vec![removed_by_another(key, removal)]).await
        }
        Err(error) if error.code == Code::ApiOutcomeUnknown => {
            confirm_removal(api, record, key, error).await
        }
        Err(error) => not_removed(record, key, &error).await,
    }
}

/// Another client removed the volume between the check and the request.
fn removed_by_another(key: &NamespacedId, removal: Removal) -> Diagnostic {
    let message = format!(
        "volume {} no longer existed when the request arrived: another client removed it",
        key.quoted()
    );
    let warning = Diagnostic::warning(Code::VolumeNotFound, message);
    match removal {
        Removal::Delete => warning.help(
            "run `nomad-csi orphans` for its plugin: if the client only deregistered it, its data still exists",
        ),
        Removal::Deregister { .. } => warning,
    }
}

async fn not_removed(record: &dyn Record, key: &NamespacedId, error: &ApiError) -> Outcome {
    let status = if error.code == Code::VolumeInUse {
        Status::Stale(error.diagnostic())
    } else {
        Status::not_sent(error.diagnostic())
    };
    let recorded = record.end(key, Recorded::Nothing).await;
    Outcome { status, warnings: recorded.err().into_iter().collect() }
}

async fn removed(
    record: &dyn Record,
    key: &NamespacedId,
    mut warnings: Vec<Diagnostic>,
) -> Outcome {
    let recorded = record.end(key, Recorded::Removed).await;
    warnings.extend(recorded.err());
    Outcome { status: Status::Removed, warnings }
}

/// Looks for the volume after a lost reply, four times within seven seconds.
async fn confirm_removal(
    api: &dyn VolumeApi,
    record: &dyn Record,
    key: &NamespacedId,
    error: ApiError,
) -> Outcome {
    let (mut exists, mut away) = (false, None);
    for pause in CONFIRMATION_PAUSES {
        tokio::time::sleep(pause).await;
        match api.read_volume(key).await {
            Ok(None) => {
                let message = format!(
                    "the server's reply was lost, but volume {key} is gone",
                    key = key.quoted()
                );
                let warning = Diagnostic::warning(Code::ApiOutcomeUnknown, message);
                return removed(record, key, vec![warning.note(error.message)]).await;
            }
            Ok(Some(_)) => exists = true,
            // The client has waited for the server.
            Err(unread) if unread.is_server_away() => {
                away = Some(unread.diagnostic());
                break;
            }
            Err(_) => {}
        }
    }
    let found = if exists {
        "the volume still exists after 7 seconds; the server may still be removing it"
    } else {
        "the server cannot be reached to read the volume"
    };
    let help = "wait a moment, then run the same command again; it starts from the current state";
    Outcome {
        status: Status::Failed(error.diagnostic().note(found).help(help)),
        warnings: away.into_iter().collect(),
    }
}
