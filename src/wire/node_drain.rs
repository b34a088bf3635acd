//! Requests that drain a node or change its eligibility, and their response.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The body of `PUT /v1/node/:id/eligibility`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeEligibilityRequest {
    /// `eligible` or `ineligible`.
    pub eligibility: String,
    /// The node.
    #[serde(rename = "NodeID")]
    pub node_id: String,
}

/// The body of `PUT /v1/node/:id/drain`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeDrainRequest {
    /// How to drain; `null` ends a drain.
    pub drain_spec: Option<DrainSpecDocument>,
    /// True if the node can get allocations again; only when a drain ends.
    pub mark_eligible: bool,
    /// Metadata of the drain, from the operator.
    pub meta: BTreeMap<String, String>,
    /// The node.
    #[serde(rename = "NodeID")]
    pub node_id: String,
}

/// How a node is drained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DrainSpecDocument {
    /// How long allocations may take to move, in nanoseconds. 0 is no limit, and a negative number
    /// stops them at once.
    pub deadline: i64,
    /// True if allocations of system jobs stay.
    pub ignore_system_jobs: bool,
}

/// The drain of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DrainStrategyDocument {
    /// How long allocations may take to move, in nanoseconds.
    pub deadline: i64,
    /// When the rest is stopped, or `null`.
    pub force_deadline: Option<String>,
    /// True if allocations of system jobs stay.
    pub ignore_system_jobs: bool,
    /// When it started, or `null`.
    pub started_at: Option<String>,
}

/// The last drain of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct LastDrainDocument {
    /// The token of the operator.
    #[serde(rename = "AccessorID")]
    pub accessor_id: String,
    /// Metadata of the drain, from the operator.
    pub meta: BTreeMap<String, String>,
    /// When it started, or `null`.
    pub started_at: Option<String>,
    /// `draining`, `complete` or `canceled`.
    pub status: String,
    /// When it changed last, or `null`.
    pub updated_at: Option<String>,
}

/// The response to a request that changes a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeUpdateResponse {
    /// The index of the evaluations.
    pub eval_create_index: u64,
    /// The evaluations of jobs that the change concerns.
    #[serde(rename = "EvalIDs")]
    pub eval_ids: Option<Vec<String>>,
    /// The index of the write.
    pub index: u64,
    /// The index of the node.
    pub node_modify_index: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decode_value;

    #[test]
    fn recorded_requests_keep_their_fields() {
        for recorded in [
            json!({"NodeID": "84124d0e", "DrainSpec": {"Deadline": 30_000_000_000_i64,
                "IgnoreSystemJobs": false}, "MarkEligible": true, "Meta": {}}),
            json!({"NodeID": "84124d0e", "DrainSpec": null, "MarkEligible": false, "Meta": {}}),
        ] {
            let request: NodeDrainRequest = decode_value(&recorded).expect("cannot decode");
            assert_eq!(json!(request), recorded);
        }
        let recorded = json!({"NodeID": "84124d0e", "Eligibility": "ineligible"});
        let request: NodeEligibilityRequest = decode_value(&recorded).expect("cannot decode");
        assert_eq!(json!(request), recorded);
        let recorded =
            json!({"NodeModifyIndex": 453, "EvalIDs": null, "EvalCreateIndex": 0, "Index": 453});
        let response: NodeUpdateResponse = decode_value(&recorded).expect("cannot decode");
        assert_eq!(json!(response), recorded);
    }
}
