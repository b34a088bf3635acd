//! Owns the connections between servers and nodes.
//!
//! Nodes dial, and servers listen on one port. The protocol (ALPN) says who calls on a connection: on `h2` the node, on
//! `ncsi-node/1` the server. Both need a certificate of their role. A pair of connections lives and ends together.
//!
//! A server that does not lead forwards connections of nodes to the leader (`forwarded_connection`), and requests of the HTTP
//! API (`leader_connection`).

mod address_limit;
pub(crate) mod connected_nodes;
pub(crate) mod connection_token;
pub(crate) mod dial;
pub(crate) mod dialer;
pub(crate) mod forwarded_connection;
pub(crate) mod leader_connection;
pub(crate) mod listener;
pub(crate) mod node_connection;
pub(crate) mod peer_stream;
pub(crate) mod protocol;
mod refusal_log;
mod unknown_connections;

pub use connected_nodes::{ConnectedNodes, NodeChannel};
pub use connection_token::ConnectionToken;
pub use dialer::{Dialer, Registrar};
pub use leader_connection::{LeaderConnection, NoResponse};
pub use listener::{LeaderAddress, LeaderServices, NodeListener};
