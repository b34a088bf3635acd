//! One volume goes: recheck, look who is in the way, note, call, look that it is gone, note.
//!
//! A server may delete the data before it asks whether anybody uses it (W09, `nomad-http-api` 3.7),
//! so that is asked here, of what was read right before: who claims the volume, and which other
//! registration has the same data. That somebody has removed it already is what was wanted.

use super::change::{LOOKS, recheck};
use super::execution::Execution;
use super::outcome::{Ending, Outcome};
use super::record::Recorded;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{Namespace, NamespacedId, Secrets, Volume, VolumeSummary};
use crate::plan::{IntentStep, Pin, Planned, Removal, removal_problems};
use crate::ports::{ApiError, VolumeApi, VolumeQuery};

/// Removes the volume of an entry.
pub(super) async fn remove(
    execution: &Execution<'_>,
    planned: &Planned,
    removal: Removal,
) -> Outcome {
    match clear(execution, &planned.key, planned.pin, removal).await {
        Ok(Clear::Gone) => gone(execution, &planned.key, vec![]).await,
        Ok(Clear::There(_)) if execution.stop.is_cancelled() => Outcome::plain(Ending::NotBegun),
        Ok(Clear::There(existing)) => take_away(execution, planned, &existing, removal).await,
        Err(ending) => Outcome::plain(ending),
    }
}

/// What there is to remove.
pub(super) enum Clear {
    /// The volume, and nothing stands against its removal.
    There(Box<Volume>),
    /// Nothing any more.
    Gone,
}

/// Looks right before a removal whether anything has come to stand against it.
pub(super) async fn clear(
    execution: &Execution<'_>,
    key: &NamespacedId,
    pin: Pin,
    removal: Removal,
) -> Result<Clear, Ending> {
    let now = match recheck(execution.api, key, pin).await {
        Ok(Some(now)) => now,
        Ok(None) => return Ok(Clear::Gone),
        Err(ending) => return is_gone(execution.api, key, ending).await,
    };
    let others = match removal {
        Removal::Delete => everything(execution.api).await.map_err(|error| {
            let failed = error.diagnostic().note(format!(
                "volume {key} was left as it is: whether another registration has its data must be known first"
            ));
            Ending::Failed(failed)
        })?,
        Removal::Deregister { .. } => vec![],
    };
    match removal_problems(&now, removal, &others).into_iter().next() {
        None => Ok(Clear::There(Box::new(now))),
        Some(problem) => Err(Ending::Stale(problem)),
    }
}

/// Somebody else may have removed it since the plan was made.
async fn is_gone(api: &dyn VolumeApi, key: &NamespacedId, ending: Ending) -> Result<Clear, Ending> {
    match (&ending, api.read_volume(key).await) {
        (Ending::Stale(_), Ok(None)) => Ok(Clear::Gone),
        _ => Err(ending),
    }
}

async fn everything(api: &dyn VolumeApi) -> Result<Vec<VolumeSummary>, ApiError> {
    let query = VolumeQuery {
        namespace: Namespace::new(Namespace::ALL),
        prefix: None,
        plugin: None,
    };
    let listed = api.list_volumes(&query).await?;
    Ok(listed.into_iter().map(|reading| reading.value).collect())
}

/// The secrets that a call about the volume as it is takes along: those of its file, unless they are
/// meant for another plugin.
pub(super) fn secrets_for(execution: &Execution<'_>, existing: &Volume) -> Secrets {
    let wanted = execution.resolved.request(&existing.key());
    let given = wanted.filter(|wanted| wanted.plugin_id == existing.plugin_id);
    given
        .and_then(|wanted| wanted.secrets.clone())
        .unwrap_or_default()
}

/// Removes it, with nothing in the way.
pub(super) async fn take_away(
    execution: &Execution<'_>,
    planned: &Planned,
    existing: &Volume,
    removal: Removal,
) -> Outcome {
    let key = &planned.key;
    let step = match removal {
        Removal::Delete => IntentStep::Delete,
        Removal::Deregister { .. } => IntentStep::Deregister,
    };
    if let Err(refused) = execution.record.begin(key, step).await {
        return Outcome::plain(Ending::Failed(refused));
    }
    let sent = match removal {
        Removal::Delete => {
            let secrets = secrets_for(execution, existing);
            execution.api.delete_volume(key, &secrets).await
        }
        Removal::Deregister { force } => execution.api.deregister_volume(key, force).await,
    };
    match sent {
        Ok(()) => gone(execution, key, vec![]).await,
        Err(error) if error.code == Code::VolumeNotFound => gone(execution, key, vec![]).await,
        Err(error) if error.code == Code::ApiOutcomeUnknown => {
            find_out(execution, key, error).await
        }
        Err(error) => not_removed(execution, key, &error).await,
    }
}

async fn not_removed(execution: &Execution<'_>, key: &NamespacedId, error: &ApiError) -> Outcome {
    let ending = if error.code == Code::VolumeInUse {
        Ending::Stale(error.diagnostic())
    } else {
        Ending::Failed(error.diagnostic())
    };
    let noted = execution.record.end(key, Recorded::Nothing).await;
    Outcome {
        ending,
        warnings: noted.err().into_iter().collect(),
    }
}

async fn gone(
    execution: &Execution<'_>,
    key: &NamespacedId,
    mut warnings: Vec<Diagnostic>,
) -> Outcome {
    let noted = execution.record.end(key, Recorded::Removed).await;
    warnings.extend(noted.err());
    Outcome {
        ending: Ending::Removed,
        warnings,
    }
}

async fn find_out(execution: &Execution<'_>, key: &NamespacedId, error: ApiError) -> Outcome {
    let mut seen = false;
    for pause in LOOKS {
        tokio::time::sleep(pause).await;
        match execution.api.read_volume(key).await {
            Ok(None) => {
                let message =
                    format!("the answer was lost, but volume {key} was found to be removed");
                let warning = Diagnostic::warning(Code::ApiOutcomeUnknown, message);
                return gone(execution, key, vec![warning.note(error.message)]).await;
            }
            Ok(Some(_)) => seen = true,
            Err(_) => {}
        }
    }
    let found = if seen {
        "seven seconds later the server still has the volume; it may still be at work"
    } else {
        "looking for it failed too: the server cannot be reached"
    };
    let help = "wait a little, then run the same command again: it plans from what is there";
    Outcome::plain(Ending::Failed(error.diagnostic().note(found).help(help)))
}
