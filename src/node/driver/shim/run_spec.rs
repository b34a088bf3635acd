//! `spec.json`: what the shim and the stage have to know about a run.
//!
//! [`RunSpec::of`] decides whether a request can be carried out at all. What a driver or an agent without root
//! cannot do is refused before anything is started, with what to change.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::super::limits::ControlGroup;
use crate::task_run::{DriverConfig, LogLimits, RunRequest, TaskMount, TaskProgram, TaskUser};
use nomad_csi_model::{PropagationMode, shared_mount_around};

/// Which file system the task sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum TaskRoot {
    /// The host's.
    Host,
    /// One of its own, with the host's programs, read-only. The task has few capabilities.
    Own,
    /// One of its own, with the host's programs and devices. The task has all capabilities.
    OwnPrivileged,
}

/// The content of `spec.json`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunSpec {
    pub(super) root: TaskRoot,
    pub(super) command: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) working_directory: Option<PathBuf>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) user: Option<TaskUser>,
    /// In the order in which they are made: a mount comes after the one that contains its destination.
    pub(super) mounts: Vec<TaskMount>,
    pub(super) hidden: Vec<PathBuf>,
    pub(super) kill_signal: i32,
    pub(super) kill_timeout_ms: u64,
    pub(super) logs: LogLimits,
    /// The specification of an earlier version has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) earlier_runs: Vec<PathBuf>,
    /// The control group that limits the task; `None` if the agent cannot limit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) control_group: Option<ControlGroup>,
    /// True if the PID namespace limits the number of processes, because no control group does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) limits_process_numbers: bool,
}

/// The rights of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AgentRights {
    /// It runs as root.
    Root,
    /// It runs as another user.
    User {
        /// The user.
        uid: u32,
    },
}

impl AgentRights {
    /// Returns the rights of this process.
    pub(super) fn current() -> Self {
        let uid = rustix::process::geteuid();
        if uid.is_root() { Self::Root } else { Self::User { uid: uid.as_raw() } }
    }
}

impl RunSpec {
    /// Returns the specification of a request.
    ///
    /// # Errors
    /// Why the driver, or the agent with these rights, cannot do what the request requires.
    pub(super) fn of(request: RunRequest, rights: AgentRights) -> Result<Self, String> {
        let (root, program) = match request.config {
            DriverConfig::Exec(program) => (TaskRoot::Own, program),
            DriverConfig::ExecPlugin(program) => (TaskRoot::OwnPrivileged, program),
            DriverConfig::RawExec(program) => (TaskRoot::Host, program),
            DriverConfig::Mock(_) => return Err("it runs no processes".to_owned()),
        };
        check_program(&program)?;
        let mounts = check_mounts(root, request.mounts)?;
        if Signal::from_named_raw(request.kill_signal).is_none() {
            return Err(format!("there is no signal {}", request.kill_signal));
        }
        Ok(Self {
            root,
            command: program.command,
            arguments: program.arguments,
            working_directory: program.working_directory,
            environment: request.environment,
            user: check_rights(root, request.user, rights)?,
            mounts,
            hidden: request.hidden,
            kill_signal: request.kill_signal,
            kill_timeout_ms: u64::try_from(request.kill_timeout.as_millis()).unwrap_or(u64::MAX),
            logs: request.logs,
            earlier_runs: request.earlier_runs,
            control_group: None,
            limits_process_numbers: false,
        })
    }

    /// Returns the specification with the limits of the run. A task of `raw_exec` has none.
    pub(super) fn limited(self, group: Option<ControlGroup>, has_own_numbers: bool) -> Self {
        let control_group = match self.root {
            TaskRoot::Own | TaskRoot::OwnPrivileged => group,
            TaskRoot::Host => None,
        };
        let has_limit = |group: &ControlGroup| group.limits_processes();
        Self {
            limits_process_numbers: has_own_numbers
                && self.root != TaskRoot::Host
                && !control_group.as_ref().is_some_and(has_limit),
            control_group,
            ..self
        }
    }

    /// Returns the signal that asks the task to stop.
    pub(super) fn kill_signal(&self) -> Signal {
        Signal::from_named_raw(self.kill_signal).unwrap_or(Signal::TERM)
    }

    /// Returns the time between that signal and SIGKILL.
    pub(super) fn kill_timeout(&self) -> Duration {
        Duration::from_millis(self.kill_timeout_ms)
    }
}

fn check_program(program: &TaskProgram) -> Result<(), String> {
    if program.command == Path::new("") {
        return Err("it has no command".to_owned());
    }
    match &program.working_directory {
        Some(directory) if !directory.is_absolute() => {
            Err(format!("its working directory `{}` is not an absolute path", directory.display()))
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns the user to switch to.
fn check_rights(
    root: TaskRoot,
    user: Option<TaskUser>,
    rights: AgentRights,
) -> Result<Option<TaskUser>, String> {
    let AgentRights::User { uid } = rights else {
        return Ok(user);
    };
    if root == TaskRoot::OwnPrivileged {
        return Err(format!(
            "a plugin mounts volumes for other tasks, which only root can do, and the agent runs as user {uid}; \
             run the agent as root"
        ));
    }
    match user {
        Some(other) if other.uid != uid => Err(format!(
            "the agent runs as user {uid} and cannot run a task as user {}; run the agent as root, or remove \
             the task's `user`",
            other.uid
        )),
        Some(_) | None => Ok(None),
    }
}

/// Returns the mounts in the order in which they are made.
fn check_mounts(root: TaskRoot, mut mounts: Vec<TaskMount>) -> Result<Vec<TaskMount>, String> {
    if let (TaskRoot::Host, Some(mount)) = (root, mounts.first()) {
        return Err(format!(
            "`raw_exec` cannot mount a volume at `{}`, because its tasks see the file system of the host; \
             use driver `exec`",
            mount.destination.display()
        ));
    }
    for mount in &mounts {
        check_destination(&mount.destination)?;
        if !mount.source.is_absolute() {
            let source = mount.source.display();
            return Err(format!("the mount source `{source}` is not an absolute path"));
        }
        if root == TaskRoot::Own && mount.propagation == PropagationMode::Bidirectional {
            return Err(format!(
                "the mount at `{}` is bidirectional, and only a plugin may mount onto the host",
                mount.destination.display()
            ));
        }
    }
    for mount in &mounts {
        let others = mounts.iter().map(|mount| &*mount.destination);
        if let Some(around) = shared_mount_around(&mount.destination, others) {
            let (shown, around) = (mount.destination.display(), around.display());
            return Err(format!(
                "the mount at `{shown}` is inside of `{around}`, which other tasks can change: one that removes its \
                 directory there unmounts it; choose a destination outside of `{around}`, such as `/data`"
            ));
        }
    }
    mounts.sort_by(|one, other| one.destination.cmp(&other.destination));
    let mut pairs = mounts.iter().zip(mounts.iter().skip(1));
    match pairs.find(|(one, other)| one.destination == other.destination) {
        Some((twice, _)) => {
            Err(format!("two mounts have the destination `{}`", twice.destination.display()))
        }
        None => Ok(mounts),
    }
}

/// The directories that the kernel fills.
const KERNEL: [&str; 2] = ["/proc", "/sys"];

fn check_destination(destination: &Path) -> Result<(), String> {
    let shown = destination.display();
    let is_plain = destination
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !destination.is_absolute() || !is_plain {
        return Err(format!("the destination `{shown}` is not an absolute path without `..`"));
    }
    if destination == Path::new("/") {
        return Err("a volume cannot replace `/`; choose a directory".to_owned());
    }
    match KERNEL.iter().find(|kernel| destination.starts_with(kernel)) {
        Some(kernel) => Err(format!(
            "the destination `{shown}` is in `{kernel}`, which the kernel fills; choose another directory"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
