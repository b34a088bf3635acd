//! The code generated from `proto/nomadcsi/plane/v1/plane.proto`. No message has a `Debug`: jobs hold secrets.
#![expect(
    unreachable_pub,
    clippy::allow_attributes_without_reason,
    clippy::too_many_lines,
    reason = "generated code; proto/nomadcsi/plane/v1/plane.proto is its documentation"
)]

include!("../../../proto/nomadcsi/plane/v1/nomadcsi.plane.v1.rs");
