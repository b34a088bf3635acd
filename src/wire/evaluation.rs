//! An evaluation, with the fields that explain why a job is not placed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// An evaluation in the responses of `GET /v1/evaluations` and `GET /v1/evaluation/:id`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct EvaluationDocument {
    /// The placements that failed, by task group. Only the evaluation that made a blocked one has them.
    #[serde(rename = "FailedTGAllocs")]
    pub failed_placements: Option<BTreeMap<String, FailedPlacement>>,
    /// The evaluation's ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// The job.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// The evaluation that made this one; empty if there is none.
    pub previous_eval: String,
    /// `blocked`, `complete` and others.
    pub status: String,
}

/// Why a task group was not placed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct FailedPlacement {
    /// The scheduler's reasons, and how many nodes each refused.
    pub constraint_filtered: Option<BTreeMap<String, i64>>,
}
