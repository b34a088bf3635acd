//! `--delete-data`: orphans are deleted, each approved by its name.

use super::look::registered;
use super::work::Work;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{one_line, orphan_steps};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::model::{
    AccessMode, AttachmentMode, Capability, ExternalId, ExternalNodeId, Namespace, VolumeId,
    VolumeRequest,
};
use crate::plan::Risk;
use crate::reconcile::{Deleted, Listed, adopt, delete, deletion_name};

impl Work<'_> {
    /// Deletes them.
    ///
    /// # Errors
    /// If one of them may not be deleted, or nobody agrees: then none is.
    pub(super) async fn delete(mut self) -> Result<Exit, CliError> {
        let doomed = self.doomed()?;
        if self.capabilities.is_empty() {
            // Nobody uses it so: the registration lives for one call.
            self.capabilities = vec![Capability {
                access_mode: AccessMode::SingleNodeWriter,
                attachment_mode: AttachmentMode::FileSystem,
            }];
        }
        for one in &doomed {
            self.context.printer.talk(&orphan_steps(
                &self.seen.plugin,
                &one.remote,
                one.listed.as_ref(),
                &one.request(&self).key(),
                one.is_begun,
            ));
        }
        self.approve(&doomed).await?;
        let mut exit = Exit::Done;
        for one in &doomed {
            if self.context.interrupts.stop().is_cancelled() {
                self.say_not_begun(&one.remote);
                exit = exit.max(Exit::Interrupted);
                continue;
            }
            exit = exit.max(self.delete_one(one).await);
        }
        Ok(exit)
    }

    /// What is to be deleted; all problems at once, and nothing is deleted while there is one.
    fn doomed(&self) -> Result<Vec<Doomed>, CliError> {
        let mut problems: Vec<Diagnostic> = vec![];
        if !self.seen.is_complete {
            let message = "nothing was deleted: the token may not list volumes in every namespace, or nobody can say whether it may, so that these may be registered where it cannot be seen";
            let problem = Diagnostic::error(Code::OrphanUnseenNamespaces, message);
            problems.push(problem.help(Code::OrphanUnseenNamespaces.remedy()));
        }
        let mut doomed: Vec<Doomed> = vec![];
        let mut strangers = vec![];
        for id in &self.arguments.delete_data {
            let remote = ExternalId::new(id);
            let name = deletion_name(&self.seen.plugin, &remote);
            let begun = self.seen.registered.iter().find(|one| one.id == name);
            let listed = match (self.listed(id), begun) {
                (Ok(listed), _) => Some(listed),
                (Err(_), Some(_)) => None,
                (Err(problem), None) => {
                    strangers.extend(problem);
                    continue;
                }
            };
            problems.extend(listed.into_iter().filter_map(not_deletable));
            if !doomed.iter().any(|one| one.remote == remote) {
                doomed.push(Doomed {
                    is_begun: begun.is_some(),
                    namespace: begun.map(|one| one.namespace.clone()),
                    listed: listed.cloned(),
                    remote,
                    name,
                });
            }
        }
        if !problems.is_empty() {
            return Err(CliError::blocked(problems.into_iter().chain(strangers)));
        }
        if !strangers.is_empty() {
            return Err(strangers.into_iter().collect::<Diagnostics>().into());
        }
        Ok(doomed)
    }

    /// By name, each: `--approve destroys-data:ID`, or the ID typed on a terminal.
    async fn approve(&self, doomed: &[Doomed]) -> Result<(), CliError> {
        let mut missing = vec![];
        for one in doomed {
            let id = one.remote.as_str();
            let flag = format!("{}:{id}", Risk::DestroysData);
            if self.arguments.approve.contains(&flag) {
                continue;
            }
            if self.context.stdin.is_terminal {
                let question = format!("Type {} to delete it: ", one_line(id));
                if self.context.answer(&question).await? == id {
                    continue;
                }
            }
            let message = format!(
                "nothing was deleted: nobody agreed to delete the provider's volume {}",
                one_line(id)
            );
            let problem = Diagnostic::error(Code::CliApprovalNeeded, message);
            missing.push(problem.help(format!("add `--approve {}`", one_line(&flag))));
        }
        if missing.is_empty() {
            return Ok(());
        }
        Err(CliError {
            exit: Exit::ApprovalNeeded,
            ..CliError::from(missing.into_iter().collect::<Diagnostics>())
        })
    }

    async fn delete_one(&self, one: &Doomed) -> Exit {
        let request = one.request(self);
        let key = request.key();
        let remote = one_line(one.remote.as_str());
        if !one.is_begun {
            match adopt(self.client, &request).await {
                Ok(warnings) => {
                    let line = format!("orphan {remote}: registered as volume {key}");
                    self.context.printer.talk(&line);
                    self.say_warnings(&warnings);
                }
                Err(problem) => return self.not_registered(problem),
            }
        }
        match delete(self.client, &key, &self.secrets).await {
            Deleted::Done => {
                let line = format!("orphan {remote}: deleted, with its data");
                self.context.printer.talk(&line);
                Exit::Done
            }
            Deleted::Spared(reasons) => {
                self.report(&reasons.into_iter().collect());
                Exit::Blocked
            }
            Deleted::HalfDone(problem) => {
                self.report(&problem.into());
                Exit::Error
            }
        }
    }
}

/// A volume of the provider that is to be deleted.
struct Doomed {
    remote: ExternalId,
    name: VolumeId,
    /// Where its registration was begun, if it was.
    namespace: Option<Namespace>,
    is_begun: bool,
    /// `None` if the provider does not list it any more: only the registration is left.
    listed: Option<Listed>,
}

impl Doomed {
    fn request(&self, work: &Work<'_>) -> VolumeRequest {
        let mut request = work.request(self.name.clone(), &self.remote, self.listed.as_ref());
        if let Some(namespace) = &self.namespace {
            request.namespace = namespace.clone();
        }
        request
    }
}

fn not_deletable(listed: &Listed) -> Option<Diagnostic> {
    if let Some(other) = listed.registered.first() {
        return Some(registered(listed, other));
    }
    let id = &listed.volume.external_id;
    let nodes: Vec<_> = listed
        .volume
        .published_nodes
        .iter()
        .map(ExternalNodeId::as_str)
        .collect();
    if nodes.is_empty() {
        return None;
    }
    let message = format!("the provider's volume {id} is not deleted: somebody may use it");
    Some(
        Diagnostic::error(Code::OrphanInUse, message)
            .note(format!(
                "the provider has it published to: {}",
                nodes.join(", ")
            ))
            .help(Code::OrphanInUse.remedy()),
    )
}
