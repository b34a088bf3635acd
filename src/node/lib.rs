//! Owns the client half of the agent: allocations and their tasks ([`driver`]), plugins, and the mounts of volumes ([`mounts`]).
//!
//! A [`Supervisor`] keeps the task of one plugin running. It registers the plugin's connection in the
//! [`Registry`], where the server half finds it, and reports the plugin's health to
//! [`nomad_csi_ports::PluginObserver`]; a [`PluginHost`] does so for plugins that are tasks of jobs.
//! [`VolumeManager`] and [`LocalControllerHost`] carry out the steps of
//! claims that the server decides, one at a time for a volume ([`VolumeCallLocks`]). Processes, sockets, mounts
//! and gRPC are behind ports.

mod alloc_access;
mod alloc_directory;
mod alloc_runner;
mod controller_host;
pub mod driver;
#[cfg(test)]
mod fake_host;
#[cfg(test)]
mod fakes;
mod fingerprint;
mod host_mounts;
mod host_volume_mounts;
mod interpolation;
pub mod mounts;
mod plugin_tasks;
mod process_run;
mod published_source;
mod registry;
mod serialized_controller;
mod source_comparison;
mod supervisor;
mod task_driver;
mod task_identity;
mod task_logs;
mod task_mounts;
mod task_program;
mod task_record;
mod task_restarts;
mod task_run;
mod volume_call_lock;
mod volume_call_locks;
mod volume_files;
mod volume_manager;
mod volume_steps;

pub use alloc_access::NodeAllocAccess;
pub use alloc_runner::{AllocRunnerDeps, AllocRunners, interrupt_alloc};
pub use controller_host::LocalControllerHost;
pub use plugin_tasks::{PluginHost, PluginHostDeps};
pub use process_run::ProcessRun;
pub use registry::{Registry, RunningInstance};
pub use supervisor::{PluginTask, Supervisor, SupervisorDeps, TaskStatus, wait_until_healthy};
pub use task_driver::{DriverError, StoppedProcess, Task, TaskCommand, TaskDriver};
pub use task_logs::NodeTaskLogs;
pub use task_restarts::TaskRestarts;
pub use task_run::{
    DriverConfig, LimitReached, LimitsReached, LogFile, LogLimits, LogSlice, MockScript, RunDriver,
    RunEnd, RunError, RunRequest, RunStart, RunStatus, TaskMount, TaskProgram, TaskUser,
};
pub use volume_call_lock::{CallLockRefusal, VolumeCallLock};
pub use volume_call_locks::VolumeCallLocks;
pub use volume_manager::{MountDirectories, VolumeManager};
