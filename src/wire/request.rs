//! Write requests, and the responses to them.
//!
//! The volumes of a request have user fields only: see [`VolumeWrite`].

use serde::{Deserialize, Serialize};

use super::volume::{VolumeDocument, VolumeWrite};

/// The body of a register or create request. Go clients also send `SecretID`, which servers ignore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct WriteRequest {
    /// The namespace, if the query has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The region, if the query has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub region: String,
    /// The volumes, at least one.
    pub volumes: Vec<VolumeWrite>,
    /// Overrides soft-mandatory policies of Nomad Enterprise (since 1.10.4). The agent ignores it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub policy_override: bool,
}

/// The response to a register (since 1.10.5) or create request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct WriteResponse {
    /// The index of the write.
    pub index: u64,
    /// True if the server has a leader.
    pub known_leader: bool,
    /// Time since the last contact with the leader in nanoseconds.
    pub last_contact: i64,
    /// Always empty.
    pub next_token: String,
    /// The volumes as written; in Nomad with stale indexes.
    pub volumes: Vec<VolumeDocument>,
    /// Warnings as text, usually empty; missing before 1.10.4.
    pub warnings: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;

    #[test]
    fn an_error_never_contains_a_secret_of_the_wrong_type() {
        let body = br#"{"Volumes":[{"Secrets":{"pin":4711}}]}"#;
        let error = decode::<WriteRequest>(body).expect_err("a number is not a string");
        assert_eq!(error.to_string(), "Volumes[0].Secrets: secrets must be strings");
    }
}
