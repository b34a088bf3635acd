//! One round: look once, say what is otherwise, put it back if that is wanted.

use std::collections::BTreeSet;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::log::{self, Log};
use crate::cli::args::{Choices, ReconcileArguments};
use crate::cli::choices::chosen;
use crate::cli::commands::carry_out::{Carried, LookedUp, Run, carry_out, look_up};
use crate::cli::commands::drift::recorded;
use crate::cli::commands::prepare::{Asked, Prepared, prepare, remarks};
use crate::cli::commands::ready::ask_token;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ledger::{alone_on_set, in_variables, owner};
use crate::cli::specs::{Empty, Rules, Wanted, read};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap};
use crate::model::SetName;
use crate::nomad::NomadClient;
use crate::plan::{DriftInputs, Plan, Unapproved, drift, findings};
use crate::reconcile::{
    Applied, Cause, DriftQuery, Outcome, Preflight, Resolved, RoundEnd, SetLedger, Watch,
    look_for_drift,
};
use crate::spec::Purpose;

/// The word that stands in ledgers.
const RECONCILE: &str = "reconcile";

/// What the rounds have in common.
pub(super) struct Rounds<'a> {
    pub(super) context: &'a Context,
    pub(super) client: &'a NomadClient,
    pub(super) arguments: &'a ReconcileArguments,
}

impl Rounds<'_> {
    /// Goes through a round, and says how it ended.
    pub(super) async fn one(&self, cause: Cause, log: &mut Log<'_>) -> RoundEnd {
        let started = Instant::now();
        let (ended, sources) = match self.read() {
            Ok(wanted) => (self.round(&wanted, log).await, wanted.sources),
            Err((error, sources)) => (Err(error), sources),
        };
        let took = started.elapsed();
        match ended {
            Ok(set) => {
                log.done(cause, &set, took, self.context.clock.now());
                RoundEnd::Done
            }
            Err(error) if error.exit == Exit::Interrupted => RoundEnd::Done,
            Err(error) => {
                log.failed(cause, took, &error.diagnostics, &sources);
                RoundEnd::Failed
            }
        }
    }

    /// What is wanted now.
    fn read(&self) -> Result<Wanted, (CliError, SourceMap)> {
        let unread = |error: CliError| (error, SourceMap::default());
        let (files, set) = (&self.arguments.files, &self.arguments.set);
        let asked = self.context.namespace().map_err(unread)?;
        let rules = Rules {
            purpose: Purpose::ByExternalId,
            empty: match self.arguments.choices.prune {
                true => Empty::Pruned,
                false => Empty::Taken,
            },
        };
        let read = read(self.context, files, rules, set, asked.as_ref());
        let (wanted, diagnostics) = read.map_err(unread)?;
        if diagnostics.has_errors() {
            return Err((diagnostics.into(), wanted.sources));
        }
        Ok(wanted)
    }

    /// The set's name, empty if there is none.
    async fn round(&self, wanted: &Wanted, log: &mut Log<'_>) -> Result<String, CliError> {
        let name = wanted.set.as_ref().map_or("", SetName::as_str).to_owned();
        if !self.arguments.apply {
            let looking = self.look(wanted, &name, log);
            self.context.interrupts.unless(looking).await??;
            return Ok(name);
        }
        let place = &self.arguments.place;
        let owned = owner(self.context, place, wanted.set.as_ref(), self.client);
        let Some((ledger, set)) = owned else {
            let stop = self.context.interrupts.stop();
            self.put_back(wanted, None, stop, log).await?;
            return Ok(name);
        };
        let working = async |set: &mut SetLedger, stop: &CancellationToken| {
            self.put_back(wanted, Some(set), stop, log).await
        };
        alone_on_set(self.context, ledger, &set, RECONCILE, &log::lock, working).await?;
        Ok(name)
    }

    /// Only looks: what is asked here cannot write.
    async fn look(&self, wanted: &Wanted, set: &str, log: &mut Log<'_>) -> Result<(), CliError> {
        let place = &self.arguments.place;
        let recorded = recorded(self.context, self.client, wanted, place).await?;
        let query = DriftQuery {
            wanted: &wanted.volumes,
            set: recorded.set(),
            ignore: &self.ignored(),
            parallelism: usize::from(self.arguments.parallelism.parallelism),
        };
        let found = look_for_drift(self.client, query).await?;
        log.drift(set, &found.volumes);
        Ok(())
    }

    fn ignored(&self) -> BTreeSet<String> {
        self.arguments.ignore.iter().cloned().collect()
    }

    /// Says what is otherwise, and puts back from the same look what may be.
    async fn put_back(
        &self,
        wanted: &Wanted,
        set: Option<&mut SetLedger>,
        stop: &CancellationToken,
        log: &mut Log<'_>,
    ) -> Result<(), CliError> {
        let (context, client) = (self.context, self.client);
        let parallelism = self.arguments.parallelism.parallelism;
        let choices: Choices = self.arguments.choices.clone().into();
        let asked = Asked {
            wanted,
            purpose: Purpose::ByExternalId,
            parallelism,
            chosen: chosen(context, &choices, &wanted.volumes)?,
            documents: false,
            whole_set: true,
            set: set.as_deref().map(SetLedger::set),
        };
        let prepared = prepare(context, client, &asked).await?;
        let found = drift(&DriftInputs {
            wanted: &wanted.volumes,
            // A set that was never applied remembers nothing, also not that a volume was never there.
            set: asked
                .set
                .filter(|_| set.as_deref().is_some_and(SetLedger::exists)),
            volumes: &prepared.observation.observed.volumes,
            unseen: prepared.rules.unseen,
            ignore: &self.ignored(),
        });
        log.drift(wanted.set.as_ref().map_or("", SetName::as_str), &found);
        let stuck = self.stuck(&asked, &prepared).await?;
        let is_stuck = !stuck.is_empty();
        log.stuck(stuck, &wanted.sources);
        let plan = &prepared.plan;
        let news = asked.set.is_some_and(|set| !findings(plan, set).is_empty());
        if is_stuck || plan.counts().changes() == 0 && !news {
            return Ok(());
        }
        if plan.counts().changes() > 0 {
            let remarks = remarks(plan);
            remarks
                .iter()
                .for_each(|one| log::warning(one, &wanted.sources));
        }
        let resolved = self.secrets(wanted, plan).await?;
        let run = Run {
            command: RECONCILE,
            set,
            saved: None,
            applied: Applied::All,
            resolved: &resolved,
            parallelism,
            stop,
            watch: &Quiet,
        };
        let Carried { outcomes, news } = carry_out(context, client, &prepared, run).await?;
        news.iter().for_each(|line| tracing::info!("{line}"));
        let failures = log.outcomes(plan, &outcomes);
        if failures.is_empty() {
            return Ok(());
        }
        Err(failures.into())
    }

    async fn secrets(&self, wanted: &Wanted, plan: &Plan) -> Result<Resolved, CliError> {
        match look_up(self.context, wanted, plan).await? {
            LookedUp::Secrets(resolved, warnings) => {
                let warnings = warnings.iter();
                warnings.for_each(|one| log::warning(one, &wanted.sources));
                Ok(resolved)
            }
            LookedUp::Missing(missing) => {
                let missing = missing.into_iter();
                let noted = missing.map(|one| one.note("nothing was changed"));
                Err(noted.collect::<Diagnostics>().into())
            }
        }
    }

    /// What a person has to settle: nothing is begun while there is any of it. A plugin that is not
    /// well is not waited for, since the next round is the wait.
    async fn stuck(
        &self,
        asked: &Asked<'_>,
        prepared: &Prepared,
    ) -> Result<Vec<Diagnostic>, CliError> {
        let plan = &prepared.plan;
        let planned = plan.volumes.iter();
        let mut reasons: Vec<Diagnostic> = planned
            .flat_map(|planned| planned.action.reasons())
            .cloned()
            .collect();
        let missing = asked.chosen.approvals.missing(plan);
        reasons.extend(missing.iter().map(unapproved));
        if !reasons.is_empty() {
            return Ok(reasons);
        }
        let (place, set) = (&self.arguments.place, asked.wanted.set.as_ref());
        let ledger = in_variables(place, set);
        match ask_token(self.context, self.client, prepared, ledger.as_ref()).await? {
            Preflight::Granted => Ok(vec![]),
            Preflight::Missing(missing) => Ok(vec![*missing]),
            Preflight::Unknown(why) => {
                tracing::info!("whether the token may do this is not known: {why}; going on");
                Ok(vec![])
            }
        }
    }
}

fn unapproved(one: &Unapproved) -> Diagnostic {
    let (key, risk) = (&one.key, one.risk);
    let flag = format!("--approve {risk}:{}/{}", key.namespace, key.id);
    let message = format!("volume {key}: {risk}; nobody agreed with {flag}");
    Diagnostic::error(Code::CliApprovalNeeded, message)
}

/// Nobody looks on: what was done is told at the end.
struct Quiet;

impl Watch for Quiet {
    fn began(&self, _: usize) {}
    fn ended(&self, _: usize, _: &Outcome) {}
}
