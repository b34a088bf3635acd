//! Reads the server and makes a plan: the first step of `plan` and of everything that changes volumes.

use std::collections::BTreeSet;

use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::plan_request::{PlanRequest, PreparedPlan, ProviderCheck, Reading};
use crate::ports::ServerKind;
use crate::reconcile::observe::{ObserveRequest, last_snapshots, observe};
use crate::reconcile::provider_lists::{LIST_TIMEOUT, provider_lists, snapshot_ids, unread_lists};
use crate::reconcile::resolve::{Unresolved, known_secrets};
use crate::reconcile::secret_variables::SecretVariables;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{NamespacedId, ServerVersion, SetName};
use nomad_csi_plan::{
    CachedVolumes, LedgerSet, MergeRules, NameRule, ObservedState, OwnedSet, PlanInputs,
    build_plan, cached_volumes, comparable_lists, interrupted_step_warnings, outdated_snapshots,
    required_lists, server_version_warning, snapshot_lists,
};
use nomad_csi_spec::{Purpose, VolumeSpec};

/// Reads the server and makes the plan.
///
/// # Errors
/// If the server cannot be read, the request needs a ledger and has none, or the user interrupts.
pub async fn prepare_plan(
    context: &WorkflowContext<'_>,
    request: &PlanRequest<'_>,
) -> Result<PreparedPlan, WorkflowError> {
    let requests = &request.options.plan;
    if requests.prune && request.set.is_none() {
        return Err(prune_without_ledger(request.specifications.set.as_ref()).into());
    }
    let desired = &request.specifications.volumes;
    let server = context.unless_interrupted(context.api.server()).await??;
    let server = match (server, &request.options.server_version) {
        (ServerKind::Agent, _) => ServerKind::Agent,
        (_, Some(version)) => ServerKind::Nomad(version.clone()),
        (server, None) => server,
    };
    let (rules, rules_warning) = merge_rules(&server);
    let owned = owned(context, request).await?;
    let observing = ObserveRequest {
        desired,
        other_volumes: other_volumes(request),
        unread: unread(request, owned.as_ref(), rules),
        known_data: known_data(desired, owned.as_ref(), rules.names),
        lists_all_volumes: !requests.delete_data.is_empty() || !requests.replace.is_empty(),
        keeps_documents: request.keeps_documents,
        parallelism: context.parallelism,
    };
    let reading = observe(context.api, observing);
    let mut observation = context.unless_interrupted(reading).await??;
    let at_risk = requests.delete_data.iter().chain(&requests.replace);
    let listing = last_snapshots(context.api, &observation.observed, at_risk);
    let snapshots = context.unless_interrupted(listing).await?;
    observation.observed.snapshots = snapshots;
    observation.observed.plugin_snapshots = requests.plugin_snapshots.clone();
    let observed = &mut observation.observed;
    let asking = ask_providers(context, request, observed, owned.as_ref());
    let unread = context.unless_interrupted(asking).await?;
    let mut plan = build_plan(PlanInputs {
        desired: desired.clone(),
        purpose: request.purpose,
        observed: &observation.observed,
        rules,
        owned: owned.as_ref(),
        options: requests,
    });
    let changes_nothing = plan.counts().changes() + plan.counts().blocked_or_waiting() == 0;
    plan.remarks.extend(unread);
    let known = &observation.observed.plugins;
    plan.remarks.extend(outdated_snapshots(&requests.plugin_snapshots, known));
    let is_idle = changes_nothing && server == ServerKind::NomadUnknownVersion;
    plan.remarks.extend(rules_warning.filter(|_| !is_idle));
    if let Some(set) = request.set {
        plan.remarks.extend(interrupted_step_warnings(set, &observation.observed));
        if requests.prune {
            plan.remarks.extend(prune_warning(set, desired));
        }
    }
    Ok(PreparedPlan {
        plan,
        observation,
        rules,
        server,
        cut_off: request.options.approvals.cut_off.clone(),
    })
}

/// The volumes whose registration would be another one of data that the server may know: the files or the set know
/// its external ID, or the plugin may have data of its name.
fn known_data(
    desired: &[VolumeSpec],
    owned: Option<&OwnedSet>,
    names: NameRule,
) -> BTreeSet<NamespacedId> {
    let is_owned = |key: &NamespacedId| owned.is_some_and(|owned| owned.volumes.contains_key(key));
    let is_known = |spec: &&VolumeSpec| match names {
        NameRule::AsRequested => true,
        NameRule::Unique => spec.request.external_id.is_some() || is_owned(&spec.key()),
    };
    desired.iter().filter(is_known).map(VolumeSpec::key).collect()
}

/// Asks the providers that the plan depends on, unless the request says not to. Returns warnings about
/// lists that could not be read.
async fn ask_providers(
    context: &WorkflowContext<'_>,
    request: &PlanRequest<'_>,
    observed: &mut ObservedState,
    owned: Option<&OwnedSet>,
) -> Vec<Diagnostic> {
    if request.options.plan.no_provider {
        return vec![];
    }
    let desired = &request.specifications.volumes;
    let mut asked = required_lists(desired, observed, owned);
    if request.provider_check == ProviderCheck::Always {
        asked.extend(comparable_lists(desired, observed));
        let snapshots = snapshot_lists(desired, observed);
        observed.provided_snapshots = snapshot_ids(context.api, &snapshots).await;
    }
    let (plugins, parallelism) = (&observed.plugins, context.parallelism);
    observed.provided =
        provider_lists(context.api, plugins, &asked, parallelism, LIST_TIMEOUT).await;
    unread_lists(&observed.provided)
}

/// Volumes that need not be read, because the server has them as the set noted.
fn unread(request: &PlanRequest<'_>, owned: Option<&OwnedSet>, rules: MergeRules) -> CachedVolumes {
    let (Some(set), Some(owned)) = (request.set, owned) else {
        return CachedVolumes::new();
    };
    match (&request.reading, request.purpose) {
        (Reading::WhatMayHaveChanged(lists), Purpose::ByExternalId) => {
            let desired = &request.specifications.volumes;
            let noted = cached_volumes(desired, set, owned, rules, &request.options.plan);
            lists.unread(&noted)
        }
        (Reading::Everything, _) | (_, Purpose::Create | Purpose::Register) => CachedVolumes::new(),
    }
}

/// Volumes to read although no file names them.
fn other_volumes(request: &PlanRequest<'_>) -> BTreeSet<NamespacedId> {
    let requests = &request.options.plan;
    let mut others: BTreeSet<NamespacedId> = requests.delete_data.iter().cloned().collect();
    let approved = request.options.approvals.approved.iter();
    others.extend(approved.map(|(_, key)| key.clone()));
    if let Some(set) = request.set {
        let reads_owned = requests.prune || request.reads_whole_set;
        let owned = set.owned().map(|(key, _)| key);
        others.extend(owned.filter(|_| reads_owned).cloned());
        others.extend(set.intents().map(|(key, _)| key.clone()));
    }
    others
}

/// Compares the ledger with the files. Looks up referenced secrets for that; a secret that has no
/// value does not fail the plan.
async fn owned(
    context: &WorkflowContext<'_>,
    request: &PlanRequest<'_>,
) -> Result<Option<OwnedSet>, WorkflowError> {
    let Some(set) = request.set else {
        return Ok(None);
    };
    let specs = &request.specifications.volumes;
    let compared = specs
        .iter()
        .filter(|spec| spec.request.secrets.is_some() && set.ownership(&spec.key()).is_some());
    let unresolved = compared.map(|spec| {
        Unresolved::new(spec, spec.request.clone(), |span| {
            request.specifications.directory_at(span)
        })
    });
    let unresolved: Vec<Unresolved> = unresolved.collect();
    let looking_up = async {
        let requests = unresolved.iter().map(|one| &one.request);
        let variables = SecretVariables::read(context.api, requests).await;
        known_secrets(unresolved, context.secrets.clone(), variables).await
    };
    let known = context.unless_interrupted(looking_up).await?;
    let secrets = |spec: &VolumeSpec| known.get(&spec.key()).cloned();
    Ok(Some(OwnedSet::of(set, specs, secrets)))
}

fn merge_rules(server: &ServerKind) -> (MergeRules, Option<Diagnostic>) {
    let of = |version: &ServerVersion| {
        (MergeRules::of_nomad(version), server_version_warning(Some(version)))
    };
    match server {
        ServerKind::Agent => (MergeRules::AGENT, None),
        ServerKind::Nomad(version) => of(version),
        ServerKind::NomadUnknownVersion => (MergeRules::STRICTEST, server_version_warning(None)),
    }
}

fn prune_without_ledger(set: Option<&SetName>) -> Diagnostic {
    let message = "`--prune` requires a set and its ledger";
    let problem = Diagnostic::error(Code::CliInvalidValue, message);
    match set {
        Some(set) => problem
            .note(format!("with `--ledger none`, nothing records what set `{set}` owns"))
            .help("name the ledger with `--ledger nomad` or `--ledger file:PATH`"),
        None => problem
            .note("no set is named")
            .help("name the set with `--set`, or with `set = \"NAME\"` in a specification file"),
    }
}

/// The ledger may be lost or the wrong one, or files may have been emptied by mistake.
fn prune_warning(set: &LedgerSet, desired: &[VolumeSpec]) -> Option<Diagnostic> {
    let name = set.name();
    let count = set.owned().count();
    if count == 0 {
        let message = format!("set `{name}` owns no volumes, so `--prune` removes nothing");
        let warning = Diagnostic::warning(Code::SetNotFound, message)
            .note("a set owns the volumes that were applied with it, as its ledger records")
            .help(Code::SetNotFound.advice());
        return Some(warning);
    }
    if !desired.is_empty() {
        return None;
    }
    let volumes = match count {
        1 => "its only volume".to_owned(),
        count => format!("all its {count} volumes"),
    };
    let message = format!("no volume is declared, so set `{name}` removes {volumes}");
    let warning = Diagnostic::warning(Code::SpecNoVolume, message)
        .note("the volumes are deregistered unless they are protected; their data stays")
        .help("if this is not intended, check why the files declare no volume");
    Some(warning)
}
