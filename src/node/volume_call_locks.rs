//! All call locks of this host, and the calls that run on them.
//!
//! A call is a task of its own: dropping the future of its caller cancels nothing. A call lock is free when
//! the plugin has answered, or when its process is gone. A call whose connection broke, whose time
//! limit passed, or whose work in this agent panicked keeps its call lock until the process is gone.
//!
//! Idle call locks keep the place of their last request in the order beside their key; call locks that never had an
//! ordered request keep nothing.
//!
//! A host serves one leader (rule 11 of the claims machine): a request of a lower term than the highest that this process
//! knows is refused for every volume. A restart may forget the term, because a session that is on record is the only one
//! that requests reach (rule 12).

use std::collections::HashMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt as _;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::Instrument as _;

use super::process_run::ProcessRun;
use super::volume_call_lock::{CallLockRefusal, CallNumber, VolumeCallLock};
use nomad_csi_model::{AllocId, ExternalId, HostSession, PluginId, RemoteVolume, SnapshotId, Term};
use nomad_csi_ports::{CallOrder, Delivery, HostError, HostOperation, PluginError, TermGuard};

/// The subject of the calls under one call lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum CallLockKey {
    /// The node service's calls for a volume.
    Node(RemoteVolume),
    /// The controller's calls for a volume.
    Controller(RemoteVolume),
    /// A creation, which has no volume yet, by the name at the provider.
    Creation(PluginId, String),
    /// A deletion of a snapshot, which names no volume.
    Snapshot(PluginId, SnapshotId),
}

impl CallLockKey {
    /// The volume, or what stands for it in messages.
    fn volume(&self) -> RemoteVolume {
        match self {
            Self::Node(volume) | Self::Controller(volume) => volume.clone(),
            Self::Creation(plugin, name) => RemoteVolume {
                plugin_id: plugin.clone(),
                external_id: ExternalId::new(name.as_str()),
            },
            Self::Snapshot(plugin, snapshot) => RemoteVolume {
                plugin_id: plugin.clone(),
                external_id: ExternalId::new(snapshot.as_str()),
            },
        }
    }
}

/// The call locks of this process. Clones share their state.
#[derive(Clone)]
pub struct VolumeCallLocks {
    shared: Arc<Shared>,
}

struct Shared {
    session: HostSession,
    /// The highest term of a request or list of a server.
    newest_term: Mutex<Term>,
    call_locks: Mutex<HashMap<CallLockKey, VolumeCallLock>>,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl VolumeCallLocks {
    /// The call locks of a process that has just started.
    pub fn new(session: HostSession) -> Self {
        Self {
            shared: Arc::new(Shared {
                session,
                newest_term: Mutex::default(),
                call_locks: Mutex::default(),
                tasks: TaskTracker::new(),
                stopping: CancellationToken::new(),
            }),
        }
    }

    /// This run of the process.
    pub fn session(&self) -> HostSession {
        self.shared.session.clone()
    }

    /// Remembers the term of a server that speaks to this host.
    ///
    /// # Errors
    /// If a later one has spoken.
    pub fn obey(&self, term: Term) -> Result<(), HostError> {
        let mut newest = self.shared.newest_term.lock();
        if term < *newest {
            return Err(HostError::OldTerm { desired: term, newest: *newest });
        }
        *newest = term;
        Ok(())
    }

    /// Refuses new calls, and returns when all running ones have ended. A plugin that never answers
    /// keeps its call until its process is gone, so the caller limits the wait.
    pub async fn drain(&self) {
        self.shared.stopping.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    /// Returns the volumes with a call that has not ended, and the operation.
    pub fn running(&self) -> Vec<(RemoteVolume, HostOperation)> {
        let call_locks = self.locked();
        let running = call_locks.iter();
        let running =
            running.filter_map(|(key, call_lock)| Some((key.volume(), call_lock.running()?)));
        running.collect()
    }

    /// Returns the call of the node service for a volume that has not ended.
    pub(super) fn running_on_node(&self, volume: &RemoteVolume) -> Option<HostOperation> {
        let call_locks = self.locked();
        call_locks.get(&CallLockKey::Node(volume.clone()))?.running()
    }

    /// Returns the volumes of which a call of the node service has not ended.
    pub(super) fn busy_on_node(&self) -> Vec<RemoteVolume> {
        let call_locks = self.locked();
        let busy = call_locks.iter().filter(|(_, call_lock)| call_lock.running().is_some());
        let volumes = busy.filter_map(|(key, _)| match key {
            CallLockKey::Node(volume) => Some(volume.clone()),
            CallLockKey::Controller(_) | CallLockKey::Creation(..) | CallLockKey::Snapshot(..) => {
                None
            }
        });
        volumes.collect()
    }

    /// Takes a call lock for an ordered request.
    ///
    /// # Errors
    /// If the request is of a server that leads no more or for another session, was overtaken, or runs into a call.
    pub(super) fn admit(
        &self,
        key: CallLockKey,
        order: &CallOrder,
        operation: HostOperation,
    ) -> Result<CallLockPermit, HostError> {
        self.obey(order.term)?;
        if order.session != self.shared.session {
            return Err(HostError::OtherSession {
                desired: order.session.clone(),
                own: self.session(),
            });
        }
        self.take(key, Some((order.term, order.number)), operation)
    }

    /// Takes a call lock for a call that has no order.
    ///
    /// # Errors
    /// If it runs into a call.
    pub(super) fn admit_unordered(
        &self,
        key: CallLockKey,
        operation: HostOperation,
    ) -> Result<CallLockPermit, HostError> {
        self.take(key, None, operation)
    }

    fn take(
        &self,
        key: CallLockKey,
        number: Option<CallNumber>,
        operation: HostOperation,
    ) -> Result<CallLockPermit, HostError> {
        // Before the check, so that `drain` waits for what passes it.
        let token = self.shared.tasks.token();
        if self.shared.stopping.is_cancelled() {
            return Err(HostError::Stopping);
        }
        let mut call_locks = self.locked();
        let call_lock = call_locks.entry(key.clone()).or_default();
        match call_lock.admit(number, operation) {
            Ok(()) => {
                Ok(CallLockPermit { call_locks: self.clone(), key, operation, _token: token })
            }
            Err(CallLockRefusal::Busy(running)) => {
                Err(HostError::Busy { volume: key.volume(), running })
            }
            Err(CallLockRefusal::Overtaken(latest)) => Err(HostError::Overtaken {
                volume: key.volume(),
                number: number.map_or(0, |(_, number)| number),
                latest: latest.1,
            }),
        }
    }

    /// Runs `work` to its end under a call lock, and returns its result. If this future is dropped, the work
    /// goes on.
    ///
    /// # Errors
    /// The error of the work.
    pub(super) async fn run<T, F>(
        &self,
        permit: CallLockPermit,
        process: PluginProcess,
        work: impl FnOnce(PluginCalls) -> F,
    ) -> Result<T, HostError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, HostError>> + Send + 'static,
    {
        let calls = PluginCalls::new(&permit, process);
        let lost = permit.lost();
        let work = work(calls.clone());
        let (sender, result) = oneshot::channel();
        let call = async move {
            let result = AssertUnwindSafe(work).catch_unwind().await;
            // The plugin may still work on a call of work that panicked.
            let is_held = result.is_err() || calls.is_unanswered();
            let held = is_held.then_some(permit);
            // A call lock that is free is free by now, so that the caller's next request finds it so.
            match result {
                Ok(result) => drop(sender.send(result)),
                Err(_panic) => drop(sender),
            }
            if let Some(permit) = held {
                calls.process.run.hold_until_gone(permit).await;
            }
        };
        self.shared.tasks.spawn(call.in_current_span());
        result.await.unwrap_or(Err(lost))
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<CallLockKey, VolumeCallLock>> {
        self.shared.call_locks.lock()
    }
}

impl TermGuard for VolumeCallLocks {
    fn obey(&self, term: Term) -> Result<(), HostError> {
        Self::obey(self, term)
    }
}

/// The right to make the calls of a call lock. Dropping it frees the call lock.
pub(super) struct CallLockPermit {
    call_locks: VolumeCallLocks,
    key: CallLockKey,
    operation: HostOperation,
    _token: TaskTrackerToken,
}

impl CallLockPermit {
    fn lost(&self) -> HostError {
        HostError::Lost { operation: self.operation, volume: self.key.volume().external_id }
    }
}

impl Drop for CallLockPermit {
    fn drop(&mut self) {
        let mut call_locks = self.call_locks.locked();
        if let Some(call_lock) = call_locks.get_mut(&self.key) {
            call_lock.end();
            if call_lock.is_unused() {
                call_locks.remove(&self.key);
            }
        }
    }
}

/// The process that a call lock's calls go to.
#[derive(Clone, Debug)]
pub(super) struct PluginProcess {
    /// The plugin.
    pub(super) plugin: PluginId,
    /// The allocation that runs it.
    pub(super) alloc: AllocId,
    /// Its process.
    pub(super) run: ProcessRun,
}

/// Sends the calls of one piece of work, and notes whether one has no answer.
#[derive(Clone)]
pub(super) struct PluginCalls {
    process: PluginProcess,
    operation: HostOperation,
    volume: ExternalId,
    unanswered: Arc<AtomicBool>,
}

impl PluginCalls {
    fn new(permit: &CallLockPermit, process: PluginProcess) -> Self {
        Self {
            process,
            operation: permit.operation,
            volume: permit.key.volume().external_id,
            unanswered: Arc::default(),
        }
    }

    pub(super) fn plugin(&self) -> &PluginId {
        &self.process.plugin
    }

    fn is_unanswered(&self) -> bool {
        self.unanswered.load(Ordering::Acquire)
    }

    /// Sends one call and waits for its answer, or for the end of the process.
    ///
    /// # Errors
    /// The plugin's error, or that the process ended.
    pub(super) async fn send<T>(
        &self,
        call: impl Future<Output = Result<T, PluginError>> + Send,
    ) -> Result<T, HostError> {
        let Some(_pending) = self.process.run.enter() else {
            return Err(HostError::NoPlugin {
                plugin: self.process.plugin.clone(),
                instance: self.process.alloc.clone(),
            });
        };
        let answer = tokio::select! {
            biased;
            answer = call => answer.map_err(HostError::Plugin),
            () = self.process.run.wait_until_gone() => Err(HostError::ProcessEnded {
                plugin: self.process.plugin.clone(),
                operation: self.operation,
                volume: self.volume.clone(),
            }),
        };
        if let Err(HostError::Plugin(error)) = &answer
            && error.delivery == Delivery::Unanswered
        {
            self.unanswered.store(true, Ordering::Release);
        }
        answer
    }
}

#[cfg(test)]
mod tests;
