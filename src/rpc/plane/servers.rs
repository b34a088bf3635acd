//! [`Servers`]: the servers that a node is connected to, and which of them it asks.
//!
//! It asks one at a time: the first of the list. One that does not answer, or is not the leader, goes to the end.

use parking_lot::Mutex;
use tokio::sync::watch;
use tonic::transport::Channel;

use super::messages::control_plane_client::ControlPlaneClient;

/// The largest message of a server.
pub(super) const MAX_MESSAGE: usize = 16 << 20;

/// A server that the node is connected to.
#[derive(Clone)]
pub(super) struct ConnectedServer {
    pub(super) name: String,
    /// Distinguishes the connections to one server.
    pub(super) connection: u64,
    pub(super) client: ControlPlaneClient<Channel>,
}

/// The servers that a node is connected to. It has an entry for each configured one at most.
#[derive(Default)]
pub(super) struct Servers {
    state: Mutex<State>,
    changes: watch::Sender<u64>,
    is_served: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    connected: Vec<ConnectedServer>,
    connections: u64,
}

/// Returns the calls of a channel.
pub(super) fn client_over(channel: Channel) -> ControlPlaneClient<Channel> {
    ControlPlaneClient::new(channel).max_decoding_message_size(MAX_MESSAGE)
}

impl Servers {
    pub(super) fn add(&self, name: &str, channel: Channel) {
        let mut state = self.state.lock();
        state.connected.retain(|server| server.name != name);
        state.connections += 1;
        let (name, connection) = (name.to_owned(), state.connections);
        state.connected.push(ConnectedServer { name, connection, client: client_over(channel) });
        self.is_served.send_replace(true);
        drop(state);
        self.changes.send_modify(|count| *count += 1);
    }

    /// Notes that a server answers this node, if it is still connected to it.
    pub(super) fn answered(&self, by: &ConnectedServer) {
        let state = self.state.lock();
        if state.connected.iter().any(|one| one.connection == by.connection) {
            self.is_served.send_if_modified(|is_served| !std::mem::replace(is_served, true));
        }
    }

    /// Returns whether a server answers this node, as far as it knows.
    pub(super) fn is_served(&self) -> watch::Receiver<bool> {
        self.is_served.subscribe()
    }

    pub(super) fn remove(&self, name: &str) {
        let mut state = self.state.lock();
        state.connected.retain(|server| server.name != name);
        if state.connected.is_empty() {
            self.is_served.send_replace(false);
        }
        drop(state);
        self.changes.send_modify(|count| *count += 1);
    }

    /// Puts a server behind the others, and its leader before them.
    pub(super) fn leave(&self, left: &ConnectedServer, leader: Option<&str>) {
        let mut state = self.state.lock();
        let connected = &mut state.connected;
        // The one that is asked first is the one that serves.
        if connected.first().is_some_and(|first| first.connection == left.connection) {
            self.is_served.send_replace(false);
        }
        if let Some(at) = connected.iter().position(|one| one.connection == left.connection) {
            let server = connected.remove(at);
            connected.push(server);
        }
        let leader = leader.and_then(|leader| connected.iter().position(|one| one.name == leader));
        if let Some(at) = leader {
            let server = connected.remove(at);
            connected.insert(0, server);
        }
    }

    /// Returns the server to ask, except for those that were asked.
    pub(super) fn next(&self, asked: &[u64]) -> Option<ConnectedServer> {
        let state = self.state.lock();
        state.connected.iter().find(|server| !asked.contains(&server.connection)).cloned()
    }

    /// Waits until there is a server to ask.
    pub(super) async fn any(&self) -> ConnectedServer {
        let mut changes = self.changes.subscribe();
        loop {
            if let Some(server) = self.next(&[]) {
                return server;
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic::transport::Endpoint;

    use super::*;

    fn channel() -> Channel {
        Endpoint::from_static("http://peer").connect_lazy()
    }

    /// Without a connection nothing would ever dial again.
    #[tokio::test]
    async fn an_answer_that_comes_after_the_end_of_its_connection_serves_no_node() {
        let servers = Servers::default();
        let is_served = servers.is_served();
        assert!(!*is_served.borrow());
        servers.add("s1", channel());
        assert!(*is_served.borrow());
        let first = servers.any().await;
        servers.remove("s1");
        servers.answered(&first);
        assert!(!*is_served.borrow(), "it is not connected");
        servers.add("s2", channel());
        servers.leave(&first, None);
        assert!(*is_served.borrow(), "another one serves");
        servers.leave(&servers.any().await, None);
        assert!(!*is_served.borrow());
        servers.answered(&servers.any().await);
        assert!(*is_served.borrow());
    }
}
