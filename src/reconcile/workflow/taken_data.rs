//! Refuses to take data to which an allocation may still write although its volume is not registered any more.
//!
//! Nomad lets a registration go while a task of a stopped job writes. Which data such an allocation has is not known any
//! more. So before its end no data that exists is registered, adopted or deleted, and no volume is created under the name of
//! that volume, or is kept if the provider answers with data that it had before. If its node is gone, only a person knows that nothing writes, and approves that by the allocation's full ID.
//!
//! Nomad shows a token only what it may see, and says nothing about the rest. So data is taken only with a token that is
//! known to see the volumes and allocations of every namespace, or if `--share` names the volume. A creation normally takes
//! no data, so it is checked as far as the token sees. What a server has forgotten of nodes that are away counts where data
//! is destroyed ([`crate::plan::AwayNode`]).

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::timeout;

use super::context::WorkflowContext;
use super::dropped_claims::{END_IT, unread_problem};
use super::error::WorkflowError;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{
    Alloc, AllocWrites, ExternalVolume, Namespace, NamespacedId, PluginId, SeenNodes,
    UnresolvedRequest, Volume, one_line,
};
use crate::plan::{
    Action, AwayNode, CUTS_OFF, ClaimDrops, ClaimingAlloc, CutOffs, DataIdentity, Plan,
    PlannedVolume, forgotten_user_problems, unread_nodes_problem,
};
use crate::ports::{ApiError, ClusterApi, ServerKind};
use crate::reconcile::permissions::access;
use crate::reconcile::seen_nodes::seen_nodes;
use crate::reconcile::unclaimed_users::unregistered_users;
use crate::wire::NodeDocument;

/// What a token needs to see who has data.
const SEE_ALL: &str = "use a token with `namespace \"*\" { capabilities = [\"csi-list-volume\", \"read-job\"] }` and without a rule that denies it";

/// Whether the token is known to list the volumes of every namespace.
pub(super) async fn sees_every_volume(api: &dyn ClusterApi) -> Result<bool, WorkflowError> {
    Ok(sight(api).await?.volumes)
}

/// What a token is known to see in every namespace.
struct Sight {
    volumes: bool,
    allocations: bool,
}

async fn sight(api: &dyn ClusterApi) -> Result<Sight, WorkflowError> {
    match access(api).await {
        Ok(access) => Ok(Sight {
            volumes: access.grants.lists_every_namespace() == Some(true),
            allocations: access.grants.reads_every_job() == Some(true),
        }),
        Err(error) if error.code == Code::ApiUnknownToken => Err(error.into()),
        Err(_) => Ok(Sight {
            volumes: false,
            allocations: false,
        }),
    }
}

/// What a plan would take.
#[derive(Default)]
pub(super) struct TakenData {
    /// Why it is not taken.
    pub(super) problems: Vec<Diagnostic>,
    /// What the providers have that creations must not answer with, because an allocation may write to it.
    pub(super) existing: Vec<DataIdentity>,
}

impl TakenData {
    /// Looks at what a plan would take.
    pub(super) async fn of(
        context: &WorkflowContext<'_>,
        plan: &Plan,
        observed: &BTreeMap<NamespacedId, Volume>,
        cut_off: &CutOffs,
    ) -> Result<Self, WorkflowError> {
        let (registered, created) = (
            planned(plan, Action::registration),
            planned(plan, Action::creation),
        );
        let destroying = plan.volumes.iter().filter(|one| one.action.destroys_data());
        let destroyed = destroying.filter_map(|entry| observed.get(&entry.key));
        let destroyed: Vec<Volume> = destroyed.cloned().collect();
        let mut taken = Self {
            problems: destruction_problems(context, &destroyed, cut_off).await?,
            existing: vec![],
        };
        if registered.is_empty() && created.is_empty()
            || context.api.server().await? == ServerKind::Agent
        {
            return Ok(taken);
        }
        if !registered.is_empty() {
            let unseen = registered.iter().filter(|(_, request)| !request.share);
            let unseen = unseen_problems(context, unseen.map(|(entry, _)| *entry)).await?;
            taken.problems.extend(unseen);
        }
        let writers = match UnregisteredWriter::all(context).await? {
            Ok(writers) => writers,
            Err(why) => {
                if taken.problems.is_empty() {
                    let what = match registered.is_empty() {
                        true => "created",
                        false => "registered",
                    };
                    let warning = unread_problem(Diagnostic::warning, what, &[why]);
                    context.reporter.diagnostic(warning);
                }
                return Ok(taken);
            }
        };
        for (entry, _) in registered {
            let what = format!("register volume {}", entry.key.quoted());
            let found = writers.iter();
            let found = found.filter_map(|writer| writer.problem(&what, cut_off));
            taken.problems.extend(found);
        }
        let is_open = |writer: &&UnregisteredWriter| writer.problem("", cut_off).is_some();
        let open: Vec<_> = writers.iter().filter(is_open).collect();
        if !open.is_empty() {
            taken
                .check_creations(context, &created, &open, cut_off)
                .await;
        }
        Ok(taken)
    }

    /// Refuses creations that may be answered with the data of a writer: those under the name of its volume, and all of a
    /// provider that does not say what it has.
    async fn check_creations(
        &mut self,
        context: &WorkflowContext<'_>,
        created: &[Requested<'_>],
        writers: &[&UnregisteredWriter],
        cut_off: &CutOffs,
    ) {
        let mut listed: BTreeMap<(&PluginId, &Namespace), Option<String>> = BTreeMap::new();
        for (_, request) in created {
            let (plugin, namespace) = (&request.plugin_id, &request.namespace);
            if listed.contains_key(&(plugin, namespace)) {
                continue;
            }
            let listing = context.api.list_external_volumes(plugin, namespace);
            let unread = match timeout(LIST_TIMEOUT, listing).await {
                Ok(Ok(volumes)) => {
                    let data = |volume: ExternalVolume| DataIdentity {
                        plugin_id: plugin.clone(),
                        external_id: volume.external_id,
                    };
                    self.existing.extend(volumes.into_iter().map(data));
                    None
                }
                Ok(Err(error)) => Some(error.message),
                Err(_) => Some("the provider did not answer in time".to_owned()),
            };
            listed.insert((plugin, namespace), unread);
        }
        for (entry, request) in created {
            let what = format!("create volume {}", entry.key.quoted());
            let unread = listed.get(&(&request.plugin_id, &request.namespace));
            let unread = unread.and_then(Option::as_ref);
            let found = writers
                .iter()
                .filter(|writer| unread.is_some() || writer.may_have(request));
            let problems = found.filter_map(|writer| writer.problem(&what, cut_off));
            self.problems.extend(problems.map(|problem| match unread {
                Some(why) => problem.note(format!(
                    "what the provider has already could not be read: {}",
                    one_line(why)
                )),
                None => problem,
            }));
        }
    }
}

/// How long the list of a provider is waited for.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// An entry of a plan with the request that it sends.
type Requested<'a> = (&'a PlannedVolume, &'a UnresolvedRequest);

fn planned(
    plan: &Plan,
    requested: fn(&Action) -> Option<&UnresolvedRequest>,
) -> Vec<Requested<'_>> {
    let entries = plan.volumes.iter();
    let found = entries.filter_map(|entry| Some((entry, requested(&entry.action)?)));
    found.collect()
}

/// Returns an error for each of the volumes, unless the token is known to see everything that may have their data.
async fn unseen_problems(
    context: &WorkflowContext<'_>,
    entries: impl Iterator<Item = &PlannedVolume>,
) -> Result<Vec<Diagnostic>, WorkflowError> {
    let Some(unseen) = unseen(context.api).await? else {
        return Ok(vec![]);
    };
    let problem = |entry: &PlannedVolume| {
        let message = format!("cannot register volume {}: {unseen}", entry.key.quoted());
        Diagnostic::error(Code::OrphanUnseenNamespaces, message)
            .help(SEE_ALL)
            .help(format!(
                "if you know that nothing else uses the data, or the storage is made for that, add `--share {}`",
                entry.key.option()
            ))
    };
    Ok(entries.map(problem).collect())
}

/// Returns what the token is not known to see of those that may have data; `None` if it sees all.
async fn unseen(api: &dyn ClusterApi) -> Result<Option<&'static str>, WorkflowError> {
    let sight = sight(api).await?;
    Ok(match (sight.volumes, sight.allocations) {
        (true, true) => None,
        (true, false) => Some(
            "the token is not known to read the allocations of every namespace, and one may write to the data",
        ),
        (false, _) => Some(
            "the token is not known to list the volumes of every namespace, and one may have the data",
        ),
    })
}

/// Returns why the data of registered volumes is not destroyed: an allocation that may still write to a volume that is not
/// registered any more may have the same data, and the server may have forgotten one on a node that is away.
pub(super) async fn destruction_problems(
    context: &WorkflowContext<'_>,
    destroyed: &[Volume],
    cut_off: &CutOffs,
) -> Result<Vec<Diagnostic>, WorkflowError> {
    if destroyed.is_empty() || context.api.server().await? == ServerKind::Agent {
        return Ok(vec![]);
    }
    let writers = match UnregisteredWriter::all(context).await? {
        Ok(writers) => writers,
        Err(why) => return Ok(vec![unread_problem(Diagnostic::error, "deleted", &[why])]),
    };
    if let Some(unseen) = unseen(context.api).await? {
        let message = format!("data will be deleted: {unseen}");
        let warning = Diagnostic::warning(Code::OrphanUnseenNamespaces, message).help(SEE_ALL);
        context.reporter.diagnostic(warning);
    }
    let away = away_nodes(context.api).await;
    let mut problems = vec![];
    for volume in destroyed {
        let what = format!("delete the data of volume {}", volume.key().quoted());
        let found = writers.iter();
        problems.extend(found.filter_map(|writer| writer.problem(&what, cut_off)));
        problems.extend(away_problems(&what, Some(volume), &away, cut_off));
    }
    Ok(problems)
}

/// The most nodes that are away and are read by themselves.
const MOST_READ: usize = 100;

/// Returns the nodes that are away, with the indexes at which they went, or why they could not be read.
async fn away_nodes(api: &dyn ClusterApi) -> Result<Vec<AwayNode>, String> {
    let nodes = seen_nodes(api, &[]).await;
    if let SeenNodes::Unread(why) = nodes {
        return Err(why);
    }
    let mut found = vec![];
    for (position, node) in nodes.away().unwrap_or_default().into_iter().enumerate() {
        let read = match position < MOST_READ {
            true => api.read_node(&node.id).await.ok().flatten(),
            false => None,
        };
        found.push(AwayNode {
            node: node.clone(),
            since: read.and_then(|read| missed_at(&read.value)),
        });
    }
    Ok(found)
}

/// Returns the index at which a node was last missed. Its other changes say nothing of that.
fn missed_at(node: &NodeDocument) -> Option<u64> {
    let missed = node.events.iter().rev();
    let mut missed = missed.filter(|event| event.message == "Node heartbeat missed");
    let index = missed.next()?.create_index;
    (index > 0).then_some(index)
}

fn away_problems(
    what: &str,
    volume: Option<&Volume>,
    away: &Result<Vec<AwayNode>, String>,
    cut_off: &CutOffs,
) -> Vec<Diagnostic> {
    match away {
        Ok(away) => forgotten_user_problems(what, volume, away, cut_off),
        Err(why) => vec![unread_nodes_problem(what, why)],
    }
}

/// What is done with data that is registered nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakenOrphans {
    Adopted,
    Deleted,
}

/// Refuses to take data that is registered nowhere while an allocation may still write to a volume that is not registered
/// any more, or may do so where the token does not see it.
///
/// # Errors
/// Every such allocation.
pub(super) async fn check_orphans(
    context: &WorkflowContext<'_>,
    taken: TakenOrphans,
    cut_off: &CutOffs,
) -> Result<(), WorkflowError> {
    let api = context.api;
    if api.server().await? == ServerKind::Agent {
        return Ok(());
    }
    let (verb, verbed) = match taken {
        TakenOrphans::Adopted => ("adopt", "adopted"),
        TakenOrphans::Deleted => ("delete", "deleted"),
    };
    let what = format!("{verb} data that is not registered");
    let mut problems = vec![];
    if let Some(unseen) = unseen(api).await? {
        let message = format!("cannot {what}: {unseen}");
        let problem = Diagnostic::error(Code::OrphanUnseenNamespaces, message);
        problems.push(problem.help(SEE_ALL));
    }
    match UnregisteredWriter::all(context).await? {
        Ok(writers) => {
            let found = writers.iter();
            problems.extend(found.filter_map(|writer| writer.problem(&what, cut_off)));
        }
        Err(why) => problems.push(unread_problem(Diagnostic::error, verbed, &[why])),
    }
    if taken == TakenOrphans::Deleted {
        let away = away_nodes(api).await;
        problems.extend(away_problems(&what, None, &away, cut_off));
    }
    WorkflowError::refused(problems)
}

/// An allocation whose end is not proven, and whose volume is not registered, or was registered after it.
struct UnregisteredWriter {
    volume: NamespacedId,
    claim: ClaimingAlloc,
    why: String,
    /// Whether it may write; otherwise its node is gone, and only a person knows.
    is_possible: bool,
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
            let is_possible = match drops.writes(&claim) {
                AllocWrites::Possible => true,
                AllocWrites::Unprovable => false,
                AllocWrites::Ended => return None,
            };
            Some(Self {
                volume,
                claim,
                why,
                is_possible,
            })
        };
        Ok(Ok(users.into_iter().filter_map(writer).collect()))
    }

    /// Whether a creation may be answered with the data of this allocation: the plugin knows its volume by a name, which
    /// most often is the ID.
    fn may_have(&self, request: &UnresolvedRequest) -> bool {
        let id = self.volume.id.as_str();
        id == request.provider_name() || id == request.id.as_str()
    }

    /// Returns why the data is not taken; `None` if a person approved it.
    fn problem(&self, what: &str, cut_off: &CutOffs) -> Option<Diagnostic> {
        match self.is_possible {
            true => Some(self.may_write(what)),
            false if cut_off.allow(self.claim.id.as_str()) => None,
            false => Some(self.approval_needed(what)),
        }
    }

    fn may_write(&self, what: &str) -> Diagnostic {
        let message = format!(
            "cannot {what}: an allocation may still write to volume {}, which was deregistered, and may have the same data",
            self.volume.quoted()
        );
        Diagnostic::error(Code::VolumeInUse, message)
            .note(self.claim.to_string())
            .note(self.why.clone())
            .help(END_IT)
    }

    fn approval_needed(&self, what: &str) -> Diagnostic {
        let id = one_line(self.claim.id.as_str());
        let message = format!(
            "cannot {what}: approval is required, because an allocation used volume {}, which was deregistered, and may have the same data",
            self.volume.quoted()
        );
        Diagnostic::error(Code::CliApprovalNeeded, message)
            .note(self.claim.to_string())
            .note(self.why.clone())
            .note("if its tasks still run, they write to data that is deleted, or that others write; `--yes` does not approve that")
            .help(format!("make sure that the machine is off or cut off from its storage, then add `--approve {CUTS_OFF}:{id}`; `apply` takes it where a command does not"))
    }
}
