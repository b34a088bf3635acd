//! A plan is carried out, in a set's name if there is one: no questions, no plan on the screen.
//!
//! `apply` comes here once somebody has agreed. Whoever else applies plans does the same steps:
//! [`crate::cli::ledger::alone_on_set`], `prepare`, [`look_up`], and [`carry_out`]. These two print
//! nothing: what there is to be said they hand back, because a loop has a log and no screen.

use tokio_util::sync::CancellationToken;

use crate::cli::commands::prepare::Prepared;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ledger::actor;
use crate::cli::specs::Wanted;
use crate::cli::ui::one_line;
use crate::diagnostic::Diagnostics;
use crate::model::NamespacedId;
use crate::nomad::NomadClient;
use crate::plan::{Finding, LedgerSet, Plan, findings};
use crate::reconcile::{
    Applied, Ending, Execution, Outcome, Owner, Resolved, SetLedger, Unrecorded, Unresolved, Watch,
    apply, resolve,
};

/// How a plan is carried out.
pub(crate) struct Run<'a> {
    /// What was run: `apply`.
    pub command: &'a str,
    /// In whose name, with the set's lock held; `None` if nothing is to be owned.
    pub set: Option<&'a mut SetLedger>,
    /// The plan's ID if it was saved.
    pub saved: Option<&'a str>,
    /// What of it the set remembers.
    pub applied: Applied,
    /// What is sent, with its secrets.
    pub resolved: &'a Resolved,
    /// How many volumes at once.
    pub parallelism: u16,
    /// Nothing new begins once this is cancelled.
    pub stop: &'a CancellationToken,
    /// Is told what goes on.
    pub watch: &'a dyn Watch,
}

/// The requests that are about to be sent.
pub(crate) enum LookedUp {
    /// They have their secrets; beside them what is to be warned of.
    Secrets(Resolved, Diagnostics),
    /// Secrets are missing: which. Nothing may be sent.
    Missing(Diagnostics),
}

/// Looks up the secrets of everything that is to be sent.
///
/// # Errors
/// If somebody interrupts.
pub(crate) async fn look_up(
    context: &Context,
    wanted: &Wanted,
    plan: &Plan,
) -> Result<LookedUp, CliError> {
    let sent = plan.volumes.iter().filter_map(|planned| {
        let (spec, request) = (planned.spec.as_ref()?, planned.request()?);
        let directory = wanted.directory_of(context, spec);
        Some(Unresolved::new(spec, request.clone(), directory))
    });
    let looking_up = resolve(sent.collect(), context.secrets());
    Ok(match context.interrupts.unless(looking_up).await? {
        Ok((resolved, warnings)) => LookedUp::Secrets(resolved, warnings),
        Err(missing) => LookedUp::Missing(missing),
    })
}

/// The same, for commands that have a screen: says what is missing and what is to be warned of.
///
/// # Errors
/// If something is missing, or somebody interrupts.
pub(crate) async fn look_up_aloud(
    context: &Context,
    wanted: &Wanted,
    plan: &Plan,
) -> Result<Resolved, CliError> {
    match look_up(context, wanted, plan).await? {
        LookedUp::Secrets(resolved, warnings) => {
            context.report(&warnings, &wanted.sources);
            Ok(resolved)
        }
        LookedUp::Missing(missing) => {
            context.report(&missing, &wanted.sources);
            let why = "nothing was changed, because secrets are missing";
            context.printer.talk(why);
            Err(CliError::said(Exit::Error))
        }
    }
}

/// A plan that was carried out.
pub(crate) struct Carried {
    /// How each volume ended, in the plan's order.
    pub outcomes: Vec<Outcome>,
    /// What the ledger has learned beside what was done, a line each.
    pub news: Vec<String>,
}

/// Carries out the plan.
///
/// # Errors
/// If the ledger cannot be written. Then nothing was changed.
pub(crate) async fn carry_out(
    context: &Context,
    api: &NomadClient,
    prepared: &Prepared,
    run: Run<'_>,
) -> Result<Carried, CliError> {
    let plan = &prepared.plan;
    let execution = Execution {
        api,
        snapshots: api,
        rules: prepared.rules,
        resolved: run.resolved,
        parallelism: usize::from(run.parallelism),
        stop: run.stop,
        watch: run.watch,
        record: &Unrecorded,
    };
    let news = run.set.as_ref().map(|set| {
        let set = set.set();
        told(set, &findings(plan, set))
    });
    let owner = run.set.map(|set| Owner {
        set,
        by: actor(context, run.command),
        clock: context.clock.clone(),
        observed: &prepared.observation.observed,
        saved: run.saved,
        applied: run.applied,
    });
    Ok(Carried {
        outcomes: apply(&execution, plan, owner).await?,
        news: news.unwrap_or_default(),
    })
}

/// What the ledger has learned beside what was done, a line each.
fn told(set: &LedgerSet, findings: &[(NamespacedId, Finding)]) -> Vec<String> {
    let name = set.name();
    let line = |(key, finding): &(NamespacedId, Finding)| {
        let key = one_line(&key.to_string());
        match finding {
            Finding::TakenIn => format!("volume {key}: owned by set {name} from now on"),
            Finding::Gone => format!("volume {key}: gone, and no longer owned by set {name}"),
            Finding::Protected => format!("volume {key}: protected by set {name} from now on"),
            Finding::Unprotected => format!("volume {key}: no longer protected by set {name}"),
        }
    };
    findings.iter().map(line).collect()
}

/// How many ended how, if not all of several ended well.
fn summary(outcomes: &[Outcome]) -> Option<String> {
    let count = |is: fn(&Ending) -> bool| outcomes.iter().filter(|one| is(&one.ending)).count();
    let failed = count(|ending| matches!(ending, Ending::Failed(_)));
    let left =
        count(|ending| matches!(ending, Ending::Blocked | Ending::Stale(_) | Ending::Held(_)));
    if outcomes.len() < 2 || failed + left == 0 {
        return None;
    }
    let parts = [
        (
            count(|ending| matches!(ending, Ending::Done(_) | Ending::Removed)),
            "done",
        ),
        (failed, "failed"),
        (left, "left as it was"),
        (count(|ending| *ending == Ending::NotBegun), "not begun"),
        (count(|ending| *ending == Ending::Unchanged), "unchanged"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<_> = parts
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    Some(format!(
        "of {} volumes: {}",
        outcomes.len(),
        parts.join(", ")
    ))
}

/// Says what went wrong, and how the run ends.
pub(crate) fn tell(context: &Context, wanted: &Wanted, plan: &Plan, outcomes: &[Outcome]) -> Exit {
    let mut exit = Exit::Done;
    let mut remarks = vec![];
    let mut not_begun = vec![];
    for (planned, outcome) in plan.volumes.iter().zip(outcomes) {
        remarks.extend(outcome.warnings.iter().cloned());
        match &outcome.ending {
            Ending::Unchanged | Ending::Done(_) | Ending::Removed => {}
            Ending::Blocked => exit = exit.max(Exit::Blocked),
            Ending::Stale(why) | Ending::Held(why) => {
                remarks.push(why.clone());
                exit = exit.max(Exit::Blocked);
            }
            Ending::Failed(why) => {
                remarks.push(why.clone());
                exit = exit.max(Exit::Error);
            }
            Ending::NotBegun => not_begun.push(planned.key.to_string()),
        }
    }
    context.report(
        &remarks.into_iter().collect::<Diagnostics>(),
        &wanted.sources,
    );
    if let Some(sum) = summary(outcomes) {
        context.printer.talk(&sum);
    }
    if not_begun.is_empty() {
        return exit;
    }
    let (why, ended) = if context.interrupts.stop().is_cancelled() {
        ("interrupted", Exit::Interrupted)
    } else {
        ("the set's lock was lost", Exit::Error)
    };
    let list = not_begun.join(", ");
    context.printer.talk(&format!("{why}; not begun: {list}"));
    exit.max(ended)
}
