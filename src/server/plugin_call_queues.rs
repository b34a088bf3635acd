//! The queues of all plugins: callers wait here until the plugin may get another call.
//!
//! The server's services reach a controller only with a [`CallPermit`]; the connections are private to this file. [`PluginCallQueue`]
//! decides who is next. A permit ends when it is dropped; a dropped future leaves the queue immediately. Queues hold
//! no promise about volumes, and unused queues take no memory.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::cell::StateCell;
use super::keyed_locks::QueueFull;
use super::plugin_call_queue::{CallClass, PluginCallQueue, PluginConcurrency};
use super::plugin_instances::{ControllerMachine, PluginInstances, RecordedInstances};
use nomad_csi_model::{AllocId, PluginId};
use nomad_csi_ports::{CallObserver, Controller, HostDirectory, NodeService};

/// The queues of all plugins. Clones share their state.
#[derive(Clone)]
pub struct PluginCallQueues {
    concurrency: PluginConcurrency,
    max_waiting: usize,
    observer: Arc<dyn CallObserver>,
    instances: Arc<dyn PluginInstances>,
    queues: Queues,
}

type Queues = Arc<Mutex<HashMap<PluginId, WaitingCalls>>>;

#[derive(Debug, Default)]
struct WaitingCalls {
    queue: PluginCallQueue,
    next_ticket: u64,
    admissions: HashMap<u64, oneshot::Sender<()>>,
}

impl WaitingCalls {
    fn admit(&mut self, concurrency: &PluginConcurrency) {
        for ticket in self.queue.admit(concurrency) {
            if let Some(admission) = self.admissions.remove(&ticket) {
                // If the caller has left, its call leaves the queue when it is dropped.
                let _is_received = admission.send(());
            }
        }
    }
}

/// A call in the queue of one plugin, waiting or running. Dropping it admits the next call.
struct QueuedCall {
    queues: PluginCallQueues,
    plugin: PluginId,
    class: CallClass,
    ticket: u64,
}

impl Drop for QueuedCall {
    fn drop(&mut self) {
        let mut queues = self.queues.locked();
        let Some(queue) = queues.get_mut(&self.plugin) else {
            return;
        };
        queue.admissions.remove(&self.ticket);
        queue.queue.leave(self.ticket, self.class);
        queue.admit(&self.queues.concurrency);
        self.queues.observe(&self.plugin, &queue.queue);
        if queue.queue.is_empty() {
            queues.remove(&self.plugin);
        }
    }
}

impl PluginCallQueues {
    /// Queues of the plugins that the state has on record and whose nodes are in the directory, with these limits; at most
    /// `max_waiting` calls of a class wait per plugin.
    pub fn new(
        concurrency: PluginConcurrency,
        max_waiting: usize,
        observer: Arc<dyn CallObserver>,
        cell: StateCell,
        hosts: Arc<dyn HostDirectory>,
    ) -> Self {
        let instances = Arc::new(RecordedInstances { cell, hosts });
        Self::of_instances(concurrency, max_waiting, observer, instances)
    }

    pub(super) fn of_instances(
        concurrency: PluginConcurrency,
        max_waiting: usize,
        observer: Arc<dyn CallObserver>,
        instances: Arc<dyn PluginInstances>,
    ) -> Self {
        let queues = Queues::default();
        Self { concurrency, max_waiting, observer, instances, queues }
    }

    /// Returns the node service of an instance, which has no queue; `None` without a connection.
    pub(super) async fn node(
        &self,
        plugin: &PluginId,
        alloc: &AllocId,
    ) -> Option<Arc<dyn NodeService>> {
        self.instances.connection(plugin, alloc).await.map(|connection| connection.node)
    }

    /// Waits until the plugin may get a call of this class.
    ///
    /// # Errors
    /// Immediately, if too many calls wait.
    pub async fn acquire(
        &self,
        plugin: &PluginId,
        class: CallClass,
    ) -> Result<CallPermit, QueueFull> {
        let joined = Instant::now();
        let (queued, admission) = self.join(plugin, class);
        let waiting = self.waiting_before(&queued);
        if waiting.is_some_and(|waiting| waiting >= self.max_waiting) {
            self.observer.refused(plugin, class.name());
            return Err(QueueFull { waiting: self.max_waiting });
        }
        // The sender is dropped only after it has sent.
        let _admitted = admission.await;
        self.observer.admitted(plugin, class.name(), joined.elapsed());
        Ok(CallPermit {
            queues: self.clone(),
            plugin: plugin.clone(),
            class,
            queued: Mutex::new(Some(queued)),
        })
    }

    fn join(&self, plugin: &PluginId, class: CallClass) -> (QueuedCall, oneshot::Receiver<()>) {
        let (sender, admission) = oneshot::channel();
        let mut queues = self.locked();
        let queue = queues.entry(plugin.clone()).or_default();
        let ticket = queue.next_ticket;
        queue.next_ticket += 1;
        queue.admissions.insert(ticket, sender);
        queue.queue.join(ticket, class);
        queue.admit(&self.concurrency);
        self.observe(plugin, &queue.queue);
        let queued = QueuedCall { queues: self.clone(), plugin: plugin.clone(), class, ticket };
        (queued, admission)
    }

    /// Returns how many other calls of the class wait, if this one waits.
    fn waiting_before(&self, queued: &QueuedCall) -> Option<usize> {
        let queues = self.locked();
        let queue = &queues.get(&queued.plugin)?.queue;
        queue.is_waiting(queued.ticket).then(|| queue.load(queued.class).waiting - 1)
    }

    /// Reports the load of the queue. The caller has it locked, so that reports come in order.
    fn observe(&self, plugin: &PluginId, queue: &PluginCallQueue) {
        for class in CallClass::ALL {
            self.observer.load(plugin, class.name(), queue.load(class));
        }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<PluginId, WaitingCalls>> {
        self.queues.lock()
    }
}

/// The right to send one call at a time to a plugin. Dropping it admits the next call.
pub struct CallPermit {
    queues: PluginCallQueues,
    plugin: PluginId,
    class: CallClass,
    queued: Mutex<Option<QueuedCall>>,
}

impl CallPermit {
    /// Returns the controller of an instance of the plugin; `None` without a connection.
    pub(super) async fn controller(&self, alloc: &AllocId) -> Option<Arc<dyn Controller>> {
        let connection = self.queues.instances.connection(&self.plugin, alloc).await;
        connection.map(|connection| connection.controller)
    }

    /// Returns the machine on which an instance of the plugin attaches and detaches volumes; `None` without a connection.
    pub(super) fn machine(&self, alloc: &AllocId) -> Option<ControllerMachine> {
        self.queues.instances.machine(&self.plugin, alloc)
    }

    /// Lets other calls pass while the plugin does not answer.
    pub fn release(&self) {
        let queued = self.locked().take();
        drop(queued);
    }

    /// Waits in the queue again, if the permit was released. The caller was admitted before, so the length of
    /// the queue does not matter.
    pub async fn reacquire(&self) {
        if self.locked().is_some() {
            return;
        }
        let (queued, admission) = self.queues.join(&self.plugin, self.class);
        let _admitted = admission.await;
        *self.locked() = Some(queued);
    }

    fn locked(&self) -> MutexGuard<'_, Option<QueuedCall>> {
        self.queued.lock()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::fake::NoInstances;
    use nomad_csi_testing::NoCallObserver;

    fn queues(max_waiting: usize) -> PluginCallQueues {
        let concurrency =
            PluginConcurrency { total: 3, creates: 1, changes: 1, attaches: 1, lists: 1 };
        with(concurrency, max_waiting)
    }

    fn with(concurrency: PluginConcurrency, max_waiting: usize) -> PluginCallQueues {
        let (observer, instances) = (Arc::new(NoCallObserver), Arc::new(NoInstances));
        PluginCallQueues::of_instances(concurrency, max_waiting, observer, instances)
    }

    fn unused(queues: &PluginCallQueues) -> bool {
        queues.locked().is_empty()
    }

    /// W30: a plugin gets a bounded number of concurrent calls.
    #[tokio::test]
    async fn a_queue_admits_that_many_and_no_more() {
        let concurrency = PluginConcurrency { creates: 2, ..PluginConcurrency::DEFAULT };
        let queues = with(concurrency, 1);
        let ebs = PluginId::new("ebs");
        let first = queues.acquire(&ebs, CallClass::Create).await.unwrap();
        let _second = queues.acquire(&ebs, CallClass::Create).await.unwrap();
        let mut third = Box::pin(queues.acquire(&ebs, CallClass::Create));
        assert!(third.as_mut().now_or_never().is_none());
        let refused = queues.acquire(&ebs, CallClass::Create).await.err();
        assert_eq!(refused, Some(QueueFull { waiting: 1 }));
        drop(first);
        assert!(third.await.is_ok());
    }

    /// W30: plugins do not wait for each other, and a delete is admitted before the create that came
    /// first.
    #[tokio::test]
    async fn permits_admit_the_next_call_of_the_plugin() {
        let queues = queues(10);
        let (ebs, nfs) = (PluginId::new("ebs"), PluginId::new("nfs"));
        let running = queues.acquire(&ebs, CallClass::Change).await.unwrap();
        let mut change = Box::pin(queues.acquire(&ebs, CallClass::Change));
        let mut delete = Box::pin(queues.acquire(&ebs, CallClass::Release));
        assert!(change.as_mut().now_or_never().is_none());
        assert!(delete.as_mut().now_or_never().is_none());
        let other = queues.acquire(&nfs, CallClass::Change).now_or_never();
        drop(other.unwrap().unwrap());
        drop(running);
        assert!(change.as_mut().now_or_never().is_none());
        drop(delete.await.unwrap());
        drop(change.await.unwrap());
        assert!(unused(&queues));
    }

    #[tokio::test]
    async fn a_caller_that_leaves_admits_the_next() {
        let queues = queues(10);
        let ebs = PluginId::new("ebs");
        let running = queues.acquire(&ebs, CallClass::Create).await.unwrap();
        let mut leaves_waiting = Box::pin(queues.acquire(&ebs, CallClass::Create));
        let mut leaves_admitted = Box::pin(queues.acquire(&ebs, CallClass::Create));
        let mut last = Box::pin(queues.acquire(&ebs, CallClass::Create));
        for waiting in [&mut leaves_waiting, &mut leaves_admitted, &mut last] {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        drop(leaves_waiting);
        drop(running);
        drop(leaves_admitted);
        drop(last.now_or_never().unwrap().unwrap());
        assert!(unused(&queues));
    }

    #[tokio::test]
    async fn a_full_queue_refuses_immediately() {
        let queues = queues(1);
        let ebs = PluginId::new("ebs");
        let running = queues.acquire(&ebs, CallClass::Create).await.unwrap();
        let mut waiting = Box::pin(queues.acquire(&ebs, CallClass::Create));
        assert!(waiting.as_mut().now_or_never().is_none());
        let refused = queues.acquire(&ebs, CallClass::Create).now_or_never();
        let refused = refused.unwrap().err();
        assert_eq!(refused, Some(QueueFull { waiting: 1 }));
        let other_class = queues.acquire(&ebs, CallClass::List).now_or_never();
        assert!(other_class.unwrap().is_ok(), "a call that need not wait is admitted");
        drop((running, waiting));
        assert!(unused(&queues));
    }

    /// W30: a call without an answer does not keep others waiting; it waits again before the next try.
    #[tokio::test]
    async fn a_released_permit_is_acquired_again() {
        let queues = queues(1);
        let ebs = PluginId::new("ebs");
        let slow = queues.acquire(&ebs, CallClass::Change).await.unwrap();
        slow.release();
        let next = queues.acquire(&ebs, CallClass::Change).await.unwrap();
        let mut again = Box::pin(slow.reacquire());
        assert!(again.as_mut().now_or_never().is_none());
        drop(next);
        again.await;
        slow.reacquire().now_or_never().unwrap();
        assert!(queues.acquire(&ebs, CallClass::Change).now_or_never().is_none());
        drop(slow);
        assert!(unused(&queues));
    }
}
