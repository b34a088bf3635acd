//! The responses to requests that register, stop and validate a job.

use serde::{Deserialize, Serialize};

/// The body of a request that evaluates a job again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobEvaluateRequest {
    /// How it is evaluated.
    pub eval_options: EvaluateOptions,
}

/// How a job is evaluated again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct EvaluateOptions {
    /// True if failed allocations are replaced now.
    pub force_reschedule: bool,
}

/// The response to a request that registers a job or evaluates it again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobRegisterResponse {
    /// The index of the evaluation.
    pub eval_create_index: u64,
    /// The evaluation; empty for a job that is only started by others.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    /// The index of the write.
    pub index: u64,
    /// The index of the job's specification.
    pub job_modify_index: u64,
    /// Always false in a response to a write.
    pub known_leader: bool,
    /// Always 0 in a response to a write.
    pub last_contact: i64,
    /// Always empty.
    pub next_token: String,
    /// The server's warnings, one per line.
    pub warnings: String,
}

/// The response to a request that stops a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobDeregisterResponse {
    /// The index of the evaluation.
    pub eval_create_index: u64,
    /// The evaluation; empty if there was no such job.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    /// The index of the write.
    pub index: u64,
    /// The index of the job's specification.
    pub job_modify_index: u64,
    /// Always false in a response to a write.
    pub known_leader: bool,
    /// Always 0 in a response to a write.
    pub last_contact: i64,
    /// Always empty.
    pub next_token: String,
    /// Always empty.
    #[serde(rename = "VolumeEvalID")]
    pub volume_eval_id: String,
    /// Always 0.
    pub volume_eval_index: u64,
}

/// The response to a request that validates a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobValidateResponse {
    /// True if the configuration of the drivers was checked too.
    pub driver_config_validated: bool,
    /// All errors in one text; empty for a valid job.
    pub error: String,
    /// The errors one by one; `null` for a valid job.
    pub validation_errors: Option<Vec<String>>,
    /// The server's warnings, one per line.
    pub warnings: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decode_value;

    #[test]
    fn recorded_responses_keep_their_fields() {
        let registered = json!({
            "EvalID": "84aa1031", "EvalCreateIndex": 32, "JobModifyIndex": 32, "Warnings": "", "Index": 32,
            "LastContact": 0, "KnownLeader": false, "NextToken": "",
        });
        let read: JobRegisterResponse = decode_value(&registered).expect("cannot decode");
        assert_eq!(json!(read), registered);
        let stopped = json!({
            "EvalID": "710cd91e", "EvalCreateIndex": 178, "JobModifyIndex": 178, "VolumeEvalID": "",
            "VolumeEvalIndex": 0, "Index": 178, "LastContact": 0, "KnownLeader": false, "NextToken": "",
        });
        let read: JobDeregisterResponse = decode_value(&stopped).expect("cannot decode");
        assert_eq!(json!(read), stopped);
        let valid = json!({
            "DriverConfigValidated": true, "ValidationErrors": null, "Error": "", "Warnings": "",
        });
        let read: JobValidateResponse = decode_value(&valid).expect("cannot decode");
        assert_eq!(json!(read), valid);
    }
}
