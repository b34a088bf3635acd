//! Jobs that other jobs are made from, and the requests that make one.
//!
//! These documents decide when a job runs and with which values, so a field that nothing reads is an error.

use serde::{Deserialize, Serialize};

use nomad_csi_model::{Payload, TaskEnvironment};

/// The only kind of [`PeriodicDocument::spec_type`].
pub(super) const CRON: &str = "cron";

/// When a job starts by itself. Nomad's clients fail without the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase", deny_unknown_fields)]
pub struct PeriodicDocument {
    /// True if it does; `null` stands for `true`.
    pub enabled: Option<bool>,
    /// True if a launch is left out while a job of an earlier one runs.
    pub prohibit_overlap: bool,
    /// The one expression of the older form.
    pub spec: String,
    /// `cron`.
    pub spec_type: String,
    /// The expressions.
    pub specs: Vec<String>,
    /// The time zone of the expressions.
    pub time_zone: String,
}

/// The values that each dispatch of a job has to give.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase", deny_unknown_fields)]
pub struct ParameterizedDocument {
    /// The keys of `Meta` that it may have.
    pub meta_optional: Vec<String>,
    /// The keys of `Meta` that it must have.
    pub meta_required: Vec<String>,
    /// `optional`, `required` or `forbidden`.
    pub payload: String,
}

/// The file of a task that gets the payload of a dispatched job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase", deny_unknown_fields)]
pub struct DispatchPayloadDocument {
    /// Its path in the task's directory.
    pub file: String,
}

/// The body of a request that makes a job from a parameterized one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase", deny_unknown_fields)]
pub struct JobDispatchRequest {
    /// The text before the time in the ID of the new job.
    pub id_prefix_template: String,
    /// The parameterized job.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// Values for the environments of its tasks.
    pub meta: TaskEnvironment,
    /// The payload.
    pub payload: Payload,
    /// The priority; 0 stands for that of the parameterized job.
    pub priority: i64,
}

/// The response to a request that makes a job from a parameterized one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobDispatchResponse {
    /// The new job.
    #[serde(rename = "DispatchedJobID")]
    pub dispatched_job_id: String,
    /// The index of the evaluation.
    pub eval_create_index: u64,
    /// The evaluation; empty if the request was repeated.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    /// The index of the write.
    pub index: u64,
    /// The index of the new job.
    pub job_create_index: u64,
}

/// The response to a request that launches a periodic job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PeriodicForceResponse {
    /// The index of the evaluation.
    pub eval_create_index: u64,
    /// The evaluation of the new job.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    /// The index of the write.
    pub index: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decode_value;

    #[test]
    fn recorded_requests_and_responses_keep_their_fields() {
        let dispatched = json!({
            "DispatchedJobID": "drop-set/dispatch-1795643580-814b8227", "EvalCreateIndex": 19,
            "EvalID": "94fb22ac-9640-05b0-cbe5-e5155fbe4ca0", "Index": 19, "JobCreateIndex": 19,
        });
        let read: JobDispatchResponse = decode_value(&dispatched).expect("cannot decode");
        assert_eq!(json!(read), dispatched);
        let forced = json!({"EvalCreateIndex": 28, "EvalID": "7e771717", "Index": 28});
        let read: PeriodicForceResponse = decode_value(&forced).expect("cannot decode");
        assert_eq!(json!(read), forced);
        let request =
            json!({"Meta": {"set": "a"}, "Payload": "aGVsbG8K", "IdPrefixTemplate": null});
        let read: JobDispatchRequest = decode_value(&request).expect("cannot decode");
        assert_eq!(read.payload.expose(), b"hello\n");
        assert_eq!(read.meta.get("set"), Some("a"));
        assert!(decode_value::<JobDispatchRequest>(&json!({"Payload": "!!"})).is_err());
    }
}
