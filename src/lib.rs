//! `nomad-csi`: Nomad's CSI volumes as specifications, planned and applied, on a cluster or on an
//! embedded agent with a real CSI plugin.
//!
//! Decide in pure code, talk through ports, act in one loop, and let nothing but the edge know about
//! Nomad's words, HTTP, gRPC, files or mounts. Arrows point down only:
//!
//! ```text
//!  cli          the command line: arguments, settings, commands, words and colours
//!  agent        assembles and runs the embedded orchestrator
//!  reconcile    desired specs -> API calls        server    the control-plane half of the agent
//!  node         the client half of the agent      hostpath  the embedded CSI plugin
//!  conformance  is somebody's plugin a CSI plugin
//!  nomad        HTTP client                       csi       gRPC client of plugins
//!  store        journal in an embedded database   mounts    mount(2)
//!  driver       processes as tasks                files     which files a person means
//!  telemetry    what is logged and counted        secrets   values that specifications refer to
//!  ports        what the core needs from outside, in the core's words
//!  plan         wanted against observed           state     everything the agent remembers
//!  wire         Nomad's JSON
//!  spec         text -> wanted volumes
//!  model        the field's nouns                 retry     whether and when to try again
//!  diagnostic   one way to tell a person something is wrong
//! ```
//!
//! Everything from `diagnostic` to `wire` is pure: no I/O, no clock, no async, no environment.
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        reason = "a test that fails is to say so loudly"
    )
)]

#[cfg(feature = "agent")]
pub mod agent;
pub mod cli;
#[cfg(feature = "agent")]
pub mod conformance;
#[cfg(feature = "agent")]
pub mod csi;
pub mod diagnostic;
#[cfg(feature = "agent")]
pub mod driver;
pub mod files;
#[cfg(feature = "agent")]
pub mod hostpath;
pub mod model;
#[cfg(feature = "agent")]
pub mod mounts;
#[cfg(feature = "agent")]
pub mod node;
pub mod nomad;
pub mod plan;
pub mod ports;
pub mod reconcile;
pub mod retry;
pub mod secrets;
#[cfg(feature = "agent")]
pub mod server;
pub mod spec;
pub mod state;
#[cfg(feature = "agent")]
pub mod store;
pub mod telemetry;
pub mod wire;
