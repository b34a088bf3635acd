//! What the tests share: servers that do as they are told, certificates, a disk that loses power.

pub(crate) mod certificates;
pub(crate) mod http_server;
#[cfg(feature = "agent")]
pub(crate) mod power;
