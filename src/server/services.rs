//! Everything that requests are answered from, and its end.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::cell::StateCell;
use super::variables::{VariablePorts, Variables};
use super::volumes::{VolumeLimits, VolumePorts, Volumes};
use crate::ports::IdSource;

/// What the agent says of itself to who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// This program's version.
    pub version: String,
    /// The agent's name, mostly the host's.
    pub name: String,
    /// Its region.
    pub region: String,
    /// Its datacenter.
    pub datacenter: String,
    /// `HOST:PORT` where it can be reached; empty if only over its socket.
    pub address: String,
    /// The ID of the node in it; empty if there is none.
    pub node_id: String,
}

impl About {
    /// The Nomad whose API this is: what official clients take for the server's version.
    pub const NOMAD_VERSION: &'static str = "2.0.5";
    /// Nomad's own default.
    pub const REGION: &'static str = "global";
    /// Nomad's own default.
    pub const DATACENTER: &'static str = "dc1";
}

/// The server half of the agent. A clone is the same.
#[derive(Clone)]
pub struct Services {
    /// What is remembered.
    pub cell: StateCell,
    /// What is done with volumes.
    pub volumes: Volumes,
    /// What is kept in variables.
    pub variables: Variables,
    /// What it says of itself.
    pub about: std::sync::Arc<About>,
    pub(super) ids: std::sync::Arc<dyn IdSource>,
    pub(super) stopping: CancellationToken,
}

impl Services {
    /// The server half over these ports. Needs a running tokio runtime, which ends locks of variables.
    pub fn new(ports: VolumePorts, limits: VolumeLimits, about: About) -> Self {
        let stopping = CancellationToken::new();
        let of_variables = VariablePorts {
            cell: ports.cell.clone(),
            sealer: ports.sealer.clone(),
            clock: ports.clock.clone(),
            ids: ports.ids.clone(),
        };
        Self {
            cell: ports.cell.clone(),
            variables: Variables::new(of_variables, stopping.clone()),
            ids: ports.ids.clone(),
            volumes: Volumes::new(ports, limits),
            about: std::sync::Arc::new(about),
            stopping,
        }
    }

    /// Ends waiting reads, so that connections can drain; begins nothing new, waits up to `grace`
    /// for what is running and cuts off the rest: the next run goes on with it. The cell goes on:
    /// it is stopped by itself, after everyone who commits.
    pub async fn drain(&self, grace: Duration) {
        self.stopping.cancel();
        self.volumes.stop(grace).await;
        self.variables.stopped().await;
    }
}
