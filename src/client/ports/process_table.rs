//! Which processes run on this machine.

use serde::{Deserialize, Serialize};

/// Identifies a process beyond its ID: the kernel gives the ID of an ended process to a
/// new one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// The boot of the machine.
    pub boot_id: String,
    /// The PID namespace, in which the process ID has its meaning.
    pub pid_namespace: String,
    /// The start time in clock ticks since the boot.
    pub start_time: u64,
}

/// The known state of the process that has an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// No process has the ID.
    Absent,
    /// A process has it that started at this time, in clock ticks since the boot.
    Running(u64),
    /// A process may have it.
    Unknown,
}

/// The processes of this machine.
pub trait ProcessTable: Send + Sync {
    /// Returns the identity of this process; `None` if the system does not show it.
    fn own(&self) -> Option<ProcessIdentity>;
    /// Returns what is known of the process that has this ID now.
    fn state(&self, process_id: u32) -> ProcessState;
}
