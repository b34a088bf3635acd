//! What the tests share: servers that do as they are told, certificates, a disk that loses power,
//! sessions written down.

pub(crate) mod canned;
pub(crate) mod certificates;
pub(crate) mod http_server;
#[cfg(feature = "agent")]
pub(crate) mod power;
pub(crate) mod transcript;
