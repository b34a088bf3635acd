//! An allocation alone, with its job, its tasks and what the scheduler saw.
//!
//! Nomad's CLI fails without `Job`, `Resources`, `TaskResources` and `Metrics`, so a server always
//! sends them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::allocation::DesiredTransitionDocument;
use super::job::{JobDocument, ResourcesDocument};
use super::placement::PlacementMetricsDocument;
use super::task_state::TaskStateDocument;

/// An allocation in the responses of `GET /v1/allocation/:id` and `GET /v1/node/:id/allocations`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocationDocument {
    /// The index of the server's last change.
    pub alloc_modify_index: u64,
    /// The client's description of the status.
    pub client_description: String,
    /// The status that the client reports.
    pub client_status: String,
    /// The index of the creation.
    pub create_index: u64,
    /// Nanoseconds since the epoch.
    pub create_time: i64,
    /// The server's description of the desired status.
    pub desired_description: String,
    /// The status that the server wants.
    pub desired_status: String,
    /// The transition that the server wants, such as a migration.
    pub desired_transition: DesiredTransitionDocument,
    /// The evaluation.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    /// The allocation's ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// The job as it was when the allocation was placed; `null` in events.
    pub job: Option<JobDocument>,
    /// The job's ID.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// The observations of the scheduler.
    pub metrics: PlacementMetricsDocument,
    /// The index of the last change.
    pub modify_index: u64,
    /// Nanoseconds since the epoch.
    pub modify_time: i64,
    /// The name, such as `job.group[0]`.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// The allocation that replaces it; empty if there is none.
    pub next_allocation: String,
    /// The node.
    #[serde(rename = "NodeID")]
    pub node_id: String,
    /// The name of the node.
    pub node_name: String,
    /// The allocation that it replaces; empty if there is none.
    pub previous_allocation: String,
    /// The resources of all tasks together.
    pub resources: ResourcesDocument,
    /// The task group.
    pub task_group: String,
    /// The resources by task.
    pub task_resources: BTreeMap<String, ResourcesDocument>,
    /// The tasks by name; `null` before the node reported any.
    pub task_states: Option<BTreeMap<String, TaskStateDocument>>,
}

/// The response to a request that stops an allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocationStopResponse {
    /// The evaluation that replaces the allocation.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    /// The index of the write.
    pub index: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{AllocationStub, decode_value};

    #[test]
    fn a_recorded_allocation_is_read() {
        let allocation: AllocationDocument = decode_value(&json!({
            "ID": "3761b601", "Namespace": "default", "EvalID": "84aa1031", "Name": "svc.g[0]",
            "NodeID": "84124d0e", "NodeName": "rec2", "JobID": "svc", "TaskGroup": "g",
            "Job": {"ID": "svc", "Version": 3, "TaskGroups": [{"Name": "g",
                "Volumes": {"v": {"Name": "v", "Type": "csi", "Source": "vol1"}},
                "Tasks": [{"Name": "w", "VolumeMounts": [{"Volume": "v", "Destination": "/data"}]}]}]},
            "Resources": {"CPU": 50, "MemoryMB": 32, "MemoryMaxMB": 32, "DiskMB": 300},
            "TaskResources": {"w": {"CPU": 50, "MemoryMB": 32}},
            "AllocatedResources": {"Shared": {"DiskMB": 300}},
            "Metrics": {"NodesEvaluated": 1, "NodesAvailable": {"dc1": 1}, "ScoreMetaData": [{"NormScore": 0.0385}]},
            "DesiredStatus": "run", "ClientStatus": "running", "ClientDescription": "Tasks are running",
            "TaskStates": {"w": {"State": "running", "Failed": false, "Restarts": 0, "LastRestart": null,
                "StartedAt": "2026-11-22T02:45:55.24Z", "FinishedAt": null,
                "Events": [{"Type": "Received", "Time": 1_795_315_546_351_093_446_i64, "Message": "",
                    "DisplayMessage": "Task received by client", "Details": {}, "ExitCode": 0}]}},
        }))
        .expect("cannot decode");
        assert_eq!(allocation.resources.disk_mb, Some(300));
        assert_eq!(allocation.task_resources["w"].cpu, Some(50));
        let job = allocation.job.expect("the job is missing");
        assert_eq!((job.version, job.task_groups[0].volumes.len()), (3, 1));
        let tasks = allocation.task_states.expect("the tasks are missing");
        assert_eq!(tasks["w"].events[0].event_type, "Received");
        assert_eq!(tasks["w"].started_at.as_deref(), Some("2026-11-22T02:45:55.24Z"));
    }

    #[test]
    fn an_allocation_has_everything_that_nomads_cli_requires() {
        let written = json!(AllocationDocument::default());
        for key in ["Job", "Metrics", "Resources", "TaskGroup", "TaskResources", "TaskStates"] {
            assert!(written.get(key).is_some(), "{key}");
        }
        let none: AllocationStub =
            decode_value(&json!({"TaskStates": null})).expect("cannot decode");
        assert_eq!(none, AllocationStub::default());
    }
}
