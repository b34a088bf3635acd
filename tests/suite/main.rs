//! Everything that needs no privileges. Every file of this folder is a module here.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that fails is to say so loudly"
)]

#[cfg(feature = "agent")]
mod abbreviated_ids;
mod apply_faults;
mod architecture;
mod bad_input;
mod behaviours;
mod call_queues;
mod canary;
#[cfg(feature = "agent")]
mod claim_attempts;
mod claims;
#[cfg(feature = "agent")]
mod claims_linearizable;
#[cfg(feature = "agent")]
mod claims_model;
mod claims_pauses;
mod claims_read_only;
mod claims_real;
mod claims_registration;
mod claims_release;
mod claims_shared;
#[cfg(feature = "agent")]
mod claims_simulation;
mod claims_use;
mod client_answers;
mod client_failures;
mod client_jobs;
mod client_limits;
mod client_neighbours;
mod client_recorded;
mod client_requests;
mod client_tls;
#[cfg(feature = "agent")]
mod crash;
#[cfg(feature = "agent")]
mod csi;
#[cfg(feature = "agent")]
mod csi_capacity;
#[cfg(feature = "agent")]
mod csi_code;
mod csi_health;
mod csi_modify;
mod csi_stats;
#[cfg(feature = "agent")]
mod csi_steps;
mod csi_storage;
#[cfg(feature = "agent")]
mod damaged_files;
mod environments;
mod failed_reports;
#[cfg(feature = "agent")]
mod faults;
#[cfg(feature = "agent")]
mod fixpoint;
#[cfg(feature = "agent")]
mod from_other_tools;
mod fuzz_corpus;
mod generated;
#[cfg(feature = "agent")]
mod hostpath_check;
#[cfg(feature = "agent")]
mod hostpath_controller;
#[cfg(feature = "agent")]
mod hostpath_devices;
mod hostpath_formatting;
#[cfg(feature = "agent")]
mod hostpath_growth;
mod hostpath_health;
#[cfg(feature = "agent")]
mod hostpath_node;
#[cfg(feature = "agent")]
mod hostpath_serve;
mod imports;
mod invisible_characters;
mod job_files;
mod json_schema;
mod language_server;
mod ledger;
mod ledger_real;
#[cfg(feature = "agent")]
mod linearizability;
mod neighbours_real;
mod nomad_acl;
mod nomad_merge;
mod packages;
mod pictures;
#[cfg(all(feature = "agent", unix))]
mod pipeline_files;
#[cfg(feature = "agent")]
mod pipelines;
#[cfg(feature = "agent")]
mod plan_reads;
mod plan_schema;
#[cfg(feature = "agent")]
mod plugin_check;
#[cfg(feature = "agent")]
mod plugin_echo;
mod proposed_commands;
mod protocol_code;
mod reconcile_loop;
mod removal_outage;
#[cfg(feature = "agent")]
mod security;
#[cfg(feature = "agent")]
mod server_recorded;
mod shell;
mod shell_names;
mod spec_examples;
mod transcripts;
mod upgrade;
mod voice;

mod spec_files;
mod spec_oracle;
mod specification_schema;
#[path = "../support/mod.rs"]
mod support;
