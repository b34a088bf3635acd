//! What the tests of this folder share: servers that do as they are told, certificates, waiting.

pub(crate) mod certificates;
pub(crate) mod http_server;
