//! Runs the allocations of this node: one runner for each, until its end is reported.
//!
//! The list of the server decides: an allocation that is new gets a runner, one that must stop or that the server
//! forgot is stopped, also one of an earlier agent. While the server cannot be asked, everything runs on. A runner
//! that panics is started again after a pause, and takes its tasks over. When the agent stops, nothing is stopped: the
//! next agent takes over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::super::alloc_directory::AllocDirectory;
use super::super::published_source::check_source;
use super::super::volume_manager::MountDirectories;
use super::collection::{MAX_ENDED, removable, remove_directories};
use super::crashes::Crashes;
use super::deps::AllocRunnerDeps;
use super::desired::Desired;
use super::leftovers::{end_left_plugin, end_unknown, end_unreadable, stop_leftovers};
use super::mount_watch::{Losses, watch_mounts};
use super::recovery::recover_runs;
use super::runner::run_alloc;
use crate::task_run::RunError;
use nomad_csi_model::retry::RetryPolicy;
use nomad_csi_model::{AllocId, PluginId, VolumeAlias};
use nomad_csi_ports::{AssignedAlloc, AssignedAllocs, LostMount, UnreadableAlloc, run_blocking};

/// The pauses between requests for the list that fail.
const RETRY: RetryPolicy =
    RetryPolicy { initial: Duration::from_millis(500), max: Duration::from_secs(15) };

/// The runners of all allocations of this node.
pub struct AllocRunners {
    deps: Arc<AllocRunnerDeps>,
    runners: BTreeMap<AllocId, Runner>,
    running: JoinSet<()>,
    crashes: Crashes,
    /// The allocations whose job cannot be opened, and which are being ended.
    ending_unreadable: BTreeMap<AllocId, UnreadableAlloc>,
    /// The plugins of ended allocations that are being ended.
    ending_plugins: BTreeMap<(AllocId, PluginId), AbortHandle>,
    /// The last list of the server.
    listed: Option<Listed>,
    /// The runs of earlier agents that go on, and whose files are missing.
    without_files: BTreeSet<PathBuf>,
    /// The directories of allocations, except those that are being removed.
    directories: BTreeSet<AllocDirectory>,
    /// The mounts of volumes that vanished.
    losses: watch::Sender<Losses>,
}

/// The runner of one allocation. It is kept after its end until the list of the server does not contain it.
struct Runner {
    desired: watch::Sender<Desired>,
    /// The volumes from which the allocation was cut off.
    cut_offs: watch::Sender<BTreeSet<VolumeAlias>>,
    handle: AbortHandle,
}

/// The directories of the allocations of a list.
struct Listed {
    assigned: BTreeSet<AllocDirectory>,
    /// The newest first.
    ended: Vec<AllocDirectory>,
}

impl AllocRunners {
    /// Creates the runners. None of them runs before [`AllocRunners::run`].
    pub fn new(deps: AllocRunnerDeps) -> Self {
        Self {
            deps: Arc::new(deps),
            runners: BTreeMap::new(),
            running: JoinSet::new(),
            crashes: Crashes::default(),
            ending_unreadable: BTreeMap::new(),
            ending_plugins: BTreeMap::new(),
            listed: None,
            without_files: BTreeSet::new(),
            directories: BTreeSet::new(),
            losses: watch::Sender::default(),
        }
    }

    /// Runs allocations until `stop`, and leaves their tasks running then.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut revision = None;
        let mut failures = 0;
        let mut losses = self.losses.subscribe();
        self.running.spawn(watch_mounts(
            self.deps.mounter.clone(),
            MountDirectories { base: self.deps.plugins.directories().volumes },
            self.losses.clone(),
        ));
        loop {
            let control = self.deps.control.clone();
            let next_start = self.crashes.next_start();
            let listed = tokio::select! {
                biased;
                () = stop.cancelled() => return self.running.shutdown().await,
                listed = control.assigned(revision) => listed,
                Some(ended) = self.running.join_next_with_id() => {
                    self.note_end(ended);
                    continue;
                }
                Ok(()) = losses.changed(), if self.listed.is_some() => {
                    let lost = losses.borrow_and_update().clone();
                    self.report_losses(&lost);
                    continue;
                }
                () = async { sleep_until(next_start.unwrap_or_else(Instant::now)).await },
                    if next_start.is_some() =>
                {
                    // The runner needs what was reported last.
                    revision = None;
                    self.crashes.end_pauses();
                    continue;
                }
            };
            match listed {
                Ok(assigned) => {
                    let next = assigned.revision;
                    let followed = tokio::select! {
                        biased;
                        () = stop.cancelled() => return self.running.shutdown().await,
                        followed = self.follow(assigned) => followed,
                    };
                    match followed {
                        Ok(()) => {
                            failures = 0;
                            revision = Some(next);
                            continue;
                        }
                        Err(error) => {
                            tracing::warn!(%error, "cannot look for tasks of earlier agents; until then, nothing starts");
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot ask for the allocations of this node");
                }
            }
            let pause = sleep(RETRY.delay(failures, self.deps.ids.jitter()));
            failures = failures.saturating_add(1);
            tokio::select! {
                () = stop.cancelled() => {}
                () = pause => {}
            }
        }
    }

    /// Follows a list of the server. Before the first one, what earlier agents started is known by its processes, and what
    /// the server does not know has ended: no task starts beside one whose files are missing, or that an older state of
    /// the data directory does not have.
    async fn follow(&mut self, assigned: AssignedAllocs) -> Result<(), RunError> {
        let directory_of = |id: &AllocId| AllocDirectory::new(&self.deps.data_directory, id);
        let readable = assigned.allocs.iter().map(|alloc| &alloc.id);
        let unreadable = assigned.unreadable.iter().map(|alloc| &alloc.id);
        let ids: BTreeSet<_> = readable.chain(unreadable).cloned().collect();
        let listed = Listed {
            assigned: ids.iter().map(directory_of).collect(),
            ended: assigned.ended.iter().map(directory_of).collect(),
        };
        if self.listed.is_none() {
            self.without_files = recover_runs(&self.deps).await?;
            self.find_directories(&listed).await?;
        }
        self.listed = Some(listed);
        self.forget_others(&ids, &assigned.left_plugins);
        self.follow_each(assigned.allocs);
        self.follow_unreadable(assigned.unreadable);
        self.follow_left_plugins(assigned.left_plugins);
        self.collect();
        Ok(())
    }

    /// Reports the mounts that vanished and that no runner deals with: those of stagings, and those of allocations that
    /// have no tasks here.
    fn report_losses(&mut self, losses: &Losses) {
        let own = losses.iter().filter(|(_, loss)| match &loss.lost {
            LostMount::Target { alloc, .. } => !self.has_live_runner(alloc),
            LostMount::Staging(_) => true,
        });
        let own: Vec<_> = own.map(|(path, loss)| (path.clone(), loss.lost.clone())).collect();
        if !own.is_empty() {
            self.running.spawn(report_losses(self.deps.clone(), own));
        }
    }

    fn has_live_runner(&self, alloc: &AllocId) -> bool {
        self.runners.get(alloc).is_some_and(|runner| !runner.handle.is_finished())
    }

    /// Stops the runners of allocations that are not on the list.
    fn forget_others(&mut self, listed: &BTreeSet<AllocId>, left: &[(AllocId, PluginId)]) {
        for (id, runner) in &self.runners {
            if !listed.contains(id) {
                set_desired(&runner.desired, Desired::Forgotten);
            }
        }
        self.runners.retain(|_, runner| {
            let is_forgotten = *runner.desired.borrow() == Desired::Forgotten;
            !(is_forgotten && runner.handle.is_finished())
        });
        let is_left = |id: &AllocId| left.iter().any(|(alloc, _)| alloc == id);
        self.crashes.retain(|id| listed.contains(id) || is_left(id));
        self.ending_unreadable.retain(|id, _| listed.contains(id));
    }

    /// Starts the runners of new allocations, and sets the desired state of the others. In this order: a plugin that must
    /// stop waits for the one that replaces it.
    fn follow_each(&mut self, allocs: Vec<AssignedAlloc>) {
        let mut known = vec![];
        for alloc in allocs {
            let desired = if alloc.wants_stop { Desired::Stop } else { Desired::Run };
            if self.runners.contains_key(&alloc.id) {
                known.push((alloc.id, desired, alloc.cut_off));
            } else if !self.crashes.pauses(&alloc.id)
                && !self.ending_unreadable.contains_key(&alloc.id)
            {
                self.start(alloc, desired);
            }
        }
        for (id, desired, cut_off) in known {
            if let Some(runner) = self.runners.get(&id) {
                set_desired(&runner.desired, desired);
                set_cut_off(&runner.cut_offs, cut_off);
            }
        }
    }

    /// Returns what runs of an allocation whose job cannot be opened runs on, or ends. Without a runner, its directories say what
    /// runs.
    fn follow_unreadable(&mut self, allocs: Vec<UnreadableAlloc>) {
        for alloc in allocs {
            tracing::warn!(alloc.id = %alloc.id, reason = alloc.reason,
                "the job of an allocation cannot be opened, so nothing of it is started");
            let ends = alloc.wants_stop || !alloc.cut_off.is_empty();
            match self.runners.get(&alloc.id) {
                Some(runner) => {
                    if alloc.wants_stop {
                        set_desired(&runner.desired, Desired::Stop);
                    }
                    set_cut_off(&runner.cut_offs, alloc.cut_off);
                }
                None if ends && self.ending_unreadable.get(&alloc.id) != Some(&alloc) => {
                    self.ending_unreadable.insert(alloc.id.clone(), alloc.clone());
                    self.running.spawn(end_unreadable(self.deps.clone(), alloc));
                }
                None => {}
            }
        }
    }

    /// Ends the plugins of ended allocations that are on record, until each is reported. A runner reports its own.
    fn follow_left_plugins(&mut self, left: Vec<(AllocId, PluginId)>) {
        self.ending_plugins.retain(|known, _| left.contains(known));
        for (alloc, plugin) in left {
            let key = (alloc.clone(), plugin.clone());
            if !self.has_live_runner(&alloc)
                && !self.crashes.pauses(&alloc)
                && !self.ending_plugins.contains_key(&key)
            {
                let ending = end_left_plugin(self.deps.clone(), alloc, plugin);
                self.ending_plugins.insert(key, self.running.spawn(ending));
            }
        }
    }

    fn start(&mut self, alloc: AssignedAlloc, desired: Desired) {
        let id = alloc.id.clone();
        let directory = AllocDirectory::new(&self.deps.data_directory, &id);
        let without_files = self.without_files.iter();
        let without_files = without_files.filter(|run| run.starts_with(directory.path()));
        let without_files = without_files.cloned().collect();
        self.directories.insert(directory);
        if desired == Desired::Run {
            for plugin in alloc.plugins() {
                self.deps.plugins.tasks().note_begin(plugin, &id);
            }
        }
        let (desired, received) = watch::channel(desired);
        let (cut_offs, received_cut_offs) = watch::channel(alloc.cut_off.clone());
        let handle = self.running.spawn(run_alloc(
            alloc,
            self.deps.clone(),
            without_files,
            received,
            received_cut_offs,
            self.losses.subscribe(),
        ));
        let runner = Runner { desired, cut_offs, handle };
        self.runners.insert(id, runner);
    }

    /// Finds the directories of earlier agents, stops the tasks of allocations that ended in the meantime, and waits until no
    /// task runs that the server does not know: no claim keeps others from its volumes.
    ///
    /// # Errors
    /// If the directories cannot be read.
    async fn find_directories(&mut self, listed: &Listed) -> Result<(), RunError> {
        let data = self.deps.data_directory.clone();
        let found = run_blocking(move || AllocDirectory::list(&data)).await;
        let found = found.map_err(|error| RunError::Failed {
            action: "find",
            run: self.deps.data_directory.clone(),
            reason: error.to_string(),
        })?;
        self.directories.extend(found);
        let kept = listed.ended.iter().take(MAX_ENDED);
        let ended = kept.filter(|directory| self.directories.contains(directory));
        let stopping = stop_leftovers(self.deps.clone(), ended.cloned().collect());
        self.running.spawn(stopping);
        let known = |directory: &&AllocDirectory| {
            listed.assigned.contains(directory) || listed.ended.contains(directory)
        };
        let unknown = self.directories.iter().filter(|it| !known(it)).cloned();
        end_unknown(&self.deps, unknown.collect()).await;
        Ok(())
    }

    /// Removes the directories that are not needed any more.
    fn collect(&mut self) {
        let Some(listed) = &self.listed else {
            return;
        };
        let mut running = listed.assigned.clone();
        let runners = self.runners.iter();
        let ending = runners.filter(|(_, runner)| !runner.handle.is_finished());
        running.extend(ending.map(|(id, _)| AllocDirectory::new(&self.deps.data_directory, id)));
        let removable = removable(&self.directories, &running, &listed.ended);
        if removable.is_empty() {
            return;
        }
        for directory in &removable {
            self.directories.remove(directory);
        }
        self.running.spawn(remove_directories(self.deps.clone(), removable));
    }

    /// Notes the end of a runner or of a removal.
    fn note_end(&mut self, ended: Result<(Id, ()), JoinError>) {
        if let Err(error) = ended {
            let mut runners = self.runners.iter();
            let crashed = runners.find(|(_, runner)| runner.handle.id() == error.id());
            let mut ending = self.ending_plugins.iter();
            let ending = ending.find(|(_, handle)| handle.id() == error.id());
            if let Some(id) = crashed.map(|(id, _)| id.clone()) {
                self.runners.remove(&id);
                let pause = self.crashes.note(&id);
                tracing::error!(alloc.id = %id, %error, ?pause,
                    "the runner of an allocation failed; it is started again, and takes its tasks over");
            } else if let Some(key) = ending.map(|(key, _)| key.clone()) {
                self.ending_plugins.remove(&key);
                let pause = self.crashes.note(&key.0);
                tracing::error!(alloc.id = %key.0, plugin.id = %key.1, %error, ?pause,
                    "the end of a plugin of an ended allocation failed; it is tried again");
            } else {
                tracing::error!(%error, "the removal of ended allocations failed");
            }
        }
        self.collect();
    }
}

/// Reports mounts that are still gone.
async fn report_losses(deps: Arc<AllocRunnerDeps>, losses: Vec<(PathBuf, LostMount)>) {
    for (path, lost) in losses {
        let Err(reason) = check_source(&*deps.mounter, &path).await else {
            continue;
        };
        let mut attempt = 0;
        while let Err(error) = deps.control.note_lost(&lost, &reason).await {
            tracing::warn!(%error, reason, "cannot report a mount that vanished");
            sleep(RETRY.delay(attempt, deps.ids.jitter())).await;
            attempt = attempt.saturating_add(1);
        }
    }
}

/// Sets from which volumes the allocation was cut off. That is final.
fn set_cut_off(current: &watch::Sender<BTreeSet<VolumeAlias>>, cut_off: BTreeSet<VolumeAlias>) {
    current.send_if_modified(|current| {
        let is_new = !cut_off.is_subset(current);
        current.extend(cut_off);
        is_new
    });
}

/// Sets the desired state. A stop is final.
fn set_desired(current: &watch::Sender<Desired>, desired: Desired) {
    current.send_if_modified(|current| {
        let is_new = *current < desired;
        *current = desired.max(*current);
        is_new
    });
}
