//! The response to a plan: what would happen if the job were registered.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::diff::JobDiffDocument;
use crate::allocation::AllocationStub;
use crate::evaluation::EvaluationDocument;
use crate::placement::PlacementMetricsDocument;

/// The response to `PUT /v1/job/:id/plan`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobPlanResponse {
    /// The changes to the allocations.
    pub annotations: Option<PlanAnnotationsDocument>,
    /// The evaluations that would be made, such as a blocked one.
    pub created_evals: Option<Vec<EvaluationDocument>>,
    /// The difference; Nomad's CLI fails without it if it asked for it.
    pub diff: Option<JobDiffDocument>,
    /// The placements that would fail, by task group.
    #[serde(rename = "FailedTGAllocs")]
    pub failed_placements: Option<BTreeMap<String, PlacementMetricsDocument>>,
    /// The index of the state that the scheduler saw.
    pub index: u64,
    /// The index of the registered job; 0 for a new one.
    pub job_modify_index: u64,
    /// When a periodic job starts next; `null` for a job that does not start by itself.
    pub next_periodic_launch: Option<String>,
    /// The server's warnings, one per line.
    pub warnings: String,
}

/// The changes to the allocations of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PlanAnnotationsDocument {
    /// The counts by task group.
    #[serde(rename = "DesiredTGUpdates")]
    pub desired_updates: BTreeMap<String, DesiredUpdatesDocument>,
    /// The allocations of other jobs that would give way.
    pub preempted_allocs: Option<Vec<AllocationStub>>,
}

/// The number of allocations of a task group per change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DesiredUpdatesDocument {
    /// Placed as canaries.
    pub canary: u64,
    /// Stopped and placed again.
    pub destructive_update: u64,
    /// Left as they are.
    pub ignore: u64,
    /// Changed while they run.
    pub in_place_update: u64,
    /// Moved to another node.
    pub migrate: u64,
    /// Placed.
    pub place: u64,
    /// Of other jobs, which give way.
    pub preemptions: u64,
    /// Stopped.
    pub stop: u64,
}

impl DesiredUpdatesDocument {
    /// Returns whether an allocation is created or destroyed.
    pub fn changes_allocations(&self) -> bool {
        self.stop + self.place + self.migrate + self.destructive_update + self.canary > 0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decode_value;

    #[test]
    fn a_recorded_plan_without_a_change_keeps_its_fields() {
        let recorded = json!({
            "Annotations": {"DesiredTGUpdates": {"g": {"Ignore": 1, "Place": 0, "Migrate": 0, "Stop": 0,
                "InPlaceUpdate": 0, "DestructiveUpdate": 0, "Canary": 0, "Preemptions": 0}},
                "PreemptedAllocs": null},
            "FailedTGAllocs": null, "JobModifyIndex": 32, "CreatedEvals": null,
            "Diff": {"Type": "None", "ID": "svc", "Fields": null, "Objects": null,
                "TaskGroups": [{"Type": "None", "Name": "g", "Fields": null, "Objects": null,
                    "Tasks": [{"Type": "None", "Name": "w", "Fields": null, "Objects": null,
                        "Annotations": null}],
                    "Updates": {"ignore": 1}}]},
            "NextPeriodicLaunch": null, "Warnings": "", "Index": 32,
        });
        let plan: JobPlanResponse = decode_value(&recorded).expect("cannot decode");
        assert_eq!(json!(plan), recorded);
        let updates = plan.annotations.expect("the annotations are missing").desired_updates;
        assert!(!updates["g"].changes_allocations());
    }

    #[test]
    fn a_recorded_plan_that_cannot_be_placed_says_why() {
        let plan: JobPlanResponse = decode_value(&json!({
            "Annotations": {"DesiredTGUpdates": {"g": {"Place": 1}}}, "JobModifyIndex": 0,
            "FailedTGAllocs": {"g": {"NodesEvaluated": 1, "NodesFiltered": 1, "NodesAvailable": {"dc1": 1},
                "ConstraintFiltered": {"missing CSI volume(s) nosuch": 1}}},
            "CreatedEvals": [{"Status": "blocked", "MissingNonNodeResources": ["csi-volume:default:nosuch"]}],
            "Diff": {"Type": "Added", "ID": "missing", "Fields": [{"Type": "Added", "Name": "Priority",
                "Old": "", "New": "50", "Annotations": null}]},
        }))
        .expect("cannot decode");
        let updates = plan.annotations.expect("the annotations are missing").desired_updates;
        assert!(updates["g"].changes_allocations());
        let failed = plan.failed_placements.expect("the failures are missing");
        let reasons = failed["g"].constraint_filtered.clone();
        assert_eq!(reasons, Some([("missing CSI volume(s) nosuch".to_owned(), 1)].into()));
    }
}
