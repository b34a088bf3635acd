//! `orphans --adopt` and `orphans --delete-data`: registers orphans, or deletes them.
//!
//! Everything is checked before anything is changed. If one orphan cannot be changed, none is. Each
//! deletion is approved by its external ID.

use std::collections::BTreeSet;

use super::approval::{NamedApproval, require_named_approvals};
use super::context::WorkflowContext;
use super::error::{FailureKind, Failures, WorkflowError};
use super::orphan_inventory::{OrphanInventory, registered};
use super::reporter::ApprovalPrompt;
use super::taken_data::{TakenOrphans, check_orphans};
use crate::reconcile::orphans::{
    ListedVolume, OrphanDeletion, delete_orphan, deletion_name, register_orphan,
};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap, closest_match};
use nomad_csi_model::{
    AccessMode, AttachmentMode, Capability, ExternalId, ExternalNodeId, Namespace, NamespacedId,
    Secrets, VolumeId, VolumeRequest, one_line, shell_quoted,
};
use nomad_csi_plan::{CutOffs, Risk};

/// How a capability is written.
const CAPABILITY_HELP: &str =
    "write ACCESS_MODE:ATTACHMENT_MODE, such as single-node-writer:file-system";

/// Orphans to register or to delete.
pub struct OrphanRequest<'a> {
    /// The volumes of the provider.
    pub inventory: &'a OrphanInventory,
    /// The capabilities of new registrations; asked for if empty.
    pub capabilities: Vec<Capability>,
    /// The secrets of the volumes.
    pub secrets: Secrets,
    /// The approved cut-offs.
    pub cut_off: CutOffs,
}

impl OrphanRequest<'_> {
    fn registration(
        &self,
        id: VolumeId,
        external_id: &ExternalId,
        listed: Option<&ListedVolume>,
    ) -> VolumeRequest {
        let context = listed.map(|listed| listed.volume.context.clone());
        let inventory = self.inventory;
        let key = NamespacedId::new(inventory.namespace.clone(), id);
        let capabilities = self.capabilities.clone();
        VolumeRequest {
            name: Some(key.id.to_string()),
            external_id: Some(external_id.clone()),
            secrets: (!self.secrets.is_empty()).then(|| self.secrets.clone()),
            context: context.filter(|context| !context.is_empty()),
            ..VolumeRequest::new(key, inventory.plugin.clone(), capabilities)
        }
    }
}

/// Parses `ACCESS_MODE:ATTACHMENT_MODE`.
///
/// # Errors
/// If the text is not a capability.
pub fn parse_capability(text: &str) -> Result<Capability, WorkflowError> {
    let (access, attachment) = text.split_once(':').unwrap_or((text, "file-system"));
    match (AccessMode::parse(access), AttachmentMode::parse(attachment)) {
        (Some(access_mode), Some(attachment_mode)) => {
            Ok(Capability { access_mode, attachment_mode })
        }
        (None, _) | (_, None) => {
            let message = format!("`{}` is not a capability", one_line(text));
            let words = AccessMode::ALL.map(AccessMode::as_str);
            let problem = Diagnostic::error(Code::CliInvalidValue, message);
            let problem = match closest_match(access, words) {
                Some(similar) if similar != access => {
                    problem.help(format!("did you mean `{similar}`?"))
                }
                Some(_) | None => problem,
            };
            Err(problem.help(CAPABILITY_HELP).into())
        }
    }
}

/// Registers orphans. `names` holds external IDs, or `ID=EXTERNAL_ID` to choose a volume's ID.
///
/// # Errors
/// If a volume is not an orphan, no capability is given, or the server refuses.
pub async fn adopt_orphans(
    context: &WorkflowContext<'_>,
    prompt: &dyn ApprovalPrompt,
    mut request: OrphanRequest<'_>,
    names: &[String],
) -> Result<(), WorkflowError> {
    let adoptions = adoptions(request.inventory, names)?;
    let checking = check_orphans(context, TakenOrphans::Adopted, &request.cut_off);
    context.unless_interrupted(checking).await??;
    if request.capabilities.is_empty() {
        request.capabilities = vec![ask_for_capability(prompt).await?];
    }
    let mut failures = Failures::default();
    for (id, listed) in adoptions {
        let external_id = &listed.volume.external_id;
        if context.is_interrupted() {
            report_not_started(context, external_id, &mut failures);
            continue;
        }
        let registration = request.registration(id, external_id, Some(listed));
        let key = registration.key();
        match register_orphan(context.api, &registration).await {
            Ok(warnings) => {
                let line = format!("volume {key}: registered (external ID {external_id})");
                context.reporter.status(&line);
                report_server_warnings(context, &warnings);
            }
            Err(problem) => report_not_registered(context, problem, &mut failures),
        }
    }
    failures.into_result()
}

/// Returns the orphans to register, each once, with the ID of its volume.
fn adoptions<'a>(
    inventory: &'a OrphanInventory,
    names: &[String],
) -> Result<Vec<(VolumeId, &'a ListedVolume)>, Diagnostics> {
    let (mut adoptions, mut problems, mut ids) = (vec![], vec![], BTreeSet::new());
    for text in names {
        match adoption(inventory, text) {
            Ok((id, listed)) if ids.insert(id.clone()) => adoptions.push((id, listed)),
            Ok(_) => {}
            Err(problem) => problems.push(*problem),
        }
    }
    if problems.is_empty() {
        return Ok(adoptions);
    }
    Err(problems.into_iter().collect())
}

/// Parses `EXTERNAL_ID` or `ID=EXTERNAL_ID`. An external ID may contain `=`.
fn adoption<'a>(
    inventory: &'a OrphanInventory,
    text: &str,
) -> Result<(VolumeId, &'a ListedVolume), Box<Diagnostic>> {
    let (id, external_id) = match text.split_once('=') {
        Some((id, external_id)) if inventory.inventory.find(text).is_none() => (id, external_id),
        Some(_) | None => (text, text),
    };
    let listed = inventory.find(external_id)?;
    if let Some(other) = listed.registered.first() {
        let help = format!(
            "use the registered volume: run `nomad-csi volume status {} --namespace {}`",
            shell_quoted(other.id.as_str()),
            shell_quoted(other.namespace.as_str())
        );
        return Err(Box::new(registered(listed, other, help)));
    }
    if let Some(problem) = in_use(listed, "register") {
        return Err(Box::new(problem));
    }
    let id = VolumeId::new(id);
    if let Some(problem) = id.problem_in_specification() {
        let message = format!("a volume cannot have the ID `{}`", one_line(id.as_str()));
        let adopt = format!("--adopt ID={}", shell_quoted(external_id));
        let problem = Diagnostic::error(Code::CliInvalidValue, message)
            .note(problem.to_string())
            .help(format!("choose an ID with `{adopt}`"));
        return Err(Box::new(problem));
    }
    Ok((id, listed))
}

async fn ask_for_capability(prompt: &dyn ApprovalPrompt) -> Result<Capability, WorkflowError> {
    if prompt.is_interactive() {
        let question =
            "Capability (ACCESS_MODE:ATTACHMENT_MODE, such as single-node-writer:file-system): ";
        return parse_capability(&prompt.ask(None, question).await?);
    }
    let message = "cannot register the volume: a capability is required";
    Err(Diagnostic::error(Code::CliInvalidValue, message)
        .note("a provider does not report how its volumes can be used")
        .help("add `--capability single-node-writer:file-system`, or another capability")
        .into())
}

/// Deletes orphans with their data. `approved` holds `destroys-data:EXTERNAL_ID` of approved deletions.
///
/// # Errors
/// If an orphan cannot be deleted or its deletion is not approved: then none is deleted.
pub async fn delete_orphans(
    context: &WorkflowContext<'_>,
    prompt: &dyn ApprovalPrompt,
    mut request: OrphanRequest<'_>,
    ids: &[String],
    approved: &[String],
) -> Result<(), WorkflowError> {
    let deletions = deletions(request.inventory, ids)?;
    let checking = check_orphans(context, TakenOrphans::Deleted, &request.cut_off);
    context.unless_interrupted(checking).await??;
    if request.capabilities.is_empty() {
        // The registration exists for one call, and nothing uses it.
        request.capabilities = vec![Capability {
            access_mode: AccessMode::SingleNodeWriter,
            attachment_mode: AttachmentMode::FileSystem,
        }];
    }
    for deletion in &deletions {
        report_steps(context, &request, deletion);
    }
    approve_deletions(prompt, &deletions, approved).await?;
    let mut failures = Failures::default();
    for deletion in &deletions {
        if context.is_interrupted() {
            report_not_started(context, &deletion.external_id, &mut failures);
            continue;
        }
        delete_one(context, &request, deletion, &mut failures).await;
    }
    failures.into_result()
}

/// An orphan to delete.
struct Deletion {
    external_id: ExternalId,
    /// The ID of the registration for the deletion.
    registration_id: VolumeId,
    /// The namespace of that registration, if an earlier run made it.
    registered_in: Option<Namespace>,
    /// `None` if the provider no longer lists it: only the registration is left.
    listed: Option<ListedVolume>,
}

impl Deletion {
    fn registration(&self, request: &OrphanRequest<'_>) -> VolumeRequest {
        let (id, listed) = (self.registration_id.clone(), self.listed.as_ref());
        let mut registration = request.registration(id, &self.external_id, listed);
        if let Some(namespace) = &self.registered_in {
            registration.namespace = namespace.clone();
        }
        registration
    }
}

/// Returns the orphans to delete, each once, or every problem.
fn deletions(inventory: &OrphanInventory, ids: &[String]) -> Result<Vec<Deletion>, WorkflowError> {
    let mut blocked: Vec<Diagnostic> = vec![];
    if !inventory.is_complete {
        let message = "cannot delete the volumes: the token is not known to list the volumes of every namespace, so they may be registered";
        let problem = Diagnostic::error(Code::OrphanUnseenNamespaces, message);
        blocked.push(problem.help(Code::OrphanUnseenNamespaces.advice()));
    }
    let mut deletions: Vec<Deletion> = vec![];
    let mut unknown = vec![];
    for id in ids {
        let external_id = ExternalId::new(id);
        let registration_id = deletion_name(&inventory.plugin, &external_id);
        let mut registered = inventory.registered.iter();
        let registration = registered.find(|one| one.id == registration_id);
        let listed = match (inventory.find(id), registration) {
            (Ok(listed), _) => Some(listed),
            (Err(_), Some(_)) => None,
            (Err(problem), None) => {
                unknown.push(*problem);
                continue;
            }
        };
        blocked.extend(listed.into_iter().filter_map(not_deletable));
        if !deletions.iter().any(|one| one.external_id == external_id) {
            deletions.push(Deletion {
                registered_in: registration.map(|one| one.namespace.clone()),
                listed: listed.cloned(),
                external_id,
                registration_id,
            });
        }
    }
    if !blocked.is_empty() {
        return Err(WorkflowError::blocked(blocked.into_iter().chain(unknown)));
    }
    if !unknown.is_empty() {
        return Err(unknown.into_iter().collect::<Diagnostics>().into());
    }
    Ok(deletions)
}

fn not_deletable(listed: &ListedVolume) -> Option<Diagnostic> {
    if let Some(other) = listed.registered.first() {
        let help = format!(
            "run `nomad-csi volume delete {} --namespace {}` to delete a registered volume and its data",
            shell_quoted(other.id.as_str()),
            shell_quoted(other.namespace.as_str())
        );
        return Some(registered(listed, other, help));
    }
    in_use(listed, "delete")
}

/// Returns why a volume that is registered nowhere is left alone: some node has it.
fn in_use(listed: &ListedVolume, verb: &str) -> Option<Diagnostic> {
    let id = &listed.volume.external_id;
    let nodes = listed.volume.published_nodes.iter();
    let nodes: Vec<_> = nodes.map(ExternalNodeId::as_str).collect();
    if nodes.is_empty() {
        return None;
    }
    let message = format!("cannot {verb} volume `{id}` of the provider: it may be in use");
    Some(
        Diagnostic::error(Code::OrphanInUse, message)
            .note(format!("the provider has it published to: {}", nodes.join(", ")))
            .help(Code::OrphanInUse.advice()),
    )
}

/// Reports what a deletion does, before it is approved.
fn report_steps(context: &WorkflowContext<'_>, request: &OrphanRequest<'_>, deletion: &Deletion) {
    let (plugin, external_id) = (&request.inventory.plugin, &deletion.external_id);
    let key = deletion.registration(request).key();
    let details = match &deletion.listed {
        Some(listed) => listed.size_text(),
        None => "no longer listed by the provider".to_owned(),
    };
    let done = match deletion.registered_in {
        Some(_) => " (done by an earlier run)",
        None => "",
    };
    let lines = [
        format!("- delete orphan {external_id} of plugin {plugin} ({details})"),
        format!("    1. register it as volume {} in namespace {}{done}", key.id, key.namespace),
        "    2. delete that volume, and its data in the storage provider".to_owned(),
        "    the data cannot be restored; another cluster may use it".to_owned(),
    ];
    for line in lines {
        context.reporter.status(&line);
    }
}

async fn approve_deletions(
    prompt: &dyn ApprovalPrompt,
    deletions: &[Deletion],
    approved: &[String],
) -> Result<(), WorkflowError> {
    let approvals = deletions.iter().filter_map(|deletion| {
        let id = deletion.external_id.as_str();
        let flag = format!("{}:{id}", Risk::DestroysData);
        if approved.contains(&flag) {
            return None;
        }
        let message = format!(
            "cannot delete volume `{}` of the provider: approval is required",
            one_line(id)
        );
        Some(NamedApproval {
            question: format!("Type {id} to delete it: "),
            id,
            problem: Diagnostic::error(Code::CliApprovalNeeded, message)
                .help(format!("add `--approve {}`", shell_quoted(&flag))),
        })
    });
    require_named_approvals(prompt, approvals).await
}

async fn delete_one(
    context: &WorkflowContext<'_>,
    request: &OrphanRequest<'_>,
    deletion: &Deletion,
    failures: &mut Failures,
) {
    let registration = deletion.registration(request);
    let key = registration.key();
    let external_id = &deletion.external_id;
    if deletion.registered_in.is_none() {
        match register_orphan(context.api, &registration).await {
            Ok(warnings) => {
                let line = format!("orphan {external_id}: registered as volume {key}");
                context.reporter.status(&line);
                report_server_warnings(context, &warnings);
            }
            Err(problem) => return report_not_registered(context, problem, failures),
        }
    }
    match delete_orphan(context.api, &key, &request.secrets).await {
        OrphanDeletion::Deleted => {
            let line = format!("orphan {external_id}: deleted, with its data");
            context.reporter.status(&line);
        }
        OrphanDeletion::Refused(reasons) => {
            let reasons: Diagnostics = reasons.into_iter().collect();
            context.reporter.diagnostics(&reasons, &SourceMap::default());
            failures.add(FailureKind::Blocked);
        }
        OrphanDeletion::Incomplete(problem) => {
            context.reporter.diagnostic(problem);
            failures.add(FailureKind::Failed);
        }
    }
}

fn report_not_registered(
    context: &WorkflowContext<'_>,
    problem: Diagnostic,
    failures: &mut Failures,
) {
    failures.add(match problem.code {
        Code::OrphanRegistered => FailureKind::Blocked,
        _ => FailureKind::Failed,
    });
    let problem = match problem.code {
        Code::PluginCapability | Code::PluginRefused => problem.help(
            "if the volume has another capability, add `--capability ACCESS_MODE:ATTACHMENT_MODE`",
        ),
        _ => problem,
    };
    context.reporter.diagnostic(problem);
}

fn report_server_warnings(context: &WorkflowContext<'_>, warnings: &[String]) {
    let warning = |text: &String| {
        let message = "the server returned a warning for the registration";
        Diagnostic::warning(Code::ApplyServerWarning, message).note(text.clone())
    };
    if !warnings.is_empty() {
        let warnings: Diagnostics = warnings.iter().map(warning).collect();
        context.reporter.diagnostics(&warnings, &SourceMap::default());
    }
}

fn report_not_started(
    context: &WorkflowContext<'_>,
    external_id: &ExternalId,
    failures: &mut Failures,
) {
    let line = format!("orphan {external_id}: not started");
    context.reporter.status(&line);
    failures.add(FailureKind::Interrupted);
}
