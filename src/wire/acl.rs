//! ACL tokens and policies.
//!
//! The secret ID of a token is shown by the response that creates it and to its own bearer. `Debug` hides it.

use serde::{Deserialize, Serialize};

/// The secret ID of a token.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenSecret(pub String);

impl std::fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_empty() { "TokenSecret()" } else { "TokenSecret([hidden])" })
    }
}

/// An ACL token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TokenDocument {
    /// The accessor ID; `anonymous` without a token, `acls-disabled` if ACLs are off.
    #[serde(rename = "AccessorID")]
    pub accessor_id: String,
    /// The secret ID; empty where it is not shown.
    #[serde(rename = "SecretID")]
    pub secret_id: TokenSecret,
    /// The token's name.
    pub name: String,
    /// `client` or `management`.
    #[serde(rename = "Type")]
    pub kind: String,
    /// Names of policies; none for a management token.
    pub policies: Option<Vec<String>>,
    /// Roles, which no server of this program has.
    pub roles: Option<Vec<TokenRoleDocument>>,
    /// Whether the token is of all regions.
    pub global: bool,
    /// When it was created, in RFC 3339.
    pub create_time: Option<String>,
    /// When it ends, in RFC 3339; `None` if never.
    pub expiration_time: Option<String>,
    /// How long it is valid from its creation on, as Go writes durations or in nanoseconds. Of requests only.
    #[serde(rename = "ExpirationTTL", skip_serializing_if = "Option::is_none")]
    pub expiration_ttl: Option<DurationDocument>,
    /// The index of its creation.
    pub create_index: u64,
    /// The index of its last change.
    pub modify_index: u64,
}

/// A role of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TokenRoleDocument {
    /// Its ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// Its name.
    pub name: String,
}

/// A duration of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DurationDocument {
    /// In nanoseconds.
    Nanoseconds(i64),
    /// As Go writes it: `8h`.
    Text(String),
}

/// An ACL policy. Lists omit the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PolicyDocument {
    /// The policy's name.
    pub name: String,
    /// A description for users.
    pub description: String,
    /// The rules in HCL or JSON.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rules: String,
    /// The index of its creation.
    pub create_index: u64,
    /// The index of its last change.
    pub modify_index: u64,
}

/// The request that makes the first token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct BootstrapDocument {
    /// The secret ID that it is to have; empty for a random one.
    pub bootstrap_secret: TokenSecret,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_id_is_not_shown_by_debug() {
        let document = TokenDocument {
            secret_id: TokenSecret("0c2e-secret".to_owned()),
            ..TokenDocument::default()
        };
        let bootstrap = BootstrapDocument { bootstrap_secret: document.secret_id.clone() };
        for shown in [format!("{document:?}"), format!("{bootstrap:?}")] {
            assert!(shown.contains("[hidden]") && !shown.contains("0c2e"), "{shown}");
        }
        assert!(serde_json::to_string(&document).unwrap().contains("0c2e-secret"));
    }
}
