//! What is there, and the plan that follows: what `plan` and all that changes something begin with.

use std::collections::BTreeSet;

use crate::cli::choices::Chosen;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::specs::Wanted;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::model::{NamespacedId, ServerVersion};
use crate::plan::{Inputs, MergeRules, Plan, Requests, build, rules_remark};
use crate::ports::{ServerKind, VolumeApi};
use crate::reconcile::{Looking, Observation, observe};
use crate::spec::Purpose;

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
    api: &dyn VolumeApi,
    asked: &Asked<'_>,
) -> Result<Prepared, CliError> {
    let requests = &asked.chosen.requests;
    if requests.prune {
        return Err(nothing_is_owned());
    }
    let reading = async {
        let server = api.server().await?;
        let looking = Looking {
            wanted: &asked.wanted.volumes,
            others: others(requests),
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
    let (rules, remark) = rules(&server);
    let mut plan = build(Inputs {
        wanted: asked.wanted.volumes.clone(),
        purpose: asked.purpose,
        observed: &observation.observed,
        rules,
        owned: None,
        requests,
    });
    let changes_nothing = plan.counts().changes() + plan.counts().stuck() == 0;
    let is_idle = changes_nothing && server == ServerKind::Undisclosed;
    plan.remarks.extend(remark.filter(|_| !is_idle));
    Ok(Prepared {
        plan,
        observation,
        rules,
        server,
    })
}

fn others(requests: &Requests) -> BTreeSet<NamespacedId> {
    requests.delete_data.iter().cloned().collect()
}

fn rules(server: &ServerKind) -> (MergeRules, Option<Diagnostic>) {
    let of = |version: &ServerVersion| (MergeRules::of_nomad(version), rules_remark(Some(version)));
    match server {
        ServerKind::Agent => (MergeRules::AGENT, None),
        ServerKind::Nomad(version) => of(version),
        ServerKind::Undisclosed => (MergeRules::STRICTEST, rules_remark(None)),
    }
}

fn nothing_is_owned() -> CliError {
    let message = "`--prune` removes what a set owns, and without a ledger nothing is owned";
    Diagnostic::error(Code::CliInvalidValue, message)
        .help("leave out `--prune`; `volume deregister` removes a volume by name")
        .into()
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
