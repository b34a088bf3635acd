//! CSI over gRPC: the client side of every plugin, and the generated code of both sides.
//!
//! [`GrpcConnector`] turns a Unix socket into the plugin ports of [`crate::ports`]. One call of a
//! port is one RPC with one deadline ([`deadline`]); what a failure means is read from one table
//! ([`crate::ports::verdict_of`]). Nothing here repeats a call: that is `server::forward`'s (W05). What goes over the
//! wire is CSI 1.12 (`proto/csi/v1/csi.proto`, [`proto`]). [`RawClient`] sends its messages as they are,
//! for who must say what the ports cannot.

mod confirm;
mod connect;
mod controller;
pub mod convert;
pub mod deadline;
mod identity;
mod leaving;
mod node;
pub mod proto;
mod raw;
pub mod status;
mod storage;

pub use connect::GrpcConnector;
pub use raw::{Call, Failure, RawClient, Reached};
