//! Assembles and runs the agent: server, node and the plugin's process, in one process or in several.
//!
//! [`run_agent`] is `nomad-csi agent`; [`EmbeddedAgent`] is the same agent for one command. Each has
//! exclusive use of its data directory, and leaves no process, socket or lock behind.

mod assemble;
mod blocking;
mod check;
mod cluster_nodes;
mod cluster_tls;
mod config;
mod core_dumps;
mod data_dir_lock;
mod data_role;
mod directory;
mod embedded;
mod endpoint_instances;
mod etcd_store;
mod leader_link;
mod listen;
mod measured_journal;
mod metrics;
mod migrate;
mod node_attributes;
mod node_parts;
mod node_registration;
mod node_role;
mod node_secret;
mod offline;
mod open_state;
mod operator_token;
mod own_directories;
mod plugin;
mod plugin_endpoint;
mod plugin_health;
mod plugin_job;
mod problems;
mod role_file;
mod rotate_key;
mod run;
mod running_plugin;
mod seal_clear_secrets;
mod serve_plugin;
mod server_ports;
mod server_role;
mod server_sockets;
mod standby;
mod step_hosts;
mod tasks;
mod unused_endpoint;

pub use check::{CheckedState, check_data_directory};
pub use cluster_tls::{CertificateRole, create_authority, issue_certificate};
pub use config::{AgentConfig, AgentOptions, DataDirSetting, LockConflict, embedded_directory};
pub use embedded::EmbeddedAgent;
pub use etcd_store::reclaim_etcd;
pub use migrate::{MigratedJournal, migrate_journal};
pub use node_role::run_node;
pub use nomad_csi_server::PluginConcurrency;
pub use role_file::{NodeConfig, ServerConfig};
pub use rotate_key::{RotatedKey, rotate_key};
pub use run::run_agent;
pub use serve_plugin::{PluginOptions, ProfileOptions, serve_plugin};
pub use server_role::run_server;
