//! Records what nodes report about their plugins.

use std::sync::Arc;

use async_trait::async_trait;

use super::cell::{CommitError, Expected, StateCell};
use nomad_csi_claims::state::{Event, EventKind};
use nomad_csi_model::{AllocId, NodeId, PluginId, PluginInstance};
use nomad_csi_ports::{Clock, PluginObserver, ReportRefused};

/// Records the reports of nodes in the state.
pub struct RecordingObserver {
    cell: StateCell,
    clock: Arc<dyn Clock>,
}

impl RecordingObserver {
    /// Records in `cell`, with the time of `clock`.
    pub fn new(cell: StateCell, clock: Arc<dyn Clock>) -> Self {
        Self { cell, clock }
    }

    async fn record(&self, kind: EventKind) -> Result<(), ReportRefused> {
        let event = Event::new(self.clock.now(), kind);
        let recorded = self.cell.commit(Expected::Any, event).await;
        recorded.map(drop).map_err(|error| refused(&error))
    }
}

fn refused(error: &CommitError) -> ReportRefused {
    ReportRefused { reason: error.detail() }
}

#[async_trait]
impl PluginObserver for RecordingObserver {
    async fn changed(
        &self,
        plugin: &PluginId,
        node: &NodeId,
        instance: PluginInstance,
    ) -> Result<(), ReportRefused> {
        self.record(EventKind::PluginAllocObserved {
            plugin: plugin.clone(),
            node: node.clone(),
            instance: Box::new(instance),
        })
        .await
    }

    async fn gone(&self, plugin: &PluginId, alloc: &AllocId) -> Result<(), ReportRefused> {
        self.record(EventKind::PluginAllocGone { plugin: plugin.clone(), alloc: alloc.clone() })
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeAgent;
    use nomad_csi_claims::state::plugin;
    use nomad_csi_testing::PluginSettings;

    #[tokio::test]
    async fn reports_are_recorded_until_the_cell_stops() {
        let agent = FakeAgent::start(PluginSettings::default()).await.unwrap();
        let clock = Arc::new(agent.clock.clone());
        let observer = RecordingObserver::new(agent.cell.clone(), clock);
        let (id, node) = (FakeAgent::PLUGIN.into(), FakeAgent::NODE.into());
        let known = |id: &PluginId| agent.cell.read(|state| plugin(state, id));
        let instance = known(&id).unwrap().plugin.controllers[&node].clone();
        observer.gone(&id, &instance.alloc_id).await.unwrap();
        assert_eq!(known(&id), None);
        observer.changed(&id, &node, instance.clone()).await.unwrap();
        assert!(known(&id).is_some());
        agent.cell.stop().await;
        let refused = observer.changed(&id, &node, instance).await;
        assert_eq!(refused.unwrap_err().reason, "the agent is stopping");
    }
}
