//! Refuses to take data to which an allocation may still write although its volume is not registered any more.
//!
//! Nomad lets a registration go while a task of a stopped job writes. Which data such an allocation has is not known any
//! more. So before its end no data that exists is registered, adopted or deleted, and no volume is created under the name of
//! that volume, or is kept if the provider answers with data that it had before. If its node is gone, only a person knows that nothing writes, and approves that by the allocation's full ID.
//!
//! Nomad shows a token only what it may see, and says nothing about the rest. So data is taken only with a token that is
//! known to see the volumes and allocations of every namespace, or if `--share` names the volume. A creation normally takes
//! no data, so it is checked as far as the token sees. What a server has forgotten of nodes that are away, or have just
//! returned, counts where data is destroyed ([`nomad_csi_plan::AwayNode`]).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use tokio::time::timeout;

use super::context::WorkflowContext;
use super::dropped_claims::{END_IT, unread_problem};
use super::error::WorkflowError;
use crate::ports::{ApiError, ClusterApi, ServerKind};
use crate::reconcile::away_nodes::away_nodes;
use crate::reconcile::permissions::access;
use crate::reconcile::seen_nodes::seen_nodes;
use crate::reconcile::unclaimed_users::unregistered_users;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{
    Alloc, AllocWrites, ExternalVolume, Namespace, NamespacedId, PluginId, SeenNodes,
    UnresolvedRequest, Volume, one_line,
};
use nomad_csi_plan::{
    Action, AwayNode, CUTS_OFF, ClaimDrops, ClaimingAlloc, CutOffs, DataIdentity, Plan,
    PlannedVolume, unread_nodes_problem,
};

/// The help about the permissions that a token needs to see the users of data.
const SEE_ALL: &str = "use a token with `namespace \"*\" { capabilities = [\"csi-list-volume\", \"read-job\"] }` and without a rule that denies it";

/// Returns whether the token is known to list the volumes of every namespace.
pub(super) async fn sees_every_volume(api: &dyn ClusterApi) -> Result<bool, WorkflowError> {
    Ok(sight(api).await?.volumes)
}

/// The kinds of objects that a token is known to see in every namespace.
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
        Err(_) => Ok(Sight { volumes: false, allocations: false }),
    }
}

/// Why data is not taken.
pub(super) struct Objection {
    /// The full ID of the allocation or node whose approval allows it all the same.
    pub(super) approved_by: Option<String>,
    problem: Diagnostic,
}

impl Objection {
    fn final_one(problem: Diagnostic) -> Self {
        Self { approved_by: None, problem }
    }

    /// Returns the problems that nothing approves.
    pub(super) fn remaining(objections: Vec<Self>, cut_off: &CutOffs) -> Vec<Diagnostic> {
        let is_approved = |one: &Self| one.approved_by.as_ref().is_some_and(|id| cut_off.allow(id));
        let remaining = objections.into_iter().filter(|one| !is_approved(one));
        remaining.map(|one| one.problem).collect()
    }
}

/// The data that a plan would take.
#[derive(Default)]
pub(super) struct TakenData {
    /// Why it is not taken.
    pub(super) problems: Vec<Diagnostic>,
    /// The data of the providers that creations must not answer with, because an allocation may write to it.
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
        let (registered, created) =
            (planned(plan, Action::registration), planned(plan, Action::creation));
        let destroying = plan.volumes.iter().filter(|one| one.action.destroys_data());
        let destroyed = destroying.filter_map(|entry| observed.get(&entry.key));
        let destroyed: Vec<Volume> = destroyed.cloned().collect();
        let takes_nothing = registered.is_empty() && created.is_empty() && destroyed.is_empty();
        if takes_nothing || context.api.server().await? == ServerKind::Agent {
            return Ok(Self::default());
        }
        let again = registered.iter().filter_map(|(entry, _)| {
            let what = format!("register volume {} again", entry.key.quoted());
            match &entry.action {
                Action::RegisterAgain(_) => Some((what, None)),
                _ => Some((what, Some(observed.get(&entry.key)?))),
            }
        });
        let forgotten: Vec<_> = again.chain(destroyed.iter().map(deletion)).collect();
        let nodes = seen_nodes(context.api, &[]).await;
        let writers = UnregisteredWriter::all(context, &nodes).await;
        let mut objections = objections_to_destruction(context, &destroyed, &writers).await?;
        objections.extend(forgotten_objections(context, &nodes, &forgotten).await);
        let unseen = registered.iter().filter(|(_, request)| !request.share);
        let unseen: Vec<_> = unseen.map(|(entry, _)| *entry).collect();
        objections.extend(unseen_objections(context, &unseen).await?);
        let mut existing = vec![];
        match &writers {
            Ok(writers) => {
                for (entry, _) in registered {
                    let what = format!("register volume {}", entry.key.quoted());
                    objections.extend(writers.iter().map(|writer| writer.objection(&what)));
                }
                let open = writers.iter().filter(|writer| writer.is_open(cut_off));
                let open: Vec<_> = open.collect();
                if !open.is_empty() {
                    let (more, listed) = check_creations(context, &created, &open).await;
                    objections.extend(more);
                    existing = listed;
                }
            }
            Err(why) if objections.is_empty() => {
                let what = match registered.is_empty() {
                    true => "created",
                    false => "registered",
                };
                let warning = unread_problem(Diagnostic::warning, what, std::slice::from_ref(why));
                context.reporter.diagnostic(warning);
            }
            Err(_) => {}
        }
        Ok(Self { problems: Objection::remaining(objections, cut_off), existing })
    }
}

/// Objects to creations that may be answered with the data of a writer: those under the name of its volume, and all of a
/// provider that does not say what it has. Returns what the other providers have.
async fn check_creations(
    context: &WorkflowContext<'_>,
    created: &[Requested<'_>],
    writers: &[&UnregisteredWriter],
) -> (Vec<Objection>, Vec<DataIdentity>) {
    let (mut objections, mut existing) = (vec![], vec![]);
    let mut asked: BTreeMap<(&PluginId, &Namespace), Option<String>> = BTreeMap::new();
    for (entry, request) in created {
        let (plugin, namespace) = (&request.plugin_id, &request.namespace);
        let unread: Option<&String> = match asked.entry((plugin, namespace)) {
            Entry::Occupied(answered) => answered.into_mut(),
            Entry::Vacant(new) => {
                let listing = list_data(context.api, plugin, namespace).await;
                new.insert(listing.map(|listed| existing.extend(listed)).err())
            }
        }
        .as_ref();
        let what = format!("create volume {}", entry.key.quoted());
        let meant = writers.iter().filter(|writer| unread.is_some() || writer.may_have(request));
        objections.extend(meant.map(|writer| writer.objection(&what)).map(|mut one| {
            if let Some(why) = unread {
                let why = one_line(why);
                let note = format!("what the provider has already could not be read: {why}");
                one.problem = one.problem.note(note);
            }
            one
        }));
    }
    (objections, existing)
}

/// Returns what the provider of a plugin has, or why that is not known.
async fn list_data(
    api: &dyn ClusterApi,
    plugin: &PluginId,
    namespace: &Namespace,
) -> Result<Vec<DataIdentity>, String> {
    let listing = api.list_external_volumes(plugin, namespace);
    let listed = match timeout(LIST_TIMEOUT, listing).await {
        Ok(listed) => listed.map_err(|error| error.message)?,
        Err(_) => return Err("the provider did not answer in time".to_owned()),
    };
    let data = |volume: ExternalVolume| DataIdentity {
        plugin_id: plugin.clone(),
        external_id: volume.external_id,
    };
    Ok(listed.into_iter().map(data).collect())
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

/// Objects to the registration of each of the volumes, unless the token is known to see everything that may have their
/// data.
async fn unseen_objections(
    context: &WorkflowContext<'_>,
    entries: &[&PlannedVolume],
) -> Result<Vec<Objection>, WorkflowError> {
    if entries.is_empty() {
        return Ok(vec![]);
    }
    let Some(unseen) = unseen(context.api).await? else {
        return Ok(vec![]);
    };
    let problem = |entry: &&PlannedVolume| {
        let message = format!("cannot register volume {}: {unseen}", entry.key.quoted());
        Diagnostic::error(Code::OrphanUnseenNamespaces, message)
            .help(SEE_ALL)
            .help(format!(
                "if you know that nothing else uses the data, or the storage is made for that, add `--share {}`",
                entry.key.option()
            ))
    };
    let problems = entries.iter().map(problem);
    Ok(problems.map(Objection::final_one).collect())
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

/// Objects to the deletion of the data of registered volumes: an allocation that may still write to a volume that is not
/// registered any more may have the same data, and the server may have forgotten one on a node that is away.
pub(super) async fn check_destruction(
    context: &WorkflowContext<'_>,
    destroyed: &[Volume],
) -> Result<Vec<Objection>, WorkflowError> {
    if destroyed.is_empty() || context.api.server().await? == ServerKind::Agent {
        return Ok(vec![]);
    }
    let nodes = seen_nodes(context.api, &[]).await;
    let writers = UnregisteredWriter::all(context, &nodes).await;
    let mut objections = objections_to_destruction(context, destroyed, &writers).await?;
    let deletions: Vec<_> = destroyed.iter().map(deletion).collect();
    objections.extend(forgotten_objections(context, &nodes, &deletions).await);
    Ok(objections)
}

async fn objections_to_destruction(
    context: &WorkflowContext<'_>,
    destroyed: &[Volume],
    writers: &Result<Vec<UnregisteredWriter>, ApiError>,
) -> Result<Vec<Objection>, WorkflowError> {
    if destroyed.is_empty() {
        return Ok(vec![]);
    }
    let writers = match writers {
        Ok(writers) => writers,
        Err(why) => {
            let unread = std::slice::from_ref(why);
            let problem = unread_problem(Diagnostic::error, "deleted", unread);
            return Ok(vec![Objection::final_one(problem)]);
        }
    };
    if let Some(unseen) = unseen(context.api).await? {
        let message = format!("data will be deleted: {unseen}");
        let warning = Diagnostic::warning(Code::OrphanUnseenNamespaces, message).help(SEE_ALL);
        context.reporter.diagnostic(warning);
    }
    let of_volume = |volume| {
        let (what, _) = deletion(volume);
        writers.iter().map(move |writer| writer.objection(&what))
    };
    Ok(destroyed.iter().flat_map(of_volume).collect())
}

/// A change that is made to data: the words for it, and its volume, which is `None` if no registration tells how old the data is.
type Taking<'a> = (String, Option<&'a Volume>);

fn deletion(volume: &Volume) -> Taking<'_> {
    let what = format!("delete the data of volume {}", volume.key().quoted());
    (what, Some(volume))
}

/// Objects to what is done to data because of what a server may have forgotten. A registration that takes the place of another
/// one hides how old the data is, so it counts too.
async fn forgotten_objections(
    context: &WorkflowContext<'_>,
    nodes: &SeenNodes,
    takings: &[Taking<'_>],
) -> Vec<Objection> {
    if takings.is_empty() {
        return vec![];
    }
    let now = context.clock.now();
    let away = away_nodes(context.api, nodes, context.parallelism, now).await;
    let of_taking = |(what, volume): &Taking<'_>| away_objections(what, *volume, (&away, now));
    takings.iter().flat_map(of_taking).collect()
}

fn away_objections(
    what: &str,
    volume: Option<&Volume>,
    (away, now): (&Result<Vec<AwayNode>, String>, i64),
) -> Vec<Objection> {
    let away = match away {
        Ok(away) => away,
        Err(why) => return vec![Objection::final_one(unread_nodes_problem(what, why))],
    };
    let may_use = |node: &&AwayNode| volume.is_none_or(|volume| node.may_use(volume));
    let objection = |node: &AwayNode| Objection {
        approved_by: Some(node.node.id.to_string()),
        problem: node.problem(what, now),
    };
    away.iter().filter(may_use).map(objection).collect()
}

/// The use of data that is registered nowhere.
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
    let mut objections = vec![];
    if let Some(unseen) = unseen(api).await? {
        let message = format!("cannot {what}: {unseen}");
        let problem = Diagnostic::error(Code::OrphanUnseenNamespaces, message);
        objections.push(Objection::final_one(problem.help(SEE_ALL)));
    }
    let nodes = seen_nodes(api, &[]).await;
    match UnregisteredWriter::all(context, &nodes).await {
        Ok(writers) => objections.extend(writers.iter().map(|writer| writer.objection(&what))),
        Err(why) => {
            let problem = unread_problem(Diagnostic::error, verbed, &[why]);
            objections.push(Objection::final_one(problem));
        }
    }
    objections.extend(forgotten_objections(context, &nodes, &[(what, None)]).await);
    WorkflowError::refused(Objection::remaining(objections, cut_off))
}

/// An allocation whose end is not proven, and whose volume is not registered, or was registered after it.
struct UnregisteredWriter {
    volume: NamespacedId,
    claim: ClaimingAlloc,
    why: String,
    /// True if it may write; otherwise its node is gone, and only a person knows.
    is_possible: bool,
}

impl UnregisteredWriter {
    /// Returns all of them on a Nomad server.
    ///
    /// # Errors
    /// Why they could not be read.
    async fn all(context: &WorkflowContext<'_>, nodes: &SeenNodes) -> Result<Vec<Self>, ApiError> {
        let users = unregistered_users(context.api, nodes, context.parallelism).await?;
        let drops = ClaimDrops { nodes: nodes.clone(), ..ClaimDrops::default() };
        let writer = |(volume, alloc): (NamespacedId, Alloc)| {
            let claim = ClaimingAlloc { id: alloc.id.clone(), alloc: Some(alloc) };
            let why = drops.why(&claim);
            let is_possible = match drops.writes(&claim) {
                AllocWrites::Possible => true,
                AllocWrites::Unprovable => false,
                AllocWrites::Ended => return None,
            };
            Some(Self { volume, claim, why, is_possible })
        };
        Ok(users.into_iter().filter_map(writer).collect())
    }

    /// Returns whether a creation may be answered with the data of this allocation: the plugin knows its volume by a name, which
    /// most often is the ID.
    fn may_have(&self, request: &UnresolvedRequest) -> bool {
        let id = self.volume.id.as_str();
        id == request.provider_name() || id == request.id.as_str()
    }

    /// Returns whether it may write, or may have the data as long as no person says that it does not.
    fn is_open(&self, cut_off: &CutOffs) -> bool {
        self.is_possible || !cut_off.allow(self.claim.id.as_str())
    }

    fn objection(&self, what: &str) -> Objection {
        match self.is_possible {
            true => Objection::final_one(self.may_write(what)),
            false => Objection {
                approved_by: Some(self.claim.id.to_string()),
                problem: self.approval_needed(what),
            },
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
