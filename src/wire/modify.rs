//! A change of mutable parameters; ours.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The body of `PUT /v1/volume/csi/:id/modify`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ModifyRequest {
    /// The parameters to change, at least one. Others stay as they are. One without a value is refused.
    pub mutable_parameters: BTreeMap<String, Option<String>>,
}

/// The response of `PUT /v1/volume/csi/:id/modify`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ModifyResponse {
    /// The mutable parameters in force, as far as they were set through the agent.
    pub mutable_parameters: BTreeMap<String, String>,
}
