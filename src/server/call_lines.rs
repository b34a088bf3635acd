//! The lines of all plugins: callers wait here until the plugin may get another call.
//!
//! [`CallLine`] decides who is next. A place ends with its permit; a dropped future leaves the line
//! immediately. Lines hold no promise about volumes, and unused lines take no memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::call_line::{CallClass, CallLine, CallWidths};
use super::keyed_limiter::QueueFull;
use nomad_csi_model::PluginId;
use nomad_csi_ports::CallObserver;

/// The lines of all plugins. A clone is the same lines.
#[derive(Clone)]
pub struct CallLines {
    widths: CallWidths,
    max_waiting: usize,
    observer: Arc<dyn CallObserver>,
    lines: Lines,
}

type Lines = Arc<Mutex<HashMap<PluginId, WaitingLine>>>;

#[derive(Debug, Default)]
struct WaitingLine {
    line: CallLine,
    next_ticket: u64,
    admissions: HashMap<u64, oneshot::Sender<()>>,
}

impl WaitingLine {
    fn admit(&mut self, widths: &CallWidths) {
        for ticket in self.line.admit(widths) {
            if let Some(admission) = self.admissions.remove(&ticket) {
                // A caller that left meanwhile gives its place back when it is dropped.
                let _is_received = admission.send(());
            }
        }
    }
}

/// A place in the line of one plugin, waiting or running. Dropping it admits the next call.
struct Place {
    lines: CallLines,
    plugin: PluginId,
    class: CallClass,
    ticket: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = self.lines.locked();
        let Some(line) = lines.get_mut(&self.plugin) else {
            return;
        };
        line.admissions.remove(&self.ticket);
        line.line.leave(self.ticket, self.class);
        line.admit(&self.lines.widths);
        self.lines.observe(&self.plugin, &line.line);
        if line.line.is_empty() {
            lines.remove(&self.plugin);
        }
    }
}

impl CallLines {
    /// Lines of these widths; at most `max_waiting` calls of a class wait per plugin.
    pub fn new(widths: CallWidths, max_waiting: usize, observer: Arc<dyn CallObserver>) -> Self {
        Self {
            widths,
            max_waiting,
            observer,
            lines: Lines::default(),
        }
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
        let (place, admission) = self.join(plugin, class);
        let waiting = self.waiting_before(&place);
        if waiting.is_some_and(|waiting| waiting >= self.max_waiting) {
            self.observer.refused(plugin, class.name());
            return Err(QueueFull {
                waiting: self.max_waiting,
            });
        }
        // The sender is dropped only after it has sent.
        let _admitted = admission.await;
        self.observer
            .admitted(plugin, class.name(), joined.elapsed());
        Ok(CallPermit {
            lines: self.clone(),
            plugin: plugin.clone(),
            class,
            place: Mutex::new(Some(place)),
        })
    }

    fn join(&self, plugin: &PluginId, class: CallClass) -> (Place, oneshot::Receiver<()>) {
        let (sender, admission) = oneshot::channel();
        let mut lines = self.locked();
        let line = lines.entry(plugin.clone()).or_default();
        let ticket = line.next_ticket;
        line.next_ticket += 1;
        line.admissions.insert(ticket, sender);
        line.line.join(ticket, class);
        line.admit(&self.widths);
        self.observe(plugin, &line.line);
        let place = Place {
            lines: self.clone(),
            plugin: plugin.clone(),
            class,
            ticket,
        };
        (place, admission)
    }

    /// Returns how many other calls of the class wait, if this one waits.
    fn waiting_before(&self, place: &Place) -> Option<usize> {
        let lines = self.locked();
        let line = &lines.get(&place.plugin)?.line;
        line.is_waiting(place.ticket)
            .then(|| line.load(place.class).waiting - 1)
    }

    /// Reports the load of the line. The caller has it locked, so that reports come in order.
    fn observe(&self, plugin: &PluginId, line: &CallLine) {
        for class in CallClass::ALL {
            self.observer.load(plugin, class.name(), line.load(class));
        }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<PluginId, WaitingLine>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to send one call at a time to a plugin. Dropping it admits the next call.
pub struct CallPermit {
    lines: CallLines,
    plugin: PluginId,
    class: CallClass,
    place: Mutex<Option<Place>>,
}

impl CallPermit {
    /// Lets other calls pass while the plugin does not answer.
    pub fn release(&self) {
        let place = self.locked().take();
        drop(place);
    }

    /// Waits for a place again, if it was released. The caller was admitted before, so the length of
    /// the line does not matter.
    pub async fn reacquire(&self) {
        if self.locked().is_some() {
            return;
        }
        let (place, admission) = self.lines.join(&self.plugin, self.class);
        let _admitted = admission.await;
        *self.locked() = Some(place);
    }

    fn locked(&self) -> MutexGuard<'_, Option<Place>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use nomad_csi_testing::NoCallObserver;

    fn lines(max_waiting: usize) -> CallLines {
        let widths = CallWidths {
            total: 3,
            creates: 1,
            changes: 1,
            attaches: 1,
            lists: 1,
        };
        CallLines::new(widths, max_waiting, Arc::new(NoCallObserver))
    }

    fn unused(lines: &CallLines) -> bool {
        lines.locked().is_empty()
    }

    /// W30: a plugin gets a bounded number of concurrent calls.
    #[tokio::test]
    async fn a_line_admits_that_many_and_no_more() {
        let widths = CallWidths {
            creates: 2,
            ..CallWidths::DEFAULT
        };
        let lines = CallLines::new(widths, 1, Arc::new(NoCallObserver));
        let ebs = PluginId::new("ebs");
        let first = lines.acquire(&ebs, CallClass::Create).await.unwrap();
        let _second = lines.acquire(&ebs, CallClass::Create).await.unwrap();
        let mut third = Box::pin(lines.acquire(&ebs, CallClass::Create));
        assert!(third.as_mut().now_or_never().is_none());
        let refused = lines.acquire(&ebs, CallClass::Create).await.err();
        assert_eq!(refused, Some(QueueFull { waiting: 1 }));
        drop(first);
        assert!(third.await.is_ok());
    }

    /// W30: plugins do not wait for each other, and a delete is admitted before the create that came
    /// first.
    #[tokio::test]
    async fn permits_admit_the_next_call_of_the_plugin() {
        let lines = lines(10);
        let (ebs, nfs) = (PluginId::new("ebs"), PluginId::new("nfs"));
        let running = lines.acquire(&ebs, CallClass::Change).await.unwrap();
        let mut change = Box::pin(lines.acquire(&ebs, CallClass::Change));
        let mut delete = Box::pin(lines.acquire(&ebs, CallClass::Release));
        assert!(change.as_mut().now_or_never().is_none());
        assert!(delete.as_mut().now_or_never().is_none());
        let other = lines.acquire(&nfs, CallClass::Change).now_or_never();
        drop(other.unwrap().unwrap());
        drop(running);
        assert!(change.as_mut().now_or_never().is_none());
        drop(delete.await.unwrap());
        drop(change.await.unwrap());
        assert!(unused(&lines));
    }

    #[tokio::test]
    async fn a_caller_that_leaves_gives_its_place_back() {
        let lines = lines(10);
        let ebs = PluginId::new("ebs");
        let running = lines.acquire(&ebs, CallClass::Create).await.unwrap();
        let mut leaves_waiting = Box::pin(lines.acquire(&ebs, CallClass::Create));
        let mut leaves_admitted = Box::pin(lines.acquire(&ebs, CallClass::Create));
        let mut last = Box::pin(lines.acquire(&ebs, CallClass::Create));
        for waiting in [&mut leaves_waiting, &mut leaves_admitted, &mut last] {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        drop(leaves_waiting);
        drop(running);
        drop(leaves_admitted);
        drop(last.now_or_never().unwrap().unwrap());
        assert!(unused(&lines));
    }

    #[tokio::test]
    async fn a_full_line_refuses_immediately() {
        let lines = lines(1);
        let ebs = PluginId::new("ebs");
        let running = lines.acquire(&ebs, CallClass::Create).await.unwrap();
        let mut waiting = Box::pin(lines.acquire(&ebs, CallClass::Create));
        assert!(waiting.as_mut().now_or_never().is_none());
        let refused = lines.acquire(&ebs, CallClass::Create).now_or_never();
        let refused = refused.unwrap().err();
        assert_eq!(refused, Some(QueueFull { waiting: 1 }));
        let other_class = lines.acquire(&ebs, CallClass::List).now_or_never();
        assert!(
            other_class.unwrap().is_ok(),
            "a call that need not wait is admitted"
        );
        drop((running, waiting));
        assert!(unused(&lines));
    }

    /// W30: a call without an answer does not keep others waiting; it waits again before the next try.
    #[tokio::test]
    async fn a_released_permit_is_acquired_again() {
        let lines = lines(1);
        let ebs = PluginId::new("ebs");
        let slow = lines.acquire(&ebs, CallClass::Change).await.unwrap();
        slow.release();
        let next = lines.acquire(&ebs, CallClass::Change).await.unwrap();
        let mut again = Box::pin(slow.reacquire());
        assert!(again.as_mut().now_or_never().is_none());
        drop(next);
        again.await;
        slow.reacquire().now_or_never().unwrap();
        assert!(
            lines
                .acquire(&ebs, CallClass::Change)
                .now_or_never()
                .is_none()
        );
        drop(slow);
        assert!(unused(&lines));
    }
}
