//! Counts the claims that a server dropped although the end of their allocations is not proven.
//!
//! Nomad drops the claim of an allocation that it wants to stop or takes for lost, also while its tasks write. A volume
//! without claims may still be written then, so what removes it, or registers its data again, looks at the jobs of such
//! allocations too. What cannot be read is not allowed where data would be deleted or claims be dropped. The agent of
//! this program keeps each claim until its allocation has ended.

use std::collections::{BTreeMap, BTreeSet};

use super::context::WorkflowContext;
use super::error::WorkflowError;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{Alloc, AllocWrites, NamespacedId, Volume};
use crate::plan::{Action, ClaimDrops, ClaimingAlloc, Plan, PlannedVolume};
use crate::ports::ServerKind;
use crate::reconcile::seen_nodes::seen_nodes;
use crate::reconcile::unclaimed_users::{unclaimed_users, unproven_users, unregistered_users};

/// Volumes with the claims that the server dropped.
#[derive(Debug, Default)]
pub(super) struct CountedClaims {
    /// The volumes, each with the allocations without a claim as if they had one.
    pub(super) volumes: Vec<Volume>,
    /// The allocations whose claims were dropped.
    dropped: Vec<Alloc>,
    /// Why the allocations of some could not be read.
    pub(super) unread: Vec<String>,
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
        counted.unread = users.unread;
        for volume in &mut counted.volumes {
            for alloc in users.allocs.get(&volume.key()).into_iter().flatten() {
                volume.write_allocs.insert(alloc.id.clone());
                volume.allocs.push(alloc.clone());
                counted.dropped.push(alloc.clone());
            }
        }
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

    /// Returns the error if allocations could not be read.
    pub(super) fn unread_error(&self, what: &str) -> Option<Diagnostic> {
        (!self.unread.is_empty()).then(|| unread_problem(Diagnostic::error, what, &self.unread))
    }

    /// Returns the warning if allocations could not be read.
    pub(super) fn unread_warning(&self, what: &str) -> Option<Diagnostic> {
        (!self.unread.is_empty()).then(|| unread_problem(Diagnostic::warning, what, &self.unread))
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
    unread: &[String],
) -> Diagnostic {
    let message = format!(
        "cannot tell whether an allocation without a claim still writes to what would be {what}"
    );
    let problem = kind(Code::VolumeInUse, message);
    unread
        .iter()
        .fold(problem, |problem, why| problem.note(why.clone()))
        .help("use a token with `read-job` in the namespaces of the volumes")
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
    match problems.is_empty() {
        true => Ok(()),
        false => Err(WorkflowError::blocked(problems)),
    }
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
    let mut problems = vec![];
    problems.extend(counted.unread_error("removed"));
    for volume in &counted.volumes {
        let claims = ClaimingAlloc::of(volume);
        let dropped = |claim: &ClaimingAlloc| counted.dropped.iter().any(|one| one.id == claim.id);
        let claims: Vec<_> = claims.into_iter().filter(dropped).collect();
        if !claims.is_empty() {
            problems.push(counted.explain(may_write("remove", &volume.key(), &claims)));
        }
    }
    Ok(problems)
}

async fn registration_problems(
    context: &WorkflowContext<'_>,
    registered: &[&PlannedVolume],
) -> Result<Vec<Diagnostic>, WorkflowError> {
    let api = context.api;
    if registered.is_empty() || api.server().await? == ServerKind::Agent {
        return Ok(vec![]);
    }
    let keys: BTreeSet<NamespacedId> = registered.iter().map(|entry| entry.key.clone()).collect();
    let nodes = seen_nodes(api, &[]).await;
    let users = match unproven_users(api, &keys, &nodes, context.parallelism).await {
        Ok(users) => users,
        Err(why) => {
            let warning = unread_problem(Diagnostic::warning, "registered", &[why]);
            context.reporter.diagnostic(warning);
            return Ok(vec![]);
        }
    };
    let drops = ClaimDrops {
        nodes,
        ..ClaimDrops::default()
    };
    let mut problems = vec![];
    for (key, allocs) in users {
        let claims = allocs.into_iter().map(|alloc| ClaimingAlloc {
            id: alloc.id.clone(),
            alloc: Some(alloc),
        });
        // One whose node is gone was approved when its claim was dropped, or cannot be stopped any more.
        let may = |claim: &ClaimingAlloc| drops.writes(claim) == AllocWrites::Possible;
        let claims: Vec<_> = claims.filter(may).collect();
        if !claims.is_empty() {
            problems.push(may_write("register", &key, &claims));
        }
    }
    Ok(problems)
}

/// Refuses to take data that is registered nowhere while an allocation may still write to a volume that is registered
/// nowhere any more: it may be the same data.
///
/// # Errors
/// Every such allocation.
pub(super) async fn check_orphans(
    context: &WorkflowContext<'_>,
    verb: &str,
) -> Result<(), WorkflowError> {
    let api = context.api;
    if api.server().await? == ServerKind::Agent {
        return Ok(());
    }
    let nodes = seen_nodes(api, &[]).await;
    let users = match unregistered_users(api, &nodes, context.parallelism).await {
        Ok(users) => users,
        Err(why) => {
            let problem = unread_problem(Diagnostic::error, &format!("{verb}ed"), &[why]);
            return Err(WorkflowError::blocked([problem]));
        }
    };
    let drops = ClaimDrops {
        nodes,
        ..ClaimDrops::default()
    };
    let mut problems = vec![];
    for (volume, alloc) in users {
        let claim = ClaimingAlloc {
            id: alloc.id.clone(),
            alloc: Some(alloc),
        };
        if drops.writes(&claim) == AllocWrites::Possible {
            let message = format!(
                "cannot {verb} data that is not registered: an allocation may still write to volume {}, which is not registered any more",
                volume.quoted()
            );
            let problem = Diagnostic::error(Code::VolumeInUse, message)
                .note(claim.to_string())
                .note(drops.why(&claim))
                .note("its data may be this data")
                .help("stop its job without `-purge`, and wait until the client reports `complete` or `failed`; start a node that is away again");
            problems.push(problem);
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(WorkflowError::blocked(problems)),
    }
}

fn may_write(verb: &str, key: &NamespacedId, claims: &[ClaimingAlloc]) -> Diagnostic {
    let count = match claims.len() {
        1 => "1 allocation without a claim".to_owned(),
        count => format!("{count} allocations without a claim"),
    };
    let message = format!(
        "cannot {verb} volume {}: {count} may still write to its data",
        key.quoted()
    );
    let problem = Diagnostic::error(Code::VolumeInUse, message);
    claims
        .iter()
        .fold(problem, |problem, claim| problem.note(claim.to_string()))
        .help("stop the jobs that use the volume, and wait until the clients report `complete` or `failed`; start a node that is away again")
}
