//! A receiver of call loads that ignores them.

use std::time::Duration;

use nomad_csi_model::PluginId;
use nomad_csi_ports::{CallLoad, CallObserver};

/// Ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCallObserver;

impl CallObserver for NoCallObserver {
    fn load(&self, _: &PluginId, _: &'static str, _: CallLoad) {}
    fn admitted(&self, _: &PluginId, _: &'static str, _: Duration) {}
    fn refused(&self, _: &PluginId, _: &'static str) {}
}
