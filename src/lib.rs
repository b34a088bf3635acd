//! `nomad-csi`: plan and apply specifications of Nomad CSI volumes, on a cluster or on an embedded
//! agent with a real CSI plugin.
//!
//! Pure code makes the decisions, ports reach the outside world, and one loop runs the actions.
//! Only the outer crates know Nomad's JSON, HTTP, gRPC, files or mounts. Each folder of `src/` with a manifest is a crate.
//! Dependencies point down:
//!
//! ```text
//!  cli          the command line: arguments, settings, commands, output
//!  agent        assembles and runs the embedded agent
//!  telemetry    logs and metrics
//!
//!  etcd         the journal of several servers    lsp       what an editor asks of specifications
//!  client       specifications -> API calls       server    the server part of the agent
//!  node         the client part of the agent      hostpath  the embedded CSI plugin
//!  conformance  checks a CSI plugin against the specification
//!  csi          gRPC client of plugins            proto     the messages of CSI
//!  rpc          the protocol between servers and nodes
//!  database     files of the embedded database
//!  ports        interfaces between server, node, plugins and the system
//!  plan         specifications against state      claims    the agent's state machine
//!  wire         Nomad's JSON                      spec      text -> specifications of volumes and jobs
//!  model        volumes, plugins, nodes, errors for users
//!
//!  testing      fakes and fixtures of the tests
//! ```
//!
//! `model` without `private`, `spec`, `wire`, `plan` and `claims` are pure: no I/O, no clock, no async, no environment.

#[cfg(feature = "agent")]
pub mod agent;
pub mod cli;
pub mod telemetry;
