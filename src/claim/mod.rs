//! Who may use a volume, and what must happen next.
//!
//! [`Claims`] is the record of one external volume: who claims it, and what is known to be published,
//! staged and attached. [`admit()`] decides about a new claim, [`next_steps`] what to do now, and a
//! [`ClaimEvent`] is the only way to change the record. A call is recorded before it is sent, so
//! [`Known::Maybe`] means that its effect is possible. The claim is removed last, so everything that
//! exists has a claim to undo it.
//!
//! The decisions are total functions without I/O and time. `state` keeps one record per volume of a
//! plugin, `server` drives the steps, and a model check explores every reachable record.

mod admit;
mod denied;
mod event;
mod facts;
mod invariant;
mod key;
mod next;
mod record;
#[cfg(any(test, feature = "testing"))]
pub mod samples;
mod step;
mod usage;

pub use admit::{Admission, AdmissionFacts, ClaimRequest, NodeVolumes, admit, admit_placement};
pub use denied::{ClaimDenied, ClaimDeniedReason, ClaimHolder};
pub use event::{
    ClaimEvent, EventPlace, StepAnswer, apply, is_concerned, is_new_problem, is_valid,
};
pub use facts::{Facts, PluginSteps};
pub use invariant::violations;
pub use key::ClaimKey;
pub use next::next_steps;
pub use record::{
    Attachment, Claim, ClaimProgress, Claims, Intent, Known, NodeExpansion, Staging, StartedCall,
    StepProblem, Tombstone,
};
pub use step::{Effect, Lane, Step};
pub use usage::{ClaimUsage, SealedFlags};
