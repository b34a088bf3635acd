//! Diagnosis: the facts about one volume joined into findings, each with its cause and its remedies.
//!
//! The rules are pure: facts in, findings out. A finding is *known* if the server or the provider
//! reported it, and *inferred* if it follows from what they reported. Nomad hides the state of a claim,
//! so a claim of an ended allocation is explained from its node and its plugin there. A fact that could
//! not be read leads to no finding. [`plugin_impact()`] is a rule of its own: what is lost when a plugin
//! ends. `reconcile` reads the facts and runs remedies.

mod alloc_rules;
mod cause;
mod claim_rules;
mod creation_rules;
mod diagnose;
mod facts;
mod fenced_nodes;
mod finding;
mod health_rules;
mod kept_files;
mod plugin_impact;
mod plugin_rules;
mod provider_rules;
mod remedies;
#[cfg(test)]
mod samples;
mod waiting_rules;

pub use cause::{Cause, release_cause};
pub use creation_rules::creation_finding;
pub use diagnose::diagnose;
pub use facts::VolumeFacts;
pub use finding::{Confidence, Evidence, FactSource, Finding, Remedy, Rule, SafeFix, Severity};
pub use plugin_impact::{
    Loss, LostInstance, PluginImpact, PluginUse, VolumeImpact, VolumeUser, plugin_impact,
};
