//! [`ConnectedNodes`]: which nodes are registered at this server, and the channels on which it calls them.
//!
//! A node ID has one registration. A connection that another server forwards takes no place of one that lasts: the direct one
//! is the better one, and of two forwarded ones neither is. Another process with the same ID is refused while the first is
//! connected, as with a copied disk: pings end a connection that is dead, so the second one waits seconds only. The same process replaces its own
//! registration. A channel lives no longer than the registration that its token is of.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use super::connection_token::ConnectionToken;
use super::node_connection::NodeConnection;
use nomad_csi_model::{HostSession, NodeId};

/// The channel on which the server calls a node.
#[derive(Clone, Debug)]
pub struct NodeChannel {
    /// The node.
    pub node: NodeId,
    /// The run of its process, as it registered.
    pub session: HostSession,
    /// Where its services answer. Calls fail when the connection is gone.
    pub channel: Channel,
    ended: CancellationToken,
}

impl NodeChannel {
    /// Waits until the connection is gone.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

/// The nodes that are connected to this server.
#[derive(Default)]
pub struct ConnectedNodes {
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

/// It has an entry for each open connection only, which the listener limits.
#[derive(Default)]
struct State {
    registered: HashMap<NodeId, Registered>,
    registering: BTreeSet<NodeId>,
    nodes_of_tokens: HashMap<ConnectionToken, NodeId>,
    channels: HashMap<NodeId, NodeChannel>,
}

struct Registered {
    connection: NodeConnection,
    session: HostSession,
    token: ConnectionToken,
}

/// A registration cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BeginRefused {
    /// Another process with this node ID is connected.
    Duplicate,
    /// Another registration of this node ID has not ended.
    Busy,
    /// The node is connected, and another server forwards this connection.
    Connected,
}

/// The right to register one node ID, until it is dropped.
pub(crate) struct Registering {
    nodes: Arc<ConnectedNodes>,
    node: NodeId,
    session: HostSession,
}

/// What a reversed connection belongs to.
pub(super) struct Offer {
    pub(super) node: NodeId,
    pub(super) session: HostSession,
    /// Ends with the registration, and ends the registration.
    pub(super) closed: CancellationToken,
    token: ConnectionToken,
}

impl ConnectedNodes {
    /// Returns the channel to a node; `None` if it is not connected.
    pub fn channel(&self, node: &NodeId) -> Option<NodeChannel> {
        let state = self.state.lock();
        state.channels.get(node).filter(|channel| !channel.ended.is_cancelled()).cloned()
    }

    /// Returns the nodes with a channel, sorted.
    pub fn nodes(&self) -> Vec<NodeId> {
        let state = self.state.lock();
        let mut nodes: Vec<_> = state.channels.keys().cloned().collect();
        nodes.sort_unstable();
        nodes
    }

    /// Returns the nodes with a channel, each with the run of its process.
    pub fn sessions(&self) -> BTreeMap<NodeId, HostSession> {
        let state = self.state.lock();
        let open = state.channels.values().filter(|channel| !channel.ended.is_cancelled());
        open.map(|channel| (channel.node.clone(), channel.session.clone())).collect()
    }

    /// Returns a counter that grows when a channel comes or goes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns whether nothing is remembered.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state.lock();
        let State { registered, registering, nodes_of_tokens, channels } = &*state;
        registered.is_empty()
            && registering.is_empty()
            && nodes_of_tokens.is_empty()
            && channels.is_empty()
    }

    /// Begins a registration. One of a node ID runs at a time, so the session that is recorded last is that of the connection
    /// that counts.
    pub(crate) fn begin(
        self: &Arc<Self>,
        node: &NodeId,
        session: &HostSession,
        is_forwarded: bool,
    ) -> Result<Registering, BeginRefused> {
        let mut state = self.state.lock();
        let current = state.registered.get(node);
        let current = current.filter(|current| !current.connection.closed().is_cancelled());
        if let Some(current) = current {
            if current.session != *session {
                return Err(BeginRefused::Duplicate);
            }
            if is_forwarded {
                return Err(BeginRefused::Connected);
            }
        }
        if !state.registering.insert(node.clone()) {
            return Err(BeginRefused::Busy);
        }
        let (nodes, node, session) = (self.clone(), node.clone(), session.clone());
        Ok(Registering { nodes, node, session })
    }

    /// Returns what a token is of, if it comes with the certificate of the connection that registered.
    pub(super) fn offer(
        &self,
        token: &ConnectionToken,
        certificate: &CertificateDer<'_>,
    ) -> Option<Offer> {
        let state = self.state.lock();
        let node = state.nodes_of_tokens.get(token)?;
        let registered = state.registered.get(node)?;
        let is_own = registered.token == *token
            && registered.connection.certificate() == certificate
            && !registered.connection.closed().is_cancelled();
        is_own.then(|| Offer {
            node: node.clone(),
            session: registered.session.clone(),
            closed: registered.connection.closed().clone(),
            token: token.clone(),
        })
    }

    /// Adds the channel of a registration until the connection is gone. Waits for that. Adds nothing if the registration has
    /// ended, or the node has another one by now: a channel of the other one stays.
    pub(super) async fn keep(&self, offer: Offer, channel: Channel) {
        let Offer { node, session, closed: ended, token } = offer;
        let added = NodeChannel { node: node.clone(), session, channel, ended: ended.clone() };
        {
            let mut state = self.state.lock();
            let current = state.registered.get(&node);
            let is_current = current.is_some_and(|current| current.token == token);
            if !is_current || ended.is_cancelled() {
                return;
            }
            state.channels.insert(node.clone(), added);
        }
        self.changes.send_modify(|count| *count += 1);
        tracing::info!(node.id = %node, "a node is connected");
        ended.cancelled().await;
        let mut state = self.state.lock();
        // The next registration of the node may have its channel there already.
        if state.channels.get(&node).is_some_and(|channel| channel.ended.is_cancelled()) {
            state.channels.remove(&node);
        }
        drop(state);
        self.changes.send_modify(|count| *count += 1);
        tracing::info!(node.id = %node, "a node is not connected any more");
    }

    fn forget(&self, node: &NodeId, connection: &NodeConnection) {
        let mut state = self.state.lock();
        let is_current = |one: &Registered| one.connection.is_same(connection);
        if state.registered.get(node).is_some_and(is_current)
            && let Some(registered) = state.registered.remove(node)
        {
            state.nodes_of_tokens.remove(&registered.token);
        }
    }
}

impl Registering {
    /// Binds the node to its connection, and closes the one before. Returns the token for the reversed connection; `None` if
    /// the connection is bound already, or there is no randomness.
    pub(crate) fn bind(self, connection: &NodeConnection) -> Option<ConnectionToken> {
        let token = ConnectionToken::random().ok()?;
        let (node, session) = (self.node.clone(), self.session.clone());
        if !connection.bind(node.clone()) {
            return None;
        }
        let registered =
            Registered { connection: connection.clone(), session, token: token.clone() };
        let before = {
            let mut state = self.nodes.state.lock();
            state.nodes_of_tokens.insert(token.clone(), node.clone());
            let before = state.registered.insert(node.clone(), registered);
            if let Some(before) = &before {
                state.nodes_of_tokens.remove(&before.token);
            }
            before
        };
        if let Some(before) = before {
            before.connection.close();
        }
        let (nodes, connection) = (self.nodes.clone(), connection.clone());
        tokio::spawn(async move {
            connection.closed().cancelled().await;
            nodes.forget(&node, &connection);
        });
        Some(token)
    }
}

impl Drop for Registering {
    fn drop(&mut self) {
        self.nodes.state.lock().registering.remove(&self.node);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tonic::transport::Endpoint;

    use super::*;

    fn register(nodes: &Arc<ConnectedNodes>) -> (NodeConnection, Offer) {
        let certificate = CertificateDer::from(vec![1]);
        let connection = NodeConnection::new(certificate.clone(), false, CancellationToken::new());
        let registering = nodes.begin(&"n1".into(), &"run-1".into(), false).unwrap();
        let token = registering.bind(&connection).unwrap();
        (connection, nodes.offer(&token, &certificate).unwrap())
    }

    fn channel() -> Channel {
        Endpoint::from_static("http://peer").connect_lazy()
    }

    #[tokio::test]
    async fn a_late_channel_of_an_ended_registration_does_not_replace_that_of_a_newer_one() {
        let nodes = Arc::new(ConnectedNodes::default());
        let (_, late) = register(&nodes);
        let (newer, offer) = register(&nodes);
        assert!(nodes.keep(offer, channel()).now_or_never().is_none(), "it waits for the end");
        assert!(nodes.channel(&"n1".into()).is_some());
        assert!(nodes.keep(late, channel()).now_or_never().is_some(), "it is not kept");
        assert!(nodes.channel(&"n1".into()).is_some(), "the newer channel is still there");
        newer.close();
        assert!(nodes.channel(&"n1".into()).is_none());
    }

    #[tokio::test]
    async fn a_channel_of_an_ended_registration_is_not_added() {
        let nodes = Arc::new(ConnectedNodes::default());
        let (connection, offer) = register(&nodes);
        connection.close();
        assert!(nodes.keep(offer, channel()).now_or_never().is_some(), "it is not kept");
        assert_eq!(*nodes.changes().borrow(), 0, "it was never there");
    }
}
