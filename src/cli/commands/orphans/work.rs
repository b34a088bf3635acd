//! The command: what it shows, and what its two ways to change something share.

use super::look::{Seen, look};
use crate::cli::args::OrphansArguments;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::given_secrets::given_secrets;
use crate::cli::ui::{one_line, orphan_document, orphan_list};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap, nearest};
use crate::model::{
    AccessMode, AttachmentMode, Capability, ExternalId, NamespacedId, Secrets, VolumeId,
    VolumeRequest,
};
use crate::nomad::NomadClient;
use crate::ports::Document;
use crate::reconcile::Listed;

/// Lists orphans, registers or deletes some.
///
/// # Errors
/// If something that is given cannot be used, nobody agrees, or the server says no.
pub(crate) async fn run(context: &Context, arguments: &OrphansArguments) -> Result<Exit, CliError> {
    let secrets = given_secrets(context, &arguments.secrets).await?;
    let capabilities = arguments.capability.iter().map(|text| capability(text));
    let capabilities = capabilities.collect::<Result<Vec<_>, _>>()?;
    context
        .with_client(async |client| {
            let seen = look(context, client, arguments).await?;
            let work = Work {
                context,
                client,
                arguments,
                seen,
                capabilities,
                secrets,
            };
            if !arguments.adopt.is_empty() {
                return work.adopt().await;
            }
            if !arguments.delete_data.is_empty() {
                return work.delete().await;
            }
            Ok(work.show())
        })
        .await
}

/// `ACCESS_MODE:ATTACHMENT_MODE`.
pub(super) fn capability(text: &str) -> Result<Capability, CliError> {
    let (access, attachment) = text.split_once(':').unwrap_or((text, "file-system"));
    match (AccessMode::parse(access), AttachmentMode::parse(attachment)) {
        (Some(access_mode), Some(attachment_mode)) => Ok(Capability {
            access_mode,
            attachment_mode,
        }),
        (None, _) | (_, None) => {
            let message = format!("`{}` is no capability", one_line(text));
            let words = AccessMode::ALL.map(AccessMode::as_str);
            let problem = Diagnostic::error(Code::CliInvalidValue, message);
            let problem = match nearest(access, words) {
                Some(near) if near != access => problem.help(format!("did you mean `{near}`?")),
                Some(_) | None => problem,
            };
            Err(problem
                .help("write ACCESS_MODE:ATTACHMENT_MODE, such as single-node-writer:file-system")
                .into())
        }
    }
}

/// A run, with everything that it was given and that it found.
pub(super) struct Work<'a> {
    pub(super) context: &'a Context,
    pub(super) client: &'a NomadClient,
    pub(super) arguments: &'a OrphansArguments,
    pub(super) seen: Seen,
    pub(super) capabilities: Vec<Capability>,
    pub(super) secrets: Secrets,
}

impl Work<'_> {
    fn show(&self) -> Exit {
        let Seen { inventory, .. } = &self.seen;
        let orphans: Vec<&Listed> = inventory.orphans().collect();
        let documents: Vec<Document> = orphans.iter().map(|one| orphan_document(one)).collect();
        let printer = &self.context.printer;
        match self.arguments.output.output.list(&documents) {
            Some(text) => printer.data(&text),
            None if orphans.is_empty() && inventory.missing.is_empty() => {}
            None => printer.data(&orphan_list(&orphans, &inventory.missing)),
        }
        let count = inventory.listed.len();
        let (known, unknown) = (count - orphans.len(), orphans.len());
        let plugin = one_line(self.seen.plugin.as_str());
        let orphans = if unknown == 1 { "orphan" } else { "orphans" };
        printer.talk(&format!(
            "plugin {plugin}: {count} at the provider, {known} of them registered, {unknown} {orphans}"
        ));
        self.warn_of_unseen();
        Exit::Done
    }

    pub(super) fn warn_of_unseen(&self) {
        if !self.seen.is_complete {
            let message = "the token may not list volumes in every namespace, or nobody can say whether it may: what looks like an orphan may be registered where it cannot be seen";
            self.context.say(
                &Diagnostic::warning(Code::OrphanUnseenNamespaces, message)
                    .help(Code::OrphanUnseenNamespaces.remedy()),
            );
        }
    }

    /// # Errors
    /// If there is no such volume.
    pub(super) fn listed(&self, id: &str) -> Result<&Listed, Diagnostics> {
        let Seen {
            inventory, plugin, ..
        } = &self.seen;
        inventory.find(id).ok_or_else(|| {
            let message = format!(
                "the provider of plugin {plugin} lists no volume `{}`",
                one_line(id)
            );
            let problem = Diagnostic::error(Code::OrphanNotListed, message);
            let ids = inventory
                .orphans()
                .map(|one| one.volume.external_id.as_str());
            let problem = match nearest(id, ids) {
                Some(near) => problem.help(format!("there is an orphan {near}; is it meant?")),
                None => problem.help(Code::OrphanNotListed.remedy()),
            };
            problem.into()
        })
    }

    pub(super) fn request(
        &self,
        id: VolumeId,
        remote: &ExternalId,
        listed: Option<&Listed>,
    ) -> VolumeRequest {
        let context = listed.map(|listed| listed.volume.context.clone());
        let seen = &self.seen;
        let key = NamespacedId::new(seen.namespace.clone(), id);
        VolumeRequest {
            name: Some(key.id.to_string()),
            external_id: Some(remote.clone()),
            secrets: (!self.secrets.is_empty()).then(|| self.secrets.clone()),
            context: context.filter(|context| !context.is_empty()),
            ..VolumeRequest::new(key, seen.plugin.clone(), self.capabilities.clone())
        }
    }

    pub(super) fn not_registered(&self, problem: Diagnostic) -> Exit {
        let exit = match problem.code {
            Code::OrphanRegistered => Exit::Blocked,
            _ => Exit::Error,
        };
        let problem = match problem.code {
            Code::PluginCapability | Code::PluginRefused => problem.help(
                "if the volume is used in another way, say so with `--capability ACCESS_MODE:ATTACHMENT_MODE`",
            ),
            _ => problem,
        };
        self.report(&problem.into());
        exit
    }

    pub(super) fn report(&self, problems: &Diagnostics) {
        self.context.report(problems, &SourceMap::default());
    }

    pub(super) fn say_warnings(&self, warnings: &[String]) {
        let say = |text: &String| {
            let message = "the server warns about the registration";
            Diagnostic::warning(Code::ApplyServerWarning, message).note(text.clone())
        };
        if !warnings.is_empty() {
            self.report(&warnings.iter().map(say).collect());
        }
    }

    pub(super) fn say_not_begun(&self, remote: &ExternalId) {
        let line = format!("orphan {}: not begun", one_line(remote.as_str()));
        self.context.printer.talk(&line);
    }
}
