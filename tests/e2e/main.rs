//! End-to-end tests: real agent processes, real plugin processes and real mounts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a failed or skipped test must be visible"
)]

mod agent;
mod agent_crash;
mod agent_disk;
mod agent_key;
mod agent_metrics;
#[path = "../support/agent_process.rs"]
mod agent_process;
mod agent_remains;
mod agent_stop;
mod alloc_runner;
mod browsers;
#[path = "../support/certificates.rs"]
#[expect(dead_code, reason = "the suite uses the rest")]
mod certificates;
mod claims_kill;
mod claims_load;
mod cluster;
mod cluster_acl;
mod cluster_etcd;
mod cluster_fleet;
mod cluster_machine;
mod cluster_nodes;
mod connection_limits;
mod control_groups;
mod cut_offs;
#[path = "../support/damage.rs"]
mod damage;
mod doctor_health;
mod embedded;
mod etcd_process;
mod fenced_nodes;
#[path = "../support/filled_journal.rs"]
mod filled_journal;
mod generated_volumes;
mod hostile_server;
mod hostpath;
mod hostpath_concurrency;
mod hostpath_fixture;
mod hostpath_images;
mod hostpath_reflink;
mod hostpath_sequences;
mod hostpath_shared;
#[path = "../support/http.rs"]
mod http;
mod http_fuzz;
mod job_machine;
mod jobs;
mod jobs_host_volumes;
mod jobs_launching;
mod jobs_many;
mod kept_files;
mod large_objects;
mod long_input;
mod lost_mounts;
mod missing_files;
mod mounts_of_others;
mod node_faults;
mod plugin_check;
#[path = "../support/plugin_client.rs"]
mod plugin_client;
mod plugin_endpoint;
mod plugin_job;
#[path = "../support/plugin_process.rs"]
mod plugin_process;
mod plugin_tasks;
#[path = "../support/random.rs"]
mod random;
mod readme;
mod reconcile;
mod rights;
mod root_tasks;
mod saved_plan;
mod secrets_of_jobs;
mod server_unreachable;
mod task_attacks;
mod task_crash;
mod task_failures;
mod task_fixture;
mod task_limits;
mod task_propagation;
mod task_root;
mod task_runs;
mod untrusted_clients;
mod volume_host;
mod volume_init;
mod volume_manager;
mod volume_stats;
#[path = "../support/volumes.rs"]
mod volumes;
#[path = "../support/wait.rs"]
mod wait;
