//! Wanted against observed.

mod merge;

pub use merge::{
    Expansion, MergeRules, Merged, MountOptionsRule, OmittedMap, Refusal, SecretsChange,
    TopologyRule, merge,
};
