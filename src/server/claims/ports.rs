//! What claims need from outside.

use std::sync::Arc;

use super::hosts::NodeHosts;
use crate::cell::StateCell;
use crate::plugin_call_queues::PluginCallQueues;
use crate::sealer::Sealer;
use nomad_csi_ports::{Clock, ControllerHost, IdSource};

/// The ports of claims. Clones share their state.
#[derive(Clone)]
pub struct ClaimPorts {
    /// The agent's state.
    pub cell: StateCell,
    /// The nodes.
    pub nodes: NodeHosts,
    /// The controllers.
    pub controllers: Arc<dyn ControllerHost>,
    /// Seals secrets and mount flags.
    pub sealer: Arc<dyn Sealer>,
    /// Wall time, for events.
    pub clock: Arc<dyn Clock>,
    /// Jitter for pauses.
    pub ids: Arc<dyn IdSource>,
    /// The call queues of the plugins, which all services share.
    pub calls: PluginCallQueues,
}
