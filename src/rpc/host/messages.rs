//! The code generated from `proto/nomadcsi/host/v1/host.proto`.
//!
//! No message has a `Debug`, because many of them hold secrets.
#![expect(
    unreachable_pub,
    clippy::allow_attributes_without_reason,
    clippy::too_many_lines,
    reason = "generated code; proto/nomadcsi/host/v1/host.proto is its documentation"
)]

include!("../../../proto/nomadcsi/host/v1/nomadcsi.host.v1.rs");
