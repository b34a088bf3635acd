//! What the runners of allocations need.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::super::plugin_tasks::PluginHost;
use super::super::task_restarts::TaskRestarts;
use crate::task_run::RunDriver;
use nomad_csi_model::{HostVolume, Node};
use nomad_csi_ports::{Clock, ControlPlane, IdSource, Mounter};

/// The dependencies of the runners of allocations.
pub struct AllocRunnerDeps {
    /// The server.
    pub control: Arc<dyn ControlPlane>,
    /// The drivers by their names in jobs.
    pub drivers: BTreeMap<String, Arc<dyn RunDriver>>,
    /// The directories that jobs can mount by name.
    pub host_volumes: BTreeMap<String, HostVolume>,
    /// The time of events.
    pub clock: Arc<dyn Clock>,
    /// Jitter for pauses.
    pub ids: Arc<dyn IdSource>,
    /// True if tasks of `exec` may run as root.
    pub allows_root_tasks: bool,
    /// This node.
    pub node: Arc<Node>,
    /// Knows what is mounted below the directory of an allocation, which must not be removed then.
    pub mounter: Arc<dyn Mounter>,
    /// The requests to restart tasks.
    pub restarts: TaskRestarts,
    /// Supervises the plugins that tasks run.
    pub plugins: Arc<PluginHost>,
    /// The absolute path of the agent's data directory, which must be private.
    pub data_directory: PathBuf,
    /// Other directories of the agent, which tasks do not see either.
    pub hidden_directories: Vec<PathBuf>,
}
