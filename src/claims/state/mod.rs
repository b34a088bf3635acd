//! The agent's state as a pure state machine.
//!
//! Only [`apply()`] changes a [`State`], by one [`Event`], so the same events always give the same
//! state. There is no clock, no randomness and no I/O here; times and IDs are part of the events.
//! Only `server::cell` commits events, and `server::store` persists them. `query`, `list` and `view` compute
//! what readers get.

mod acl;
mod acl_record;
mod apply;
mod apply_claims;
mod apply_jobs;
mod apply_nodes;
mod bound_controller;
mod claim_query;
mod claims_record;
mod event;
mod event_text;
mod growth;
mod interner;
mod invariant;
mod job_query;
mod job_record;
mod leader_starts;
mod list;
mod namespace_record;
mod namespaces;
mod overlay;
mod plugin_jobs;
mod plugin_record;
mod provider_name;
mod query;
mod record;
mod recorded_options;
mod replay;
mod resealed;
#[cfg(any(test, feature = "testing"))]
pub mod samples;
mod shared;
mod snapshot;
mod stored_record;
mod subjects;
mod tables;
mod topic;
mod variable;
mod variable_list;
mod view;
mod volume_history;

pub use acl_record::{AclEntry, AclEvent, AclKey, AclPolicyEntry, AclRecord, AclTokenEntry};
pub use apply::{EventConflict, apply, check};
pub use bound_controller::{
    ControllerCall, ControllerEffect, bound_controller, instance_of_intent, intent_request,
    may_be_called, may_run, went_to_one_program,
};
pub use claims_record::{AllocRecord, ClaimsRecord, NodeLoss};
pub use event::{Event, EventKind, Subject};
pub use event_text::event_text;
pub use growth::is_growth;
pub use invariant::{SharedVolume, shared_volumes, violations};
pub use job_record::{
    AllocEvent, EarlierVersion, Evaluation, EvaluationRecord, EvaluationStatus, EvaluationTrigger,
    GroupFailure, JobEvent, JobRecord, JobVersion, Placement,
};
pub use leader_starts::LeaderStarts;
pub use list::{InvalidToken, VolumeFilter, VolumePage, VolumeToken, volumes};
pub use namespace_record::{NamespaceContents, NamespaceEvent, NamespaceRecord};
pub use overlay::Overlay;
pub use plugin_record::{PluginAlloc, PluginRecord};
pub use provider_name::provider_name;
pub use query::{
    boot_events, client_status, ends_of_instances, plugin, plugin_status, plugins, volume,
    volumes_of_data, volumes_sharing,
};
pub use record::{
    CreateRequest, EarlierControllers, IntentController, IntentRequest, Phase, ProviderFacts,
    VolumeDefinition, VolumeIntent, VolumeRecord,
};
pub use recorded_options::{RecordedFlags, RecordedMountOptions};
pub use replay::{ReplayError, replay, replay_changes};
pub use resealed::{Reseal, ResealedState};
pub use shared::{Shared, TextMap};
pub use snapshot::{ObjectCounts, SnapshotChanges, StateNumbers, StateSnapshot};
pub use stored_record::StoredRecord;
pub use tables::State;
pub use topic::{ListTopic, Table, Topic};
pub use variable::{LockTerms, VariableEvent, VariableLock, VariableRecord};
pub use variable_list::{
    VariableFilter, VariablePage, VariableToken, expired_locks, next_lock_end, variables,
};
pub use view::{PluginStatus, PluginView, VolumeView};
pub use volume_history::VolumeHistory;
