//! A job in a list, and how many of its allocations are in which state.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A job in the response of `GET /v1/jobs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobStub {
    /// The index of the creation.
    pub create_index: u64,
    /// The datacenters.
    pub datacenters: Vec<String>,
    /// The job's ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// The index of the last change of the specification.
    pub job_modify_index: u64,
    /// Its allocations. Nomad's CLI fails without the object.
    pub job_summary: JobSummaryDocument,
    /// The index of the last change.
    pub modify_index: u64,
    /// The name.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// The node pool.
    pub node_pool: String,
    /// True if other jobs are made from it.
    pub parameterized_job: bool,
    /// The job that it was made from; usually empty.
    #[serde(rename = "ParentID")]
    pub parent_id: String,
    /// True if it starts at given times.
    pub periodic: bool,
    /// The priority.
    pub priority: i64,
    /// `pending`, `running` or `dead`.
    pub status: String,
    /// Why it has this status.
    pub status_description: String,
    /// True if it was stopped.
    pub stop: bool,
    /// When it was registered, in nanoseconds since the epoch.
    pub submit_time: i64,
    /// `service`, `batch`, `system` or `sysbatch`.
    #[serde(rename = "Type")]
    pub job_type: String,
    /// The version.
    pub version: u64,
}

/// The allocations of a job in the response of `GET /v1/job/:id/summary`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobSummaryDocument {
    /// The jobs that were made from it.
    pub children: JobChildrenDocument,
    /// The index of the creation.
    pub create_index: u64,
    /// The job.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// The index of the last change.
    pub modify_index: u64,
    /// The namespace. Nomad's CLI reads the job from here.
    pub namespace: String,
    /// The counts by task group.
    pub summary: BTreeMap<String, GroupSummaryDocument>,
}

/// How many jobs that were made from a job are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobChildrenDocument {
    /// Those that have ended.
    pub dead: i64,
    /// Those that wait.
    pub pending: i64,
    /// Those that run.
    pub running: i64,
}

/// How many allocations of a task group are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct GroupSummaryDocument {
    /// Those that ended without an error.
    pub complete: i64,
    /// Those that failed.
    pub failed: i64,
    /// Those whose node is lost.
    pub lost: i64,
    /// Those that wait for a place.
    pub queued: i64,
    /// Those that run.
    pub running: i64,
    /// Those that were placed and have not started.
    pub starting: i64,
    /// Those whose node is disconnected.
    pub unknown: i64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decode_value;

    #[test]
    fn a_recorded_job_of_a_list_keeps_its_fields() {
        let recorded = json!({
            "ID": "svc", "ParentID": "", "Name": "svc", "Namespace": "default", "Datacenters": ["*"],
            "NodePool": "default", "Type": "service", "Priority": 50, "Periodic": false,
            "ParameterizedJob": false, "Stop": false, "Status": "running", "StatusDescription": "",
            "JobSummary": {"JobID": "svc", "Namespace": "default",
                "Summary": {"g": {"Queued": 0, "Complete": 0, "Failed": 0, "Running": 1, "Starting": 0,
                    "Lost": 0, "Unknown": 0}},
                "Children": {"Pending": 0, "Running": 0, "Dead": 0}, "CreateIndex": 32, "ModifyIndex": 38},
            "CreateIndex": 32, "ModifyIndex": 41, "JobModifyIndex": 32,
            "SubmitTime": 1_795_315_546_336_441_396_i64, "Version": 0,
        });
        let stub: JobStub = decode_value(&recorded).expect("cannot decode");
        assert_eq!(stub.job_summary.summary["g"].running, 1);
        assert_eq!(json!(stub), recorded);
    }

    #[test]
    fn a_job_without_a_summary_still_has_the_object() {
        let stub: JobStub = decode_value(&json!({"JobSummary": null})).expect("cannot decode");
        assert!(json!(stub)["JobSummary"].is_object());
    }
}
