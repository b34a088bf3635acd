//! `snapshot create` and `snapshot delete`.
//!
//! No server stores snapshots: only the plugin's provider knows them. So a snapshot is looked up in the
//! provider's list and shown before it is deleted. A provider makes one snapshot per name, so a create
//! whose reply was lost is safe to repeat.

use std::collections::BTreeMap;

use super::approval::{Answer, Approval, require_approval};
use super::context::WorkflowContext;
use super::error::{FailureKind, Failures, WorkflowError};
use super::reporter::ApprovalPrompt;
use crate::ports::{ApiError, SnapshotRequest};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, closest_match};
use nomad_csi_model::{
    Namespace, PluginId, Secrets, Snapshot, SnapshotId, Volume, ago, one_line, shell_quoted,
};

/// Takes a snapshot of a volume.
///
/// # Errors
/// If the user has interrupted, or the server refuses.
pub async fn create_snapshot(
    context: &WorkflowContext<'_>,
    volume: &Volume,
    name: &str,
    parameters: BTreeMap<String, String>,
    secrets: Secrets,
) -> Result<Snapshot, WorkflowError> {
    if context.is_interrupted() {
        return Err(WorkflowError::interrupted());
    }
    let key = volume.key();
    let request = SnapshotRequest {
        volume: key.clone(),
        plugin_id: volume.plugin_id.clone(),
        name: name.to_owned(),
        parameters,
        secrets,
    };
    let created = context.api.create_snapshot(&request).await;
    let snapshot = created.map_err(|error| not_created(&error))?;
    let line = format!("snapshot {name} of volume {key}: created (ID {})", snapshot.id);
    context.reporter.status(&line);
    if !snapshot.is_ready {
        let line = format!(
            "snapshot {name} is not ready yet; `nomad-csi snapshot list --volume {}` shows when it is",
            key.command_words()
        );
        context.reporter.status(&line);
    }
    Ok(snapshot)
}

fn not_created(error: &ApiError) -> Diagnostic {
    let problem = error.diagnostic();
    if error.code == Code::ApiOutcomeUnknown {
        return problem.help("run the same command again: a provider makes one snapshot per name");
    }
    problem
}

/// Snapshots to delete.
pub struct SnapshotDeletionRequest<'a> {
    /// The plugin.
    pub plugin: PluginId,
    /// The namespace whose permissions apply.
    pub namespace: Namespace,
    /// The IDs of the snapshots.
    pub ids: &'a [String],
    /// True if a snapshot that does not exist is a success.
    pub if_exists: bool,
    /// True if the deletion is approved without a question.
    pub is_approved: bool,
    /// The secrets for the plugin.
    pub secrets: &'a Secrets,
}

/// A snapshot to delete. The provider's entry is `None` if its plugin cannot list snapshots.
type Deletion = (SnapshotId, Option<Snapshot>);

/// Deletes snapshots. Reports each.
///
/// # Errors
/// If a snapshot does not exist or the deletion is not approved: then none is deleted. And if the
/// server refuses.
pub async fn delete_snapshots(
    context: &WorkflowContext<'_>,
    prompt: &dyn ApprovalPrompt,
    request: &SnapshotDeletionRequest<'_>,
) -> Result<(), WorkflowError> {
    let (plugin, namespace, secrets) = (&request.plugin, &request.namespace, request.secrets);
    let listing = context.api.list_snapshots(plugin, namespace, secrets);
    let listed = match context.unless_interrupted(listing).await? {
        Ok(listed) => Some(listed),
        Err(error) if error.code == Code::PluginUnsupported => {
            let line = format!(
                "plugin {plugin} cannot list snapshots, so their existence cannot be checked"
            );
            context.reporter.status(&line);
            None
        }
        Err(error) => return Err(error.into()),
    };
    let deletions = deletions(context, request, listed.as_deref())?;
    for deletion in &deletions {
        approve(context, prompt, request, deletion).await?;
    }
    let mut failures = Failures::default();
    for (id, _) in &deletions {
        if context.is_interrupted() {
            let line = format!("snapshot {id}: not started");
            context.reporter.status(&line);
            failures.add(FailureKind::Interrupted);
            continue;
        }
        let deleting = context.api.delete_snapshot(plugin, namespace, id, secrets);
        match deleting.await {
            Ok(()) => context.reporter.status(&format!("snapshot {id}: deleted")),
            Err(error) => {
                let mut problem = error.diagnostic();
                if error.code == Code::ApiOutcomeUnknown {
                    problem = problem.help("run the same command again with `--if-exists`");
                }
                context.reporter.diagnostic(problem);
                failures.add(FailureKind::Failed);
            }
        }
    }
    failures.into_result()
}

/// Returns each snapshot once. If one does not exist, none is deleted.
fn deletions(
    context: &WorkflowContext<'_>,
    request: &SnapshotDeletionRequest<'_>,
    listed: Option<&[Snapshot]>,
) -> Result<Vec<Deletion>, Diagnostics> {
    let mut deletions: Vec<Deletion> = vec![];
    let mut problems = vec![];
    for id in request.ids {
        if deletions.iter().any(|(other, _)| other.as_str() == id) {
            continue;
        }
        let found = listed.map(|all| all.iter().find(|one| one.id.as_str() == id));
        match found {
            Some(None) if request.if_exists => {
                let line = format!("snapshot {id}: does not exist, nothing to do");
                context.reporter.status(&line);
            }
            Some(None) => {
                problems.push(not_found(&request.plugin, id, listed.unwrap_or_default()));
            }
            Some(Some(_)) | None => {
                deletions.push((SnapshotId::new(id), found.flatten().cloned()));
            }
        }
    }
    if problems.is_empty() {
        return Ok(deletions);
    }
    Err(problems.into_iter().collect())
}

fn not_found(plugin: &PluginId, id: &str, listed: &[Snapshot]) -> Diagnostic {
    let message = format!(
        "cannot delete snapshot `{}`: plugin `{plugin}` lists no such snapshot",
        one_line(id)
    );
    let problem = Diagnostic::error(Code::SnapshotNotFound, message).note("nothing was deleted");
    let ids = listed.iter().map(|one| one.id.as_str());
    let problem = match closest_match(id, ids) {
        Some(similar) => problem.help(format!("did you mean snapshot `{similar}`?")),
        None => problem.help(format!(
            "run `nomad-csi snapshot list --plugin {}` to list all snapshots",
            shell_quoted(plugin)
        )),
    };
    problem.help("use `--if-exists` to ignore snapshots that do not exist")
}

async fn approve(
    context: &WorkflowContext<'_>,
    prompt: &dyn ApprovalPrompt,
    request: &SnapshotDeletionRequest<'_>,
    deletion: &Deletion,
) -> Result<(), WorkflowError> {
    if request.is_approved {
        return Ok(());
    }
    let what = description(context, &request.plugin, deletion);
    let id = deletion.0.as_str();
    let approval = Approval {
        action: &format!("delete snapshot `{}`", one_line(id)),
        details: Some(&format!("{what}: it cannot be restored")),
        question: &format!("Type {id} to delete it: "),
        answer: Answer::Exactly(id),
    };
    require_approval(prompt, approval).await
}

/// Describes a snapshot in enough detail to recognise it.
fn description(context: &WorkflowContext<'_>, plugin: &PluginId, deletion: &Deletion) -> String {
    let (id, snapshot) = deletion;
    let Some(snapshot) = snapshot else {
        return one_line(&format!("snapshot {id} of plugin {plugin}"));
    };
    let size = if snapshot.size.is_zero() {
        String::new()
    } else {
        format!(", {}", snapshot.size.binary())
    };
    let age = match ago(snapshot.create_time, context.clock.now()) {
        age if age.is_empty() => age,
        age => format!(", taken {age}"),
    };
    one_line(&format!(
        "snapshot {id} of plugin {plugin} (volume with external ID {}{size}{age})",
        snapshot.source
    ))
}
