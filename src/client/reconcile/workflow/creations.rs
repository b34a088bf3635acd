//! Creations that did not end: who asks, and how one is given up.
//!
//! Only the agent has them. On a Nomad server there are none to show: what an interrupted create left there is an
//! orphan.

use super::agent_only::AgentOnly;
use super::approval::{Answer, Approval, require_approval};
use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::reporter::ApprovalPrompt;
use crate::ports::{ApiError, ClusterApi, WithDocument};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{Namespace, NamespacedId, VolumeCreation, VolumeId, one_line, shell_quoted};

/// Returns the creations that did not end in a namespace or all; none on a Nomad server.
///
/// # Errors
/// If the server cannot be read.
pub async fn pending_creations(
    api: &dyn ClusterApi,
    scope: &Namespace,
) -> Result<Vec<WithDocument<VolumeCreation>>, ApiError> {
    match api.is_agent().await? {
        true => api.list_creations(scope).await,
        false => Ok(vec![]),
    }
}

/// Gives up a creation, after approval. Nothing is sent to the plugin.
///
/// # Errors
/// If the server is not an agent, no creation of the volume is pending, it is not approved, or the server refuses.
pub async fn abandon_creation(
    context: &WorkflowContext<'_>,
    prompt: &dyn ApprovalPrompt,
    scope: &Namespace,
    id: &str,
    is_approved: bool,
) -> Result<(), WorkflowError> {
    let agent_only = AgentOnly {
        action: "give up a creation",
        lack: "does not record creations",
        note: "only the agent of this program records a creation before it asks the plugin",
        help: "run `nomad-csi orphans --plugin ID` to find what an interrupted create left",
    };
    agent_only.require(context).await?;
    let key = NamespacedId::new(scope.clone(), VolumeId::new(id));
    let listing = context.api.list_creations(scope);
    let pending = context.unless_interrupted(listing).await??;
    let found = pending.into_iter().map(|reading| reading.value);
    let Some(creation) = found.into_iter().find(|one| one.volume == key) else {
        let message = format!("no creation of volume {} is pending", key.quoted());
        return Err(Diagnostic::error(Code::VolumeNotFound, message)
            .help("run `nomad-csi volume status` to list volumes and creations that did not end")
            .into());
    };
    if !is_approved {
        let what = format!(
            "the agent forgets the creation; the provider may have a volume named {}",
            one_line(&creation.provider_name)
        );
        let approval = Approval {
            action: "give up the creation",
            details: Some(&what),
            question: "Give up the creation? [y/N] ",
            answer: Answer::Yes,
        };
        require_approval(prompt, approval).await?;
    }
    let giving_up = context.api.give_up_creation(&key);
    let left = context.unless_interrupted(giving_up).await??;
    context
        .reporter
        .status(&format!("the creation of volume {} was given up", one_line(&key.quoted())));
    let message = format!(
        "the provider of plugin `{}` may have a volume named `{}`",
        one_line(creation.plugin_id.as_str()),
        one_line(&left)
    );
    let orphans =
        format!("nomad-csi orphans --plugin {}", shell_quoted(creation.plugin_id.as_str()));
    context.reporter.diagnostic(
        Diagnostic::warning(Code::VolumeMayRemain, message)
            .note("no later creation of the volume has this name")
            .help(format!("look for it with `{orphans}`, and at the provider")),
    );
    Ok(())
}
