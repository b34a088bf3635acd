//! What the tests share: servers that do as they are told, certificates, a disk that loses power,
//! sessions written down.

pub(crate) mod canned;
pub(crate) mod certificates;
#[cfg(feature = "agent")]
pub(crate) mod client_process;
#[cfg(feature = "agent")]
pub(crate) mod exemplar;
#[cfg(feature = "agent")]
pub(crate) mod fake_plugin;
pub(crate) mod hermetic;
#[cfg(feature = "agent")]
pub(crate) mod hostpath;
#[cfg(feature = "agent")]
pub(crate) mod hostpath_files;
pub(crate) mod http_server;
#[cfg(feature = "agent")]
pub(crate) mod plugin_client;
#[cfg(feature = "agent")]
pub(crate) mod power;
#[cfg(feature = "agent")]
pub(crate) mod road;
pub(crate) mod transcript;
pub(crate) mod variables;
#[expect(dead_code, reason = "the tests of real processes use the rest")]
pub(crate) mod wait;
