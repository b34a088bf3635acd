//! `orphans`: what a provider has and nobody registered; registers it, or deletes it.
//!
//! The joining and the steps are `reconcile`'s. Here somebody is shown what is there and what would be
//! done, and agrees to each volume by its name. Everything is checked before anything is done; one
//! volume that may not be deleted spares all.

use std::collections::BTreeSet;

use crate::cli::args::OrphansArguments;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::given_secrets::given_secrets;
use crate::cli::ui::{one_line, orphan_document, orphan_list, orphan_steps};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap, nearest};
use crate::model::{
    AccessMode, AttachmentMode, Capability, CapacityRange, ExternalId, ExternalNodeId, Namespace,
    PluginId, Secrets, VolumeId, VolumeRequest, VolumeSummary,
};
use crate::nomad::NomadClient;
use crate::plan::Risk;
use crate::ports::{Document, ProviderReader as _, ServerKind, VolumeReader as _};
use crate::reconcile::{
    Deleted, Inventory, Listed, access, adopt, delete, deletion_name, join, registered_anywhere,
};

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

/// What there is.
struct Seen {
    plugin: PluginId,
    /// Where registrations are made.
    namespace: Namespace,
    inventory: Inventory,
    registered: Vec<VolumeSummary>,
    /// Whether the token is known to list the volumes of every namespace.
    is_complete: bool,
}

async fn look(
    context: &Context,
    client: &NomadClient,
    arguments: &OrphansArguments,
) -> Result<Seen, CliError> {
    let plugin = PluginId::new(&arguments.plugin);
    let asked = context.namespace()?.unwrap_or_default();
    let namespace = match asked.as_str() {
        Namespace::ALL => Namespace::default(),
        _ => asked,
    };
    let looking = async {
        let listed = client.list_external_volumes(&plugin, &namespace).await;
        let listed = listed.map_err(|error| {
            let problem = error.diagnostic();
            CliError::from(if error.code == Code::PluginUnsupported {
                problem.note("what its provider has and nobody registered cannot be known here; nothing was changed")
            } else {
                problem
            })
        })?;
        let registered = registered_anywhere(client).await?;
        let is_agent = client.server().await? == ServerKind::Agent;
        let is_complete = is_agent || sees_everything(client).await?;
        Ok::<_, CliError>((listed, registered, is_complete))
    };
    let (listed, registered, is_complete) = context.interrupts.unless(looking).await??;
    Ok(Seen {
        inventory: join(&plugin, listed, &registered),
        plugin,
        namespace,
        registered,
        is_complete,
    })
}

/// What cannot be known counts as no. The agent knows no tokens and shows everything.
async fn sees_everything(client: &NomadClient) -> Result<bool, CliError> {
    match access(client).await {
        Ok(access) => Ok(access.grants.lists_every_namespace() == Some(true)),
        Err(error) if error.code == Code::ApiUnknownToken => Err(error.into()),
        Err(_) => Ok(false),
    }
}

/// `ACCESS_MODE:ATTACHMENT_MODE`.
fn capability(text: &str) -> Result<Capability, CliError> {
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

struct Work<'a> {
    context: &'a Context,
    client: &'a NomadClient,
    arguments: &'a OrphansArguments,
    seen: Seen,
    capabilities: Vec<Capability>,
    secrets: Secrets,
}

/// A volume of the provider that is to be registered.
struct Adoption {
    id: VolumeId,
    listed: Listed,
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

    fn warn_of_unseen(&self) {
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
    fn listed(&self, id: &str) -> Result<&Listed, Diagnostics> {
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

    fn request(&self, id: VolumeId, remote: &ExternalId, listed: Option<&Listed>) -> VolumeRequest {
        let context = listed.map(|listed| listed.volume.context.clone());
        VolumeRequest {
            namespace: self.seen.namespace.clone(),
            name: Some(id.to_string()),
            id,
            external_id: Some(remote.clone()),
            plugin_id: self.seen.plugin.clone(),
            capabilities: self.capabilities.clone(),
            capacity: CapacityRange::default(),
            topology_request: None,
            clone_id: None,
            snapshot_id: None,
            mount_options: None,
            secrets: (!self.secrets.is_empty()).then(|| self.secrets.clone()),
            parameters: None,
            context: context.filter(|context| !context.is_empty()),
        }
    }

    async fn adopt(mut self) -> Result<Exit, CliError> {
        let adoptions = self.adoptions()?;
        self.warn_of_unseen();
        if self.capabilities.is_empty() {
            self.capabilities = vec![self.ask_for_capability().await?];
        }
        let mut exit = Exit::Done;
        for Adoption { id, listed } in adoptions {
            let remote = listed.volume.external_id.clone();
            if self.context.interrupts.stop().is_cancelled() {
                self.say_not_begun(&remote);
                exit = exit.max(Exit::Interrupted);
                continue;
            }
            let request = self.request(id, &remote, Some(&listed));
            let key = request.key();
            match adopt(self.client, &request).await {
                Ok(warnings) => {
                    self.context.printer.talk(&one_line(&format!(
                        "volume {key}: registered, external ID {remote}"
                    )));
                    self.say_warnings(&warnings);
                }
                Err(problem) => exit = exit.max(self.not_registered(problem)),
            }
        }
        Ok(exit)
    }

    /// What is to be registered, all problems at once.
    fn adoptions(&self) -> Result<Vec<Adoption>, Diagnostics> {
        let mut adoptions = vec![];
        let mut problems = vec![];
        let mut ids = BTreeSet::new();
        for text in &self.arguments.adopt {
            match self.adoption(text) {
                Ok(adoption) if ids.insert(adoption.id.clone()) => adoptions.push(adoption),
                Ok(_) => {}
                Err(problem) => problems.extend(problem),
            }
        }
        if problems.is_empty() {
            return Ok(adoptions);
        }
        Err(problems.into_iter().collect())
    }

    /// `EXTERNAL_ID`, or `ID=EXTERNAL_ID`; an external ID may have a `=` of its own.
    fn adoption(&self, text: &str) -> Result<Adoption, Diagnostics> {
        let (id, remote) = match text.split_once('=') {
            Some((id, remote)) if self.seen.inventory.find(text).is_none() => (id, remote),
            Some(_) | None => (text, text),
        };
        let listed = self.listed(remote)?;
        if let Some(other) = listed.registered.first() {
            return Err(registered(listed, other).into());
        }
        let id = VolumeId::new(id);
        if let Some(problem) = id.problem() {
            let message = format!("a volume cannot have the ID `{}`", one_line(id.as_str()));
            return Err(Diagnostic::error(Code::CliInvalidValue, message)
                .note(problem.to_string())
                .help(format!("choose one: `--adopt ID={}`", one_line(remote)))
                .into());
        }
        Ok(Adoption {
            id,
            listed: listed.clone(),
        })
    }

    async fn ask_for_capability(&self) -> Result<Capability, CliError> {
        if self.context.stdin.is_terminal {
            let question = "How may they be used (ACCESS_MODE:ATTACHMENT_MODE, such as single-node-writer:file-system)? ";
            return capability(&self.context.answer(question).await?);
        }
        let message = "nothing was registered: nobody said how the volumes may be used";
        Err(Diagnostic::error(Code::CliInvalidValue, message)
            .note("a provider does not say it, and a server takes no volume without it")
            .help("add `--capability single-node-writer:file-system`, or what the volumes are")
            .into())
    }

    async fn delete(mut self) -> Result<Exit, CliError> {
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

    fn not_registered(&self, problem: Diagnostic) -> Exit {
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

    fn report(&self, problems: &Diagnostics) {
        self.context.report(problems, &SourceMap::default());
    }

    fn say_warnings(&self, warnings: &[String]) {
        let say = |text: &String| {
            let message = "the server warns about the registration";
            Diagnostic::warning(Code::ApplyServerWarning, message).note(text.clone())
        };
        if !warnings.is_empty() {
            self.report(&warnings.iter().map(say).collect());
        }
    }

    fn say_not_begun(&self, remote: &ExternalId) {
        let line = format!("orphan {}: not begun", one_line(remote.as_str()));
        self.context.printer.talk(&line);
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

fn registered(listed: &Listed, other: &VolumeSummary) -> Diagnostic {
    let id = &listed.volume.external_id;
    let message = format!("the provider's volume {id} is no orphan: it is registered");
    Diagnostic::error(Code::OrphanRegistered, message)
        .note(format!(
            "volume {} in namespace {} of plugin {} has it",
            other.id, other.namespace, other.plugin_id
        ))
        .help(format!(
            "`nomad-csi volume delete {} --namespace {}` deletes a registered volume with its data",
            other.id, other.namespace
        ))
}
