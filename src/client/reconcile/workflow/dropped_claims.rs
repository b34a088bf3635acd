//! Counts the claims that a server dropped although the end of their allocations is not proven.
//!
//! Nomad drops the claim of an allocation that it wants to stop or takes for lost, also while its tasks write. A volume
//! without claims may still be written then, so what removes it, or registers its data again, looks at the jobs of such
//! allocations too. What cannot be read is not allowed where data would be deleted or claims be dropped. The agent of
//! this program keeps each claim until its allocation has ended. [`super::taken_data`] looks at those whose volumes are
//! not registered any more.

use std::collections::BTreeSet;

use super::context::WorkflowContext;
use super::error::WorkflowError;
use crate::ports::{ApiError, ServerKind};
use crate::reconcile::seen_nodes::seen_nodes;
use crate::reconcile::unclaimed_users::unclaimed_users;
use crate::reconcile::wait::is_temporary;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{Alloc, Volume};
use nomad_csi_plan::ClaimingAlloc;

/// The help for ending an allocation that may write.
pub(super) const END_IT: &str = "stop the job without `-purge`, and wait until the client reports `complete` or `failed`; start a node that is away again";

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
        let mut counted = Self { volumes: volumes.to_vec(), ..Self::default() };
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

    /// Returns why allocations could not be read, if a repetition may read all of them.
    pub(super) fn unread_for_now(&self) -> Option<&ApiError> {
        let first = self.unread.first()?;
        self.unread.iter().all(is_temporary).then_some(first)
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

pub(super) fn unread_problem(
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

/// Returns why volumes are not removed: an allocation without a claim may still write to them.
pub(super) async fn removal_problems(
    context: &WorkflowContext<'_>,
    removed: &[Volume],
) -> Result<Vec<Diagnostic>, WorkflowError> {
    let counted = CountedClaims::of(context, removed).await?;
    let mut problems: Vec<_> = counted.unread(Diagnostic::error, "removed").into_iter().collect();
    for volume in &counted.volumes {
        let claims = ClaimingAlloc::of(volume).into_iter();
        let dropped = |claim: &ClaimingAlloc| counted.dropped.iter().any(|one| one.id == claim.id);
        for claim in claims.filter(dropped) {
            let message = format!(
                "cannot remove volume {}: an allocation without a claim may still write to it",
                volume.key().quoted()
            );
            let problem =
                Diagnostic::error(Code::VolumeInUse, message).note(claim.to_string()).help(END_IT);
            problems.push(counted.explain(problem));
        }
    }
    Ok(problems)
}
