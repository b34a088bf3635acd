//! Everything the agent remembers, as one pure state machine.
//!
//! [`State`] changes by [`apply`] of an [`Event`] and by nothing else, so that the same events give
//! the same state: on the running agent, after a restart, in a crash test and in a simulation. There
//! is no clock here, no chance and no I/O; times and IDs stand in the events. `server::cell` is the
//! only one that commits events, `store` keeps them, `query`, `list`
//! and `view` make of the state what people read.

mod apply;
mod event;
mod invariant;
mod list;
mod provider_name;
mod query;
mod record;
mod recorded_options;
mod replay;
#[cfg(any(test, feature = "testing"))]
pub mod samples;
mod tables;
mod variable;
mod variable_list;
mod view;

pub use apply::{Misfit, apply, check};
pub use event::{Event, EventKind, Subject};
pub use invariant::{SharedVolume, shared_volumes, violations};
pub use list::{InvalidToken, VolumeFilter, VolumePage, VolumeToken, volumes};
pub use provider_name::provider_name;
pub use query::{plugin, plugin_status, plugins, sharing, volume};
pub use record::{Phase, PluginRecord, Provided, VolumeDefinition, VolumeRecord};
pub use recorded_options::{RecordedFlags, RecordedMountOptions};
pub use replay::{ReplayError, StateSnapshot, replay};
pub use tables::State;
pub use variable::{LockTerms, VariableEvent, VariableLock, VariableRecord};
pub use variable_list::{
    VariableFilter, VariablePage, VariableToken, ended_locks, next_lock_end, variables,
};
pub use view::{PluginStatus, PluginView, VolumeView};
