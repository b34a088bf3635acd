//! From specifications to calls: read what is there, carry out a plan, say how each volume ended.

mod apply;
mod change;
mod drift;
mod execute;
mod execution;
mod import;
mod ledger;
mod notebook;
mod observe;
mod orphans;
mod outcome;
mod permissions;
mod record;
mod remove;
mod replace;
mod resolve;
mod run_loop;
mod schedule;
mod wait;

pub use apply::{Applied, Owner, apply};
pub use drift::{DriftFound, DriftQuery, look_for_drift};
pub use execute::execute;
pub use execution::{Execution, Watch};
pub use import::{ImportFound, Selection, find_to_import};
pub use ledger::{SetLedger, all_sets, hold};
pub use observe::{Looking, Observation, last_snapshots, observe};
pub use orphans::{
    Deleted, Inventory, Listed, adopt, delete, deletion_name, join, registered_anywhere,
};
pub use outcome::{Ending, Outcome};
pub use permissions::{Access, Preflight, access, preflight};
pub use record::{Record, Recorded, Unrecorded};
pub use resolve::{Resolved, Unresolved, known_secrets, resolve};
pub use run_loop::{Cause, RoundEnd, run_loop};
pub use wait::{Wait, Waited, wait};
