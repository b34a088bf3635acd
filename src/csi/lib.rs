//! Owns the gRPC client of CSI plugins.
//!
//! [`GrpcConnector`] implements the plugin ports of [`nomad_csi_ports`] over a Unix socket. One call of a
//! port is one RPC with one deadline ([`deadline`]); [`nomad_csi_ports::verdict_of`] classifies failures.
//! No call is retried here; `server::repeated_call` retries (W05). The protocol is CSI 1.13
//! (`proto/csi/v1/csi.proto`). Answers and errors pass one place that hides the secrets that were sent
//! (`call_secrets`). [`RawClient`] sends CSI messages unchanged, also invalid ones.

mod answer_limits;
mod attachment;
mod call_secrets;
mod confirmation;
mod connect;
mod controller;
pub mod convert;
pub mod deadline;
mod disconnecting_stream;
mod health;
mod identity;
mod node;
mod raw;
mod stats;
pub mod status;
mod storage;

pub use connect::GrpcConnector;
pub use raw::{CallFailure, CsiRequest, FailureKind, RawClient};
