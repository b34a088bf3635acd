//! What this agent can limit of its tasks, decided when it starts. Blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::control_group::ControlGroup;
use super::controller::Controller;
use super::group_files::{GroupFiles, HostGroups};
use super::plan::{Unusable, delegated_group, own_group};
use super::process_numbers::process_numbers_are_own;
use nomad_csi_model::{AllocId, Resources, hex, segment};

/// Where control groups of version 2 are mounted. Beside those of version 1 they have a directory of their own.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// The group that contains those of tasks.
const TASKS: &str = "nomad-csi-tasks";
/// The start of the name of a task's group, so that it is none of the kernel's files and is known to be ours.
const PREFIX: &str = "task-";

/// The control groups in which this agent runs tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TaskGroups {
    directory: PathBuf,
    controllers: BTreeSet<Controller>,
}

/// Something of tasks that this agent does not limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotEnforced {
    /// The part of a sentence that names what is not limited.
    pub what: String,
    /// The reason.
    pub reason: String,
}

/// The limits that this agent can set for its tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskLimits {
    groups: Option<TaskGroups>,
    not_enforced: Vec<NotEnforced>,
}

/// The facts about this process and its machine.
struct Surroundings<'a> {
    mounts: &'a [PathBuf],
    /// The content of `/proc/self/cgroup`.
    membership: &'a str,
    pid: u32,
    /// True if a PID namespace can limit the number of its processes.
    limits_process_numbers: bool,
}

impl TaskLimits {
    /// Finds out what can be limited, enables the controllers for it, and removes the empty groups that earlier agents
    /// left. Blocks.
    pub fn prepare() -> Self {
        let mounts = MOUNTS.map(PathBuf::from);
        let membership = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let surroundings = Surroundings {
            mounts: &mounts,
            membership: &membership,
            pid: std::process::id(),
            limits_process_numbers: process_numbers_are_own(),
        };
        Self::prepare_in(&HostGroups, &surroundings)
    }

    /// Returns what is not limited, and why.
    pub fn not_enforced(&self) -> &[NotEnforced] {
        &self.not_enforced
    }

    /// Returns the directory of the groups of tasks, if there is one.
    pub fn directory(&self) -> Option<&Path> {
        Some(&self.groups.as_ref()?.directory)
    }

    /// Returns the control group of a run, if tasks have groups.
    pub(in crate::driver) fn group_of(
        &self,
        run: &Path,
        alloc: &AllocId,
        task: &str,
        resources: &Resources,
    ) -> Option<ControlGroup> {
        let groups = self.groups.as_ref()?;
        let name = name_of(run, alloc, task);
        let TaskGroups { directory, controllers } = groups;
        Some(ControlGroup::new(directory, &name, resources, controllers))
    }

    fn prepare_in(files: &dyn GroupFiles, surroundings: &Surroundings<'_>) -> Self {
        let mut missing = BTreeMap::new();
        let groups = match find_delegated(files, surroundings) {
            Ok(delegated) => enable(files, &delegated, &mut missing),
            Err(unusable) => {
                let reason = unusable.to_string();
                missing.extend(Controller::ALL.map(|it| (it, reason.clone())));
                None
            }
        };
        if surroundings.limits_process_numbers {
            missing.remove(&Controller::Pids);
        }
        if let Some(groups) = &groups {
            remove_empty(files, &groups.directory);
        }
        Self { groups, not_enforced: by_reason(missing) }
    }
}

/// Returns the directory of the group in which the groups of tasks may be.
fn find_delegated(
    files: &dyn GroupFiles,
    surroundings: &Surroundings<'_>,
) -> Result<PathBuf, Unusable> {
    let mut mounts = surroundings.mounts.iter();
    let is_mounted = |mount: &&PathBuf| files.read(&mount.join("cgroup.controllers")).is_ok();
    let mount = mounts.find(is_mounted).ok_or(Unusable::NotMounted)?;
    let own = own_group(surroundings.membership).ok_or(Unusable::NotMounted)?;
    let below = |group: &Path| match group.strip_prefix("/") {
        Ok(relative) if relative == Path::new("") => mount.clone(),
        Ok(relative) => mount.join(relative),
        Err(_) => mount.join(group),
    };
    // Only the outermost group of the machine has no type.
    let is_machines = match files.read(&below(own).join("cgroup.type")) {
        Ok(_) => false,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    let delegated = delegated_group(own, is_machines)?;
    let members = files.read(&below(own).join("cgroup.procs"));
    let own_pid = surroundings.pid.to_string();
    match members {
        Ok(members) if members.lines().any(|pid| pid == own_pid) => Ok(below(delegated)),
        Ok(_) | Err(_) => Err(Unusable::NotVisible(below(own))),
    }
}

/// Enables the controllers below the delegated group and in the group of tasks. What is missing of them has its reason.
fn enable(
    files: &dyn GroupFiles,
    delegated: &Path,
    missing: &mut BTreeMap<Controller, String>,
) -> Option<TaskGroups> {
    let directory = delegated.join(TASKS);
    let mut controllers = BTreeSet::from(Controller::ALL);
    for (group, is_made) in [(delegated, true), (&*directory, false)] {
        let refused = match is_made {
            true => None,
            false => match files.create(group) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Some(error),
                Ok(()) | Err(_) => None,
            },
        };
        controllers.retain(|controller| {
            let enabled = match &refused {
                Some(error) => Err(format!("cannot make `{}`: {error}", group.display())),
                None => enable_one(files, group, *controller),
            };
            match enabled {
                Ok(()) => true,
                Err(reason) => {
                    missing.insert(*controller, reason);
                    false
                }
            }
        });
        if controllers.is_empty() {
            return None;
        }
    }
    Some(TaskGroups { directory, controllers })
}

fn enable_one(files: &dyn GroupFiles, group: &Path, controller: Controller) -> Result<(), String> {
    let shown = group.display();
    let list = |name: &str| {
        let text = files.read(&group.join(name));
        let text = text.map_err(|error| format!("cannot read `{shown}/{name}`: {error}"))?;
        Ok::<_, String>(Controller::in_list(&text))
    };
    let name = controller.as_str();
    if list("cgroup.subtree_control")?.contains(&controller) {
        return Ok(());
    }
    if !list("cgroup.controllers")?.contains(&controller) {
        return Err(format!("the control group `{shown}` does not have the controllers for that"));
    }
    let enabled = files.write(&group.join("cgroup.subtree_control"), &format!("+{name}"));
    enabled.map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => format!(
            "processes are in the control group `{shown}`, and not in groups below it; move them, such as with \
             `DelegateSubgroup=agent` in the unit of the agent"
        ),
        _ => format!("cannot write `+{name}` to `{shown}/cgroup.subtree_control`: {error}"),
    })
}

/// Removes the groups of runs that have no process. A group that a run is about to enter is made again by it.
fn remove_empty(files: &dyn GroupFiles, directory: &Path) {
    let names = match files.groups(directory) {
        Ok(names) => names,
        Err(error) => {
            tracing::warn!(directory = %directory.display(), %error, "cannot look for control groups of earlier tasks");
            return;
        }
    };
    for name in names.iter().filter(|name| name.starts_with(PREFIX)) {
        match files.remove(&directory.join(name)) {
            Ok(()) => {
                tracing::info!(group = name, "removed the control group of a task that has ended");
            }
            // Its task runs.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(group = name, %error, "cannot remove the control group of a task that has ended");
            }
        }
    }
}

/// One entry for each reason.
fn by_reason(missing: BTreeMap<Controller, String>) -> Vec<NotEnforced> {
    let mut found: Vec<NotEnforced> = vec![];
    for (controller, reason) in missing {
        let what = controller.limited();
        match found.iter_mut().find(|it| it.reason == reason) {
            Some(entry) => {
                entry.what.push_str(", ");
                entry.what.push_str(what);
            }
            None => found.push(NotEnforced { what: what.to_owned(), reason }),
        }
    }
    found
}

/// The name of the group of a run, for which IDs and names are data. Two runs never share one.
fn name_of(run: &Path, alloc: &AllocId, task: &str) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let digest = Sha256::digest(run.as_os_str().as_bytes());
    let unique: String = hex(&digest).take(16).collect();
    let named = segment(&format!("{alloc}.{task}"));
    format!("{PREFIX}{named}.{unique}")
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::super::fake_kernel::FakeKernel;
    use super::*;

    const PID: u32 = 4711;
    const UNIT: &str = "system.slice/nomad-csi.service";

    /// A machine where systemd started the agent in a group below that of its unit.
    fn machine(controllers: &str) -> FakeKernel {
        let kernel = FakeKernel::new(controllers);
        let mut group = kernel.mount();
        for name in UNIT.split('/').chain(["agent"]) {
            if !controllers.is_empty() {
                let words: Vec<_> = controllers.split(' ').map(|it| format!("+{it}")).collect();
                if name != "agent" {
                    kernel.enable(&group, &words.join(" "));
                }
            }
            group.push(name);
            kernel.create(&group).unwrap();
        }
        kernel.write(&group.join("cgroup.procs"), &PID.to_string()).unwrap();
        kernel
    }

    fn prepare(kernel: &FakeKernel, membership: &str) -> TaskLimits {
        let mounts = ["/nowhere".into(), kernel.mount()];
        let surroundings =
            Surroundings { mounts: &mounts, membership, pid: PID, limits_process_numbers: false };
        TaskLimits::prepare_in(kernel, &surroundings)
    }

    fn prepare_in_unit(kernel: &FakeKernel) -> TaskLimits {
        prepare(kernel, &format!("0::/{UNIT}/agent\n"))
    }

    fn controllers(limits: &TaskLimits) -> Vec<&'static str> {
        let groups = limits.groups.iter();
        groups.flat_map(|groups| groups.controllers.iter().map(|it| it.as_str())).collect()
    }

    fn shown(limits: &TaskLimits, kernel: &FakeKernel) -> Vec<String> {
        let mount = kernel.mount().display().to_string();
        let lines = limits.not_enforced.iter();
        lines.map(|it| format!("{}: {}", it.what, it.reason.replace(&mount, ""))).collect()
    }

    fn group_of(limits: &TaskLimits, run: &str) -> ControlGroup {
        let alloc = AllocId::new("alloc");
        let resources = Resources::default();
        limits.group_of(Path::new(run), &alloc, "web", &resources).unwrap()
    }

    #[test]
    fn a_delegated_group_limits_everything() {
        let kernel = machine("cpu memory pids");
        let limits = prepare_in_unit(&kernel);
        assert_eq!(shown(&limits, &kernel), [] as [&str; 0]);
        let tasks = kernel.mount().join(UNIT).join(TASKS);
        assert_eq!(limits.directory(), Some(&*tasks));
        group_of(&limits, "/run/1").enter(&kernel).unwrap();
        assert_eq!(kernel.groups(&tasks).unwrap().len(), 1);
        // The next agent finds everything as it is.
        assert_eq!(prepare_in_unit(&kernel), limits);
        assert_eq!(kernel.groups(&tasks).unwrap().len(), 1);
    }

    #[test]
    fn the_outermost_group_of_a_machine_may_have_processes_beside_groups() {
        let kernel = FakeKernel::new("cpuset cpu io memory pids rdma");
        let procs = kernel.mount().join("cgroup.procs");
        std::fs::write(procs, format!("1\n{PID}\n")).unwrap();
        let limits = prepare(&kernel, "0::/\n");
        assert_eq!(controllers(&limits), ["cpu", "memory", "pids"]);
        assert_eq!(limits.directory(), Some(&*kernel.mount().join(TASKS)));
    }

    #[test]
    fn a_controller_that_is_missing_takes_only_its_limit() {
        for (given, left, reason) in [
            (
                "cpu pids",
                ["cpu", "pids"],
                "`memory` and `memory_max`: the control group `/system.slice/nomad-csi.service` does not have the controllers for that",
            ),
            (
                "memory pids",
                ["memory", "pids"],
                "`cpu` and `cores`: the control group `/system.slice/nomad-csi.service` does not have the controllers for that",
            ),
            (
                "cpu memory",
                ["cpu", "memory"],
                "the number of processes: the control group `/system.slice/nomad-csi.service` does not have the controllers for that",
            ),
        ] {
            let kernel = machine(given);
            let limits = prepare_in_unit(&kernel);
            assert_eq!(controllers(&limits), left);
            assert_eq!(shown(&limits, &kernel), [reason]);
        }
        let kernel = machine("");
        let limits = prepare_in_unit(&kernel);
        assert_eq!(limits.groups, None);
        let all = "`cpu` and `cores`, `memory` and `memory_max`, the number of processes: the control group \
                   `/system.slice/nomad-csi.service` does not have the controllers for that";
        assert_eq!(shown(&limits, &kernel), [all]);
        assert_eq!(
            limits.group_of(Path::new("/r"), &AllocId::new("a"), "t", &Resources::default()),
            None
        );
    }

    /// Nothing that the kernel refuses stops the agent.
    #[test]
    fn every_refusal_is_a_limit_less_and_a_reason() {
        let busy = "processes are in the control group `/system.slice/nomad-csi.service`, and not in groups below it; move \
                    them, such as with `DelegateSubgroup=agent` in the unit of the agent";
        for (file, error, reason) in [
            ("cgroup.subtree_control", Errno::BUSY, busy),
            ("cgroup.subtree_control", Errno::ACCESS, "Permission denied"),
            ("cgroup.subtree_control", Errno::ROFS, "Read-only file system"),
            ("cgroup.subtree_control", Errno::NOENT, "No such file"),
            (
                TASKS,
                Errno::ACCESS,
                "cannot make `/system.slice/nomad-csi.service/nomad-csi-tasks`: Permission denied",
            ),
            (TASKS, Errno::AGAIN, "cannot make"),
        ] {
            let kernel = machine("cpu memory pids");
            kernel.refuse(file, error, u32::MAX);
            let limits = prepare_in_unit(&kernel);
            assert_eq!(limits.groups, None);
            for line in shown(&limits, &kernel) {
                assert!(line.contains(reason), "{line}");
            }
            assert!(!limits.not_enforced.is_empty());
        }
        // One refusal is about one controller.
        let kernel = machine("cpu memory pids");
        kernel.refuse("cgroup.subtree_control", Errno::ACCESS, 1);
        assert_eq!(controllers(&prepare_in_unit(&kernel)), ["memory", "pids"]);
    }

    #[test]
    fn processes_beside_the_groups_are_found() {
        let kernel = machine("cpu memory pids");
        let procs = kernel.mount().join(UNIT).join("cgroup.procs");
        std::fs::write(procs, "17\n").unwrap();
        let limits = prepare_in_unit(&kernel);
        assert_eq!(limits.groups, None);
        assert!(shown(&limits, &kernel)[0].contains("processes are in the control group"));
    }

    #[test]
    fn a_machine_without_version_2_has_a_reason() {
        let kernel = FakeKernel::new("");
        for (membership, expected) in [
            ("", Unusable::NotMounted),
            ("12:pids:/\n", Unusable::NotMounted),
            ("0::/elsewhere/agent\n", Unusable::NotVisible(kernel.mount().join("elsewhere/agent"))),
            ("0::/../agent\n", Unusable::NotVisible("/../agent".into())),
            ("0::/a.service\n", Unusable::NotDelegated("/a.service".to_owned())),
        ] {
            let limits = prepare(&kernel, membership);
            let reason = expected.to_string();
            let all = "`cpu` and `cores`, `memory` and `memory_max`, the number of processes";
            let found: Vec<_> =
                limits.not_enforced.iter().map(|it| (&*it.what, &*it.reason)).collect();
            assert_eq!(found, [(all, &*reason)], "{membership:?}");
            assert_eq!(limits.groups, None);
        }
        // This machine has it nowhere.
        let surroundings = Surroundings {
            mounts: &["/nowhere".into()],
            membership: "0::/agent\n",
            pid: PID,
            limits_process_numbers: true,
        };
        let limits = TaskLimits::prepare_in(&kernel, &surroundings);
        assert_eq!(limits.not_enforced[0].what, "`cpu` and `cores`, `memory` and `memory_max`");
    }

    #[test]
    fn the_group_of_another_process_is_not_used() {
        let kernel = machine("cpu memory pids");
        let procs = kernel.mount().join(UNIT).join("agent/cgroup.procs");
        for others in ["", "1\n", "47110\n4\n711\n"] {
            std::fs::write(&procs, others).unwrap();
            assert_eq!(prepare_in_unit(&kernel).groups, None, "{others:?}");
        }
    }

    #[test]
    fn groups_that_an_earlier_agent_left_are_removed_if_they_are_empty_and_ours() {
        let kernel = machine("cpu memory pids");
        let limits = prepare_in_unit(&kernel);
        let tasks = kernel.mount().join(UNIT).join(TASKS);
        let running = group_of(&limits, "/run/1");
        running.enter(&kernel).unwrap();
        let with_process = kernel.groups(&tasks).unwrap();
        group_of(&limits, "/run/2").enter(&kernel).unwrap();
        for name in kernel.groups(&tasks).unwrap() {
            if !with_process.contains(&name) {
                kernel.leave(&tasks.join(name));
            }
        }
        kernel.create(&tasks.join("of-another")).unwrap();
        kernel.create(&tasks.join("task-refused")).unwrap();
        kernel.refuse("task-refused", Errno::ACCESS, u32::MAX);
        prepare_in_unit(&kernel);
        let mut expected = with_process;
        expected.extend(["of-another".to_owned(), "task-refused".to_owned()]);
        expected.sort();
        assert_eq!(kernel.groups(&tasks).unwrap(), expected);
    }

    #[test]
    fn the_name_of_a_group_is_one_name_of_a_file_whatever_the_task_is_called() {
        let mut names = BTreeSet::new();
        let long = "x".repeat(300);
        for alloc in ["a", "a.b", "../..", "memory", &long] {
            for task in ["t", "b.t", "../../x", "max\n0", "cgroup.procs", &long] {
                for number in [1, 2] {
                    let run = format!("/d/{alloc}/{task}/runs/{number}");
                    let name = name_of(Path::new(&run), &AllocId::new(alloc), task);
                    assert!(name.starts_with(PREFIX) && name.len() < 255, "{name}");
                    assert!(!name.contains(['/', '\n']), "{name}");
                    assert!(names.insert(name));
                }
            }
        }
    }
}
