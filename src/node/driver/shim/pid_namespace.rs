//! The PID namespace of a task, of which the shim is the first process.
//!
//! The shim kills a whole task with `kill(-1)`, which means "every process that I can see". Anywhere but as PID 1
//! of a namespace of its own that would kill the machine. So only [`OwnPidNamespace`] can send it, and there is one
//! only after both signs were seen: this process is PID 1, and `/proc` of the host gives it another number.

use std::io;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group};

use super::super::limits::limit_process_numbers;
use super::super::process_id::ProcessId;

/// The number of ended processes that are collected before other events are looked at. A task that forks without
/// end must not keep the shim from stopping it.
const AT_ONCE: usize = 64;

/// Proof that this process is PID 1 of a PID namespace that is not the host's.
#[derive(Debug)]
pub(super) struct OwnPidNamespace {
    process: ProcessId,
}

/// The result of collecting ended processes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reaped {
    /// How the awaited child ended, if it did.
    pub(super) child: Option<TaskExit>,
    /// The processes that are left.
    pub(super) rest: Remaining,
}

/// The processes that are left in the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remaining {
    /// Only the shim.
    None,
    /// Running ones; the kernel reports when one ends.
    Running,
    /// More ended ones, to be collected at once.
    Ended,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaskExit {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
}

impl OwnPidNamespace {
    /// Returns the proof.
    ///
    /// # Errors
    /// If this process is not PID 1 of a PID namespace of its own.
    pub(super) fn of_this_process() -> io::Result<Self> {
        let process = ProcessId::own()?;
        if is_own_namespace(rustix::process::getpid(), process.pid) {
            return Ok(Self { process });
        }
        Err(io::Error::other("this command supervises a task and is started by the agent only"))
    }

    /// Returns this process, with its number on the host.
    pub(super) fn process(&self) -> &ProcessId {
        &self.process
    }

    /// Limits the number of processes in the namespace.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(super) fn limit_process_numbers(&self) -> io::Result<()> {
        limit_process_numbers()
    }

    /// Sends a signal to a child that has not been collected, so that its number cannot belong to another process.
    pub(super) fn signal_child(&self, child: Pid, signal: Signal) {
        // The only possible error is that the child has ended.
        let _has_ended = kill_process(child, signal).is_err();
    }

    /// Sends SIGKILL to every process of the namespace except this one. SIGKILL to the task alone takes seconds
    /// while it forks.
    pub(super) fn kill_all(&self) {
        // The group of PID 1 is `kill(-1)`. The only possible error is that no process is left.
        let _was_empty = kill_process_group(Pid::INIT, Signal::KILL).is_err();
    }

    /// Collects ended processes, a bounded number of them.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub(super) fn reap(&self, awaited: Pid) -> io::Result<Reaped> {
        let mut child = None;
        for _ in 0..AT_ONCE {
            let rest = match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if pid == awaited {
                        child = Some(TaskExit::of(status));
                    }
                    continue;
                }
                Ok(None) => Remaining::Running,
                Err(rustix::io::Errno::CHILD) => Remaining::None,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            return Ok(Reaped { child, rest });
        }
        let rest = Remaining::Ended;
        Ok(Reaped { child, rest })
    }
}

impl TaskExit {
    fn of(status: WaitStatus) -> Self {
        Self { code: status.exit_status(), signal: status.terminating_signal() }
    }
}

/// Returns whether a process is PID 1 of a namespace that is not the host's: it sees itself as PID 1, and the host does not.
fn is_own_namespace(seen_by_itself: Pid, seen_by_host: i32) -> bool {
    seen_by_itself.is_init() && seen_by_host != Pid::INIT.as_raw_nonzero().get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_process_of_another_namespace_may_kill_all() {
        let other = Pid::from_raw(4711).unwrap();
        assert!(is_own_namespace(Pid::INIT, 4711));
        assert!(!is_own_namespace(other, 4711), "an ordinary process");
        assert!(!is_own_namespace(Pid::INIT, 1), "init of the machine");
        assert!(!is_own_namespace(other, 1));
    }

    #[test]
    fn this_test_may_not_kill_all() {
        let refused = OwnPidNamespace::of_this_process().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "this command supervises a task and is started by the agent only"
        );
    }
}
