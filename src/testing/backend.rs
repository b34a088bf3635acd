//! The strict fake plugin without a protocol: its state, injected faults, and violations.
//!
//! Two front ends use it: [`super::plugin`] implements the ports, `tests/support/fake_plugin.rs`
//! serves gRPC on a Unix socket. A violation is a call that CSI forbids (see
//! [`super::provider_state`]), such as two concurrent calls for one volume. Dropping a backend with
//! violations that the test did not take fails the test.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{oneshot, watch};

use super::in_use::{FakeAttachment, FakeStaging, FakeTarget};
use super::machine::FakeMachine;
use super::provider_state::{FakeSnapshot, FakeVolume, ProviderState, ReportedStats};
use super::refusal::Refusal;
use super::settings::PluginSettings;
use nomad_csi_model::{
    Bytes, Condition, ExternalId, ExternalNodeId, ReportedCapacity, StorageStatus, Topology,
    VolumeStatus,
};
use nomad_csi_ports::{Rpc, StatusCode};

/// A fault of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The plugin refuses with this code and does nothing.
    Fail(StatusCode),
    /// The plugin does the work and returns this code.
    FailAfterEffect(StatusCode),
    /// The plugin waits until [`FakeBackend::release`], then continues normally. It stops if the caller
    /// gives up.
    Hang,
    /// As `Hang`, but the plugin goes on if the caller gives up: the effect happens later, and only the
    /// plugin's death prevents it.
    OutliveCaller,
    /// The plugin does the work; the connection breaks before the reply.
    LoseReply,
    /// The call is duplicated in transit and arrives twice.
    ApplyTwice,
    /// The plugin does the work, but replies only after the next call has arrived.
    DelayReply,
    /// The plugin dies before it does the work, until [`FakeBackend::restart`].
    Crash,
    /// The plugin does the work and dies.
    CrashAfterEffect,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The plugin returned an error code.
    Refused(Refusal),
    /// Nothing listens on the socket; the call was not sent.
    NotConnected,
    /// The connection broke during the call.
    ConnectionLost,
}

/// The calls of a volume that CSI wants one at a time: those of the controller, and those of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FakeCallLock {
    /// Controller calls, and calls about the plugin.
    Controller,
    /// Calls of the node service on one node.
    Node(ExternalNodeId),
}

/// A call that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The RPC.
    pub rpc: Rpc,
    /// A volume's external ID or a new volume's name; empty for RPCs about the plugin.
    pub subject: String,
}

#[derive(Debug, Default)]
struct Inner {
    state: ProviderState,
    faults: BTreeMap<Rpc, VecDeque<Fault>>,
    calls: Vec<Call>,
    in_flight: BTreeMap<CallLockKey, (u64, Rpc)>,
}

/// A call lock and a volume's external ID or name.
type CallLockKey = (FakeCallLock, String);

/// The state of the fake plugin, shared by its front ends and the test.
#[derive(Debug)]
pub struct FakeBackend {
    inner: Mutex<Inner>,
    /// The number of calls that arrived, and of calls that were released.
    arrived: watch::Sender<u64>,
    released: watch::Sender<u64>,
    /// Counts deaths and restarts together; even while the plugin is alive.
    lives: watch::Sender<u64>,
    /// The number of calls that ended.
    ended: watch::Sender<u64>,
}

impl FakeBackend {
    /// Creates a plugin without volumes.
    pub fn new(settings: PluginSettings) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner { state: ProviderState::new(settings), ..Inner::default() }),
            arrived: watch::Sender::default(),
            released: watch::Sender::default(),
            lives: watch::Sender::default(),
            ended: watch::Sender::default(),
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Queues faults for the next calls of `rpc`, one each. Calls after them succeed.
    pub fn inject_faults(&self, rpc: Rpc, faults: impl IntoIterator<Item = Fault>) {
        self.inner().faults.entry(rpc).or_default().extend(faults);
    }

    /// Forgets the faults that have not happened yet.
    pub fn clear_faults(&self) {
        self.inner().faults.clear();
    }

    /// Continues every hanging call.
    pub fn release(&self) {
        self.released.send_modify(|times| *times += 1);
    }

    /// Kills the plugin. Running calls lose their connection; later calls cannot connect.
    pub fn crash(&self) {
        self.lives.send_if_modified(|lives| {
            let was_alive = is_alive(*lives);
            *lives += u64::from(was_alive);
            was_alive
        });
        self.inner().in_flight.clear();
        self.ended.send_modify(|calls| *calls += 1);
    }

    /// Restarts the plugin with its previous state.
    pub fn restart(&self) {
        self.lives.send_if_modified(|lives| {
            let was_dead = !is_alive(*lives);
            *lives += u64::from(was_dead);
            was_dead
        });
    }

    /// Returns whether the plugin runs.
    pub fn is_alive(&self) -> bool {
        is_alive(*self.lives.borrow())
    }

    /// Returns a receiver of deaths and restarts.
    pub fn lives(&self) -> watch::Receiver<u64> {
        self.lives.subscribe()
    }

    /// Waits until `count` calls have arrived since the start.
    pub async fn wait_for_calls(&self, count: u64) {
        let mut arrived = self.arrived.subscribe();
        // The sender lives as long as `self`.
        drop(arrived.wait_for(|so_far| *so_far >= count).await);
    }

    /// Waits until no call for a volume runs.
    pub async fn wait_until_idle(&self) {
        let mut ended = self.ended.subscribe();
        let is_idle = |_: &u64| self.inner().in_flight.is_empty();
        drop(ended.wait_for(is_idle).await);
    }

    /// Waits until no call for one volume runs.
    pub(super) async fn wait_until_ended(&self, subject: &str) {
        let mut ended = self.ended.subscribe();
        let is_idle = |_: &u64| {
            let inner = self.inner();
            !inner.in_flight.keys().any(|(_, running)| running == subject)
        };
        drop(ended.wait_for(is_idle).await);
    }

    /// Adds a node. With a machine, what is staged and published there is mounted.
    pub fn add_node(&self, node: ExternalNodeId, machine: Option<FakeMachine>) {
        self.inner().state.machines.insert(node, machine);
    }

    /// Forgets what is staged and published on a node, as a reboot does. Attachments stay.
    pub fn reboot(&self, node: &ExternalNodeId) {
        let mut inner = self.inner();
        inner.state.stagings.retain(|(at, _), _| at != node);
        inner.state.targets.retain(|(at, _, _), _| at != node);
        if let Some(Some(machine)) = inner.state.machines.get(node) {
            machine.mounter.reboot();
        }
    }

    /// Removes what is mounted at a path of a node without a call, as `umount` does. Returns whether something
    /// was there.
    pub fn unmount(&self, node: &ExternalNodeId, path: &Path) -> bool {
        let state = &mut self.inner().state;
        let mounts = |state: &ProviderState| state.targets.len() + state.stagings.len();
        let before = mounts(state);
        state.targets.retain(|(at, _, target), _| at != node || target != path);
        state.stagings.retain(|(at, _), staging| at != node || staging.path != path);
        mounts(state) != before
    }

    /// Declares a node lost: volumes may be detached from it although it has them.
    pub fn lose_node(&self, node: ExternalNodeId) {
        self.inner().state.lost.insert(node);
    }

    /// Ends the loss of a node.
    pub fn find_node(&self, node: &ExternalNodeId) {
        self.inner().state.lost.remove(node);
    }

    /// Changes the settings of the plugin.
    pub fn update_settings(&self, change: impl FnOnce(&mut PluginSettings)) {
        change(&mut self.inner().state.settings);
    }

    /// Returns the settings of the plugin.
    pub fn settings(&self) -> PluginSettings {
        self.inner().state.settings.clone()
    }

    /// Adds a volume that was not created through this plugin.
    pub fn add_volume(&self, external_id: ExternalId, context: BTreeMap<String, String>) {
        self.inner().state.add(external_id, context);
    }

    /// Removes a volume without a call.
    pub fn remove_volume(&self, external_id: &ExternalId) {
        self.inner().state.volumes.remove(external_id);
    }

    /// Returns all volumes, sorted by external ID.
    pub fn volumes(&self) -> Vec<FakeVolume> {
        self.inner().state.volumes.values().cloned().collect()
    }

    /// Defines what the controller reports about the health of a volume.
    pub fn set_volume_health(&self, id: ExternalId, statuses: Vec<VolumeStatus>) {
        self.inner().state.set_volume_health(id, statuses);
    }

    /// Defines what a node reports about the health of a volume.
    pub fn set_node_volume_health(
        &self,
        node: ExternalNodeId,
        id: ExternalId,
        statuses: Vec<VolumeStatus>,
    ) {
        let mut inner = self.inner();
        inner.state.set_node_volume_health(node, id, statuses);
    }

    /// Defines what the controller reports about the capacity for a topology, or everywhere.
    pub fn set_capacity(&self, topology: Option<Topology>, reported: ReportedCapacity) {
        self.inner().state.set_capacity(topology, reported);
    }

    /// Defines what a node reports about the bytes and inodes of a volume.
    pub fn set_stats(&self, node: ExternalNodeId, id: ExternalId, stats: ReportedStats) {
        self.inner().state.set_stats(node, id, stats);
    }

    /// Defines what every node reports about the storage.
    pub fn set_storage_health(&self, statuses: Vec<StorageStatus>) {
        self.inner().state.set_storage_health(statuses);
    }

    /// Sets the condition of a volume.
    pub fn set_condition(&self, external_id: &ExternalId, condition: Condition) {
        if let Some(volume) = self.inner().state.volumes.get_mut(external_id) {
            volume.condition = condition;
        }
    }

    /// Returns all snapshots, sorted by ID.
    pub fn snapshots(&self) -> Vec<FakeSnapshot> {
        self.inner().state.snapshots.values().cloned().collect()
    }

    /// Returns all attachments.
    pub fn attachments(&self) -> BTreeMap<(ExternalId, ExternalNodeId), FakeAttachment> {
        self.inner().state.attachments.clone()
    }

    /// Returns all staged volumes.
    pub fn stagings(&self) -> BTreeMap<(ExternalNodeId, ExternalId), FakeStaging> {
        self.inner().state.stagings.clone()
    }

    /// Returns all published targets.
    pub fn targets(&self) -> BTreeMap<(ExternalNodeId, ExternalId, PathBuf), FakeTarget> {
        self.inner().state.targets.clone()
    }

    /// Returns the sizes to which volumes were expanded on nodes.
    pub fn expanded(&self) -> BTreeMap<(ExternalNodeId, ExternalId), Bytes> {
        self.inner().state.expanded.clone()
    }

    /// Returns all calls that arrived, in order, including retries.
    pub fn calls(&self) -> Vec<Call> {
        self.inner().calls.clone()
    }

    /// Returns the number of calls of `rpc`.
    pub fn count(&self, rpc: Rpc) -> usize {
        let inner = self.inner();
        inner.calls.iter().filter(|call| call.rpc == rpc).count()
    }

    /// Takes the violations so far, for a test that expects some.
    pub fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.inner().state.violations)
    }

    /// Handles one call for `subject` with the next queued fault.
    ///
    /// # Errors
    /// The error of the state or of the fault.
    pub async fn call<T: Send + 'static>(
        self: &Arc<Self>,
        call_lock: FakeCallLock,
        (rpc, subject): (Rpc, &str),
        act: impl Fn(&mut ProviderState) -> Result<T, Refusal> + Send + Sync + 'static,
    ) -> Result<T, CallError> {
        let mut lives = self.lives.subscribe();
        let (running, fault) = self.begin_call(call_lock, rpc, subject)?;
        let before = *self.arrived.borrow();
        let lost = CallError::ConnectionLost;
        if fault == Some(Fault::OutliveCaller) {
            let answer = outlive_caller(running, self.released.subscribe(), lives, act);
            return answer.await.unwrap_or(Err(lost));
        }
        let act = || act(&mut self.inner().state).map_err(CallError::Refused);
        let failed = |code: StatusCode| {
            CallError::Refused(Refusal { code, message: format!("scripted {}", code.as_str()) })
        };
        match fault {
            None | Some(Fault::OutliveCaller) => act(),
            Some(Fault::Fail(code)) => Err(failed(code)),
            Some(Fault::FailAfterEffect(code)) => act().and_then(|_| Err(failed(code))),
            Some(Fault::LoseReply) => act().and_then(|_| Err(lost)),
            Some(Fault::ApplyTwice) => act().and_then(|_| act()),
            Some(Fault::Hang) => {
                let mut released = self.released.subscribe();
                tokio::select! {
                    // A process that has ended does nothing any more.
                    biased;
                    _ = lives.changed() => Err(lost),
                    _ = released.changed() => act(),
                }
            }
            Some(Fault::DelayReply) => {
                let answer = act();
                let mut arrived = self.arrived.subscribe();
                tokio::select! {
                    _ = arrived.wait_for(|so_far| *so_far > before) => answer,
                    _ = lives.changed() => Err(lost),
                }
            }
            Some(Fault::Crash) => {
                self.crash();
                Err(lost)
            }
            Some(Fault::CrashAfterEffect) => {
                let answer = act();
                self.crash();
                answer.and_then(|_| Err(lost))
            }
        }
    }

    /// Records the call. Refuses a second call for a volume in a call lock while the first is running.
    fn begin_call(
        self: &Arc<Self>,
        call_lock: FakeCallLock,
        rpc: Rpc,
        subject: &str,
    ) -> Result<(InFlight, Option<Fault>), CallError> {
        let mut inner = self.inner();
        if !self.is_alive() {
            return Err(CallError::NotConnected);
        }
        inner.calls.push(Call { rpc, subject: subject.to_owned() });
        self.arrived.send_modify(|so_far| *so_far += 1);
        let ticket = *self.arrived.borrow();
        let key = (call_lock, subject.to_owned());
        // Statistics are read beside other calls, as every orchestrator does: they change nothing.
        let is_exclusive = !subject.is_empty() && rpc != Rpc::NodeGetVolumeStats;
        if is_exclusive && let Some((_, pending)) = inner.in_flight.get(&key).copied() {
            let what = format!("{pending} for {subject} is still running");
            let refused = inner.state.violation(rpc, StatusCode::Aborted, what);
            return refused.map_err(CallError::Refused);
        }
        if is_exclusive {
            inner.in_flight.insert(key.clone(), (ticket, rpc));
        }
        let fault = inner.faults.get_mut(&rpc).and_then(VecDeque::pop_front);
        let backend = Arc::downgrade(self);
        Ok((InFlight { backend, key, ticket }, fault))
    }
}

/// Starts a call whose effect happens when the test releases it, whether or not the caller waits.
async fn outlive_caller<T: Send + 'static>(
    running: InFlight,
    mut released: watch::Receiver<u64>,
    mut lives: watch::Receiver<u64>,
    act: impl Fn(&mut ProviderState) -> Result<T, Refusal> + Send + Sync + 'static,
) -> Option<Result<T, CallError>> {
    let (sender, answer) = oneshot::channel();
    tokio::spawn(async move {
        let is_released = tokio::select! {
            biased;
            _ = lives.changed() => false,
            released = released.changed() => released.is_ok(),
        };
        if let (true, Some(backend)) = (is_released, running.backend.upgrade()) {
            let answer = act(&mut backend.inner().state).map_err(CallError::Refused);
            drop(running);
            let _is_awaited = sender.send(answer);
        }
    });
    answer.await.ok()
}

impl Drop for FakeBackend {
    #[expect(clippy::panic, reason = "a test in which the orchestrator violates CSI must fail")]
    fn drop(&mut self) {
        let violations = self.take_violations();
        if !violations.is_empty() && !std::thread::panicking() {
            panic!("the orchestrator violated CSI:\n{}", violations.join("\n"));
        }
    }
}

fn is_alive(lives: u64) -> bool {
    lives.is_multiple_of(2)
}

/// A running call. It ends when it is dropped, also if the caller stopped waiting.
struct InFlight {
    backend: Weak<FakeBackend>,
    key: CallLockKey,
    ticket: u64,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let Some(backend) = self.backend.upgrade() else {
            return;
        };
        let mut inner = backend.inner();
        let running = inner.in_flight.get(&self.key);
        if running.is_some_and(|(ticket, _)| *ticket == self.ticket) {
            inner.in_flight.remove(&self.key);
        }
        drop(inner);
        backend.ended.send_modify(|calls| *calls += 1);
    }
}
