//! Before anything is changed: plugins are well, and the token may do what is planned. And after it:
//! volumes can be used.
//!
//! A plugin that has just been started, or is being moved, has no healthy controller for a moment,
//! and a plan made then is blocked (`users` 18). So the plan is made again once its plugin has
//! changed, and after two minutes at most as it is. Nothing is waited for if something else blocks
//! the run anyway.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::time::{Instant, sleep};

use crate::cli::commands::prepare::{Asked, Prepared, prepare};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::one_line;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap};
use crate::model::{Namespace, NamespacedId, PluginId};
use crate::nomad::NomadClient;
use crate::plan::{Awaited, LedgerPlace, Needs, Plan, PluginState};
use crate::ports::{ServerKind, VolumeReader};
use crate::reconcile::{Preflight, Wait, Waited, preflight, wait};

/// How long a plugin is waited for.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a volume is waited for afterwards.
const UNTIL_SCHEDULABLE: Duration = Duration::from_secs(300);
/// The pause between two looks at a plugin.
const LOOK: Duration = Duration::from_secs(1);

/// Makes the plan once the plugins that it needs are well.
///
/// # Errors
/// Those of [`prepare`].
pub(crate) async fn prepare_when_well(
    context: &Context,
    api: &NomadClient,
    asked: &Asked<'_>,
    keep_going: bool,
) -> Result<Prepared, CliError> {
    let end = Instant::now() + PATIENCE;
    let mut told = vec![];
    loop {
        let prepared = prepare(context, api, asked).await?;
        let unwell = unwell(&prepared.plan, keep_going);
        if unwell.is_empty() || Instant::now() >= end {
            return Ok(prepared);
        }
        let reasons: Vec<_> = unwell.values().cloned().collect();
        if reasons != told {
            for reason in &reasons {
                let reason = one_line(reason);
                context.printer.talk(&format!("waiting: {reason}"));
            }
            told = reasons;
        }
        let change = changed(api, &prepared, unwell.keys(), end);
        context.interrupts.unless(change).await?;
    }
}

/// Plugins that have to become well, each with why; none if that would not be enough.
fn unwell(plan: &Plan, keep_going: bool) -> BTreeMap<PluginId, String> {
    let mut unwell = BTreeMap::new();
    for planned in &plan.volumes {
        let reasons = planned.action.reasons();
        if reasons.is_empty() {
            continue;
        }
        let is_health = |code: Code| code == Code::PluginUnhealthy;
        let only_health = reasons.iter().all(|reason| is_health(reason.code));
        if let Some(spec) = planned.spec.as_ref().filter(|_| only_health) {
            let plugin = spec.request.plugin_id.clone();
            let why = format!("plugin {plugin} has no healthy controller");
            unwell.insert(plugin, why);
        } else if !keep_going {
            return BTreeMap::new();
        }
    }
    unwell
}

/// Resolves once one of the plugins is otherwise than it was seen, or time is over.
async fn changed(
    api: &dyn VolumeReader,
    prepared: &Prepared,
    plugins: impl Iterator<Item = &PluginId>,
    end: Instant,
) {
    let observed = &prepared.observation.observed.plugins;
    let before: Vec<_> = plugins
        .map(|id| match observed.get(id) {
            Some(PluginState::Known(plugin)) => (id, Some(plugin.summary.controllers)),
            Some(PluginState::Missing | PluginState::Unknown) | None => (id, None),
        })
        .collect();
    while Instant::now() < end {
        sleep(LOOK).await;
        for (id, then) in &before {
            // A server that is away for a moment says nothing about the plugin.
            let Ok(found) = api.read_plugin(id, &Namespace::default()).await else {
                continue;
            };
            let now = found.map(|reading| reading.value.summary.controllers);
            if now != *then {
                return;
            }
        }
    }
}

/// Waits until volumes can be used, and says which cannot; why, each time that changes.
///
/// # Errors
/// If the server cannot be asked, or somebody interrupts.
pub(crate) async fn wait_until_schedulable(
    context: &Context,
    api: &NomadClient,
    volumes: Vec<NamespacedId>,
    parallelism: u16,
) -> Result<Exit, CliError> {
    let waits = volumes.into_iter().map(async |volume| {
        let shown = one_line(&volume.to_string());
        let order = Wait {
            volume,
            awaited: Awaited::Schedulable,
            patience: UNTIL_SCHEDULABLE,
        };
        let mut tell = |why: &str| {
            let line = format!("volume {shown}: not schedulable yet: {}", one_line(why));
            context.printer.talk(&line);
        };
        let why = match wait(api, &order, &mut tell).await? {
            Waited::Reached => return Ok(None),
            Waited::Gone => "it is gone".to_owned(),
            Waited::TooLong(why) => why,
        };
        let message = format!("volume {shown} was applied, and is not schedulable");
        let problem = Diagnostic::error(Code::VolumeNotYet, message).note(why);
        Ok::<_, CliError>(Some(problem.help(Code::VolumeNotYet.remedy())))
    });
    let waiting = stream::iter(waits)
        .buffered(usize::from(parallelism))
        .try_collect::<Vec<_>>();
    let problems = context.interrupts.unless(waiting).await??;
    let problems: Vec<Diagnostic> = problems.into_iter().flatten().collect();
    if problems.is_empty() {
        return Ok(Exit::Done);
    }
    let problems = problems.into_iter().collect::<Diagnostics>();
    context.report(&problems, &SourceMap::default());
    Ok(Exit::Blocked)
}

/// Asks whether the token may carry out the plan. A plan that changes nothing needs nothing, and the
/// agent asks nobody who he is.
///
/// # Errors
/// If the server does not know the token, or cannot be reached.
pub(crate) async fn ask_token(
    context: &Context,
    api: &NomadClient,
    prepared: &Prepared,
    ledger: Option<&LedgerPlace>,
) -> Result<Preflight, CliError> {
    let plan = &prepared.plan;
    if prepared.server == ServerKind::Agent || plan.counts().changes() == 0 {
        return Ok(Preflight::Granted);
    }
    let needs = Needs::of_plan(plan, ledger);
    let asking = preflight(api, &needs);
    Ok(context.interrupts.unless(asking).await??)
}

/// The same; says so where it cannot be known.
///
/// # Errors
/// If the token may not, with what is missing and a policy to paste; and those of [`ask_token`].
pub(crate) async fn check_token(
    context: &Context,
    api: &NomadClient,
    prepared: &Prepared,
    ledger: Option<&LedgerPlace>,
) -> Result<(), CliError> {
    match ask_token(context, api, prepared, ledger).await? {
        Preflight::Granted => Ok(()),
        Preflight::Missing(missing) => {
            Err(CliError::blocked([missing.note("nothing was changed")]))
        }
        Preflight::Unknown(why) => {
            let why = one_line(&why);
            let line = format!("whether the token may do this is not known: {why}; going on");
            context.printer.talk(&line);
            Ok(())
        }
    }
}
