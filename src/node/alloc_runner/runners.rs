//! Runs the allocations of this node: one runner for each, until its end is reported.
//!
//! The list of the server decides: an allocation that is new gets a runner, one that must stop or that the server
//! forgot is stopped, also one of an earlier agent. While the server cannot be asked, everything runs on. When the agent stops, nothing is
//! stopped: the next agent takes over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::deps::AllocRunnerDeps;
use super::leftovers::stop_leftovers;
use super::runner::run_alloc;
use super::wanted::Wanted;
use crate::model::AllocId;
use crate::ports::{AssignedAlloc, AssignedAllocs};
use crate::retry::RetryPolicy;

/// The pauses between requests for the list that fail.
const RETRY: RetryPolicy = RetryPolicy {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(15),
};

/// The runners of all allocations of this node.
pub struct AllocRunners {
    deps: Arc<AllocRunnerDeps>,
    runners: BTreeMap<AllocId, Runner>,
    running: JoinSet<()>,
}

/// The runner of one allocation. It is kept after its end until the list of the server does not contain it.
struct Runner {
    wanted: watch::Sender<Wanted>,
    handle: AbortHandle,
}

impl AllocRunners {
    /// Creates the runners. None of them runs before [`AllocRunners::run`].
    pub fn new(deps: AllocRunnerDeps) -> Self {
        Self {
            deps: Arc::new(deps),
            runners: BTreeMap::new(),
            running: JoinSet::new(),
        }
    }

    /// Runs allocations until `stop`, and leaves their tasks running then.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut revision = None;
        let mut failures = 0;
        loop {
            let control = self.deps.control.clone();
            let listed = tokio::select! {
                biased;
                () = stop.cancelled() => return self.running.shutdown().await,
                listed = control.assigned(revision) => listed,
                Some(ended) = self.running.join_next() => {
                    note_panic(ended);
                    continue;
                }
            };
            match listed {
                Ok(assigned) => {
                    failures = 0;
                    if revision.is_none() {
                        let ids = assigned.allocs.iter().map(|alloc| alloc.id.clone());
                        let leftovers = stop_leftovers(self.deps.clone(), ids.collect());
                        self.running.spawn(leftovers);
                    }
                    revision = Some(assigned.revision);
                    self.follow(assigned);
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot ask for the allocations of this node");
                    let pause = sleep(RETRY.delay(failures, self.deps.ids.jitter()));
                    failures = failures.saturating_add(1);
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = pause => {}
                    }
                }
            }
        }
    }

    /// Follows a list of the server.
    fn follow(&mut self, assigned: AssignedAllocs) {
        for (id, runner) in &self.runners {
            if !assigned.allocs.iter().any(|alloc| alloc.id == *id) {
                set_wanted(&runner.wanted, Wanted::Forgotten);
            }
        }
        self.runners.retain(|_, runner| {
            let is_forgotten = *runner.wanted.borrow() == Wanted::Forgotten;
            !(is_forgotten && runner.handle.is_finished())
        });
        for alloc in assigned.allocs {
            let wanted = if alloc.wants_stop {
                Wanted::Stop
            } else {
                Wanted::Run
            };
            match self.runners.get(&alloc.id) {
                Some(runner) => set_wanted(&runner.wanted, wanted),
                None => self.start(alloc, wanted),
            }
        }
    }

    fn start(&mut self, alloc: AssignedAlloc, wanted: Wanted) {
        let id = alloc.id.clone();
        let (wanted, received) = watch::channel(wanted);
        let handle = self
            .running
            .spawn(run_alloc(alloc, self.deps.clone(), received));
        self.runners.insert(id, Runner { wanted, handle });
    }
}

/// Sets what is wanted. A stop is final.
fn set_wanted(current: &watch::Sender<Wanted>, wanted: Wanted) {
    current.send_if_modified(|current| {
        let is_new = *current < wanted;
        *current = wanted.max(*current);
        is_new
    });
}

fn note_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "the runner of an allocation failed; a restart of the agent takes its tasks over");
    }
}
