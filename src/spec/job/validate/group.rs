//! The rules of a task group.

use std::collections::HashMap;
use std::time::Duration;

use super::rules::{GroupAt, Rules, name_problem, shown_duration};
use crate::job::place::JobPlace;
use crate::job::problem::JobProblem;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{RestartMode, RestartPolicy, TaskGroup};

/// The shortest interval of a restart policy.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(5);

impl<'j> Rules<'j> {
    pub(super) fn group(&mut self, group: &'j TaskGroup, place: &JobPlace) {
        if group.count < 0 {
            let text = "Task group count can't be negative";
            self.error(Code::JobInvalidValue, place.field("count"), text, "expected 0 or more");
        }
        self.system_count(&group.name, group.count, place);
        self.constraints(&group.constraints, place);
        self.restart(&group.restart, place);
        let at = GroupAt { group, place };
        for (alias, volume) in &group.volumes {
            self.volume(at, alias, volume);
        }
        if group.tasks.is_empty() {
            let text = "Missing tasks for task group";
            self.error(Code::JobIncomplete, place.clone(), text, "add a `task`");
        }
        self.task_names(at);
        self.leader(at);
        self.single_plugin(at);
        for (task_at, task) in group.tasks.iter().enumerate() {
            self.task(at, task, &place.task(task_at));
        }
    }

    fn task_names(&mut self, at: GroupAt<'_, '_>) {
        let mut seen = HashMap::new();
        for (task_at, task) in at.group.tasks.iter().enumerate() {
            let place = at.place.task(task_at);
            let name = task.name.as_str();
            if name.is_empty() {
                self.error(Code::JobName, place, "Missing task name", "add a name");
                continue;
            }
            if let Some(problem) = name_problem("Task name", name) {
                self.error(Code::JobName, place.clone(), problem, "");
            }
            let first = *seen.entry(name).or_insert(task_at);
            if first != task_at {
                let text =
                    format!("Task {} redefines '{name}' from task {}", task_at + 1, first + 1);
                let problem = JobProblem::error(Code::JobDuplicate, place, text);
                self.problems.push(problem.repeats(at.place.task(first)));
            }
        }
    }

    fn leader(&mut self, at: GroupAt<'_, '_>) {
        let tasks = at.group.tasks.iter().enumerate();
        let mut leaders = tasks.filter(|(_, task)| task.is_leader).map(|(task_at, _)| task_at);
        if let (Some(first), Some(second)) = (leaders.next(), leaders.next()) {
            let place = |task_at| at.place.task(task_at).field("leader");
            let text = "Only one task may be marked as leader";
            let problem = JobProblem::error(Code::JobInvalidValue, place(second), text);
            self.problems.push(problem.repeats(place(first)));
        }
    }

    /// The sockets of all plugins of an allocation would be in one directory, under one name.
    fn single_plugin(&mut self, at: GroupAt<'_, '_>) {
        let tasks = at.group.tasks.iter().enumerate();
        let mut plugins = tasks
            .filter(|(_, task)| task.csi_plugin.is_some())
            .map(|(task_at, _)| at.place.task(task_at).block("csi_plugin", ""));
        let Some(first) = plugins.next() else {
            return;
        };
        for place in plugins {
            let text =
                "a group has at most one plugin: the sockets of two would replace each other";
            let problem = JobProblem::error(Code::JobCsiPlugin, place, text);
            self.problems.push(problem.repeats(first.clone()));
        }
    }

    pub(super) fn restart(&mut self, policy: &RestartPolicy, place: &JobPlace) {
        let place = place.block("restart", "");
        if policy.attempts == 0 {
            if policy.mode == RestartMode::Delay {
                let text = "Restart policy \"delay\" with 0 attempts is ambiguous";
                let label = "write `fail`, or set `attempts`";
                self.error(Code::JobRestart, place.field("mode"), text, label);
            }
            return;
        }
        let RestartPolicy { attempts, interval, delay, .. } = policy;
        if *interval < SHORTEST_INTERVAL {
            let text =
                format!("Interval can not be less than 5s (got {})", shown_duration(*interval));
            self.error(Code::JobRestart, place.field("interval"), text, "expected 5s or more");
        }
        if delay.saturating_mul(*attempts) > *interval {
            let text = format!(
                "Nomad can't restart the TaskGroup {attempts} times in an interval of {} with a delay of {}",
                shown_duration(*interval),
                shown_duration(*delay)
            );
            let label = "lengthen `interval`, or reduce `attempts` or `delay`";
            self.error(Code::JobRestart, place.field("interval"), text, label);
        }
    }
}
