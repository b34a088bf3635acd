//! Counts the claims that a server dropped although the end of their allocations is not proven.
//!
//! Nomad drops the claim of an allocation that it wants to stop or takes for lost, also while its tasks write. A volume
//! without claims may still be written then, so what removes it, or registers its data again, looks at the jobs of such
//! allocations too. What cannot be read is not allowed where data would be deleted or claims be dropped. The agent of
//! this program keeps each claim until its allocation has ended.
//!
//! Nomad also lets a registration go while a task of a stopped job writes. Which data such an allocation has is not known
//! any more, so nothing that is registered nowhere is registered under another ID, adopted or deleted before its end.

use std::collections::{BTreeMap, BTreeSet};

use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::plan_request::PreparedPlan;
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::model::{Alloc, AllocWrites, NamespacedId, Volume};
use crate::plan::{Action, ClaimDrops, ClaimingAlloc, Plan, PlannedVolume};
use crate::ports::{ApiError, ServerKind};
use crate::reconcile::seen_nodes::seen_nodes;
use crate::reconcile::unclaimed_users::{unclaimed_users, unregistered_users};

/// What ends an allocation that may write.
const END_IT: &str = "stop the job without `-purge`, and wait until the client reports `complete` or `failed`; start a node that is away again";

/// Volumes with the claims that the server dropped.
#[derive(Debug, Default)]
pub(super) struct CountedClaims {
    /// The volumes, each with the allocations without a claim as if they had one.
    pub(super) volumes: Vec<Volume>,
    /// The allocations whose claims were dropped.
    dropped: Vec<Alloc>,
    /// Why the allocations of some could not be read.
    unread: Vec<ApiError>,
}

impl CountedClaims {
    /// Counts the claims of volumes.
    pub(super) async fn of(
        context: &WorkflowContext<'_>,
        volumes: &[Volume],
    ) -> Result<Self, WorkflowError> {
        let mut counted = Self {
            volumes: volumes.to_vec(),
            ..Self::default()
        };
        let api = context.api;
        if volumes.is_empty() || api.server().await? == ServerKind::Agent {
            return Ok(counted);
        }
        let nodes = seen_nodes(api, volumes).await;
        let users = unclaimed_users(api, volumes, &nodes, context.parallelism).await;
        for volume in &mut counted.volumes {
            counted.dropped.extend_from_slice(users.count_in(volume));
        }
        counted.unread = users.unread.into_iter().map(|(_, error)| error).collect();
        Ok(counted)
    }

    /// Adds to a problem which of the claims that it names were dropped.
    pub(super) fn explain(&self, problem: Diagnostic) -> Diagnostic {
        let names = |alloc: &&Alloc| {
            let named = format!("allocation {}:", alloc.id);
            problem.notes.iter().any(|note| note.contains(&named))
        };
        let notes: Vec<_> = self.dropped.iter().filter(names).map(note).collect();
        notes.into_iter().fold(problem, Diagnostic::note)
    }

    /// Returns what to say if allocations could not be read, as an error or as a warning.
    pub(super) fn unread(
        &self,
        kind: fn(Code, String) -> Diagnostic,
        what: &str,
    ) -> Option<Diagnostic> {
        (!self.unread.is_empty()).then(|| unread_problem(kind, what, &self.unread))
    }
}

fn note(alloc: &Alloc) -> String {
    format!(
        "the server has dropped the claim of allocation {}, and its end is not proven",
        alloc.id
    )
}

fn unread_problem(
    kind: fn(Code, String) -> Diagnostic,
    what: &str,
    unread: &[ApiError],
) -> Diagnostic {
    let message = format!(
        "cannot tell whether an allocation without a claim still writes to what would be {what}"
    );
    let mut problem = kind(Code::VolumeInUse, message);
    let mut helps = BTreeSet::new();
    for error in unread {
        problem = problem.note(error.message.clone());
        helps.extend(match error.code {
            Code::ApiForbidden => {
                vec!["use a token with `read-job` in the namespaces of the volumes".to_owned()]
            }
            _ => error.diagnostic().help,
        });
    }
    helps.into_iter().fold(problem, Diagnostic::help)
}

/// Refuses a plan that would delete, deregister or register data to which an allocation without a claim may still
/// write.
///
/// # Errors
/// Every such volume. Nothing was changed then.
pub(super) async fn check_plan(
    context: &WorkflowContext<'_>,
    plan: &Plan,
    observed: &BTreeMap<NamespacedId, Volume>,
) -> Result<(), WorkflowError> {
    let problems = plan_problems(context, plan, observed).await?;
    match problems.is_empty() {
        true => Ok(()),
        false => Err(WorkflowError::blocked(problems)),
    }
}

/// Warns of the changes that would be refused now, because an allocation without a claim may still write.
///
/// # Errors
/// If the server cannot be reached, or the user interrupts.
pub async fn warn_of_dropped_claims(
    context: &WorkflowContext<'_>,
    prepared: &mut PreparedPlan,
) -> Result<(), WorkflowError> {
    let observed = &prepared.observation.observed.volumes;
    let reading = plan_problems(context, &prepared.plan, observed);
    let problems = context.unless_interrupted(reading).await??;
    let warnings = problems.into_iter().map(|problem| {
        let warning = Diagnostic {
            severity: Severity::Warning,
            ..problem
        };
        warning.note("`apply` refuses the plan as long as this is so")
    });
    prepared.plan.remarks.extend(warnings);
    Ok(())
}

async fn plan_problems(
    context: &WorkflowContext<'_>,
    plan: &Plan,
    observed: &BTreeMap<NamespacedId, Volume>,
) -> Result<Vec<Diagnostic>, WorkflowError> {
    let planned = |is_meant: fn(&Action) -> bool| {
        let entries = plan.volumes.iter();
        entries.filter(move |entry| is_meant(&entry.action))
    };
    let removed: Vec<Volume> = planned(Action::removes)
        .filter_map(|entry| observed.get(&entry.key).cloned())
        .collect();
    let registered: Vec<&PlannedVolume> = planned(registers).collect();
    let mut problems = removal_problems(context, &removed).await?;
    problems.extend(registration_problems(context, &registered).await?);
    Ok(problems)
}

/// Whether the change registers data that exists.
fn registers(action: &Action) -> bool {
    matches!(action, Action::Register(_) | Action::RegisterAgain(_))
}

async fn removal_problems(
    context: &WorkflowContext<'_>,
    removed: &[Volume],
) -> Result<Vec<Diagnostic>, WorkflowError> {
    let counted = CountedClaims::of(context, removed).await?;
    let mut problems: Vec<_> = counted
        .unread(Diagnostic::error, "removed")
        .into_iter()
        .collect();
    for volume in &counted.volumes {
        let claims = ClaimingAlloc::of(volume).into_iter();
        let dropped = |claim: &ClaimingAlloc| counted.dropped.iter().any(|one| one.id == claim.id);
        for claim in claims.filter(dropped) {
            let message = format!(
                "cannot remove volume {}: an allocation without a claim may still write to it",
                volume.key().quoted()
            );
            let problem = Diagnostic::error(Code::VolumeInUse, message)
                .note(claim.to_string())
                .help(END_IT);
            problems.push(counted.explain(problem));
        }
    }
    Ok(problems)
}

async fn registration_problems(
    context: &WorkflowContext<'_>,
    registered: &[&PlannedVolume],
) -> Result<Vec<Diagnostic>, WorkflowError> {
    if registered.is_empty() {
        return Ok(vec![]);
    }
    let writers = match UnregisteredWriter::all(context).await? {
        Ok(writers) => writers,
        Err(why) => {
            let warning = unread_problem(Diagnostic::warning, "registered", &[why]);
            context.reporter.diagnostic(warning);
            return Ok(vec![]);
        }
    };
    let mut problems = vec![];
    for entry in registered {
        let is_new = matches!(entry.action, Action::Register(_));
        let what = format!("register volume {}", entry.key.quoted());
        let meant = writers
            .iter()
            .filter(|writer| is_new || writer.volume == entry.key);
        problems.extend(meant.map(|writer| writer.problem(&what)));
    }
    Ok(problems)
}

/// Refuses to take data that is registered nowhere while an allocation may still write to a volume that is not registered
/// any more.
///
/// # Errors
/// Every such allocation.
pub(super) async fn check_orphans(
    context: &WorkflowContext<'_>,
    verb: &str,
    verbed: &str,
) -> Result<(), WorkflowError> {
    let what = format!("{verb} data that is not registered");
    let problems: Vec<_> = match UnregisteredWriter::all(context).await? {
        Ok(writers) => writers.iter().map(|writer| writer.problem(&what)).collect(),
        Err(why) => vec![unread_problem(Diagnostic::error, verbed, &[why])],
    };
    match problems.is_empty() {
        true => Ok(()),
        false => Err(WorkflowError::blocked(problems)),
    }
}

/// An allocation that may write to a volume that is not registered. One whose node is gone is none: that was approved when
/// its claim was dropped, or nothing can stop it any more.
struct UnregisteredWriter {
    volume: NamespacedId,
    claim: ClaimingAlloc,
    why: String,
}

impl UnregisteredWriter {
    /// Returns all of them, or why they could not be read.
    async fn all(
        context: &WorkflowContext<'_>,
    ) -> Result<Result<Vec<Self>, ApiError>, WorkflowError> {
        let api = context.api;
        if api.server().await? == ServerKind::Agent {
            return Ok(Ok(vec![]));
        }
        let nodes = seen_nodes(api, &[]).await;
        let users = match unregistered_users(api, &nodes, context.parallelism).await {
            Ok(users) => users,
            Err(why) => return Ok(Err(why)),
        };
        let drops = ClaimDrops {
            nodes,
            ..ClaimDrops::default()
        };
        let writer = |(volume, alloc): (NamespacedId, Alloc)| {
            let claim = ClaimingAlloc {
                id: alloc.id.clone(),
                alloc: Some(alloc),
            };
            let why = drops.why(&claim);
            let may_write = drops.writes(&claim) == AllocWrites::Possible;
            may_write.then_some(Self { volume, claim, why })
        };
        Ok(Ok(users.into_iter().filter_map(writer).collect()))
    }

    fn problem(&self, what: &str) -> Diagnostic {
        let message = format!(
            "cannot {what}: an allocation may still write to volume {}, which is not registered, and may have the same data",
            self.volume.quoted()
        );
        Diagnostic::error(Code::VolumeInUse, message)
            .note(self.claim.to_string())
            .note(self.why.clone())
            .help(END_IT)
    }
}
