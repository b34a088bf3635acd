//! Carries out a plan: recheck, call, read back, one outcome per volume.
//!
//! Before every change the volume is read again and compared with the plan's pin; one that has
//! moved is left alone. A call is sent once. If its answer is lost, what happened is found out by
//! reading, never by sending it again: a server may still be at work on the first
//! (`nomad-http-api` 10.1, item 11). After a change the volume is read back and compared with what
//! was wanted, so that a server that took a field and dropped it is noticed.
//!
//! Volumes are independent: one that fails stops none of the others. On interrupt, calls that run
//! are waited for and nothing new begins. After a crash nothing needs repair here: the next run
//! plans from what is there.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio_util::sync::CancellationToken;

use super::outcome::{Ending, Outcome};
use super::resolve::Resolved;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::Volume;
use crate::plan::{Action, MergeRules, Pin, Plan, Planned, remaining};
use crate::ports::{ApiError, Reading, VolumeApi, Written};

/// Is told what goes on, to show it.
pub trait Watch: Sync {
    /// The volume at this position of the plan is being worked on.
    fn began(&self, position: usize);
    /// It has ended.
    fn ended(&self, position: usize, outcome: &Outcome);
}

/// What a plan is carried out with.
pub struct Execution<'a> {
    /// The server.
    pub api: &'a dyn VolumeApi,
    /// How that server merges.
    pub rules: MergeRules,
    /// The requests of all volumes that are to be changed, with their secrets.
    pub resolved: &'a Resolved,
    /// How many volumes at once.
    pub parallelism: usize,
    /// Nothing new begins once this is cancelled.
    pub stop: &'a CancellationToken,
    /// Is told what goes on.
    pub watch: &'a dyn Watch,
}

/// Carries out a plan; the outcomes are in its order.
pub async fn execute(execution: &Execution<'_>, plan: &Plan) -> Vec<Outcome> {
    let steps = plan
        .volumes
        .iter()
        .enumerate()
        .map(|(position, planned)| one(execution, position, planned));
    let mut ended: Vec<(usize, Outcome)> = stream::iter(steps)
        .buffer_unordered(execution.parallelism.max(1))
        .collect()
        .await;
    ended.sort_by_key(|(position, _)| *position);
    ended.into_iter().map(|(_, outcome)| outcome).collect()
}

async fn one(execution: &Execution<'_>, position: usize, planned: &Planned) -> (usize, Outcome) {
    let outcome = match &planned.action {
        Action::Unchanged => Outcome::plain(Ending::Unchanged),
        // Removals are planned only if somebody asks for them, and the command line has no word yet.
        Action::Blocked(_)
        | Action::Waits(_)
        | Action::Replace(_)
        | Action::Deregister
        | Action::DeleteData => Outcome::plain(Ending::Blocked),
        Action::Create(_) | Action::Register(_) | Action::Update(_) | Action::Expand(_)
            if execution.stop.is_cancelled() =>
        {
            Outcome::plain(Ending::NotBegun)
        }
        Action::Create(_) | Action::Register(_) | Action::Update(_) | Action::Expand(_) => {
            execution.watch.began(position);
            let outcome = change(execution, planned).await;
            execution.watch.ended(position, &outcome);
            outcome
        }
    };
    (position, outcome)
}

async fn change(execution: &Execution<'_>, planned: &Planned) -> Outcome {
    if let Err(ending) = recheck(execution.api, planned).await {
        return Outcome::plain(ending);
    }
    if execution.stop.is_cancelled() {
        return Outcome::plain(Ending::NotBegun);
    }
    let Some(request) = execution.resolved.request(&planned.key) else {
        let message = format!("the secrets of volume {} were not looked up", planned.key);
        let failed = Diagnostic::error(Code::Internal, message);
        return Outcome::plain(Ending::Failed(failed));
    };
    let written = match &planned.action {
        Action::Create(_) => execution.api.create_volume(request).await,
        Action::Register(_) | Action::Update(_) | Action::Expand(_) => {
            execution.api.register_volume(request).await
        }
        Action::Unchanged
        | Action::Replace(_)
        | Action::Deregister
        | Action::DeleteData
        | Action::Waits(_)
        | Action::Blocked(_) => Ok(Written::default()),
    };
    match written {
        Ok(written) => read_back(execution, planned, written).await,
        Err(error) if error.code == Code::ApiOutcomeUnknown => {
            find_out(execution, planned, error).await
        }
        Err(error) => Outcome::plain(Ending::Failed(error.diagnostic())),
    }
}

async fn recheck(api: &dyn VolumeApi, planned: &Planned) -> Result<(), Ending> {
    let key = &planned.key;
    let now = match api.read_volume(key).await {
        Ok(now) => now,
        Err(error) => {
            let failed = error.diagnostic().note(format!(
                "volume {key} was left as it is: it has to be read right before it is changed"
            ));
            return Err(Ending::Failed(failed));
        }
    };
    let now = now.as_ref().map(|reading| &reading.value);
    match planned.pin.broken_by(now) {
        None => Ok(()),
        Some(why) => Err(Ending::Stale(
            Diagnostic::error(
                Code::PlanStale,
                format!("volume {key} was left as it is: it has changed since the plan was made"),
            )
            .note(why)
            .help("run the command again: it plans from what is there now"),
        )),
    }
}

async fn read_back(execution: &Execution<'_>, planned: &Planned, written: Written) -> Outcome {
    let key = &planned.key;
    let said = written.warnings.iter().map(|text| {
        Diagnostic::warning(
            Code::ApplyServerWarning,
            format!("the server warns about volume {key}"),
        )
        .note(text.clone())
    });
    let mut warnings: Vec<_> = said.collect();
    let reading = match execution.api.read_volume(key).await {
        Ok(Some(reading)) => reading,
        Ok(None) => {
            let gone = format!("volume {key} was accepted, but the server does not have it");
            let help = "somebody may have removed it meanwhile; run the command again";
            let ending = Diagnostic::error(Code::ApplyNotAsWritten, gone).help(help);
            return Outcome {
                ending: Ending::Failed(ending),
                warnings,
            };
        }
        Err(error) => {
            let message = format!("volume {key} was written, but could not be read back");
            let warning = Diagnostic::warning(error.code, message).note(error.message);
            warnings.push(warning);
            return Outcome {
                ending: Ending::Done(None),
                warnings,
            };
        }
    };
    warnings.extend(not_as_written(execution.rules, planned, &reading.value));
    Outcome {
        ending: Ending::Done(Some(Box::new(reading))),
        warnings,
    }
}

fn not_as_written(rules: MergeRules, planned: &Planned, now: &Volume) -> Option<Diagnostic> {
    let fields = remaining(planned.request()?, now, rules);
    (!fields.is_empty()).then(|| {
        let key = &planned.key;
        let fields = fields.join(", ");
        Diagnostic::warning(
            Code::ApplyNotAsWritten,
            format!("the server accepted volume {key}, and it still differs in: {fields}"),
        )
        .help(format!(
            "compare with `nomad-csi volume status {} -o json`",
            key.id
        ))
    })
}

/// How often and after which pauses an unanswered change is looked for.
const LOOKS: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

async fn find_out(execution: &Execution<'_>, planned: &Planned, error: ApiError) -> Outcome {
    let key = &planned.key;
    let mut seen = None;
    for pause in LOOKS {
        tokio::time::sleep(pause).await;
        match execution.api.read_volume(key).await {
            Ok(Some(reading)) if has_arrived(execution.rules, planned, &reading) => {
                let message = format!(
                    "the answer was lost, but the change of volume {key} was found to be done"
                );
                let warning =
                    Diagnostic::warning(Code::ApiOutcomeUnknown, message).note(error.message);
                return Outcome {
                    ending: Ending::Done(Some(Box::new(reading))),
                    warnings: vec![warning],
                };
            }
            Ok(found) => seen = Some(found.is_some()),
            Err(_) => {}
        }
    }
    let found = match seen {
        None => "looking for it failed too: the server cannot be reached",
        Some(false) => {
            "seven seconds later the server does not have the volume; it may still be at work"
        }
        Some(true) => {
            "seven seconds later the volume is as before; the server may still be at work"
        }
    };
    let failed = error
        .diagnostic()
        .note(found)
        .help("wait a little, then run the same command again: it plans from what is there, and does nothing twice");
    Outcome::plain(Ending::Failed(failed))
}

fn has_arrived(rules: MergeRules, planned: &Planned, reading: &Reading<Volume>) -> bool {
    let moved = planned.pin != Pin::of(Some(&reading.value));
    let as_wanted = |request| remaining(request, &reading.value, rules).is_empty();
    moved && planned.request().is_some_and(as_wanted)
}

#[cfg(test)]
mod tests;
