//! The roles of this program in the start of a task, and how one starts the next.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::run_files::RunFiles;

/// The name of the command.
pub(super) const COMMAND: &str = "task-process";
/// This program, also after an upgrade replaced its file.
pub(super) const OWN_PROGRAM: &str = "/proc/self/exe";
/// The only variable of these processes. A thread of the allocator would keep `launch` from entering a user
/// namespace, for which the kernel requires one thread.
pub(super) const ENVIRONMENT: (&str, &str) = ("_RJEM_MALLOC_CONF", "background_thread:false");

/// The part of a process in the start of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Launch,
    Shim,
    Stage,
    UserNamespace,
}

impl Role {
    /// Returns the name on the command line.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Shim => "shim",
            Self::Stage => "stage",
            Self::UserNamespace => "user-namespace",
        }
    }

    /// Returns the role with this name.
    pub(super) fn parse(word: &OsString) -> Option<Self> {
        let all = [Self::Launch, Self::Shim, Self::Stage, Self::UserNamespace];
        all.into_iter().find(|role| word == role.as_str())
    }

    /// Returns the command that starts this program in this role.
    pub(super) fn command(self, run: &RunFiles) -> Command {
        let mut command = Command::new(OWN_PROGRAM);
        command
            .arg0("nomad-csi")
            .args([COMMAND, self.as_str()])
            .arg(run.directory())
            .env_clear()
            .env(ENVIRONMENT.0, ENVIRONMENT.1);
        command
    }
}

/// Writes an error to standard error, which is `shim.log` for a shim.
pub(super) fn report(error: &io::Error) {
    let written = writeln!(io::stderr(), "{COMMAND}: {error}");
    let _is_closed = written.is_err();
}
