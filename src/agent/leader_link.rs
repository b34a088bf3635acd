//! The way from a server that does not lead to the one that does.

use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

use nomad_csi_etcd::LeadingServer;
use nomad_csi_rpc::{ClusterTls, LeaderConnection, NoResponse};
use nomad_csi_server::http::{LeaderLink, NotForwarded};

/// How long a request waits for a leader.
const LEADER_LIMIT: Duration = Duration::from_secs(5);

/// The way to the leader, which `seen` names.
pub(super) struct ClusterLeader {
    seen: watch::Receiver<Option<LeadingServer>>,
    connection: LeaderConnection,
    /// Why the leader was not reached, as it was said last.
    said: Mutex<String>,
}

impl ClusterLeader {
    pub(super) fn new(
        seen: watch::Receiver<Option<LeadingServer>>,
        tls: watch::Receiver<ClusterTls>,
    ) -> Self {
        Self { seen, connection: LeaderConnection::new(tls), said: Mutex::default() }
    }

    /// Tells the operator once why the leader is not reached.
    fn say(&self, address: &str, reason: &str) {
        let mut said = self.said.lock();
        if *said != reason {
            reason.clone_into(&mut said);
            drop(said);
            tracing::warn!(leader.address = address, reason, "the leader is not reached");
        }
    }
}

/// Returns where the leader is; `None` if none does or it did not say.
pub(super) fn address_of(leader: Option<&LeadingServer>) -> Option<String> {
    leader.map(|leader| leader.address.clone()).filter(|address| !address.is_empty())
}

#[async_trait]
impl LeaderLink for ClusterLeader {
    fn has_leader(&self) -> bool {
        self.seen.borrow().is_some()
    }

    async fn send(&self, request: Request) -> Result<Response, NotForwarded> {
        let mut seen = self.seen.clone();
        let known = seen.wait_for(|leader| address_of(leader.as_ref()).is_some());
        let known = timeout(LEADER_LIMIT, known).await;
        let known = known.ok().and_then(Result::ok).and_then(|leader| address_of(leader.as_ref()));
        let Some(address) = known else {
            return Err(NotForwarded::NotSent("no server leads".to_owned()));
        };
        let request = request.map(nomad_csi_rpc::Body::new);
        match self.connection.send(&address, request).await {
            Ok(response) => {
                self.said.lock().clear();
                Ok(response.map(Body::new))
            }
            Err(NoResponse::NotSent(reason)) => {
                self.say(&address, &reason);
                Err(NotForwarded::NotSent(reason))
            }
            Err(NoResponse::Unanswered(reason)) => Err(NotForwarded::Unanswered(reason)),
        }
    }
}
