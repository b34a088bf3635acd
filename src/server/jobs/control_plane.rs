//! [`LocalControlPlane`]: the server as the node in the same process sees it.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::mount_delay::delay_of;
use super::settings::JobSealer;
use crate::cell::{CommitError, Expected, Watch};
use crate::claims::{ClaimService, MountRequest};
use crate::error::{ClaimError, ServerError};
use crate::ports::ServerPorts;
use nomad_csi_claims::claim::{ClaimEvent, ClaimKey, Known};
use nomad_csi_claims::state::{
    AllocEvent, AllocRecord, Event, EventKind, Placement, State, Subject, Table, Topic,
};
use nomad_csi_model::{
    AllocId, AllocReport, Job, JobVolumeKind, NamespacedId, NodeId, PluginId, VolumeAlias,
};
use nomad_csi_ports::{
    AssignedAlloc, AssignedAllocs, ControlPlane, ControlPlaneError, LostMount, MountDelay,
    MountRefused, UnreadableAlloc,
};

/// How long one attempt waits until a volume is published; the next one continues it.
const MOUNT_WAIT: Duration = Duration::from_secs(60);

/// The server, for one node.
pub struct LocalControlPlane {
    ports: ServerPorts,
    claims: ClaimService,
    node: NodeId,
    sealer: JobSealer,
    /// The complete jobs of the node's allocations, which are opened once.
    opened: Mutex<HashMap<AllocId, Arc<Job>>>,
    /// The changes that may let a refused mount succeed, watched since before it was refused.
    refused: Mutex<HashMap<(AllocId, VolumeAlias), Watch>>,
}

impl LocalControlPlane {
    /// The server for this node.
    pub fn new(ports: ServerPorts, claims: ClaimService, node: NodeId) -> Self {
        Self {
            sealer: JobSealer::new(ports.sealer.clone()),
            ports,
            claims,
            node,
            opened: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    fn job_of(&self, alloc: &AllocId, placement: &Placement) -> Result<Arc<Job>, ServerError> {
        let mut opened = self.opened.lock();
        if let Some(job) = opened.get(alloc) {
            return Ok(job.clone());
        }
        let job = Arc::new(self.sealer.open(&placement.job)?);
        opened.insert(alloc.clone(), job.clone());
        Ok(job)
    }

    /// One job that cannot be opened stops no other one: its allocations are listed apart.
    fn assigned_of(&self, state: &State) -> AssignedAllocs {
        let mut allocs = vec![];
        let mut unreadable = vec![];
        let mut ended = vec![];
        let mut left_plugins = vec![];
        for (id, alloc) in state.allocs() {
            let placement = alloc.placement.as_deref();
            let Some(placement) = placement.filter(|_| alloc.node == self.node) else {
                continue;
            };
            if alloc.has_ended {
                ended.push((Reverse(alloc.modify_index), id));
                let left = state.plugins_of_instance(id);
                left_plugins.extend(left.map(|plugin| (id.clone(), plugin.clone())));
                continue;
            }
            let wants_stop = placement.stop_reason.is_some();
            match self.job_of(id, placement) {
                Ok(job) => allocs.push(AssignedAlloc {
                    id: id.clone(),
                    job,
                    group: placement.group.clone(),
                    index: placement.index,
                    wants_stop,
                    cut_off: placement.cut_off.clone(),
                    report: placement.report.clone(),
                }),
                Err(error) => unreadable.push(UnreadableAlloc {
                    id: id.clone(),
                    wants_stop,
                    cut_off: placement.cut_off.clone(),
                    plugins: plugins_of(placement),
                    reason: error.message(),
                }),
            }
        }
        ended.sort_unstable();
        AssignedAllocs {
            revision: state.allocs_index(),
            allocs,
            unreadable,
            ended: ended.into_iter().map(|(_, id)| id.clone()).collect(),
            left_plugins,
        }
    }

    fn forget_ended(&self, assigned: &[AssignedAlloc]) {
        let mut opened = self.opened.lock();
        if opened.len() > assigned.len() {
            let is_assigned = |id: &AllocId| assigned.iter().any(|one| one.id == *id);
            opened.retain(|id, _| is_assigned(id));
        }
        let mut refused = self.refused.lock();
        if !refused.is_empty() {
            let is_assigned = |id: &AllocId| assigned.iter().any(|one| one.id == *id);
            refused.retain(|(id, _), _| is_assigned(id));
        }
    }

    /// Claims the volume, and waits until it is published.
    async fn claim(&self, request: &MountRequest) -> Result<PathBuf, MountRefused> {
        loop {
            let claimed = self.claims.claim(request, MOUNT_WAIT).await;
            let outcome = claimed.map_err(|error| refusal(&error))?;
            let Some(claim) = outcome.claim else {
                let volume = request.volume.quoted();
                return Err(MountRefused {
                    message: format!("the claim of volume {volume} was released while waiting"),
                    is_final: false,
                });
            };
            // A target that is in doubt has a path too.
            if claim.published == Known::Yes
                && let Some(target) = claim.target
            {
                return Ok(target);
            }
        }
    }

    /// Returns what decides about a claim of the volume.
    fn topics_of(&self, volume: &NamespacedId) -> Vec<Topic> {
        let mut topics =
            vec![Topic::Object(Subject::Volume(volume.clone())), Topic::all(Table::Nodes)];
        let remote = self.ports.cell.read(|state| state.remote_volume(volume));
        if let Some(remote) = remote {
            topics.push(Topic::Object(Subject::Plugin(remote.plugin_id.clone())));
            topics.push(Topic::Object(Subject::Claims(remote)));
        }
        topics
    }

    fn request(&self, alloc: &AllocId, alias: &VolumeAlias) -> Result<MountRequest, String> {
        let placement = self.placement(alloc);
        let opened = placement.map(|placement| {
            let job = self.job_of(alloc, &placement);
            job.map(|job| (placement, job))
        });
        let opened = opened.transpose().map_err(|error| error.message())?;
        if let Some((placement, _)) = &opened
            && placement.cut_off.contains(alias)
        {
            return Err(format!(
                "an operator cut allocation `{alloc}` off from its volume `{alias}`"
            ));
        }
        let request = opened.and_then(|(of, job)| request_of(&of, &job, alloc, alias));
        request
            .ok_or_else(|| format!("the group of allocation `{alloc}` has no CSI volume `{alias}`"))
    }

    /// Returns what is on record of an allocation of this node: another node asks for nothing of it.
    fn own_alloc<'a>(&self, state: &'a State, alloc: &AllocId) -> Option<&'a AllocRecord> {
        state.alloc(alloc).filter(|record| record.node == self.node)
    }

    fn placement(&self, alloc: &AllocId) -> Option<Placement> {
        self.ports.cell.read(|state| {
            let placement = self.own_alloc(state, alloc).and_then(|one| one.placement.as_deref());
            placement.cloned()
        })
    }

    /// Hides in a report what is sealed of the job: a driver's error may repeat a command.
    fn hide_settings(&self, alloc: &AllocId, report: &mut AllocReport) {
        let placement = self.placement(alloc);
        let job = placement.and_then(|placement| self.job_of(alloc, &placement).ok());
        if let Some(job) = job {
            report.hide(&job.secret_values());
        }
    }
}

/// Returns the plugins that the tasks of an allocation run. They are never sealed.
fn plugins_of(placement: &Placement) -> BTreeSet<PluginId> {
    let mut groups = placement.job.job.groups.iter();
    let group = groups.find(|group| group.name == placement.group).into_iter();
    let tasks = group.flat_map(|group| &group.tasks);
    let plugins = tasks.filter_map(|task| task.csi_plugin.as_ref());
    plugins.map(|plugin| plugin.id.clone()).collect()
}

/// The claim of one volume of an allocation.
fn request_of(
    placement: &Placement,
    job: &Job,
    alloc: &AllocId,
    alias: &VolumeAlias,
) -> Option<MountRequest> {
    let mut groups = job.groups.iter();
    let group = groups.find(|group| group.name == placement.group)?;
    let volume = group.volumes.get(alias)?;
    let JobVolumeKind::Csi { access_mode, attachment_mode, mount_options } = &volume.kind else {
        return None;
    };
    Some(MountRequest {
        volume: NamespacedId::new(job.namespace.clone(), volume.source_of(placement.index)),
        alloc: alloc.clone(),
        node: None,
        alias: Some(alias.clone()),
        read_only: volume.read_only,
        access_mode: *access_mode,
        attachment_mode: *attachment_mode,
        mount_options: mount_options.clone(),
    })
}

/// The refusal of a mount, with what is in the way.
fn refusal(error: &ServerError) -> MountRefused {
    let parts = [vec![error.message()], error.notes()].concat();
    MountRefused { message: parts.join(": "), is_final: is_final(error) }
}

/// Returns whether no later attempt can succeed without another job or volume.
fn is_final(error: &ServerError) -> bool {
    match error {
        ServerError::Claim(ClaimError::Denied { denied, .. }) => !denied.can_succeed_later(),
        ServerError::Claim(error) => match error {
            ClaimError::Failed { .. }
            | ClaimError::OtherNode { .. }
            | ClaimError::AllocEnded(_)
            | ClaimError::AliasInUse { .. }
            | ClaimError::Invalid(_) => true,
            ClaimError::Denied { .. }
            | ClaimError::NoVolume(_)
            | ClaimError::NoClaim { .. }
            | ClaimError::NodeRequired
            | ClaimError::NoNodePlugin { .. }
            | ClaimError::StillAttached { .. }
            | ClaimError::StillRunning { .. }
            | ClaimError::UnknownNode(_)
            | ClaimError::NodeHeard { .. }
            | ClaimError::NodeState(_)
            | ClaimError::NodeNotAway(_) => false,
        },
        _ => false,
    }
}

#[async_trait]
impl ControlPlane for LocalControlPlane {
    async fn assigned(&self, after: Option<u64>) -> Result<AssignedAllocs, ControlPlaneError> {
        let topics = |_: &State| vec![Topic::all(Table::Allocs)];
        let is_new = |state: &State| after.is_none_or(|after| state.allocs_index() > after);
        let changed = self.ports.cell.wait_until(topics, is_new).await;
        changed.map_err(|_| ControlPlaneError::Stopping)?;
        let assigned = self.ports.cell.read(|state| self.assigned_of(state));
        self.forget_ended(&assigned.allocs);
        Ok(assigned)
    }

    async fn mount(&self, alloc: &AllocId, alias: &VolumeAlias) -> Result<PathBuf, MountRefused> {
        let request = self
            .request(alloc, alias)
            .map_err(|message| MountRefused { message, is_final: true })?;
        // From before the decision, so no change after it is missed.
        let watch = self.ports.cell.watch(self.topics_of(&request.volume));
        let mounted = self.claim(&request).await;
        if mounted.is_err() {
            let mut refused = self.refused.lock();
            refused.insert((alloc.clone(), alias.clone()), watch);
        }
        mounted
    }

    async fn wait_for_mount_delay(
        &self,
        alloc: &AllocId,
        alias: &VolumeAlias,
        known: Option<&MountDelay>,
    ) -> Result<MountDelay, ControlPlaneError> {
        let key = ClaimKey { alloc: alloc.clone(), alias: alias.clone() };
        if self.placement(alloc).is_none() {
            let text = format!("node `{}` has no allocation `{alloc}`", self.node);
            return Err(ControlPlaneError::Failed(text));
        }
        loop {
            let remote = self.ports.cell.read(|state| state.claimed_as(&key).cloned());
            let topic = match remote {
                Some(remote) => Topic::Object(Subject::Claims(remote)),
                None => Topic::all(Table::Claims),
            };
            let mut watch = self.ports.cell.watch(vec![topic]);
            let delay = self.claims.status_of(&key).as_ref().and_then(delay_of);
            if let Some(delay) = delay.filter(|delay| Some(delay) != known) {
                return Ok(delay);
            }
            if watch.changed().await.is_err() {
                return Err(ControlPlaneError::Stopping);
            }
        }
    }

    async fn wait_for_claim_change(
        &self,
        alloc: &AllocId,
        alias: &VolumeAlias,
    ) -> Result<(), ControlPlaneError> {
        let key = (alloc.clone(), alias.clone());
        let watch = {
            let mut refused = self.refused.lock();
            refused.remove(&key)
        };
        match watch {
            Some(mut watch) => watch.changed().await.map_err(|_| ControlPlaneError::Stopping),
            None => Ok(()),
        }
    }

    async fn note_lost(&self, lost: &LostMount, reason: &str) -> Result<(), ControlPlaneError> {
        let (volume, targets) = match lost {
            LostMount::Staging(volume) => (Some(volume.clone()), BTreeSet::new()),
            LostMount::Target { alloc, alias } => {
                let (alloc, alias) = (alloc.clone(), alias.clone());
                let key = ClaimKey { alloc, alias };
                let volume = self.ports.cell.read(|state| {
                    self.own_alloc(state, &key.alloc)?;
                    state.claimed_as(&key).cloned()
                });
                (volume, [key].into())
            }
        };
        let Some(volume) = volume else {
            return Ok(());
        };
        let event = ClaimEvent::MountsLost {
            node: self.node.clone(),
            staging: targets.is_empty(),
            targets,
            reason: reason.to_owned(),
        };
        let kind = EventKind::Claim { volume: volume.clone(), event: Box::new(event) };
        let event = Event::new(self.ports.clock.now(), kind);
        match self.ports.cell.commit(Expected::Any, event).await {
            Ok(_) => {
                tracing::warn!(volume.external_id = %volume.external_id, plugin.id = %volume.plugin_id,
                    ?lost, reason, "a mount of a volume vanished and is made again");
                Ok(())
            }
            // The mount is in doubt already, or was removed in order.
            Err(CommitError::InvalidEvent(_)) => Ok(()),
            Err(CommitError::Stopping) => Err(ControlPlaneError::Stopping),
            Err(error) => Err(ControlPlaneError::Failed(error.detail())),
        }
    }

    async fn note_cut_off(
        &self,
        alloc: &AllocId,
        alias: &VolumeAlias,
    ) -> Result<(), ControlPlaneError> {
        let (alloc, alias) = (alloc.clone(), alias.clone());
        let key = ClaimKey { alloc, alias };
        let volume = self.ports.cell.read(|state| {
            let placement = self.own_alloc(state, &key.alloc)?.placement.as_deref()?;
            let is_cut_off = placement.cut_off.contains(&key.alias);
            state.claimed_as(&key).filter(|_| is_cut_off).cloned()
        });
        let Some(volume) = volume else {
            return Ok(());
        };
        let event = ClaimEvent::ReleaseRequested {
            key,
            reason: "an operator cut its tasks off, and none of them runs".to_owned(),
        };
        let kind = EventKind::Claim { volume, event: Box::new(event) };
        let event = Event::new(self.ports.clock.now(), kind);
        match self.ports.cell.commit(Expected::Any, event).await {
            // It is in release already, or gone.
            Ok(_) | Err(CommitError::InvalidEvent(_)) => Ok(()),
            Err(CommitError::Stopping) => Err(ControlPlaneError::Stopping),
            Err(error) => Err(ControlPlaneError::Failed(error.detail())),
        }
    }

    async fn report(
        &self,
        alloc: &AllocId,
        mut report: AllocReport,
    ) -> Result<(), ControlPlaneError> {
        self.hide_settings(alloc, &mut report);
        let is_news = self.ports.cell.read(|state| {
            let record = self.own_alloc(state, alloc).filter(|record| !record.has_ended);
            let placement = record.and_then(|record| record.placement.as_deref());
            placement.is_some_and(|placement| placement.report.as_ref() != Some(&report))
        });
        if !is_news {
            return Ok(());
        }
        let event = AllocEvent::Reported { report: Box::new(report) };
        let kind = EventKind::PlacedAlloc { alloc: alloc.clone(), event: Box::new(event) };
        let event = Event::new(self.ports.clock.now(), kind);
        match self.ports.cell.commit(Expected::Any, event).await {
            // The allocation has ended, so another report came first.
            Ok(_) | Err(CommitError::InvalidEvent(_)) => Ok(()),
            Err(CommitError::Stopping) => Err(ControlPlaneError::Stopping),
            Err(error) => Err(ControlPlaneError::Failed(error.detail())),
        }
    }
}
