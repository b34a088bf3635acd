//! Decides which tasks of an allocation start and stop now.
//!
//! The order is Nomad's: prestart tasks, main tasks when every prestart task has ended or is a sidecar that runs,
//! poststart tasks when every main task has started, poststop tasks when all others have ended. The allocation ends
//! when it is stopped, when a task has failed, when its leader has ended, or when only sidecars are left. Then the
//! leader stops first, the other tasks next, and sidecars last. A poststop task is never stopped.

use nomad_csi_model::{LifecycleHook, Task};

/// The role of a task in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaskRole {
    /// When it starts; `None` for a main task.
    pub(super) hook: Option<LifecycleHook>,
    /// True if it runs as long as the other tasks.
    pub(super) is_sidecar: bool,
    /// True if the other tasks end with it.
    pub(super) is_leader: bool,
}

impl TaskRole {
    /// Returns the role of a task.
    pub(super) fn of(task: &Task) -> Self {
        let lifecycle = task.lifecycle.as_ref();
        let hook = lifecycle.map(|lifecycle| lifecycle.hook);
        let is_poststop = hook == Some(LifecycleHook::Poststop);
        Self {
            hook,
            is_sidecar: lifecycle.is_some_and(|lifecycle| lifecycle.is_sidecar) && !is_poststop,
            is_leader: task.is_leader,
        }
    }

    fn is_poststop(self) -> bool {
        self.hook == Some(LifecycleHook::Poststop)
    }

    /// Returns whether the allocation lasts as long as this task.
    fn is_work(self) -> bool {
        !self.is_sidecar && !self.is_poststop()
    }
}

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Its time has not come.
    Waiting,
    /// Its first run is on its way.
    Starting,
    /// It has started at least once, and runs or waits for its restart.
    Started,
    /// It has ended for good.
    Ended,
}

/// The facts about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaskFacts {
    /// Its role.
    pub(super) role: TaskRole,
    /// Where it is.
    pub(super) stage: Stage,
    /// True if it failed.
    pub(super) has_failed: bool,
}

impl TaskFacts {
    fn is_live(&self) -> bool {
        matches!(self.stage, Stage::Starting | Stage::Started)
    }
}

/// Where the volumes of the allocation are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetupStage {
    /// Mounting was not refused.
    Mounting,
    /// Mounting was refused, and is tried again.
    Waiting,
    /// All are mounted.
    Ready,
    /// The allocation cannot run.
    Failed,
}

/// Why an allocation ends. A task is named by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndCause {
    /// It is stopped.
    Stopped,
    /// Its volumes cannot be mounted, or it cannot run on this node.
    SetupFailed,
    /// This task has failed.
    TaskFailed(usize),
    /// The leader has ended.
    LeaderEnded,
    /// Only sidecars are left.
    WorkDone,
}

/// The steps that are due now. Tasks are named by their positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DueSteps {
    /// The tasks to start.
    pub(super) start: Vec<usize>,
    /// The tasks to stop, with the cause.
    pub(super) stop: Vec<(usize, EndCause)>,
    /// True if the allocation has ended: no process of it is left, and no task starts any more.
    pub(super) is_over: bool,
}

/// Returns why the allocation ends, if it does.
pub(super) fn end_cause(
    tasks: &[TaskFacts],
    setup: SetupStage,
    wants_stop: bool,
) -> Option<EndCause> {
    let has_ended = |task: &TaskFacts| task.stage == Stage::Ended;
    let has_failed =
        |task: &TaskFacts| has_ended(task) && task.has_failed && !task.role.is_poststop();
    let mut work = tasks.iter().filter(|task| task.role.is_work()).peekable();
    if setup == SetupStage::Failed {
        Some(EndCause::SetupFailed)
    } else if let Some(failed) = tasks.iter().position(has_failed) {
        Some(EndCause::TaskFailed(failed))
    } else if wants_stop {
        Some(EndCause::Stopped)
    } else if work.peek().is_some() && work.all(has_ended) {
        Some(EndCause::WorkDone)
    } else if tasks.iter().any(|task| task.role.is_leader && has_ended(task)) {
        Some(EndCause::LeaderEnded)
    } else {
        None
    }
}

/// Returns what is due now.
pub(super) fn due_steps(tasks: &[TaskFacts], setup: SetupStage, wants_stop: bool) -> DueSteps {
    match end_cause(tasks, setup, wants_stop) {
        Some(cause) => steps_to_end(tasks, setup, cause),
        None if setup == SetupStage::Ready => DueSteps {
            start: positions(tasks, |task| task.stage == Stage::Waiting && is_turn(task, tasks)),
            ..DueSteps::default()
        },
        None => DueSteps::default(),
    }
}

/// Returns whether a task may start while the allocation runs.
fn is_turn(task: &TaskFacts, tasks: &[TaskFacts]) -> bool {
    let with_hook = |hook| tasks.iter().filter(move |task| task.role.hook == hook);
    let prepares = |task: &TaskFacts| match task.role.is_sidecar {
        true => task.stage >= Stage::Started,
        false => task.stage == Stage::Ended,
    };
    match task.role.hook {
        Some(LifecycleHook::Prestart) => true,
        None => with_hook(Some(LifecycleHook::Prestart)).all(prepares),
        Some(LifecycleHook::Poststart) => {
            let mut all = with_hook(Some(LifecycleHook::Prestart)).chain(with_hook(None));
            all.all(|task| task.stage >= Stage::Started)
        }
        Some(LifecycleHook::Poststop) => false,
    }
}

fn steps_to_end(tasks: &[TaskFacts], setup: SetupStage, cause: EndCause) -> DueSteps {
    let is_live = |task: &TaskFacts| task.is_live() && !task.role.is_poststop();
    let leaders = positions(tasks, |task| is_live(task) && task.role.is_leader);
    let work = positions(tasks, |task| is_live(task) && task.role.is_work());
    let sidecars = positions(tasks, is_live);
    let first = [leaders, work, sidecars].into_iter().find(|group| !group.is_empty());
    match first {
        Some(group) => DueSteps {
            stop: group.into_iter().map(|position| (position, cause)).collect(),
            ..DueSteps::default()
        },
        None => steps_after_end(tasks, setup),
    }
}

/// Returns what is due when all tasks but poststop tasks have ended. Without volumes, and when no other task ran,
/// poststop tasks do not run.
fn steps_after_end(tasks: &[TaskFacts], setup: SetupStage) -> DueSteps {
    let has_run = tasks.iter().any(|task| task.stage != Stage::Waiting);
    let is_pending = |task: &TaskFacts| task.role.is_poststop() && task.stage == Stage::Waiting;
    let pending = match setup {
        SetupStage::Ready | SetupStage::Mounting if has_run => positions(tasks, is_pending),
        SetupStage::Ready | SetupStage::Mounting | SetupStage::Waiting | SetupStage::Failed => {
            vec![]
        }
    };
    DueSteps {
        is_over: pending.is_empty() && !tasks.iter().any(TaskFacts::is_live),
        start: match setup {
            SetupStage::Ready => pending,
            SetupStage::Mounting | SetupStage::Waiting | SetupStage::Failed => vec![],
        },
        stop: vec![],
    }
}

fn positions(tasks: &[TaskFacts], is_meant: impl Fn(&TaskFacts) -> bool) -> Vec<usize> {
    let numbered = tasks.iter().enumerate();
    numbered.filter(|(_, task)| is_meant(task)).map(|(position, _)| position).collect()
}

#[cfg(test)]
mod tests;
