//! The hidden command `task-process launch|shim|stage|user-namespace DIR`.
//!
//! `main` looks at it before anything else: a task waits for three starts of this program, so none of them may
//! build a runtime or a command line that it does not need.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use super::host_directories::hold_user_namespace;
use super::launch::launch_shim;
use super::messages::ShimMessage;
use super::role::{COMMAND, Role, report};
use super::run_files::RunFiles;
use super::stage::become_task;
use super::supervise::supervise_run;

/// Runs this process as a part of a task, if its arguments say so. Returns the exit code then, and `None` for every
/// other command line. Must be called while the process has one thread.
pub fn run_task_process(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    if arguments.next()? != COMMAND {
        return None;
    }
    let role = arguments.next().as_ref().and_then(Role::parse);
    let directory = arguments.next();
    let (Some(role), Some(directory), None) = (role, directory, arguments.next()) else {
        report(&io::Error::other("only the agent starts this command"));
        return Some(ExitCode::FAILURE);
    };
    let run = RunFiles::new(Path::new(&directory));
    let done = match role {
        Role::Launch => launch_shim(&run).inspect_err(say),
        Role::Shim => supervise_run(&run).inspect_err(say),
        Role::Stage => become_task(&run),
        Role::UserNamespace => hold_user_namespace(),
    };
    if let Err(error) = done {
        report(&error);
        return Some(ExitCode::FAILURE);
    }
    Some(ExitCode::SUCCESS)
}

/// Tells the agent why there is no task.
fn say(error: &io::Error) {
    ShimMessage::Error(error.to_string()).send();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit_of(arguments: &[&str]) -> Option<ExitCode> {
        run_task_process(arguments.iter().map(OsString::from))
    }

    #[test]
    fn other_command_lines_are_not_taken() {
        assert_eq!(exit_of(&[]), None);
        assert_eq!(exit_of(&["nomad-csi"]), None);
        assert_eq!(exit_of(&["nomad-csi", "plan", "task-process"]), None);
    }

    #[test]
    fn incomplete_command_lines_are_refused() {
        for arguments in [
            &["nomad-csi", "task-process"] as &[_],
            &["nomad-csi", "task-process", "launch"],
            &["nomad-csi", "task-process", "other", "/run"],
            &["nomad-csi", "task-process", "stage", "/run", "more"],
        ] {
            assert_eq!(exit_of(arguments), Some(ExitCode::FAILURE), "{arguments:?}");
        }
    }
}
