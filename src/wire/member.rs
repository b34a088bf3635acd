//! The servers of a region.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The response of `GET /v1/agent/members`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct MembersDocument {
    /// The servers.
    pub members: Vec<MemberDocument>,
    /// The datacenter of the server that answers.
    #[serde(rename = "ServerDC")]
    pub server_dc: String,
    /// The name of the server that answers.
    pub server_name: String,
    /// The region of the server that answers.
    pub server_region: String,
}

/// A server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct MemberDocument {
    /// The address without the port.
    pub addr: String,
    /// The name, with the region after a point.
    pub name: String,
    /// The port.
    pub port: u64,
    /// `alive`, `left` or `failed`.
    pub status: String,
    /// `build`, `dc`, `port`, `region` and others. `Addr` with the tag `port` is the server's address.
    pub tags: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decode_value;

    #[test]
    fn recorded_members_keep_their_fields() {
        let recorded = json!({
            "ServerName": "rec2", "ServerRegion": "global", "ServerDC": "dc1",
            "Members": [{"Name": "rec2.global", "Addr": "127.0.0.1", "Port": 4648, "Status": "alive",
                "Tags": {"region": "global", "dc": "dc1", "build": "2.0.5", "raft_vsn": "3", "port": "4647"}}],
        });
        let members: MembersDocument = decode_value(&recorded).expect("cannot decode");
        assert_eq!(json!(members), recorded);
    }
}
