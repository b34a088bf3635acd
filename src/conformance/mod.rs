//! Is somebody's plugin a CSI plugin: what it says of itself, and checks of what it does.
//!
//! [`Profile`] is everything a plugin says of itself. [`run()`] carries out named checks
//! ([`cases`]), each with the section of the CSI specification that it comes from, and gives a
//! [`Report`]: what was sent, what came back, what was expected. Only what the plugin advertises is
//! required, and nothing is created unless that was asked for.
//!
//! The checks cover what the usual suite looks at and what it leaves out (`csi-sanity` section 7).
//! Whether an answer is right is decided by pure functions (`expect`, `sound`); calls are made by
//! `check`, which writes down every exchange and everything that a call may have left behind
//! (`made`), before it is sent. So clean-up knows what to undo after a failure, after a lost reply
//! and after Ctrl-C, and the report says what could not be undone.
//!
//! It speaks raw CSI ([`crate::csi::RawClient`]), since it has to send what no port can express.

mod case;
mod catalog;
mod check;
mod checks;
mod expect;
mod machine;
mod made;
mod profile;
mod report;
mod run;
mod select;
mod setup;
mod show;
mod sound;
mod workload;

pub use case::{Area, Case, Effect, Need};
pub use catalog::cases;
pub use machine::MachineFiles;
pub use profile::{Profile, Unusable, controller_names, group_names, node_names, plugin_names};
pub use report::{Exchange, Finding, Leftover, Level, Outcome, Report, Tally, Verdict};
pub use run::{Watch, run};
pub use select::{Choice, Selection};
pub use setup::Setup;
pub use sound::profile_problems;
pub use workload::{Kind, Workload};
