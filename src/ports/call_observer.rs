//! The receiver of what happens in the lines of plugins, for metrics.

use std::time::Duration;

use nomad_csi_model::PluginId;

/// The calls of one class in the queue of one plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLoad {
    /// Calls that were sent and have no answer.
    pub running: usize,
    /// Calls that wait to be sent.
    pub waiting: usize,
}

/// Receives what happens in the lines of plugins. Returns immediately.
pub trait CallObserver: Send + Sync {
    /// The load of a class changed.
    fn load(&self, plugin: &PluginId, class: &'static str, load: CallLoad);
    /// A call was admitted after this time.
    fn admitted(&self, plugin: &PluginId, class: &'static str, waited: Duration);
    /// A call was refused, because too many wait.
    fn refused(&self, plugin: &PluginId, class: &'static str);
}
