//! From specifications to calls: read what is there, carry out a plan, say how each volume ended.

mod execute;
mod ledger;
mod observe;
mod outcome;
mod resolve;

pub use execute::{Execution, Watch, execute};
pub use ledger::{SetLedger, hold};
pub use observe::{Observation, observe};
pub use outcome::{Ending, Outcome};
pub use resolve::{Resolved, Unresolved, resolve};
