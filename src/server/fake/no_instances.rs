//! Instances of plugins of which there are none, for tests of queues alone.

use async_trait::async_trait;

use crate::plugin_instances::{ControllerMachine, PluginInstances};
use nomad_csi_model::{AllocId, PluginId};
use nomad_csi_ports::PluginConnection;

pub(crate) struct NoInstances;

#[async_trait]
impl PluginInstances for NoInstances {
    async fn connection(&self, _: &PluginId, _: &AllocId) -> Option<PluginConnection> {
        None
    }

    fn machine(&self, _: &PluginId, _: &AllocId) -> Option<ControllerMachine> {
        None
    }
}
