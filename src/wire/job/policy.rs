//! Constraints and policies, which several parts of a job have.

use serde::{Deserialize, Serialize};

/// A constraint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConstraintDocument {
    /// The attribute.
    #[serde(rename = "LTarget")]
    pub attribute: String,
    /// The operator.
    #[serde(rename = "Operand")]
    pub operator: String,
    /// The value.
    #[serde(rename = "RTarget")]
    pub value: String,
}

/// A restart policy. Durations are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct RestartPolicyDocument {
    /// The number of restarts within the interval.
    pub attempts: Option<i64>,
    /// The pause before a restart.
    pub delay: Option<i64>,
    /// The interval.
    pub interval: Option<i64>,
    /// `fail` or `delay`.
    pub mode: Option<String>,
}

/// When a failed allocation is replaced. Durations are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ReschedulePolicyDocument {
    /// The number of replacements within the interval.
    pub attempts: Option<i64>,
    /// The first pause.
    pub delay: Option<i64>,
    /// `constant`, `exponential` or `fibonacci`.
    pub delay_function: Option<String>,
    /// The interval.
    pub interval: Option<i64>,
    /// The longest pause.
    pub max_delay: Option<i64>,
    /// True if there is no limit of replacements.
    pub unlimited: Option<bool>,
}
