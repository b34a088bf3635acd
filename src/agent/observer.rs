//! Records in the agent's state what the node half finds of its plugins.

use std::sync::Arc;

use async_trait::async_trait;

use crate::model::{NodeId, PluginId, PluginInstance};
use crate::ports::{Clock, PluginObserver, ReportRefused};
use crate::server::{Expected, StateCell};
use crate::state::{Event, EventKind};

/// Commits each finding as an event.
pub(super) struct StateObserver {
    pub(super) cell: StateCell,
    pub(super) clock: Arc<dyn Clock>,
}

impl StateObserver {
    async fn commit(&self, kind: EventKind) -> Result<(), ReportRefused> {
        let event = Event::new(self.clock.now(), kind);
        match self.cell.commit(Expected::Any, event).await {
            Ok(_index) => Ok(()),
            Err(error) => Err(ReportRefused {
                reason: error.to_string(),
            }),
        }
    }
}

#[async_trait]
impl PluginObserver for StateObserver {
    async fn changed(
        &self,
        plugin: &PluginId,
        node: &NodeId,
        instance: PluginInstance,
    ) -> Result<(), ReportRefused> {
        self.commit(EventKind::PluginInstanceObserved {
            plugin: plugin.clone(),
            node: node.clone(),
            instance: Box::new(instance),
        })
        .await
    }

    async fn gone(&self, plugin: &PluginId, node: &NodeId) -> Result<(), ReportRefused> {
        self.commit(EventKind::PluginInstanceGone {
            plugin: plugin.clone(),
            node: node.clone(),
        })
        .await
    }
}
