//! Reads a server, carries out plans, and reports how each volume ended.
//!
//! [`workflow`] holds what each command does. The other modules hold the steps that workflows share.

mod apply;
mod change;
mod drift;
mod execute;
mod execution;
mod import;
mod ledger;
mod ledger_writer;
mod lock_state;
mod lock_takeover;
mod lost_reply;
mod observe;
mod orphans;
mod outcome;
mod permissions;
mod precondition;
mod provider_lists;
mod reconnect;
mod record;
mod recorded_scope;
mod remove;
mod replace;
mod resolve;
mod run_loop;
mod schedule;
mod secret_variables;
mod until_sent;
mod volume_facts;
mod volume_list;
mod wait;
pub mod workflow;

pub use apply::{SetRecording, apply};
pub use drift::{DriftFound, DriftQuery, find_drift};
pub use execute::execute;
pub use execution::{Execution, ProgressObserver};
pub use import::{ImportFound, ImportSelection, find_to_import};
pub use ledger::{LockEvent, LockWait, SetLedger, all_sets, hold_lock};
pub use lock_state::LockState;
pub use observe::{Observation, ObserveRequest, last_snapshots, observe};
pub use orphans::{Inventory, ListedVolume};
pub use outcome::{Outcome, Status};
pub use permissions::{Access, Preflight, access, preflight};
pub use reconnect::Reconnect;
pub use record::{Record, Recorded, Unrecorded};
pub use recorded_scope::RecordedScope;
pub use resolve::{Resolved, Unresolved, known_secrets, resolve};
pub use run_loop::{Cause, RoundEnd, run_loop};
pub use secret_variables::SecretVariables;
pub use volume_list::list_all_volumes;
pub use wait::{WaitOutcome, WaitRequest, wait_for_volume};
