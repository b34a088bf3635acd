//! The code generated from `proto/etcd/v3/etcd.proto`.
#![expect(
    unreachable_pub,
    clippy::allow_attributes_without_reason,
    clippy::too_many_lines,
    reason = "generated code; proto/etcd/v3/etcd.proto is its documentation"
)]

include!("../../proto/etcd/v3/etcdserverpb.rs");
