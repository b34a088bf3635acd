//! `volume create`, `volume register` and `apply`: three words for one way.
//!
//! What is there is read, a plan is made, and the plan is carried out. If a part of the plan is
//! blocked, nothing is changed. `apply` shows the plan and asks; `create` and `register` were asked
//! for by name, so they do not, and they send a volume again that is already as wanted, because that
//! is how its secrets are renewed.

use tokio_util::sync::CancellationToken;

use crate::cli::args::{Choices, Files, LedgerPlace, SetArgument};
use crate::cli::choices::chosen;
use crate::cli::commands::carry_out::{Carried, Run, carry_out, look_up_aloud, tell};
use crate::cli::commands::prepare::{Asked, Prepared, prepare, remarks, warn_of_other_owners};
use crate::cli::commands::ready::{check_token, prepare_when_well, wait_until_schedulable};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ledger::{alone_on_set, in_variables, owner, talk};
use crate::cli::saved::{as_saved, still_valid};
use crate::cli::specs::{Empty, Rules, Wanted, load_in};
use crate::cli::ui::{Output, Progress, one_line, plan_text, volume_detail, volume_list};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::model::{Namespace, NamespacedId, Volume, VolumeSummary};
use crate::nomad::NomadClient;
use crate::plan::{Action, Approvals, Plan, SavedPlan, Unapproved};
use crate::ports::{Document, Reading, VolumeApi, VolumeReader as _};
use crate::reconcile::{Applied, Ending, Outcome, SetLedger};
use crate::spec::Purpose;

/// The word that stands in ledgers.
const APPLY: &str = "apply";

/// Which word was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// `volume create`.
    Create,
    /// `volume register`.
    Register,
    /// `apply`.
    Apply(How),
}

/// How plans are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct How {
    /// Nobody is to be asked.
    pub yes: bool,
    /// What can be done is done, also while something else cannot.
    pub keep_going: bool,
    /// Plugins that are not well are not waited for.
    pub no_wait: bool,
}

impl Verb {
    /// Which rules hold for the specifications.
    pub(crate) fn purpose(self) -> Purpose {
        match self {
            Self::Create => Purpose::Create,
            Self::Register => Purpose::Register,
            Self::Apply(_) => Purpose::ByExternalId,
        }
    }
}

/// What a person asked for.
pub(crate) struct Order<'a> {
    /// What is wanted.
    pub files: &'a Files,
    /// Whose it is.
    pub set: &'a SetArgument,
    /// Where that is remembered; `None` if nothing is to be owned.
    pub place: Option<&'a LedgerPlace>,
    /// Which word was said.
    pub verb: Verb,
    /// Form of the volumes printed.
    pub output: &'a Output,
    /// How many volumes at once.
    pub parallelism: u16,
    /// What may be done besides.
    pub choices: &'a Choices,
    /// Whether the volumes are waited for until they can be used.
    pub wait: bool,
    /// Whether the server's policies are overridden where it lets one.
    pub policy_override: bool,
    /// The saved plan that is carried out, if one is.
    pub saved: Option<&'a SavedPlan>,
    /// The namespace of volumes that name none.
    pub namespace: Option<Namespace>,
}

impl Order<'_> {
    /// Whether what no file names is to go, as it is said now or was when the plan was saved.
    fn prunes(&self) -> bool {
        let saved = self.saved.map(SavedPlan::requests);
        self.choices.prune || saved.is_some_and(|saved| saved.is_ok_and(|saved| saved.prune))
    }
}

/// Carries out what the files want.
///
/// # Errors
/// If a specification is wrong, nobody agrees, or the server cannot be read.
pub(crate) async fn run(context: &Context, order: &Order<'_>) -> Result<Exit, CliError> {
    let rules = Rules {
        purpose: order.verb.purpose(),
        empty: Empty::if_pruned(order.prunes()),
    };
    let namespace = order.namespace.as_ref();
    let wanted = load_in(context, order.files, rules, order.set, namespace)?;
    context
        .with_client(async |client| {
            let client = &client.overriding_policies(order.policy_override);
            let place = order.place;
            let owned = place.and_then(|at| owner(context, at, wanted.set.as_ref(), client));
            let Some((ledger, name)) = owned else {
                let stop = context.interrupts.stop();
                return submit(context, client, &wanted, order, (None, stop)).await;
            };
            let say = talk(context);
            alone_on_set(context, ledger, &name, APPLY, &say, async |set, stop| {
                submit(context, client, &wanted, order, (Some(set), stop)).await
            })
            .await
        })
        .await
}

async fn submit(
    context: &Context,
    api: &NomadClient,
    wanted: &Wanted,
    order: &Order<'_>,
    (set, stop): (Option<&mut SetLedger>, &CancellationToken),
) -> Result<Exit, CliError> {
    let Order {
        verb, parallelism, ..
    } = *order;
    let mut chosen = chosen(context, order.choices, &wanted.volumes)?;
    if let Some(saved) = order.saved {
        still_valid(context, saved, api, set.as_deref())?;
        chosen = as_saved(chosen, saved)?;
    }
    let asked = Asked {
        wanted,
        purpose: verb.purpose(),
        parallelism,
        chosen,
        documents: true,
        whole_set: false,
        set: set.as_deref().map(SetLedger::set),
    };
    let how = match verb {
        Verb::Apply(how) => Some(how),
        Verb::Create | Verb::Register => None,
    };
    let keep_going = how.is_some_and(|how| how.keep_going);
    let mut prepared = match how {
        Some(How { no_wait: false, .. }) => {
            prepare_when_well(context, api, &asked, keep_going).await?
        }
        Some(_) | None => prepare(context, api, &asked).await?,
    };
    if let (Some(set), Some(place)) = (set.as_deref(), order.place) {
        warn_of_other_owners(context, &mut prepared, set, place).await?;
    }
    if let Some(saved) = order.saved {
        let observed = &prepared.observation.observed;
        saved.hold_against(&mut prepared.plan, observed);
    }
    if how.is_some() {
        let text = plan_text(&prepared.plan, api.name(), context.clock.now());
        context.printer.talk(&text);
    }
    context.report(&remarks(&prepared.plan), &wanted.sources);
    let counts = prepared.plan.counts();
    if counts.stuck() > 0 && (!keep_going || counts.changes() == 0) {
        let why = "nothing was changed, because not everything can be";
        context.printer.talk(why);
        if how.is_some() && counts.changes() > 0 {
            let help = "`--keep-going` does what can be done";
            context.printer.talk(help);
        }
        return Ok(Exit::Blocked);
    }
    if counts.changes() > 0 {
        if how.is_some() {
            let place = order.place;
            let ledger = place.and_then(|at| in_variables(at, wanted.set.as_ref()));
            check_token(context, api, &prepared, ledger.as_ref()).await?;
        }
        approve_risks(context, &prepared.plan, &asked.chosen.approvals).await?;
        if let Some(How { yes: false, .. }) = how {
            approve(context, api, counts.changes()).await?;
        }
    }
    if verb == Verb::Create {
        tell_existing(context, &prepared.plan);
    }
    let resolved = look_up_aloud(context, wanted, &prepared.plan).await?;
    let progress = Progress::new(&context.printer, &prepared.plan);
    let run = Run {
        applied: Applied::All,
        resolved: &resolved,
        command: APPLY,
        set,
        saved: order.saved.map(SavedPlan::id),
        parallelism,
        stop,
        watch: &progress,
    };
    let Carried { outcomes, news } = carry_out(context, api, &prepared, run).await?;
    drop(progress);
    for line in news {
        context.printer.talk(&line);
    }
    let mut exit = tell(context, wanted, &prepared.plan, &outcomes);
    if order.wait {
        let volumes = wanted_and_there(&prepared.plan, &outcomes);
        exit = exit.max(wait_until_schedulable(context, api, volumes, parallelism).await?);
    }
    print(context, &prepared, &outcomes, order.output);
    Ok(exit)
}

/// Whoever says `create` may not know that it exists.
fn tell_existing(context: &Context, plan: &Plan) {
    for planned in &plan.volumes {
        if let Action::Update(_) | Action::Expand(_) = planned.action {
            let key = one_line(&planned.key.to_string());
            context.printer.talk(&format!(
                "volume {key}: exists already, so it is updated instead"
            ));
        }
    }
}

/// Agreement to what is worse than allowed: by flags, or by typing the volume's ID on a terminal.
/// `--yes` is none.
async fn approve_risks(
    context: &Context,
    plan: &Plan,
    approvals: &Approvals,
) -> Result<(), CliError> {
    let missing = approvals.missing(plan);
    let mut problems = vec![];
    for Unapproved { key, risk, .. } in &missing {
        let name = one_line(&key.to_string());
        if context.stdin.is_terminal {
            let question = format!("Volume {name}: {risk}. To agree, type its ID: ");
            if context.answer(&question).await? == key.id.as_str() {
                continue;
            }
        }
        let message = format!("nothing was changed: nobody agreed to volume {name}: {risk}");
        let flag = format!("add `--approve {risk}:{}/{}`", key.namespace, key.id);
        let problem = Diagnostic::error(Code::CliApprovalNeeded, message);
        problems.push(problem.help(flag).help("`--yes` does not raise the risk"));
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(CliError {
        exit: Exit::ApprovalNeeded,
        ..CliError::from(problems.into_iter().collect::<Diagnostics>())
    })
}

async fn approve(context: &Context, api: &dyn VolumeApi, changes: usize) -> Result<(), CliError> {
    let volumes = if changes == 1 {
        "1 volume".to_owned()
    } else {
        format!("{changes} volumes")
    };
    if !context.stdin.is_terminal {
        let message = format!("nothing was changed: to change {volumes} somebody has to agree");
        return Err(CliError::approval_needed(
            Diagnostic::error(Code::CliApprovalNeeded, message)
                .note("standard input is no terminal, so nobody could be asked")
                .help(format!("run: {}", context.command_with_yes())),
        ));
    }
    let question = format!("Change {volumes} at {}? [y/N] ", api.name());
    if matches!(context.answer(&question).await?.as_str(), "y" | "Y" | "yes") {
        return Ok(());
    }
    let message = "nothing was changed: nobody agreed to the plan";
    Err(CliError::approval_needed(Diagnostic::error(
        Code::CliApprovalNeeded,
        message,
    )))
}

/// Volumes of the files that are as they are wanted now.
fn wanted_and_there(plan: &Plan, outcomes: &[Outcome]) -> Vec<NamespacedId> {
    let volumes = plan.volumes.iter().zip(outcomes);
    volumes
        .filter(|(planned, outcome)| planned.spec.is_some() && outcome.ending.is_success())
        .map(|(planned, _)| planned.key.clone())
        .collect()
}

fn print(context: &Context, prepared: &Prepared, outcomes: &[Outcome], output: &Output) {
    let found = found(prepared, outcomes);
    let documents: Vec<Document> = found
        .iter()
        .map(|reading| reading.document.clone())
        .collect();
    if let Some(text) = output.list(&documents) {
        context.printer.data(&text);
        return;
    }
    let text = match found.as_slice() {
        [] => return,
        [one] => volume_detail(&one.value, &context.now(), output.is_wide()),
        several => {
            let summaries: Vec<_> = several.iter().map(|one| summary(&one.value)).collect();
            volume_list(&summaries, output.is_wide())
        }
    };
    context.printer.data(&text);
}

/// The volumes as they are now, in the order of their specifications.
fn found(prepared: &Prepared, outcomes: &[Outcome]) -> Vec<Reading<Volume>> {
    let before = |key: &NamespacedId| {
        Some(Reading {
            value: prepared.observation.observed.volumes.get(key)?.clone(),
            document: prepared.observation.documents.get(key)?.clone(),
        })
    };
    let volumes = prepared.plan.volumes.iter().zip(outcomes);
    volumes
        .filter_map(|(planned, outcome)| match &outcome.ending {
            Ending::Done(Some(reading)) => Some((**reading).clone()),
            Ending::Unchanged => before(&planned.key),
            Ending::Done(None)
            | Ending::Blocked
            | Ending::Removed
            | Ending::Stale(_)
            | Ending::Held(_)
            | Ending::Failed(_)
            | Ending::NotBegun => None,
        })
        .collect()
}

fn summary(volume: &Volume) -> VolumeSummary {
    let count = |claims: usize| u64::try_from(claims).unwrap_or(u64::MAX);
    VolumeSummary {
        namespace: volume.namespace.clone(),
        id: volume.id.clone(),
        name: volume.name.clone(),
        external_id: volume.external_id.clone(),
        plugin_id: volume.plugin_id.clone(),
        provider: volume.provider.clone(),
        schedulable: volume.schedulable,
        access_mode: volume.access_mode,
        attachment_mode: volume.attachment_mode,
        readers: count(volume.read_allocs.len()),
        writers: count(volume.write_allocs.len()),
        create_index: volume.create_index,
        modify_index: volume.modify_index,
    }
}
