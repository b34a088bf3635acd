//! What the runner of an allocation knows, and what it reports of it.
//!
//! A terminal status means that no process and no mount of a task is left, so it is reported only when the
//! allocation is over. Until then a failure shows in its tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::super::task_mounts::MountTargets;
use super::lifecycle::{
    DueSteps, EndCause, SetupStage, Stage, TaskFacts, TaskRole, due_steps, end_cause,
};
use super::task_events::Occurrence;
use nomad_csi_model::{
    AllocReport, ClientStatus, JobVolume, Task, TaskGroup, TaskPhase, TaskState, VolumeAlias,
};

/// The preparation of an allocation for its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Setup {
    /// Its volumes are being mounted. Those that were refused have a reason.
    Mounting(BTreeMap<VolumeAlias, String>),
    /// All volumes are mounted that a task needs to start. One that a running task keeps may be missing.
    Ready(Arc<MountTargets>),
    /// It cannot run, for this reason.
    Failed(String),
}

/// A task of the allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TaskProgress {
    /// Its name.
    pub(super) name: String,
    /// Its role.
    pub(super) role: TaskRole,
    /// Where it is.
    pub(super) stage: Stage,
    /// The CSI volumes that it mounts.
    pub(super) volumes: BTreeSet<VolumeAlias>,
    /// True if a run of it exists that may use them.
    pub(super) has_run: bool,
    /// True if an earlier agent began a run of it, and it is not known how far it came.
    pub(super) has_begun: bool,
    /// Its reported state.
    pub(super) state: TaskState,
}

impl TaskProgress {
    /// Records an occurrence.
    pub(super) fn push(&mut self, occurrence: &Occurrence<'_>, now: i64) {
        self.state.push(occurrence.at(now));
    }

    /// Records that runs of the task exist. What was reported of it stays true until its runner knows more.
    pub(super) fn resume(&mut self) {
        self.has_run = true;
        self.stage = match self.state.phase {
            TaskPhase::Pending => Stage::Starting,
            TaskPhase::Running | TaskPhase::Dead => Stage::Started,
        };
    }

    /// Records that a run of the task has started.
    pub(super) fn start(&mut self, now: i64) {
        self.stage = Stage::Started;
        self.state.phase = TaskPhase::Running;
        self.state.started_at.get_or_insert(now);
    }

    /// Records that the task has ended for good.
    pub(super) fn end(&mut self, has_failed: bool, now: i64) {
        self.stage = Stage::Ended;
        self.state.phase = TaskPhase::Dead;
        self.state.has_failed |= has_failed;
        self.state.finished_at.get_or_insert(now);
    }
}

/// An allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AllocProgress {
    /// Its preparation.
    pub(super) setup: Setup,
    /// True if it must stop.
    pub(super) wants_stop: bool,
    /// True if it is over: nothing of it is left, and no task starts any more.
    pub(super) is_over: bool,
    /// Volumes whose mount vanished, with the reason, until the server knows it.
    pub(super) lost: BTreeMap<VolumeAlias, String>,
    /// What holds up mounts that were not refused.
    pub(super) held_up: BTreeMap<VolumeAlias, String>,
    /// Volumes from which an operator cut the allocation off.
    pub(super) cut_off: BTreeSet<VolumeAlias>,
    /// Its tasks, in the order of the group.
    pub(super) tasks: Vec<TaskProgress>,
}

impl AllocProgress {
    /// Creates the progress of an allocation that the node received now, or reported on before.
    pub(super) fn new(group: &TaskGroup, reported: Option<&AllocReport>, now: i64) -> Self {
        let tasks = group.tasks.iter().map(|task| {
            let known = reported.and_then(|report| report.tasks.get(&task.name));
            let mut progress = TaskProgress {
                name: task.name.clone(),
                role: TaskRole::of(task),
                stage: Stage::Waiting,
                volumes: csi_volumes(group, task),
                has_run: false,
                has_begun: false,
                state: known.cloned().unwrap_or_default(),
            };
            if known.is_none() {
                progress.push(&Occurrence::Received, now);
            }
            progress
        });
        Self {
            setup: Setup::Mounting(BTreeMap::new()),
            wants_stop: false,
            is_over: false,
            lost: BTreeMap::new(),
            held_up: BTreeMap::new(),
            cut_off: BTreeSet::new(),
            tasks: tasks.collect(),
        }
    }

    /// Returns whether a task runs, or may run.
    pub(super) fn may_run_tasks(&self) -> bool {
        let is_live = |task: &TaskProgress| matches!(task.stage, Stage::Starting | Stage::Started);
        self.tasks.iter().any(is_live)
    }

    /// Returns what is due now.
    pub(super) fn due_steps(&self) -> DueSteps {
        due_steps(&self.facts(), self.setup_stage(), self.wants_stop)
    }

    /// Records that a volume was refused, and why, unless that is known.
    pub(super) fn refuse_mount(&mut self, alias: &VolumeAlias, reason: &str, now: i64) -> bool {
        let Setup::Mounting(refused) = &mut self.setup else {
            return false;
        };
        self.held_up.remove(alias);
        let known = refused.insert(alias.clone(), reason.to_owned());
        let is_new = known.as_deref() != Some(reason);
        if is_new {
            let waiting = self.tasks.iter_mut();
            for task in waiting.filter(|task| task.stage == Stage::Waiting) {
                task.push(&Occurrence::WaitsForVolume(reason), now);
            }
        }
        is_new
    }

    /// Records what holds up the mount of a volume. Another attempt with the same reason is no change.
    pub(super) fn hold_up(&mut self, alias: &VolumeAlias, reason: &str, now: i64) -> bool {
        let Setup::Mounting(refused) = &mut self.setup else {
            return false;
        };
        refused.remove(alias);
        let known = self.held_up.insert(alias.clone(), reason.to_owned());
        if known.as_deref() == Some(reason) {
            return false;
        }
        for task in self.tasks.iter_mut().filter(|task| task.stage == Stage::Waiting) {
            task.push(&Occurrence::WaitsForVolume(reason), now);
        }
        true
    }

    /// Records that a volume that was refused or held up is mounted.
    pub(super) fn accept_mount(&mut self, alias: &VolumeAlias) -> bool {
        let was_held_up = self.held_up.remove(alias).is_some();
        match &mut self.setup {
            Setup::Mounting(refused) => refused.remove(alias).is_some() || was_held_up,
            Setup::Ready(_) | Setup::Failed(_) => was_held_up,
        }
    }

    /// Records that the mount of a volume vanished. No task starts before it is mounted again, and those that run on it
    /// are stopped.
    pub(super) fn lose_volume(&mut self, alias: &VolumeAlias, reason: &str, now: i64) {
        if let Setup::Ready(_) = &self.setup {
            self.setup = Setup::Mounting(BTreeMap::new());
        }
        if !self.is_mounting() {
            return;
        }
        let known = self.lost.insert(alias.clone(), reason.to_owned());
        if known.as_deref() == Some(reason) {
            return;
        }
        for task in &mut self.tasks {
            if task.stage != Stage::Ended && task.volumes.contains(alias) {
                task.push(&Occurrence::VolumeLost(reason), now);
            }
        }
    }

    /// Like [`Self::lose_volume`], for the CSI volume whose target has this path. A host volume is the operator's, and
    /// cannot be mounted again.
    pub(super) fn lose_source(&mut self, source: &Path, reason: &str, now: i64) {
        let Setup::Ready(targets) = &self.setup else {
            return;
        };
        let mut targets = targets.iter();
        let of_csi = |alias| self.tasks.iter().any(|task| task.volumes.contains(alias));
        let lost = targets.find(|(alias, target)| target.as_deref() == Ok(source) && of_csi(alias));
        if let Some(alias) = lost.map(|(alias, _)| alias.clone()) {
            self.lose_volume(&alias, reason, now);
        }
    }

    /// Returns where the volumes are mounted; `None` while one is not.
    pub(super) fn targets(&self) -> Option<Arc<MountTargets>> {
        match &self.setup {
            Setup::Ready(targets) => Some(targets.clone()),
            Setup::Mounting(_) | Setup::Failed(_) => None,
        }
    }

    /// Returns whether volumes have to be mounted.
    pub(super) fn is_mounting(&self) -> bool {
        matches!(self.setup, Setup::Mounting(_))
    }

    /// Returns whether a run may use the volume.
    pub(super) fn is_used(&self, alias: &VolumeAlias) -> bool {
        let mut tasks = self.tasks.iter();
        tasks.any(|task| task.has_run && task.volumes.contains(alias))
    }

    /// Returns whether a volume of the task at this position is lost.
    pub(super) fn has_lost_volume(&self, position: usize) -> bool {
        let task = self.tasks.get(position);
        task.is_some_and(|task| self.lost.keys().any(|alias| task.volumes.contains(alias)))
    }

    /// Records that an operator cut the allocation off from a volume. It fails: its tasks never use the volume again.
    /// Returns whether that is news.
    pub(super) fn cut_off(&mut self, alias: &VolumeAlias, now: i64) -> bool {
        let is_new = self.cut_off.insert(alias.clone());
        if is_new {
            let reason = format!("an operator cut the allocation off from its volume `{alias}`");
            self.fail_setup(&reason, now);
        }
        is_new
    }

    /// Returns whether an operator cut the task at this position off from a volume.
    pub(super) fn is_cut_off(&self, position: usize) -> bool {
        let task = self.tasks.get(position);
        task.is_some_and(|task| !self.cut_off.is_disjoint(&task.volumes))
    }

    /// Returns whether no run uses the volume, and none that an earlier agent began can come to use it.
    pub(super) fn is_free(&self, alias: &VolumeAlias) -> bool {
        let mut tasks = self.tasks.iter();
        !self.is_used(alias) && !tasks.any(|task| task.has_begun && task.volumes.contains(alias))
    }

    /// Records where the volumes are mounted, unless one was lost in the meantime.
    pub(super) fn finish_setup(&mut self, targets: MountTargets) {
        if self.lost.is_empty() {
            self.setup = Setup::Ready(Arc::new(targets));
        }
    }

    /// Records that the allocation cannot run. Its tasks fail as soon as none of their processes is left.
    pub(super) fn fail_setup(&mut self, reason: &str, now: i64) {
        self.setup = Setup::Failed(reason.to_owned());
        for task in &mut self.tasks {
            if task.stage != Stage::Ended {
                task.push(&Occurrence::SetupFailed(reason), now);
                task.state.has_failed = true;
            }
        }
    }

    /// Records that the allocation is over. Tasks that never started are dead.
    pub(super) fn finish(&mut self, now: i64) {
        self.is_over = true;
        let never_started = self.tasks.iter_mut();
        for task in never_started.filter(|task| task.stage == Stage::Waiting) {
            task.end(false, now);
        }
    }

    /// Returns what is reported.
    pub(super) fn report(&self) -> AllocReport {
        let (status, description) = self.status();
        let tasks = self.tasks.iter();
        AllocReport {
            status,
            description,
            tasks: tasks.map(|task| (task.name.clone(), task.state.clone())).collect(),
        }
    }

    fn status(&self) -> (ClientStatus, String) {
        if self.is_over {
            return self.final_status();
        }
        let has_started = self.tasks.iter().any(|task| task.stage >= Stage::Started);
        if has_started {
            let is_ending = self.end_cause().is_some();
            let text = if is_ending { "Tasks are stopping" } else { "Tasks are running" };
            return (ClientStatus::Running, text.to_owned());
        }
        let refused = match &self.setup {
            Setup::Mounting(refused) => {
                refused.values().chain(self.held_up.values()).cloned().collect::<Vec<_>>()
            }
            Setup::Ready(_) | Setup::Failed(_) => vec![],
        };
        let text = match refused.as_slice() {
            [] => "No tasks have started".to_owned(),
            reasons => format!("Waiting: {}", reasons.join("; ")),
        };
        (ClientStatus::Pending, text)
    }

    fn final_status(&self) -> (ClientStatus, String) {
        if let Setup::Failed(reason) = &self.setup {
            return (ClientStatus::Failed, reason.clone());
        }
        if self.tasks.iter().any(|task| task.state.has_failed) {
            return (ClientStatus::Failed, "Failed tasks".to_owned());
        }
        let text = "All tasks have completed".to_owned();
        (ClientStatus::Complete, text)
    }

    fn end_cause(&self) -> Option<EndCause> {
        end_cause(&self.facts(), self.setup_stage(), self.wants_stop)
    }

    fn setup_stage(&self) -> SetupStage {
        match &self.setup {
            Setup::Mounting(refused) if refused.is_empty() => SetupStage::Mounting,
            Setup::Mounting(_) => SetupStage::Waiting,
            Setup::Ready(_) => SetupStage::Ready,
            Setup::Failed(_) => SetupStage::Failed,
        }
    }

    fn facts(&self) -> Vec<TaskFacts> {
        let facts = |task: &TaskProgress| TaskFacts {
            role: task.role,
            stage: task.stage,
            has_failed: task.state.has_failed,
        };
        self.tasks.iter().map(facts).collect()
    }
}

/// Returns the CSI volumes that a task of the group mounts.
fn csi_volumes(group: &TaskGroup, task: &Task) -> BTreeSet<VolumeAlias> {
    let mounts = task.volume_mounts.iter().map(|mount| &mount.volume);
    let is_csi = |alias: &&VolumeAlias| group.volumes.get(*alias).is_some_and(JobVolume::is_csi);
    mounts.filter(is_csi).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::{JobType, RestartPolicy};

    fn progress(tasks: &[&str]) -> AllocProgress {
        let mut group = TaskGroup::new("g", JobType::Service);
        let policy = RestartPolicy::of_type(JobType::Service);
        let new = |name: &&str| Task::new(*name, "exec", policy.clone());
        group.tasks = tasks.iter().map(new).collect();
        AllocProgress::new(&group, None, 1)
    }

    fn status(progress: &AllocProgress) -> (String, String) {
        let report = progress.report();
        (report.status.as_str().to_owned(), report.description)
    }

    fn pair(status: &str, description: &str) -> (String, String) {
        (status.to_owned(), description.to_owned())
    }

    #[test]
    fn an_allocation_is_running_until_nothing_of_it_is_left() {
        let mut alloc = progress(&["a", "b"]);
        assert_eq!(status(&alloc), pair("pending", "No tasks have started"));
        alloc.setup = Setup::Ready(Arc::default());
        alloc.tasks[0].start(2);
        assert_eq!(status(&alloc), pair("running", "Tasks are running"));
        alloc.tasks[0].end(true, 3);
        assert_eq!(status(&alloc), pair("running", "Tasks are stopping"));
        alloc.finish(4);
        assert_eq!(status(&alloc), pair("failed", "Failed tasks"));
        let report = alloc.report();
        assert_eq!(report.tasks["b"].phase, TaskPhase::Dead);
        assert!(!report.tasks["b"].has_failed);
        assert_eq!(report.tasks["a"].finished_at, Some(3));
    }

    #[test]
    fn a_refused_volume_is_in_the_description_and_in_one_event() {
        let mut alloc = progress(&["a"]);
        let reason = "volume `db` does not exist";
        assert!(alloc.refuse_mount(&"data".into(), reason, 2));
        assert!(!alloc.refuse_mount(&"data".into(), reason, 3));
        let expected = pair("pending", "Waiting: volume `db` does not exist");
        assert_eq!(status(&alloc), expected);
        let events: Vec<_> =
            alloc.tasks[0].state.events.iter().map(|event| &*event.message).collect();
        let waiting = "Waiting: volume `db` does not exist";
        assert_eq!(events, ["Task received by client", waiting]);
        assert!(alloc.accept_mount(&"data".into()));
        assert_eq!(status(&alloc), pair("pending", "No tasks have started"));
    }

    #[test]
    fn what_holds_mounts_up_is_in_the_description_and_in_one_event_for_all_attempts() {
        let messages = |alloc: &AllocProgress| -> Vec<String> {
            let events = alloc.tasks[0].state.events.iter();
            events.map(|event| event.message.clone()).collect()
        };
        let mut alloc = progress(&["a"]);
        let held: [(VolumeAlias, _); 2] = [
            ("data".into(), "volume `db`: NodeStageVolume fails: busy"),
            ("logs".into(), "volume `logs`: NodeStageVolume fails: busy"),
        ];
        let waiting = held.each_ref().map(|(_, reason)| format!("Waiting: {reason}"));
        for attempt in 1..30 {
            for (alias, reason) in &held {
                assert_eq!(alloc.hold_up(alias, reason, attempt), attempt == 1);
            }
            let expected = ["Task received by client", &waiting[0], &waiting[1]];
            assert_eq!(messages(&alloc), expected);
        }
        let (alias, reason) = &held[0];
        assert!(alloc.accept_mount(&held[1].0));
        assert_eq!(status(&alloc), pair("pending", &waiting[0]));
        assert!(alloc.hold_up(alias, "volume `db`: NodePublishVolume fails", 40));
        assert_eq!(messages(&alloc).len(), 4);
        assert!(alloc.refuse_mount(alias, "volume `db` does not exist", 41));
        assert_eq!(status(&alloc), pair("pending", "Waiting: volume `db` does not exist"));
        assert!(alloc.hold_up(alias, reason, 42));
        assert_eq!(status(&alloc), pair("pending", &waiting[0]));
        assert!(alloc.accept_mount(alias));
        assert_eq!(status(&alloc), pair("pending", "No tasks have started"));
        assert!(!alloc.accept_mount(alias));
    }

    #[test]
    fn a_failed_setup_has_its_reason() {
        let mut alloc = progress(&["a"]);
        alloc.fail_setup("no driver", 2);
        assert!(alloc.due_steps().is_over);
        alloc.finish(3);
        assert_eq!(status(&alloc), pair("failed", "no driver"));
        let task = &alloc.report().tasks["a"];
        assert!(task.has_failed);
        let last = task.events.last().unwrap();
        assert_eq!(last.kind, "Setup Failure");
        assert_eq!(last.message, "failed to setup alloc: no driver");
    }

    #[test]
    fn what_was_reported_before_goes_on() {
        let mut alloc = progress(&["a"]);
        alloc.tasks[0].state.restarts = 3;
        let mut group = TaskGroup::new("g", JobType::Service);
        group.tasks = vec![Task::new("a", "exec", RestartPolicy::of_type(JobType::Service))];
        let again = AllocProgress::new(&group, Some(&alloc.report()), 9);
        assert_eq!(again.report().tasks, alloc.report().tasks);
    }
}
