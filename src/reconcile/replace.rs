//! A volume is removed, then made anew, because somebody asked for that by name.
//!
//! Between the two steps there is none. Each is noted by itself, and both are level-triggered: a run
//! that was cut short after the first finds no volume, and the next plan creates it. With a snapshot
//! wanted first, nothing is removed before the provider has said that it is cut and ready.

use super::change::{Call, Verb, send};
use super::execution::Execution;
use super::outcome::{Ending, Outcome};
use super::remove::{Clear, clear, take_away};
use crate::plan::{Pin, Planned, Removal, Replace, ReplaceSteps};

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
            let removed = take_away(execution, planned, removal).await;
            if !removed.ending.is_success() {
                return removed;
            }
            removed.warnings
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
