//! The requests of an operator for an allocation of a node.

use serde::{Deserialize, Serialize};

use super::field::{Malformed, Transfer, from_json, json};
use super::messages;
use nomad_csi_model::AllocId;

/// What an operator wants of an allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum AllocCall {
    Restart { task: Option<String> },
    Signal { task: Option<String>, signal: String },
    Stat { path: String },
    List { path: String },
    Read { path: String, offset: u64, limit: u64 },
}

impl Transfer for (AllocId, AllocCall) {
    type Message = messages::AllocAccessRequest;

    fn write(self) -> messages::AllocAccessRequest {
        let (alloc, call) = self;
        messages::AllocAccessRequest { alloc: alloc.as_str().to_owned(), call_json: json(&call) }
    }

    fn read(message: messages::AllocAccessRequest) -> Result<Self, Malformed> {
        Ok((AllocId::new(message.alloc), from_json(&message.call_json, "call_json")?))
    }
}
