//! `nomad-csi`: plan and apply specifications of Nomad CSI volumes, on a cluster or on an embedded
//! agent with a real CSI plugin.
//!
//! Pure code makes the decisions, ports reach the outside world, and one loop runs the actions.
//! Only the outer modules know Nomad's JSON, HTTP, gRPC, files or mounts. Dependencies point down:
//!
//! ```text
//!  cli          the command line: arguments, settings, commands, output
//!  agent        assembles and runs the embedded agent
//!  reconcile    specifications -> API calls       server    the server part of the agent
//!  node         the client part of the agent      hostpath  the embedded CSI plugin
//!  conformance  checks a CSI plugin against the specification
//!  nomad        HTTP client of Nomad              csi       gRPC client of plugins
//!  driver       runs tasks as processes           files     finds and reads files
//!  store        journal in an embedded database   mounts    mount(2)
//!  telemetry    logs and metrics                  secrets   resolves secret references
//!  ports        interfaces to the outside world    private   files that only this user can use
//!  doctor       what is wrong with a volume, and what helps
//!  place        which node takes an allocation
//!  plan         specifications against state      state     the agent's state machine
//!  wire         Nomad's JSON                      claim     who may use a volume
//!  job          job files, as far as volumes need them
//!  spec         text -> volume specifications
//!  model        volumes, plugins, nodes           retry     when to retry a call
//!  diagnostic   errors and warnings for users
//! ```
//!
//! The modules from `diagnostic` to `wire` are pure: no I/O, no clock, no async, no environment.
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        reason = "a failed test must panic"
    )
)]

// Support of the tests in `tests/` that unit tests use too names this crate.
#[cfg(test)]
extern crate self as nomad_csi;

#[cfg(feature = "agent")]
pub mod agent;
pub mod claim;
pub mod cli;
#[cfg(feature = "agent")]
pub mod conformance;
#[cfg(feature = "agent")]
pub mod csi;
pub mod diagnostic;
pub mod doctor;
#[cfg(feature = "agent")]
pub mod driver;
pub mod files;
#[cfg(feature = "agent")]
pub mod hostpath;
pub mod job;
pub mod model;
#[cfg(feature = "agent")]
pub mod mounts;
#[cfg(feature = "agent")]
pub mod node;
pub mod nomad;
pub mod place;
pub mod plan;
pub mod ports;
pub mod private;
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
