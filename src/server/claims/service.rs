//! [`ClaimService`]: requests to use a volume, and to give it back.
//!
//! A claim is granted on the state that the decision saw: the commit fails if the claims have changed
//! since, and the decision is made again. From then on it survives a crash; the driver publishes the
//! volume. Grants of one volume are decided one after another, and those on a node whose plugin has a
//! volume limit too, because the limit counts other volumes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::backoff::Backoff;
use super::claim_spans::ClaimSpans;
use super::driver::ClaimDriver;
use super::follow_up::{claim_event, first_step};
use super::kept_files::kept_files;
use super::limits::ClaimLimits;
use super::node_permits::NodePermits;
use super::stats::{StatsReader, reports_stats};
use super::step_runner::StepRunner;
use super::sweep_wait::SweepWaits;
use super::view::{ClaimStatus, claim_status, claim_statuses};
use super::waiters::{Waiter, Waiters};
use super::writers::{of_keys, writers, writers_on};
use crate::cell::{CommitError, Expected};
use crate::error::{ClaimError, ClaimWriter, ServerError};
use crate::keyed_locks::KeyedLocks;
use crate::ports::ServerPorts;
use crate::sealing::VolumeSealer;
use nomad_csi_claims::claim::{
    Admission, AdmissionFacts, Claim, ClaimDenied, ClaimEvent, ClaimKey, ClaimProgress,
    ClaimRequest, ClaimUsage, Claims, StepProblem, admit,
};
use nomad_csi_claims::state::{
    AllocEvent, ClaimsRecord, Event, EventKind, Phase, PluginAlloc, State, Subject, Topic,
    VolumeRecord, ends_of_instances, plugin_status,
};
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, Capability, FenceStatement, MountOptions, NamespacedId,
    NodeId, NodeStatus, PluginId, PublishedStats, RemoteVolume, VolumeAlias,
};
use nomad_csi_ports::VolumeStatsSample;

/// A request to use a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountRequest {
    /// The volume.
    pub volume: NamespacedId,
    /// The allocation.
    pub alloc: AllocId,
    /// Its node; the node of the allocation or the only one if not given.
    pub node: Option<NodeId>,
    /// The name by which the allocation knows the volume; the volume's ID if not given.
    pub alias: Option<VolumeAlias>,
    /// True if the allocation only reads.
    pub read_only: bool,
    /// The access mode; that in force, or the first that fits, if not given.
    pub access_mode: Option<AccessMode>,
    /// The attachment mode; that in force, or the first that fits, if not given.
    pub attachment_mode: Option<AttachmentMode>,
    /// Mount options that override the volume's.
    pub mount_options: Option<MountOptions>,
}

/// The state of a claim after a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimOutcome {
    /// The index of the last change of the volume's claims.
    pub index: u64,
    /// The claim; `None` if it is gone.
    pub claim: Option<ClaimStatus>,
}

/// Grants and releases claims. Clones share their state.
#[derive(Clone)]
pub struct ClaimService {
    ports: ServerPorts,
    limits: ClaimLimits,
    sealer: VolumeSealer,
    waiters: Waiters,
    backoff: Backoff,
    sweep_waits: SweepWaits,
    spans: ClaimSpans,
    grants: KeyedLocks<GrantKey>,
    /// The permits of calls to nodes, which the driver shares.
    node_permits: NodePermits,
    stats: StatsReader,
}

/// How many grants may wait for one volume or node.
const MAX_WAITING_GRANTS: usize = 4096;

/// An object for which one grant at a time is decided. Locked in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum GrantKey {
    Volume(RemoteVolume),
    /// A node on which the plugin limits the number of volumes.
    Node(PluginId, NodeId),
}

/// A decision, with the state that it has read.
struct Decided {
    remote: RemoteVolume,
    request: ClaimRequest,
    admission: Admission,
    claims_index: Option<u64>,
    has_alloc: bool,
}

impl ClaimService {
    /// A service over these ports.
    pub fn new(ports: ServerPorts, limits: ClaimLimits) -> Self {
        Self {
            sealer: VolumeSealer::new(ports.sealer.clone()),
            waiters: Waiters::default(),
            backoff: Backoff::default(),
            sweep_waits: SweepWaits::default(),
            spans: ClaimSpans::default(),
            grants: KeyedLocks::new(MAX_WAITING_GRANTS),
            node_permits: NodePermits::new(&limits),
            stats: StatsReader::new(&ports),
            ports,
            limits,
        }
    }

    /// Returns the driver of the claims, which starts no more steps after `stop`. Run it once.
    pub fn driver(&self, stop: CancellationToken) -> ClaimDriver {
        let (waiters, backoff) = (self.waiters.clone(), self.backoff.clone());
        let permits = self.node_permits.clone();
        let spans = self.spans.clone();
        let runner =
            StepRunner::new(self.ports.clone(), self.limits, permits, waiters, spans, stop);
        ClaimDriver::new(runner, backoff, self.sweep_waits.clone())
    }

    /// Returns how far the sweep of a node that returned is.
    pub fn sweep_progress(&self, node: &NodeId) -> String {
        let wait = self.sweep_waits.of(node);
        let wait = wait.map(|wait| format!(": the sweep {wait}"));
        format!("has returned, and is swept before it is used{}", wait.unwrap_or_default())
    }

    /// Returns the claims of the selected volumes, sorted by volume and key, and the index of the claims.
    pub fn statuses(&self, is_selected: impl Fn(&NamespacedId) -> bool) -> (Vec<ClaimStatus>, u64) {
        self.ports.cell.read(|state| {
            let statuses = claim_statuses(state, &self.backoff, is_selected);
            (statuses, state.claims_index())
        })
    }

    /// Returns the claim with this key; `None` if there is none.
    pub(crate) fn status_of(&self, key: &ClaimKey) -> Option<ClaimStatus> {
        self.ports.cell.read(|state| {
            let record = state.claims(state.claimed_as(key)?)?;
            claim_status(state, record, &self.backoff, key)
        })
    }

    /// Returns whether the plugin reports the statistics of published volumes.
    pub fn reports_stats(&self, plugin: &PluginId) -> bool {
        self.ports.cell.read(|state| reports_stats(state, plugin))
    }

    /// Asks the nodes where a volume is published how much it has of bytes and inodes.
    ///
    /// # Errors
    /// If the volume does not exist. What does not answer is part of the report.
    pub async fn volume_stats(&self, key: &NamespacedId) -> Result<PublishedStats, ServerError> {
        self.stats.read(key).await
    }

    /// Asks for the statistics of all published volumes, a few at a time.
    pub async fn sample_stats(&self) -> VolumeStatsSample {
        self.stats.sample().await
    }

    /// Returns the files that were written beside a volume, as far as the nodes can tell now.
    pub async fn kept_files(&self, volume: &RemoteVolume) -> Vec<(NodeId, PathBuf)> {
        kept_files(&*self.ports.hosts, volume).await
    }

    /// Claims a volume and waits until it is published, at most `wait`. The claim stays if the time is
    /// over. The same request again finds the claim and waits too.
    ///
    /// # Errors
    /// If the claim is denied, or can never be published. Then nothing is left of it in the end.
    pub async fn claim(
        &self,
        request: &MountRequest,
        wait: Duration,
    ) -> Result<ClaimOutcome, ServerError> {
        let deadline = Instant::now() + wait;
        let waiter = self.waiters.wait_for(key_of(request));
        let remote = self.grant(request).await?;
        self.wait_until_published(request, &remote, &waiter, deadline).await
    }

    async fn grant(&self, request: &MountRequest) -> Result<RemoteVolume, ServerError> {
        let give_up = Instant::now() + self.limits.conflict_patience;
        loop {
            let (node, keys) = self.ports.cell.read(|state| grant_keys(state, request))?;
            let mut locks = vec![];
            for key in keys {
                let lock = self.grants.acquire(key).await;
                locks.push(lock.map_err(|error| ServerError::QueueFull {
                    name: format!("claims of volume {}", request.volume.quoted()),
                    error,
                })?);
            }
            let decided = self.ports.cell.read(|state| self.decide(state, request, node))?;
            if decided.admission == Admission::Held {
                return Ok(decided.remote);
            }
            // Before the commit, which wakes the driver.
            self.spans.keep(&self.ports.cell, &decided.remote, &decided.request.key);
            match self.commit_grant(&decided).await {
                Ok(index) => {
                    let key = &decided.request.key;
                    info!(volume.id = %request.volume.id, volume.namespace = %request.volume.namespace,
                        alloc.id = %key.alloc, node.id = %decided.request.node, index, "claim granted");
                    return Ok(decided.remote);
                }
                // Another claim of the volume made progress, which it may do many times in a row.
                Err(CommitError::ClaimsConflict { .. } | CommitError::InvalidEvent(_))
                    if Instant::now() < give_up => {}
                Err(CommitError::ClaimsConflict { .. } | CommitError::InvalidEvent(_)) => {
                    return Err(ServerError::RepeatedConflict(request.volume.clone()));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn decide(
        &self,
        state: &State,
        request: &MountRequest,
        node: NodeId,
    ) -> Result<Decided, ServerError> {
        let record = registration(state, &request.volume)?;
        let remote = remote_of(record)?;
        let claims = state.claims(&remote);
        let unclaimed = Claims::default();
        let recorded = claims.map_or(&unclaimed, |record| &record.claims);
        let desired = self.claim_request(state, request, record, recorded, node)?;
        let facts = AdmissionFacts {
            capabilities: &record.definition.capabilities,
            is_schedulable: plugin_status(state, &remote.plugin_id)
                .is_some_and(|status| status.is_schedulable()),
            is_node_lost: state.node_loss(&desired.node).is_some(),
            node_volumes: state.node_volumes(&remote, &desired.node),
        };
        let denied = |denied: ClaimDenied| ClaimError::Denied {
            volume: request.volume.clone(),
            away: first_away(state, &denied),
            denied: Box::new(denied),
        };
        let admission = admit(recorded, &desired, facts).map_err(denied)?;
        if admission == Admission::Granted {
            check_alias(state, &desired.key, &remote, request)?;
            check_node_plugin(state, &remote, &desired)?;
        }
        Ok(Decided {
            admission,
            claims_index: claims.map(|record| record.modify_index),
            has_alloc: state.alloc(&desired.key.alloc).is_some(),
            request: desired,
            remote,
        })
    }

    fn claim_request(
        &self,
        state: &State,
        request: &MountRequest,
        record: &VolumeRecord,
        claims: &Claims,
        node: NodeId,
    ) -> Result<ClaimRequest, ServerError> {
        let capability = capability_of(request, record, claims);
        let volume = &request.volume;
        let options = self.sealer.mount_options_of(&record.definition)?;
        let options = overridden(options.unwrap_or_default(), request.mount_options.as_ref());
        let flags = self.sealer.seal_flags(volume, &options.mount_flags);
        let attaches =
            state.plugin_steps(&record.definition.plugin_id).is_some_and(|steps| steps.attach);
        let external_node =
            attaches.then(|| state.external_node(&record.definition.plugin_id, &node)).flatten();
        Ok(ClaimRequest {
            key: key_of(request),
            volume: volume.clone(),
            node,
            external_node,
            usage: ClaimUsage::new(capability, options.fs_type, flags),
            read_only: request.read_only,
        })
    }

    /// Writes that a claim reads or writes from now on (B88).
    async fn commit_access(&self, decided: &Decided) -> Result<u64, CommitError> {
        let changed = ClaimEvent::AccessChanged {
            key: decided.request.key.clone(),
            read_only: decided.request.read_only,
        };
        let event = claim_event(&decided.remote, changed);
        let event = Event::new(self.ports.clock.now(), event);
        let expected = Expected::ClaimsAt(decided.remote.clone(), decided.claims_index);
        let cell = &self.ports.cell;
        cell.commit_all(vec![expected], vec![event]).await
    }

    /// Writes a grant, and in the same write the start of the first call if it can be sent at once.
    async fn commit_grant(&self, decided: &Decided) -> Result<u64, CommitError> {
        if decided.admission == Admission::Changed {
            return self.commit_access(decided).await;
        }
        let now = self.ports.clock.now();
        let (key, claim) = decided.request.clone().granted(now);
        let mut events = vec![];
        if !decided.has_alloc {
            events.push(EventKind::AllocStarted {
                alloc: key.alloc.clone(),
                node: claim.node.clone(),
            });
        }
        let node = claim.node.clone();
        let granted = ClaimEvent::Granted { key, claim: Box::new(claim) };
        let permit = self.node_permits.try_acquire(&node);
        let first = self.ports.cell.read(|state| {
            let is_sent_at_once = permit.is_some();
            let first =
                is_sent_at_once.then(|| first_step(state, &decided.remote, &granted, &node));
            first.flatten()
        });
        events.push(claim_event(&decided.remote, granted));
        let stamped = |kinds: Vec<EventKind>| -> Vec<Event> {
            let kinds = kinds.into_iter();
            kinds.map(|kind| Event::new(now, kind)).collect()
        };
        let expected = Expected::ClaimsAt(decided.remote.clone(), decided.claims_index);
        let mut commits = vec![(vec![expected], stamped(events))];
        if let Some((step, started)) = first {
            let due = Expected::StepDue(decided.remote.clone(), step);
            let started = claim_event(&decided.remote, started);
            commits.push((vec![due], stamped(vec![started])));
        }
        let committed = self.ports.cell.commit_each(commits).await;
        drop(permit);
        let granted = committed.into_iter().next();
        granted.unwrap_or(Err(CommitError::Stopping))
    }

    async fn wait_until_published(
        &self,
        request: &MountRequest,
        remote: &RemoteVolume,
        waiter: &Waiter,
        deadline: Instant,
    ) -> Result<ClaimOutcome, ServerError> {
        let key = key_of(request);
        let topic = Topic::Object(Subject::Claims(remote.clone()));
        let mut watch = self.ports.cell.watch(vec![topic]);
        loop {
            let outcome = self.outcome(remote, &key);
            let progress = outcome.claim.as_ref().map(|claim| claim.progress);
            let waits = progress == Some(ClaimProgress::Publishing);
            if let Some(error) = waiter.failure().filter(|_| !waits) {
                return Err(ClaimError::Failed {
                    volume: request.volume.clone(),
                    alloc: key.alloc,
                    error,
                }
                .into());
            }
            if !waits || Instant::now() >= deadline {
                return Ok(outcome);
            }
            match timeout_at(deadline, watch.changed()).await {
                Ok(Ok(())) | Err(_) => {}
                Ok(Err(_)) => return Err(ServerError::Stopping),
            }
        }
    }

    fn outcome(&self, remote: &RemoteVolume, key: &ClaimKey) -> ClaimOutcome {
        self.ports.cell.read(|state| {
            let record = state.claims(remote);
            ClaimOutcome {
                index: record.map_or(state.claims_index(), |record| record.modify_index),
                claim: record.and_then(|record| claim_status(state, record, &self.backoff, key)),
            }
        })
    }

    /// Releases the claims of an allocation on a volume, one alias or all, and waits until they are
    /// gone, at most `wait`. A step that pauses after a failure is tried now. Returns the number of claims
    /// that are left and the index.
    ///
    /// # Errors
    /// If the allocation has no such claim, or if its tasks may still run.
    pub async fn release(
        &self,
        volume: &NamespacedId,
        alloc: &AllocId,
        alias: Option<&VolumeAlias>,
        wait: Duration,
    ) -> Result<(usize, u64), ServerError> {
        self.release_claims(volume, alloc, alias, false, wait).await
    }

    /// Releases the claims of an allocation like [`Self::release`], also while its tasks may run: an operator has
    /// approved that they are cut off from the volume. The node kills them first, and each claim is released when the
    /// node has reported that no run uses it, or when the node is lost.
    ///
    /// # Errors
    /// If the allocation has no such claim.
    pub async fn cut_off(
        &self,
        volume: &NamespacedId,
        alloc: &AllocId,
        alias: Option<&VolumeAlias>,
        wait: Duration,
    ) -> Result<(usize, u64), ServerError> {
        self.release_claims(volume, alloc, alias, true, wait).await
    }

    /// Gives the steps that undo these claims the span of this request.
    fn keep_spans(&self, volume: &RemoteVolume, keys: &[ClaimKey]) {
        keys.iter().for_each(|key| self.spans.keep(&self.ports.cell, volume, key));
    }

    async fn release_claims(
        &self,
        volume: &NamespacedId,
        alloc: &AllocId,
        alias: Option<&VolumeAlias>,
        cuts_off: bool,
        wait: Duration,
    ) -> Result<(usize, u64), ServerError> {
        let is_meant = |key: &ClaimKey, _: &Claim| {
            key.alloc == *alloc && alias.is_none_or(|alias| key.alias == *alias)
        };
        let (remote, keys) = self.claims_of(volume, is_meant)?;
        if keys.is_empty() {
            let (volume, alloc) = (volume.clone(), alloc.clone());
            return Err(ClaimError::NoClaim { volume, alloc }.into());
        }
        let held: Vec<_> = self.ports.cell.read(|state| {
            let claims = state.claims(&remote).map(|record| &record.claims);
            let claims = of_keys(claims, &keys).filter(|(_, claim)| claim.is_held());
            let writers = writers(state, claims).into_iter();
            writers.filter(|writer| writer.job.is_some()).collect()
        });
        if !held.is_empty() && !cuts_off {
            let (volume, writers) = (volume.clone(), held);
            return Err(ClaimError::StillRunning { volume, writers }.into());
        }
        let is_cut_off =
            |key: &ClaimKey| held.iter().any(|writer: &ClaimWriter| writer.alloc == key.alloc);
        let (cut_off, unused): (Vec<_>, Vec<_>) = keys.iter().cloned().partition(is_cut_off);
        self.keep_spans(&remote, &keys);
        for key in cut_off {
            self.record_cut_off(key).await?;
        }
        self.request_release(&remote, &unused, "it was released").await?;
        self.backoff.retry_now(&remote);
        self.wait_until_gone(&remote, &keys, Instant::now() + wait).await
    }

    /// Releases the claims that ended allocations have on a node, and waits until these and those in
    /// release are gone (W16). A step that pauses after a failure is tried now. Returns the index.
    ///
    /// # Errors
    /// If an allocation on the node still uses the volume, if it is not detached after `wait`, or if the node
    /// does not exist and nothing is left there.
    pub async fn detach(
        &self,
        volume: &NamespacedId,
        node: &NodeId,
        wait: Duration,
    ) -> Result<u64, ServerError> {
        let on_node = |_: &ClaimKey, claim: &Claim| claim.node == *node;
        let (remote, keys) = self.claims_of(volume, on_node)?;
        if keys.is_empty() {
            self.check_node(node)?;
        }
        let users = self.ports.cell.read(|state| {
            let claims = state.claims(&remote).map(|record| &record.claims);
            let held = of_keys(claims, &keys).filter(|(_, claim)| claim.is_held());
            writers(state, held)
        });
        if !users.is_empty() {
            return Err(ServerError::VolumeInUse {
                volume: volume.clone(),
                claiming_allocs: users.into_iter().map(|user| user.alloc).collect(),
            });
        }
        self.keep_spans(&remote, &keys);
        self.request_release(&remote, &keys, "an operator detached it").await?;
        self.backoff.retry_now(&remote);
        let deadline = Instant::now() + wait;
        match self.wait_until_gone(&remote, &keys, deadline).await? {
            (0, index) => Ok(index),
            _ => Err(ClaimError::StillAttached {
                volume: volume.clone(),
                node: node.clone(),
                problem: self
                    .ports
                    .cell
                    .read(|state| problem_on(state, &remote, node))
                    .map(Box::new),
            }
            .into()),
        }
    }

    fn claims_of(
        &self,
        volume: &NamespacedId,
        is_meant: impl Fn(&ClaimKey, &Claim) -> bool,
    ) -> Result<(RemoteVolume, Vec<ClaimKey>), ServerError> {
        self.ports.cell.read(|state| {
            let remote = remote_of(registration(state, volume)?)?;
            let claims = state.claims(&remote).map(|record| &record.claims);
            let through = claims.into_iter().flat_map(|claims| claims.through(volume));
            let meant = through.filter(|(key, claim)| is_meant(key, claim));
            let keys = meant.map(|(key, _)| key.clone()).collect();
            Ok((remote, keys))
        })
    }

    async fn request_release(
        &self,
        remote: &RemoteVolume,
        keys: &[ClaimKey],
        reason: &str,
    ) -> Result<(), ServerError> {
        for key in keys {
            let event =
                ClaimEvent::ReleaseRequested { key: key.clone(), reason: reason.to_owned() };
            let kind = EventKind::Claim { volume: remote.clone(), event: Box::new(event) };
            let event = Event::new(self.ports.clock.now(), kind);
            match self.ports.cell.commit(Expected::Any, event).await {
                // It is in release already, or gone.
                Ok(_) | Err(CommitError::InvalidEvent(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn record_cut_off(&self, key: ClaimKey) -> Result<(), ServerError> {
        let ClaimKey { alloc, alias } = key;
        let event = AllocEvent::CutOff { alias };
        let kind = EventKind::PlacedAlloc { alloc, event: Box::new(event) };
        let event = Event::new(self.ports.clock.now(), kind);
        match self.ports.cell.commit(Expected::Any, event).await {
            // It has ended in the meantime, which releases its claims.
            Ok(_) | Err(CommitError::InvalidEvent(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn wait_until_gone(
        &self,
        remote: &RemoteVolume,
        keys: &[ClaimKey],
        deadline: Instant,
    ) -> Result<(usize, u64), ServerError> {
        let topic = Topic::Object(Subject::Claims(remote.clone()));
        let mut watch = self.ports.cell.watch(vec![topic]);
        loop {
            let left = self.ports.cell.read(|state| {
                let has = |record: &Arc<ClaimsRecord>, key: &&ClaimKey| {
                    record.claims.claims.contains_key(*key)
                };
                let record = state.claims(remote);
                record.map_or(0, |record| keys.iter().filter(|key| has(record, key)).count())
            });
            if left == 0 || Instant::now() >= deadline {
                return Ok((left, self.ports.cell.index()));
            }
            match timeout_at(deadline, watch.changed()).await {
                Ok(Ok(())) | Err(_) => {}
                Ok(Err(_)) => return Err(ServerError::Stopping),
            }
        }
    }

    /// Refuses a node that is up and that this agent hears from: a fence is an operator's word that nothing writes there
    /// any more, and here its tasks report that they run.
    ///
    /// # Errors
    /// If the node contacts the server, with what runs there.
    pub fn check_unheard(&self, node: &NodeId) -> Result<(), ServerError> {
        let is_own = self.ports.hosts.node(node).is_some();
        let writers = self.ports.cell.read(|state| {
            state.node(node)?;
            let is_lost = state.node_loss(node).is_some_and(|loss| !loss.has_returned);
            let is_heard = is_own && !is_lost;
            is_heard.then(|| writers_on(state, node))
        });
        match writers {
            Some(writers) => {
                let node = node.clone();
                Err(ClaimError::NodeHeard { node, writers }.into())
            }
            None => Ok(()),
        }
    }

    /// Declares a node lost: nothing is called there until it returned and was swept. Only the operator
    /// knows that the node cannot write any more, where the plugin attaches no volumes. If the statement says that its
    /// controllers have ended, their instances are gone, and volumes that waited for one of them go to another one.
    ///
    /// # Errors
    /// If the node does not exist, is lost already, or is said to be off and is connected.
    pub async fn fence(
        &self,
        node: &NodeId,
        statement: Option<FenceStatement>,
    ) -> Result<u64, ServerError> {
        self.check_node(node)?;
        if statement == Some(FenceStatement::PoweredOff) {
            self.check_unheard(node)?;
            self.check_away(node)?;
        }
        let reason = match statement {
            Some(statement) => format!("fenced by an operator: {statement}"),
            None => "fenced by an operator".to_owned(),
        };
        let is_lost = |state: &State| state.node_loss(node).is_some_and(|loss| !loss.has_returned);
        let is_lost = self.ports.cell.read(is_lost);
        let lost = EventKind::NodeLost { node: node.clone(), reason };
        let has_ended = |alloc: &PluginAlloc| match statement {
            Some(FenceStatement::PoweredOff) => true,
            Some(FenceStatement::CutOffStorage { controllers_stopped }) => {
                controllers_stopped && alloc.instance.controller.is_some()
            }
            None => false,
        };
        let ended = self.ports.cell.read(|state| ends_of_instances(state, node, has_ended));
        // A stronger statement about a lost node ends the instances that the first one left.
        let events = match is_lost && !ended.is_empty() {
            true => ended,
            false => [lost].into_iter().chain(ended).collect(),
        };
        self.node_events(events, format!("node `{node}` is lost already")).await
    }

    /// Refuses a node of another process whose absence is not on record yet: just after a start of the server, or in the middle of
    /// a connection that is renewed, a machine that runs has none.
    fn check_away(&self, node: &NodeId) -> Result<(), ServerError> {
        let is_undecided = self.ports.cell.read(|state| {
            let is_remote = state.node_secret_hash(node).is_some();
            let is_lost = state.node_loss(node).is_some();
            let status = state.node(node).map(|node| node.status);
            is_remote && !is_lost && status == Some(NodeStatus::Ready)
        });
        match is_undecided {
            true => Err(ClaimError::NodeNotAway(node.clone()).into()),
            false => Ok(()),
        }
    }

    /// Lets a lost node be swept and used again.
    ///
    /// # Errors
    /// If the node does not exist, or is not lost.
    pub async fn unfence(&self, node: &NodeId) -> Result<u64, ServerError> {
        self.check_node(node)?;
        let conflict = format!("node `{node}` is not lost, or has returned already");
        let node = node.clone();
        self.node_events(vec![EventKind::NodeReturned { node }], conflict).await
    }

    fn check_node(&self, node: &NodeId) -> Result<(), ServerError> {
        match self.ports.cell.read(|state| state.node(node).is_some()) {
            true => Ok(()),
            false => Err(ClaimError::UnknownNode(node.clone()).into()),
        }
    }

    async fn node_events(
        &self,
        kinds: Vec<EventKind>,
        conflict: String,
    ) -> Result<u64, ServerError> {
        let now = self.ports.clock.now();
        let events = kinds.into_iter().map(|kind| Event::new(now, kind)).collect();
        let committed = self.ports.cell.commit_all(vec![], events).await;
        committed.map_err(|error| match error {
            CommitError::InvalidEvent(_) => ClaimError::NodeState(conflict).into(),
            error => error.into(),
        })
    }
}

/// The first holder's node that is not connected.
fn first_away(state: &State, denied: &ClaimDenied) -> Option<NodeId> {
    let nodes = denied.holders.iter().filter_map(|holder| state.node(&holder.node));
    let mut away = nodes.filter(|node| node.status != NodeStatus::Ready);
    away.next().map(|node| node.id.clone())
}

fn key_of(request: &MountRequest) -> ClaimKey {
    let alias = request.alias.clone();
    ClaimKey {
        alloc: request.alloc.clone(),
        alias: alias.unwrap_or_else(|| VolumeAlias::new(request.volume.id.as_str())),
    }
}

fn registration<'a>(
    state: &'a State,
    volume: &NamespacedId,
) -> Result<&'a Arc<VolumeRecord>, ServerError> {
    match state.record(volume) {
        Some(record) if record.phase == Phase::Registered => Ok(record),
        Some(record) if record.is_visible() => Err(ServerError::BeingDeleted(volume.clone())),
        Some(_) | None => Err(ServerError::VolumeNotFound(volume.clone())),
    }
}

fn remote_of(record: &VolumeRecord) -> Result<RemoteVolume, ServerError> {
    let remote = record.remote_volume();
    remote.ok_or_else(|| ServerError::VolumeNotFound(record.key().clone()))
}

/// The node of a request, and what one grant at a time is decided for.
fn grant_keys(
    state: &State,
    request: &MountRequest,
) -> Result<(NodeId, Vec<GrantKey>), ServerError> {
    let node = node_of(state, request)?;
    let remote = remote_of(registration(state, &request.volume)?)?;
    let is_limited = state.node_volumes(&remote, &node).limit.is_some();
    let on_node = is_limited.then(|| GrantKey::Node(remote.plugin_id.clone(), node.clone()));
    let keys = [GrantKey::Volume(remote)].into_iter().chain(on_node);
    Ok((node, keys.collect()))
}

/// The problem of a claim on the node, with its step.
fn problem_on(state: &State, remote: &RemoteVolume, node: &NodeId) -> Option<StepProblem> {
    let record = state.claims(remote)?;
    let mut claims = record.claims.on(node);
    claims.find_map(|(_, claim)| claim.problem.clone())
}

/// The node of the request, of the allocation, or the only one.
fn node_of(state: &State, request: &MountRequest) -> Result<NodeId, ServerError> {
    let alloc = state.alloc(&request.alloc);
    if alloc.is_some_and(|alloc| alloc.has_ended) {
        return Err(ClaimError::AllocEnded(request.alloc.clone()).into());
    }
    let recorded = alloc.map(|alloc| &alloc.node);
    match (&request.node, recorded) {
        (Some(node), Some(recorded)) if node != recorded => {
            Err(ClaimError::OtherNode { alloc: request.alloc.clone(), node: recorded.clone() }
                .into())
        }
        (Some(node), _) | (None, Some(node)) => match state.node(node) {
            Some(_) => Ok(node.clone()),
            None => Err(ClaimError::UnknownNode(node.clone()).into()),
        },
        (None, None) => {
            let mut nodes = state.nodes();
            match (nodes.next(), nodes.next()) {
                (Some(only), None) => Ok(only.id.clone()),
                _ => Err(ClaimError::NodeRequired.into()),
            }
        }
    }
}

/// The requested modes; what is missing comes from the modes in force, or from the first capability
/// that fits.
fn capability_of(request: &MountRequest, record: &VolumeRecord, claims: &Claims) -> Capability {
    let fits = |capability: &&Capability| {
        let access = request.access_mode;
        let attachment = request.attachment_mode;
        access.is_none_or(|mode| capability.access_mode == mode)
            && attachment.is_none_or(|mode| capability.attachment_mode == mode)
            && (request.read_only || access.is_some() || capability.access_mode.allows_writes())
    };
    let in_force = claims.modes.filter(|modes| fits(&modes));
    let offered = record.definition.capabilities.iter();
    let found = in_force.or_else(|| offered.clone().find(fits).copied());
    let any = found.or_else(|| offered.clone().next().copied());
    Capability {
        access_mode: request
            .access_mode
            .or(any.map(|found| found.access_mode))
            .unwrap_or(AccessMode::SingleNodeWriter),
        attachment_mode: request
            .attachment_mode
            .or(any.map(|found| found.attachment_mode))
            .unwrap_or(AttachmentMode::FileSystem),
    }
}

/// A given type wins, and given flags replace the volume's.
fn overridden(volume: MountOptions, request: Option<&MountOptions>) -> MountOptions {
    let Some(request) = request else {
        return volume;
    };
    let is_given = !request.fs_type.is_empty();
    MountOptions {
        fs_type: if is_given { request.fs_type.clone() } else { volume.fs_type },
        mount_flags: if request.mount_flags.is_empty() {
            volume.mount_flags
        } else {
            request.mount_flags.clone()
        },
    }
}

/// An allocation knows one volume by a name: its target path contains the name.
fn check_alias(
    state: &State,
    key: &ClaimKey,
    remote: &RemoteVolume,
    request: &MountRequest,
) -> Result<(), ServerError> {
    match state.claimed_as(key) {
        Some(other) if other != remote => Err(ClaimError::AliasInUse {
            volume: request.volume.clone(),
            key: key.clone(),
            other: other.external_id.clone(),
        }
        .into()),
        Some(_) | None => Ok(()),
    }
}

/// The node's plugin must be there, and its ID known where volumes are attached (W15).
fn check_node_plugin(
    state: &State,
    remote: &RemoteVolume,
    request: &ClaimRequest,
) -> Result<(), ServerError> {
    let plugin = &remote.plugin_id;
    let steps = state.plugin_steps(plugin);
    let lacks_id = steps.is_some_and(|s| s.attach) && request.external_node.is_none();
    if state.node_instance(plugin, &request.node).is_some() && steps.is_some() && !lacks_id {
        return Ok(());
    }
    Err(ClaimError::NoNodePlugin {
        volume: request.volume.clone(),
        plugin: plugin.clone(),
        node: request.node.clone(),
    }
    .into())
}
