//! The control group of one run of a task. Every function blocks.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::controller::Controller;
use super::group_files::GroupFiles;
use super::plan::{Setting, settings};
use crate::task_run::{LimitReached, LimitsReached};
use nomad_csi_model::Resources;
use nomad_csi_model::retry::RetryPolicy;

/// How often a group is made that another agent removes because it is empty.
const ENTRY_ATTEMPTS: u32 = 5;
/// The attempts to remove a group whose processes are ending, and the pauses between them: one second together.
const REMOVAL_ATTEMPTS: u32 = 8;
const REMOVAL_RETRY: RetryPolicy =
    RetryPolicy { initial: Duration::from_millis(5), max: Duration::from_millis(500) };

/// The control group of one run, as `spec.json` names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::driver) struct ControlGroup {
    directory: PathBuf,
    settings: Vec<Setting>,
}

impl ControlGroup {
    /// Returns the group with this name for a task with these resources.
    pub(super) fn new(
        parent: &Path,
        name: &str,
        resources: &Resources,
        controllers: &BTreeSet<Controller>,
    ) -> Self {
        Self { directory: parent.join(name), settings: settings(resources, controllers) }
    }

    /// A group that sets these files.
    #[cfg(test)]
    pub(in crate::driver) fn for_tests(files: &[&str]) -> Self {
        let setting = |file: &&str| Setting {
            file: (*file).to_owned(),
            value: "1".to_owned(),
            is_optional: false,
        };
        Self { directory: "/group".into(), settings: files.iter().map(setting).collect() }
    }

    /// Returns whether it limits the number of processes.
    pub(in crate::driver) fn limits_processes(&self) -> bool {
        self.settings.iter().any(|it| it.file == "pids.max")
    }

    /// Makes the group, and moves this process into it, which has one thread. A group that is left of an attempt that was
    /// cut off is completed. An empty one may be removed by another agent, and is made again.
    ///
    /// # Errors
    /// If a limit cannot be set, or the process cannot enter. What was made is removed then.
    pub(in crate::driver) fn enter(&self, files: &dyn GroupFiles) -> io::Result<()> {
        let mut entered = Ok(());
        for _ in 0..ENTRY_ATTEMPTS {
            entered = self.try_enter(files);
            match &entered {
                Err(error) if is_gone(error) => {}
                Ok(()) | Err(_) => break,
            }
        }
        if entered.is_err() {
            let _is_gone = files.remove(&self.directory).is_ok();
        }
        entered
    }

    fn try_enter(&self, files: &dyn GroupFiles) -> io::Result<()> {
        match files.create(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(|error| self.refused("make", &error))?,
        }
        for Setting { file, value, is_optional } in &self.settings {
            match files.write(&self.directory.join(file), value) {
                Err(error) if *is_optional && error.kind() == io::ErrorKind::NotFound => {}
                written => written.map_err(|error| {
                    self.refused(&format!("write `{value}` to `{file}` of"), &error)
                })?,
            }
        }
        let procs = self.directory.join("cgroup.procs");
        let entered = files.write(&procs, "0");
        entered.map_err(|error| self.refused("enter", &error))
    }

    /// Returns what the task has reached. A file that cannot be read says nothing.
    pub(in crate::driver) fn reached(&self, files: &dyn GroupFiles) -> LimitsReached {
        let events = |file: &str, name: &str| {
            let text = files.read(&self.directory.join(file)).unwrap_or_default();
            count_of(&text, name)
        };
        let limit = |file: &str| {
            let mut settings = self.settings.iter();
            let set = settings.find(|it| it.file == file)?;
            set.value.parse::<u64>().ok()
        };
        let reached = |events_file: &str, name: &str, limit_file: &str| {
            let limit = limit(limit_file)?;
            let count = events(events_file, name);
            (count > 0).then_some(LimitReached { count, limit })
        };
        LimitsReached {
            memory: reached("memory.events", "oom_kill", "memory.max"),
            processes: reached("pids.events", "max", "pids.max"),
        }
    }

    /// Removes the group. What is left in it is killed: a process that another one moved there, or one that is ending.
    ///
    /// # Errors
    /// If it is still there after a second. The next agent removes it.
    pub(in crate::driver) fn remove(&self, files: &dyn GroupFiles) -> io::Result<()> {
        let mut removed = Ok(());
        for attempt in 0..REMOVAL_ATTEMPTS {
            removed = files.remove(&self.directory);
            match &removed {
                Ok(()) => return Ok(()),
                Err(error) if is_gone(error) => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::ResourceBusy => break,
                Err(_) => {}
            }
            // Since Linux 5.14.
            let _is_killed = files.write(&self.directory.join("cgroup.kill"), "1").is_ok();
            std::thread::sleep(REMOVAL_RETRY.delay(attempt, 1.0));
        }
        removed.map_err(|error| {
            let group = self.directory.display();
            let message = format!("cannot remove control group `{group}`: {error}");
            io::Error::new(error.kind(), message)
        })
    }

    fn refused(&self, action: &str, error: &io::Error) -> io::Error {
        io::Error::other(Refused {
            group: self.directory.clone(),
            action: action.to_owned(),
            reason: error.to_string(),
            is_gone: is_gone(error),
        })
    }
}

/// An operation on a group that failed.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot limit the task: cannot {action} control group `{}`: {reason}; restart the agent, which then looks again at what \
     it may limit", group.display()
)]
struct Refused {
    group: PathBuf,
    action: String,
    reason: String,
    is_gone: bool,
}

/// Returns whether a group does not exist any more.
fn is_gone(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    inner.map_or_else(
        || {
            error.kind() == io::ErrorKind::NotFound
                || error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error())
        },
        |refused: &Refused| refused.is_gone,
    )
}

/// Returns the number after a name in a file such as `memory.events`.
fn count_of(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let line = lines.find(|(found, _)| *found == name);
    line.and_then(|(_, count)| count.trim().parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::super::fake_kernel::FakeKernel;
    use super::*;

    fn group(kernel: &FakeKernel) -> ControlGroup {
        let parent = kernel.mount().join("tasks");
        let resources = Resources::default();
        ControlGroup::new(&parent, "one", &resources, &Controller::ALL.into())
    }

    /// A group of tasks that has all controllers.
    fn kernel() -> FakeKernel {
        let kernel = FakeKernel::new("cpu memory pids");
        kernel.enable(&kernel.mount(), "+cpu +memory +pids");
        let tasks = kernel.mount().join("tasks");
        kernel.create(&tasks).unwrap();
        kernel.enable(&tasks, "+cpu +memory +pids");
        kernel
    }

    fn value(kernel: &FakeKernel, file: &str) -> String {
        kernel.read(&kernel.mount().join("tasks/one").join(file)).unwrap()
    }

    #[test]
    fn a_task_enters_its_group_after_every_limit_is_set() {
        let kernel = kernel();
        group(&kernel).enter(&kernel).unwrap();
        assert_eq!(value(&kernel, "memory.max"), "314572800");
        assert_eq!(value(&kernel, "memory.swap.max"), "0");
        assert_eq!(value(&kernel, "pids.max"), "4096");
        assert_eq!(value(&kernel, "cpu.weight"), "4");
        assert_eq!(value(&kernel, "cgroup.procs"), "0\n");
        let calls = kernel.writes();
        assert_eq!(calls.last().map(String::as_str), Some("cgroup.procs"));
    }

    #[test]
    fn a_kernel_without_swap_has_no_limit_of_it() {
        let kernel = kernel();
        kernel.refuse("memory.swap.max", Errno::NOENT, u32::MAX);
        group(&kernel).enter(&kernel).unwrap();
        assert_eq!(value(&kernel, "cgroup.procs"), "0\n");
    }

    /// Whatever is refused: the task does not start without a limit, and nothing is left.
    #[test]
    fn every_refusal_is_an_error_that_names_the_group_and_leaves_none() {
        for file in
            ["one", "cpu.weight", "memory.max", "memory.swap.max", "pids.max", "cgroup.procs"]
        {
            for error in [Errno::ACCESS, Errno::BUSY, Errno::INVAL, Errno::NODEV, Errno::ROFS] {
                let kernel = kernel();
                kernel.refuse(file, error, u32::MAX);
                let refused = group(&kernel).enter(&kernel).unwrap_err().to_string();
                let reason = std::io::Error::from(error).to_string();
                assert!(refused.contains(&reason), "{refused}");
                assert!(refused.contains("tasks/one`"), "{refused}");
                let left = kernel.groups(&kernel.mount().join("tasks")).unwrap();
                assert_eq!(left, [] as [String; 0], "{file}: {error}");
            }
        }
    }

    /// Another agent removes empty groups when it starts.
    #[test]
    fn a_group_that_vanishes_before_it_is_entered_is_made_again() {
        for file in ["cpu.weight", "memory.max", "cgroup.procs"] {
            for error in [Errno::NOENT, Errno::NODEV] {
                let kernel = kernel();
                kernel.remove_before(file, error, ENTRY_ATTEMPTS - 1);
                group(&kernel).enter(&kernel).unwrap();
                assert_eq!(value(&kernel, "pids.max"), "4096");
                assert_eq!(value(&kernel, "cgroup.procs"), "0\n");
                kernel.leave(&kernel.mount().join("tasks/one"));
                kernel.remove_before(file, error, ENTRY_ATTEMPTS);
                assert!(group(&kernel).enter(&kernel).is_err());
            }
        }
    }

    #[test]
    fn a_group_that_a_crash_left_half_made_is_completed() {
        let kernel = kernel();
        let half = kernel.mount().join("tasks/one");
        kernel.create(&half).unwrap();
        kernel.write(&half.join("memory.max"), "1").unwrap();
        group(&kernel).enter(&kernel).unwrap();
        assert_eq!(value(&kernel, "memory.max"), "314572800");
    }

    #[test]
    fn what_a_task_reached_is_read_before_its_group_is_removed() {
        let kernel = kernel();
        let group = group(&kernel);
        assert_eq!(group.reached(&kernel), LimitsReached::default());
        group.enter(&kernel).unwrap();
        assert_eq!(group.reached(&kernel), LimitsReached::default());
        let directory = kernel.mount().join("tasks/one");
        let memory = "low 0\nhigh 0\nmax 94\noom 2\noom_kill 1\noom_group_kill 0\n";
        kernel.write(&directory.join("memory.events"), memory).unwrap();
        kernel.write(&directory.join("pids.events"), "max 7\n").unwrap();
        let expected = LimitsReached {
            memory: Some(LimitReached { count: 1, limit: 300 << 20 }),
            processes: Some(LimitReached { count: 7, limit: 4096 }),
        };
        assert_eq!(group.reached(&kernel), expected);
        for damaged in ["", "oom_kill", "oom_kill x\n", "oom_killer 3\n"] {
            kernel.write(&directory.join("memory.events"), damaged).unwrap();
            assert_eq!(group.reached(&kernel).memory, None, "{damaged:?}");
        }
    }

    #[test]
    fn a_group_is_removed_and_what_is_left_in_it_is_killed() {
        let kernel = kernel();
        let group = group(&kernel);
        group.remove(&kernel).unwrap();
        group.enter(&kernel).unwrap();
        group.remove(&kernel).unwrap();
        assert!(kernel.writes().contains(&"cgroup.kill".to_owned()));
        let left = kernel.groups(&kernel.mount().join("tasks")).unwrap();
        assert_eq!(left, [] as [String; 0]);
        // A kernel before 5.14, whose processes end by themselves.
        group.enter(&kernel).unwrap();
        kernel.refuse("cgroup.kill", Errno::NOENT, u32::MAX);
        kernel.refuse("one", Errno::BUSY, 3);
        kernel.leave(&kernel.mount().join("tasks/one"));
        group.remove(&kernel).unwrap();
        group.enter(&kernel).unwrap();
        let refused = group.remove(&kernel).unwrap_err().to_string();
        assert!(refused.contains("cannot remove control group"), "{refused}");
    }
}
