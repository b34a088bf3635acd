//! Shared test support: scripted servers, certificates, a disk that loses power, transcripts.

pub(crate) mod canned;
pub(crate) mod certificates;
#[cfg(feature = "agent")]
pub(crate) mod client_process;
#[cfg(feature = "agent")]
pub(crate) mod damage;
#[cfg(feature = "agent")]
pub(crate) mod echo_plugin;
#[cfg(feature = "agent")]
pub(crate) mod fake_plugin;
#[cfg(feature = "agent")]
pub(crate) mod faulty_proxy;
pub(crate) mod fuzz_targets;
pub(crate) mod hermetic;
#[cfg(feature = "agent")]
pub(crate) mod hostpath;
#[cfg(feature = "agent")]
pub(crate) mod hostpath_files;
pub(crate) mod http_server;
#[cfg(feature = "agent")]
pub(crate) mod plugin_client;
#[cfg(feature = "agent")]
pub(crate) mod random;
#[cfg(feature = "agent")]
pub(crate) mod reference_plugin;
pub(crate) mod transcript;
pub(crate) mod variables;
#[expect(dead_code, reason = "the other test crate uses the rest")]
pub(crate) mod wait;
