//! ACL tokens and policies, as far as a client reads them (`nomad-neighbour-apis` 3.1, 3.3).
//!
//! A token's secret is not among the fields: who reads his own token has it already.

use serde::{Deserialize, Serialize};

/// A token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TokenDocument {
    /// Its public ID; `anonymous` without a token, `acls-disabled` where nobody is asked.
    #[serde(rename = "AccessorID")]
    pub accessor_id: String,
    /// What people call it.
    pub name: String,
    /// Names of policies; of a management token none.
    pub policies: Option<Vec<String>>,
    /// `client` or `management`.
    #[serde(rename = "Type")]
    pub kind: String,
}

/// A policy, or what a list shows of one: everything but its rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PolicyDocument {
    /// For people.
    pub description: String,
    /// Its name.
    pub name: String,
    /// HCL or JSON.
    pub rules: String,
}
