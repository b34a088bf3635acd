//! Reads a server, carries out plans, and reports how each volume ended.
//!
//! [`workflow`] holds what each command does. The other modules hold the steps that workflows share.

mod apply;
mod away_nodes;
mod change;
mod drift;
mod execute;
mod execution;
mod import;
mod ledger;
mod ledger_queue;
mod ledger_writer;
mod lock_renewal;
mod lock_takeover;
mod observe;
mod orphans;
mod outcome;
mod permissions;
mod precondition;
mod provider_lists;
mod reconnect;
mod record;
mod remove;
mod replace;
mod resolve;
mod run_loop;
mod schedule;
mod secret_variables;
mod seen_nodes;
mod unclaimed_users;
mod unread_volumes;
mod until_sent;
mod volume_facts;
mod volume_list;
mod volume_owners;
mod wait;
pub mod workflow;

pub use drift::{DriftFound, DriftQuery, find_drift};
pub use execution::ProgressObserver;
pub use import::{ImportFound, ImportSelection, find_to_import};
pub use ledger::{LockEvent, LockWait, SetLedger};
pub use lock_renewal::{LockState, hold_lock};
pub use observe::Observation;
pub use orphans::{Inventory, ListedVolume};
pub use outcome::{Outcome, Status};
pub use permissions::{Access, access};
pub use run_loop::{Cause, RoundEnd, run_loop};
