//! An evaluation: one run of the scheduler for one job.
//!
//! Nomad leaves empty texts and `null` out of this document, unlike in others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::placement::PlacementMetricsDocument;

/// An evaluation in the responses of `GET /v1/evaluations` and `GET /v1/evaluation/:id`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct EvaluationDocument {
    /// The evaluation that waits until the rest can be placed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub blocked_eval: String,
    /// The index of the creation.
    pub create_index: u64,
    /// Nanoseconds since the epoch.
    pub create_time: i64,
    /// The deployment that it belongs to.
    #[serde(rename = "DeploymentID", skip_serializing_if = "String::is_empty")]
    pub deployment_id: String,
    /// The placements that failed, by task group. Only the evaluation that made a blocked one has them.
    #[serde(rename = "FailedTGAllocs", skip_serializing_if = "Option::is_none")]
    pub failed_placements: Option<BTreeMap<String, PlacementMetricsDocument>>,
    /// The evaluation's ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// The job.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// The index of the job's specification.
    pub job_modify_index: u64,
    /// Resources other than nodes that the job waits for, such as `csi-volume:default:db`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_non_node_resources: Option<Vec<String>>,
    /// The index of the last change.
    pub modify_index: u64,
    /// Nanoseconds since the epoch.
    pub modify_time: i64,
    /// The namespace.
    pub namespace: String,
    /// The evaluation that continues this one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub next_eval: String,
    /// The node whose change made it.
    #[serde(rename = "NodeID", skip_serializing_if = "String::is_empty")]
    pub node_id: String,
    /// The evaluation that made this one; empty if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub previous_eval: String,
    /// The job's priority.
    pub priority: i64,
    /// How many allocations of each group still wait for a place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_allocations: Option<BTreeMap<String, i64>>,
    /// The evaluations that belong to this one; only with `related=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub related_evals: Option<Vec<EvaluationStub>>,
    /// The index of the state that the scheduler saw.
    #[serde(skip_serializing_if = "is_zero")]
    pub snapshot_index: u64,
    /// `pending`, `blocked`, `complete`, `failed` or `canceled`.
    pub status: String,
    /// Why it has this status.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status_description: String,
    /// Its cause, such as `job-register`.
    pub triggered_by: String,
    /// `service`, `batch`, `system` or `sysbatch`.
    #[serde(rename = "Type")]
    pub job_type: String,
    /// How long the next evaluation waits, in nanoseconds.
    #[serde(skip_serializing_if = "is_zero_duration")]
    pub wait: i64,
}

/// An evaluation that belongs to another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct EvaluationStub {
    /// The evaluation's ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// The job.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// The namespace.
    pub namespace: String,
    /// The job's priority.
    pub priority: i64,
    /// Its status.
    pub status: String,
    /// Why it has this status.
    pub status_description: String,
    /// Its cause.
    pub triggered_by: String,
    /// `service`, `batch`, `system` or `sysbatch`.
    #[serde(rename = "Type")]
    pub job_type: String,
}

impl EvaluationDocument {
    /// Returns whether the scheduler is done with it.
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.as_str(), "complete" | "failed" | "canceled")
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero_duration(nanoseconds: &i64) -> bool {
    *nanoseconds == 0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decode_value;

    #[test]
    fn a_recorded_evaluation_keeps_its_fields() {
        let recorded = json!({
            "ID": "dc7ce9cc", "Namespace": "default", "Priority": 50, "Type": "service",
            "TriggeredBy": "job-register", "JobID": "wrongmode", "JobModifyIndex": 68,
            "DeploymentID": "37dce7dd", "Status": "complete", "BlockedEval": "93cc72db",
            "QueuedAllocations": {"g": 1}, "SnapshotIndex": 68,
            "FailedTGAllocs": {"g": {
                "NodesEvaluated": 1, "NodesFiltered": 1,
                "ConstraintFiltered": {"CSI volume vol1 has exhausted its available writer claims": 1},
                "CoalescedFailures": 0, "AllocationTime": 0, "DimensionExhausted": null,
                "NodePool": "", "NodesAvailable": null, "NodesExhausted": 0, "NodesInPool": 0,
            }},
            "CreateIndex": 68, "ModifyIndex": 71, "CreateTime": 1_795_315_654_168_534_904_i64,
            "ModifyTime": 1_795_315_654_175_509_816_i64,
        });
        let evaluation: EvaluationDocument = decode_value(&recorded).expect("cannot decode");
        assert!(evaluation.is_terminal());
        assert_eq!(json!(evaluation), recorded);
    }

    #[test]
    fn an_evaluation_without_a_result_has_only_the_fields_that_are_always_there() {
        let keys = json!(EvaluationDocument::default());
        let keys: Vec<&String> = keys.as_object().expect("no object").keys().collect();
        assert_eq!(
            keys,
            [
                "CreateIndex",
                "CreateTime",
                "ID",
                "JobID",
                "JobModifyIndex",
                "ModifyIndex",
                "ModifyTime",
                "Namespace",
                "Priority",
                "Status",
                "TriggeredBy",
                "Type"
            ]
        );
    }
}
