//! The ports of the services of a server, whether it leads or follows.

use std::sync::Arc;

use super::cluster_nodes::ClusterNodes;
use super::role_file::ServerConfig;
use crate::telemetry::AgentMetrics;
use nomad_csi_ports::{HostDirectory, RandomIds, SystemClock};
use nomad_csi_server::{PluginCallQueues, Sealer, ServerPorts, StateCell, VolumeLimits};

/// Returns the ports of services that reach these nodes, with their term and lease.
pub(super) fn server_ports(
    config: &ServerConfig,
    cell: StateCell,
    sealer: Arc<dyn Sealer>,
    nodes: &Arc<ClusterNodes>,
    metrics: Arc<AgentMetrics>,
) -> ServerPorts {
    let hosts: Arc<dyn HostDirectory> = nodes.clone();
    let (calls, waiting) = (config.agent.calls, VolumeLimits::MAX_WAITING);
    let calls = PluginCallQueues::new(calls, waiting, metrics, cell.clone(), hosts.clone());
    ServerPorts {
        cell,
        sealer,
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        term: nodes.term,
        lease: nodes.lease.clone(),
        hosts,
        calls,
    }
}
