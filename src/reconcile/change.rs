//! One volume is made or changed: recheck, note, call, read back, note.
//!
//! After a change the volume is read back and compared with what was wanted, so that a server that
//! took a field and dropped it is noticed. A call whose answer is lost is not repeated; whether it
//! arrived is read from what is there.

use std::time::Duration;

use super::execution::Execution;
use super::outcome::{Ending, Outcome};
use super::record::Recorded;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{NamespacedId, Volume, VolumeRequest, WantedRequest};
use crate::plan::{IntentStep, MergeRules, Pin, Planned, remaining};
use crate::ports::{ApiError, Reading, VolumeApi, Written};

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// Create it in the provider and register it.
    Create,
    /// Register it, or register it again with other fields.
    Register,
    /// The same, and the provider makes it larger.
    Expand,
}

/// A call that makes or changes a volume.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    verb: Verb,
    wanted: &'a WantedRequest,
}

impl<'a> Call<'a> {
    /// Sends what is wanted so.
    pub(super) fn new(verb: Verb, wanted: &'a WantedRequest) -> Self {
        Self { verb, wanted }
    }

    fn step(self) -> IntentStep {
        match self.verb {
            Verb::Create => IntentStep::Create,
            Verb::Register => IntentStep::Register,
            Verb::Expand => IntentStep::Expand,
        }
    }
}

/// Makes or changes the volume of an entry.
pub(super) async fn change(
    execution: &Execution<'_>,
    planned: &Planned,
    call: Call<'_>,
) -> Outcome {
    if let Err(ending) = recheck(execution.api, &planned.key, planned.pin).await {
        return Outcome::plain(ending);
    }
    if execution.stop.is_cancelled() {
        return Outcome::plain(Ending::NotBegun);
    }
    send(execution, &planned.key, planned.pin, call).await
}

/// The volume as it is now, if it is what the plan relied on.
pub(super) async fn recheck(
    api: &dyn VolumeApi,
    key: &NamespacedId,
    pin: Pin,
) -> Result<Option<Volume>, Ending> {
    let now = match api.read_volume(key).await {
        Ok(now) => now.map(|reading| reading.value),
        Err(error) => {
            let failed = error.diagnostic().note(format!(
                "volume {key} was left as it is: it has to be read right before it is changed"
            ));
            return Err(Ending::Failed(failed));
        }
    };
    match pin.broken_by(now.as_ref()) {
        None => Ok(now),
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

/// Sends a call whose volume was as `pin` says, and finds out what became of it.
pub(super) async fn send(
    execution: &Execution<'_>,
    key: &NamespacedId,
    pin: Pin,
    call: Call<'_>,
) -> Outcome {
    let Some(request) = execution.resolved.request(key) else {
        let message = format!("the secrets of volume {key} were not looked up");
        let failed = Diagnostic::error(Code::Internal, message);
        return Outcome::plain(Ending::Failed(failed));
    };
    if let Err(refused) = execution.record.begin(key, call.step()).await {
        return Outcome::plain(Ending::Failed(refused));
    }
    let written = match call.verb {
        Verb::Create => execution.api.create_volume(request).await,
        Verb::Register | Verb::Expand => execution.api.register_volume(request).await,
    };
    let outcome = match written {
        Ok(written) => read_back(execution, key, call, written).await,
        Err(error) if error.code == Code::ApiOutcomeUnknown => {
            let outcome = find_out(execution, key, pin, call, error).await;
            if !outcome.ending.is_success() {
                return outcome;
            }
            outcome
        }
        Err(error) => Outcome::plain(Ending::Failed(error.diagnostic())),
    };
    noted(execution, key, request, outcome).await
}

/// Notes how it ended. That this fails is told, and changes nothing of what was done.
async fn noted(
    execution: &Execution<'_>,
    key: &NamespacedId,
    request: &VolumeRequest,
    mut outcome: Outcome,
) -> Outcome {
    let what = match &outcome.ending {
        Ending::Done(reading) => Recorded::Applied {
            request,
            now: reading.as_ref().map(|reading| &reading.value),
        },
        Ending::Removed => Recorded::Removed,
        Ending::Unchanged
        | Ending::Blocked
        | Ending::Stale(_)
        | Ending::Held(_)
        | Ending::Failed(_)
        | Ending::NotBegun => Recorded::Nothing,
    };
    if let Err(problem) = execution.record.end(key, what).await {
        outcome.warnings.push(problem);
    }
    outcome
}

async fn read_back(
    execution: &Execution<'_>,
    key: &NamespacedId,
    call: Call<'_>,
    written: Written,
) -> Outcome {
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
    warnings.extend(not_as_written(execution.rules, call.wanted, &reading.value));
    Outcome {
        ending: Ending::Done(Some(Box::new(reading))),
        warnings,
    }
}

fn not_as_written(rules: MergeRules, request: &WantedRequest, now: &Volume) -> Option<Diagnostic> {
    let fields = remaining(request, now, rules);
    (!fields.is_empty()).then(|| {
        let key = now.key();
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
pub(super) const LOOKS: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

async fn find_out(
    execution: &Execution<'_>,
    key: &NamespacedId,
    pin: Pin,
    call: Call<'_>,
    error: ApiError,
) -> Outcome {
    let mut seen = None;
    for pause in LOOKS {
        tokio::time::sleep(pause).await;
        match execution.api.read_volume(key).await {
            Ok(Some(reading)) if has_arrived(execution.rules, pin, call.wanted, &reading) => {
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

fn has_arrived(
    rules: MergeRules,
    pin: Pin,
    request: &WantedRequest,
    reading: &Reading<Volume>,
) -> bool {
    let moved = pin != Pin::of(Some(&reading.value));
    moved && remaining(request, &reading.value, rules).is_empty()
}
