//! [`TaskRestarts`]: the tasks of this node that can be restarted, and the requests for it.
//!
//! A runner registers its task for as long as it runs. A request is kept until the runner acts on it; two requests before that
//! are one.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use nomad_csi_model::AllocId;

type Key = (AllocId, String);

/// The tasks that can be restarted. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct TaskRestarts {
    requests: Arc<Mutex<BTreeMap<Key, watch::Sender<bool>>>>,
}

/// A task that can be restarted, until this is dropped.
#[derive(Debug)]
pub(super) struct RestartableTask {
    restarts: TaskRestarts,
    key: Key,
    request: watch::Sender<bool>,
}

impl TaskRestarts {
    /// Lets a task be restarted.
    pub(super) fn register(&self, alloc: &AllocId, task: &str) -> RestartableTask {
        let key = (alloc.clone(), task.to_owned());
        let request = watch::Sender::new(false);
        self.requests.lock().insert(key.clone(), request.clone());
        RestartableTask { restarts: self.clone(), key, request }
    }

    /// Returns the tasks of an allocation that can be restarted, sorted.
    pub(super) fn tasks(&self, alloc: &AllocId) -> Vec<String> {
        let requests = self.requests.lock();
        let of_alloc = requests.keys().filter(|(known, _)| known == alloc);
        of_alloc.map(|(_, task)| task.clone()).collect()
    }

    /// Requests the restart of a task. Returns false if no runner has it.
    pub(super) fn request(&self, alloc: &AllocId, task: &str) -> bool {
        let requests = self.requests.lock();
        let found = requests.get(&(alloc.clone(), task.to_owned()));
        let Some(request) = found else {
            return false;
        };
        request.send_replace(true);
        true
    }
}

impl RestartableTask {
    /// Waits until a restart is requested.
    pub(super) async fn requested(&self) {
        // The sender is kept here, so it is not gone.
        let _is_requested =
            self.request.subscribe().wait_for(|is_requested| *is_requested).await.is_ok();
    }

    /// Forgets a request: the run that it was for has ended.
    pub(super) fn forget_request(&self) {
        self.request.send_replace(false);
    }
}

impl Drop for RestartableTask {
    fn drop(&mut self) {
        let mut requests = self.restarts.requests.lock();
        let is_own = |known: &watch::Sender<bool>| known.same_channel(&self.request);
        if requests.get(&self.key).is_some_and(is_own) {
            requests.remove(&self.key);
        }
    }
}
