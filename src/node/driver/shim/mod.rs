//! Tasks that outlive the agent that started them.
//!
//! ```text
//! agent ──spawn──► launch ──spawn──► shim ──spawn──► stage ──exec──► task
//!                  new PID           PID 1 of that   own mount namespace
//!                  namespace, ends   namespace       and root, if needed
//! ```
//!
//! All are this program, as the command `task-process`. The kernel kills the task with all its descendants when the
//! shim dies, so "the shim is gone" means "the task is gone". The shim stays in the host's mount namespace and
//! records the end of the task after the last process and the last mount of the task are gone.
//!
//! The agent and the shim communicate by files in the directory of the run ([`run_files`]) and by signals. A task
//! keeps the shim of the version that started it, so the files are a protocol between versions.

mod action_error;
mod attach;
mod destination;
mod host_directories;
mod launch;
mod living;
mod log_file;
mod log_reader;
mod masked_paths;
mod messages;
mod pid_namespace;
mod privileges;
mod role;
mod root;
mod run_files;
mod run_spec;
mod run_state;
mod seccomp;
mod shim_driver;
mod stage;
mod stage_report;
mod supervise;
mod supervision;
mod system_calls;
mod task_process;

pub use privileges::may_create_namespaces;
pub use shim_driver::ShimDriver;
pub use task_process::run_task_process;
