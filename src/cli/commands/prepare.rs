//! What is there, and the plan that follows: what `plan` and all that changes something begin with.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::timeout;

use crate::cli::args::LedgerPlace;
use crate::cli::choices::Chosen;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::ledger::forgetting;
use crate::cli::specs::Wanted;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Span};
use crate::model::{NamespacedId, ServerVersion, SetName};
use crate::nomad::NomadClient;
use crate::plan::{Inputs, LedgerSet, MergeRules, Owned, Plan, build, rules_remark, unfinished};
use crate::ports::{ServerKind, VolumeReader as _};
use crate::reconcile::{
    Looking, Observation, SetLedger, Unresolved, known_secrets, last_snapshots, observe,
};
use crate::spec::{Purpose, VolumeSpec};

/// How long other sets are looked at, which only warns.
const OTHER_SETS: Duration = Duration::from_secs(10);

/// What a plan is made of.
pub(crate) struct Asked<'a> {
    /// What is wanted.
    pub wanted: &'a Wanted,
    /// Which rules hold for it.
    pub purpose: Purpose,
    /// How many requests at once.
    pub parallelism: u16,
    /// What was asked for besides.
    pub chosen: Chosen,
    /// Whether the server's own JSON of the volumes is kept.
    pub documents: bool,
    /// Whether all that the set owns is looked at, also what no file names and nothing removes.
    pub whole_set: bool,
    /// What the ledger remembers of the set; `None` if nothing is owned.
    pub set: Option<&'a LedgerSet>,
}

/// A plan with everything that it was made from.
pub(crate) struct Prepared {
    /// What would be done.
    pub plan: Plan,
    /// What was read.
    pub observation: Observation,
    /// How the server merges.
    pub rules: MergeRules,
    /// Who the server is.
    pub server: ServerKind,
}

/// Reads what is there and makes the plan.
///
/// # Errors
/// If the server cannot be read, something is asked for that needs a ledger, or somebody interrupts.
pub(crate) async fn prepare(
    context: &Context,
    api: &NomadClient,
    asked: &Asked<'_>,
) -> Result<Prepared, CliError> {
    let requests = &asked.chosen.requests;
    if requests.prune && asked.set.is_none() {
        return Err(nothing_is_owned(asked.wanted.set.as_ref()));
    }
    let reading = async {
        let server = api.server().await?;
        let looking = Looking {
            wanted: &asked.wanted.volumes,
            others: others(asked),
            sharing: !requests.delete_data.is_empty() || !requests.replace.is_empty(),
            namespaces: server != ServerKind::Agent,
            documents: asked.documents,
            parallelism: usize::from(asked.parallelism),
        };
        Ok::<_, CliError>((server, observe(api, &looking).await?))
    };
    let (server, observation) = context.interrupts.unless(reading).await??;
    let server = match (server, &asked.chosen.version) {
        (ServerKind::Agent, _) => ServerKind::Agent,
        (_, Some(version)) => ServerKind::Nomad(version.clone()),
        (server, None) => server,
    };
    let mut observation = observation;
    let lost = requests.delete_data.iter().chain(&requests.replace);
    let asking = last_snapshots(api, &observation.observed, lost);
    let snapshots = context.interrupts.unless(asking).await?;
    observation.observed.snapshots = snapshots;
    let (rules, remark) = rules(&server);
    let owned = owned(context, asked).await?;
    let mut plan = build(Inputs {
        wanted: asked.wanted.volumes.clone(),
        purpose: asked.purpose,
        observed: &observation.observed,
        rules,
        owned: owned.as_ref(),
        requests,
    });
    let changes_nothing = plan.counts().changes() + plan.counts().stuck() == 0;
    let is_idle = changes_nothing && server == ServerKind::Undisclosed;
    plan.remarks.extend(remark.filter(|_| !is_idle));
    if let Some(set) = asked.set {
        plan.remarks.extend(unfinished(set, &observation.observed));
        let owns_nothing = requests.prune && set.owned().next().is_none();
        plan.remarks
            .extend(owns_nothing.then(|| nothing_to_prune(set)));
        let pruned = requests.prune && asked.wanted.volumes.is_empty();
        plan.remarks
            .extend((pruned && !owns_nothing).then(|| everything_goes(set)));
    }
    Ok(Prepared {
        plan,
        observation,
        rules,
        server,
    })
}

/// Warns of volumes that the set would take in and another set of the ledger owns already: of the two,
/// each would remove it once its own files no longer name it. Sets are read for that, and only if
/// there is a volume that exists and that the set does not own; what cannot be read in time, or at
/// all, is no reason for a warning, nor for an error.
///
/// # Errors
/// If somebody interrupts.
pub(crate) async fn warn_of_other_owners(
    context: &Context,
    prepared: &mut Prepared,
    set: &SetLedger,
    place: &LedgerPlace,
) -> Result<(), CliError> {
    let there = &prepared.observation.observed.volumes;
    let taken_in = prepared.plan.volumes.iter().filter(|planned| {
        let is_owned = set.set().ownership(&planned.key).is_some();
        planned.spec.is_some() && !is_owned && there.contains_key(&planned.key)
    });
    let taken_in: BTreeSet<NamespacedId> = taken_in.map(|one| one.key.clone()).collect();
    if taken_in.is_empty() {
        return Ok(());
    }
    let looking = timeout(OTHER_SETS, set.other_owners(&taken_in));
    let owners = match context.interrupts.unless(looking).await? {
        Ok(Ok(owners)) => owners,
        Ok(Err(error)) => {
            tracing::debug!(
                code = error.code.as_str(),
                "who else owns volumes is not known: {}",
                error.message
            );
            return Ok(());
        }
        Err(_) => {
            tracing::debug!(
                "who else owns volumes is not known: the ledger did not say it in time"
            );
            return Ok(());
        }
    };
    for planned in &mut prepared.plan.volumes {
        let others = owners.get(&planned.key).into_iter().flatten();
        let span = planned.span();
        let key = &planned.key;
        let warnings = others.map(|other| {
            let forgetting = forgetting(key, other, place);
            two_owners(key, (other, set.set().name()), span, &forgetting)
        });
        planned.warnings.extend(warnings);
    }
    Ok(())
}

fn two_owners(
    key: &NamespacedId,
    (other, set): (&SetName, &SetName),
    span: Option<Span>,
    forgetting: &str,
) -> Diagnostic {
    let message =
        format!("volume {key} is owned by set {other} already, and set {set} would own it too");
    let warning = Diagnostic::warning(Code::SetTwoOwners, message)
        .note("each of them could remove it with `--prune` once its own files no longer name it")
        .help(format!("if it is to be {set}'s: `{forgetting}`"))
        .help(format!(
            "if it is to stay {other}'s: take it out of these files"
        ));
    match span {
        Some(span) => warning.label(span, "it is wanted here"),
        None => warning,
    }
}

/// Volumes that no file names and that are looked at all the same.
fn others(asked: &Asked<'_>) -> BTreeSet<NamespacedId> {
    let requests = &asked.chosen.requests;
    let mut others: BTreeSet<NamespacedId> = requests.delete_data.iter().cloned().collect();
    if let Some(set) = asked.set {
        let owned = set.owned().map(|(key, _)| key);
        others.extend(owned.filter(|_| requests.prune || asked.whole_set).cloned());
        others.extend(set.intents().map(|(key, _)| key.clone()));
    }
    others
}

/// What the ledger remembers, held against the files. Secrets that are referred to are looked up for
/// that; one that cannot be had makes no plan fail.
async fn owned(context: &Context, asked: &Asked<'_>) -> Result<Option<Owned>, CliError> {
    let Some(set) = asked.set else {
        return Ok(None);
    };
    let specs = &asked.wanted.volumes;
    let compared = specs
        .iter()
        .filter(|spec| spec.request.secrets.is_some() && set.ownership(&spec.key()).is_some());
    let unresolved = compared.map(|spec| {
        let directory = asked.wanted.directory_of(context, spec);
        Unresolved::new(spec, spec.request.clone(), directory)
    });
    let looking_up = known_secrets(unresolved.collect(), context.secrets());
    let known = context.interrupts.unless(looking_up).await?;
    let secrets = |spec: &VolumeSpec| known.get(&spec.key()).cloned();
    Ok(Some(Owned::of(set, specs, secrets)))
}

fn rules(server: &ServerKind) -> (MergeRules, Option<Diagnostic>) {
    let of = |version: &ServerVersion| (MergeRules::of_nomad(version), rules_remark(Some(version)));
    match server {
        ServerKind::Agent => (MergeRules::AGENT, None),
        ServerKind::Nomad(version) => of(version),
        ServerKind::Undisclosed => (MergeRules::STRICTEST, rules_remark(None)),
    }
}

fn nothing_is_owned(set: Option<&SetName>) -> CliError {
    let message = "`--prune` removes what a set owns, and nothing is owned";
    let problem = Diagnostic::error(Code::CliInvalidValue, message);
    match set {
        Some(set) => problem
            .note(format!(
                "with `--ledger none` nobody remembers what set {set} owns"
            ))
            .help("name the ledger with `--ledger nomad` or `--ledger file:PATH`"),
        None => problem
            .note("no set is named")
            .help("name it with `--set`, or with `set = \"NAME\"` beside the specifications"),
    }
    .into()
}

/// A ledger may have been lost, or another one is meant.
fn nothing_to_prune(set: &LedgerSet) -> Diagnostic {
    let name = set.name();
    let message = format!("set {name} owns nothing, so that nothing is pruned");
    Diagnostic::warning(Code::SetNotFound, message)
        .note("a set owns what was applied with it, as long as its ledger is there")
        .help(Code::SetNotFound.remedy())
}

/// Files may have been emptied by mistake.
fn everything_goes(set: &LedgerSet) -> Diagnostic {
    let (name, count) = (set.name(), set.owned().count());
    let volumes = match count {
        1 => "the only volume".to_owned(),
        count => format!("the {count} volumes"),
    };
    let message =
        format!("no volume is declared, so that set {name} lets go of {volumes} that it owns");
    Diagnostic::warning(Code::SpecNoVolume, message)
        .note("what it owns is deregistered, unless it is protected; its data stays")
        .help("if that is not meant, see why the files declare no volume")
}

/// Why the plan cannot be carried out, and what will surprise, in one list.
pub(crate) fn remarks(plan: &Plan) -> Diagnostics {
    let mut remarks = plan.remarks.clone();
    for planned in &plan.volumes {
        remarks.extend(planned.warnings.iter().cloned());
        remarks.extend(planned.action.reasons().iter().cloned());
    }
    remarks.into_iter().collect()
}
