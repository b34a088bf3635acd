//! The ports of the services.

use std::sync::Arc;

use super::cell::StateCell;
use super::plugin_call_queues::PluginCallQueues;
use super::sealer::Sealer;
use nomad_csi_model::Term;
use nomad_csi_ports::{Clock, HostDirectory, IdSource, LeaderLease};

/// The ports of all services. Clones share their state.
#[derive(Clone)]
pub struct ServerPorts {
    /// The agent's state.
    pub cell: StateCell,
    /// Seals secrets, mount flags, settings of jobs and items of variables.
    pub sealer: Arc<dyn Sealer>,
    /// Wall time, for events, pauses and the expiry of locks.
    pub clock: Arc<dyn Clock>,
    /// IDs, and jitter for pauses.
    pub ids: Arc<dyn IdSource>,
    /// The leadership of this server, which its requests to nodes carry.
    pub term: Term,
    /// Whether this server may act as the leader.
    pub lease: Arc<dyn LeaderLease>,
    /// The nodes that can be reached.
    pub hosts: Arc<dyn HostDirectory>,
    /// The call queues of the plugins, the only way to their controllers.
    pub calls: PluginCallQueues,
}
