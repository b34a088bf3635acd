//! The stage: enters the control group of the task, prepares its root and rights, and becomes the task.
//!
//! Its standard input is a socket to the shim. It reports its process first. The socket closes when the program of
//! the task is executed; before that, the reason of a failure goes through it.

use std::convert::Infallible;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use rustix::fs::Mode;

use super::super::limits::HostGroups;
use super::super::process_id::ProcessId;
use super::action_error::about;
use super::privileges::{drop_privileges, join_session_keyring};
use super::root::{enter_new_root, hidden_from};
use super::run_files::RunFiles;
use super::run_spec::{RunSpec, TaskRoot};
use super::seccomp::restrict_system_calls;
use super::stage_report::StageReport;

/// The permissions that new files of a task do not have, unless it says otherwise.
const UMASK: u32 = 0o022;

/// Becomes the task. Returns only with an error, which is reported to the shim as well.
///
/// # Errors
/// The reason why the task cannot be started.
pub(super) fn become_task(run: &RunFiles) -> io::Result<()> {
    // The copy is closed by `exec`, which replaces the original by /dev/null.
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let process = ProcessId::own()?;
    socket.write_all(StageReport::first_line(&process)?.as_bytes())?;
    let Err(error) = prepare_and_execute(run, &socket);
    socket.write_all(StageReport::reason(&error).as_bytes())?;
    Err(error)
}

fn prepare_and_execute(run: &RunFiles, mut socket: &UnixStream) -> io::Result<Infallible> {
    let spec = run.read_spec()?;
    if let Some(group) = &spec.control_group {
        group.enter(&HostGroups)?;
    }
    // The shim's preference is not for the task. A user namespace may forbid it, and needs no change.
    let _was_reset = std::fs::write("/proc/self/oom_score_adj", "0").is_ok();
    rustix::process::setsid()?;
    rustix::process::umask(Mode::from_raw_mode(UMASK));
    match spec.root {
        TaskRoot::Host => {}
        TaskRoot::Own => {
            join_session_keyring()?;
            enter_new_root(run, &spec)?;
            drop_privileges()?;
        }
        TaskRoot::OwnPrivileged => enter_new_root(run, &spec)?,
    }
    if let Some(directory) = &spec.working_directory {
        rustix::process::chdir(directory)
            .map_err(|error| about(&format!("enter `{}`", directory.display()), &error.into()))?;
    }
    socket.write_all(StageReport::PREPARED.as_bytes())?;
    if spec.root == TaskRoot::Own {
        restrict_system_calls()
            .map_err(|error| about("restrict the system calls of the task", &error))?;
    }
    execute(&spec)
}

fn execute(spec: &RunSpec) -> io::Result<Infallible> {
    let mut command = Command::new(&spec.command);
    command.args(&spec.arguments).env_clear().envs(&spec.environment).stdin(Stdio::null());
    if let Some(user) = spec.user {
        // This drops the supplementary groups as well.
        command.gid(user.gid).uid(user.uid);
    }
    let error = command.exec();
    let action = format!("execute `{}`", spec.command.display());
    let error = about(&action, &error);
    let is_name = !spec.command.as_os_str().as_encoded_bytes().contains(&b'/');
    let not_in_path = is_name.then(|| {
        "the `command` is in no directory of the task's `PATH`, which is not that of the agent; write its whole path"
            .to_owned()
    });
    Err(match not_in_path.or_else(|| hidden_from(spec)) {
        Some(why) if error.kind() == io::ErrorKind::NotFound => {
            io::Error::new(error.kind(), format!("{error}; {why}"))
        }
        Some(_) | None => error,
    })
}
