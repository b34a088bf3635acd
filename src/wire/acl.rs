//! ACL tokens and policies, with the fields that a client reads.
//!
//! The token's secret ID is omitted: a client that reads its own token already has it.

use serde::{Deserialize, Serialize};

/// An ACL token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TokenDocument {
    /// The accessor ID; `anonymous` without a token, `acls-disabled` if ACLs are off.
    #[serde(rename = "AccessorID")]
    pub accessor_id: String,
    /// The token's name.
    pub name: String,
    /// Names of policies; none for a management token.
    pub policies: Option<Vec<String>>,
    /// `client` or `management`.
    #[serde(rename = "Type")]
    pub kind: String,
}

/// An ACL policy. Lists omit the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PolicyDocument {
    /// A description for users.
    pub description: String,
    /// The policy's name.
    pub name: String,
    /// The rules in HCL or JSON.
    pub rules: String,
}
