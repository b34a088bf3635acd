//! Owns the protocol between servers and nodes: their certificates and connections, and the ports of each side over gRPC.
//!
//! A node dials its servers and opens two connections to each: on one it calls the server, on the other the server
//! calls the node. The messages are those of `proto/nomadcsi/`.

mod host;
mod plane;
mod tls;
mod transport;

pub use host::{HostDescription, NodeHostService, RemoteNode};
pub use plane::{ClusterFile, ControlPlaneService, NodeProfile, RemoteControlPlane};
pub use tls::{
    Authority, ClusterTls, ClusterTlsFiles, HttpsAcceptor, HttpsFiles, IssuedFiles, Role, TlsError,
    certified_client,
};
/// The body of a request that is forwarded.
pub use tonic::body::Body;
/// What a connection between servers is answered by.
pub use tonic::service::Routes;
pub use transport::{
    ConnectedNodes, ConnectionToken, Dialer, LeaderAddress, LeaderConnection, LeaderServices,
    NoResponse, NodeChannel, NodeListener, Registrar,
};
