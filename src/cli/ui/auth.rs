//! The permissions of a token, as text and as JSON. The token itself is never shown.

use serde_json::{Value, json};

use super::printer::one_line;
use super::table::{key_values, table};
use nomad_csi_client::ports::TokenKind;
use nomad_csi_client::reconcile::Access;
use nomad_csi_plan::RequiredPermissions;

/// The result of `auth check`.
pub(crate) struct AuthReport<'c> {
    /// Display name of the server.
    pub server: &'c str,
    /// The permissions of the token.
    pub access: &'c Access,
    /// The permissions to check.
    pub needs: &'c RequiredPermissions,
    /// True if files require the permissions, which makes a missing one a problem.
    pub is_required: bool,
}

/// Returns the owner of the token and a table of permissions.
pub(crate) fn auth_text(checked: &AuthReport<'_>) -> String {
    let owner = key_values([
        ("Server", checked.server.to_owned()),
        ("Token", owner(&checked.access.owner)),
    ]);
    if checked.access.owner == TokenKind::AclDisabled {
        return owner;
    }
    let rows = checked.needs.iter().map(|(permission, why)| {
        let granted = match checked.access.grants.allows(permission) {
            Some(true) => "yes",
            Some(false) => "no",
            None => "unknown",
        };
        let why: Vec<_> = why.iter().copied().collect();
        [permission.to_string(), granted.to_owned(), why.join(", ")]
    });
    format!("{owner}\n{}", table(["Permission", "Granted", "For"], rows))
}

fn owner(owner: &TokenKind) -> String {
    match owner {
        TokenKind::AclDisabled => {
            "not required: ACLs are disabled, so every request is permitted".to_owned()
        }
        TokenKind::Anonymous => "none (the anonymous policy applies)".to_owned(),
        TokenKind::Management { name } => format!("{} (management)", shown_name(name)),
        TokenKind::Client { name, policies } => {
            let policies: Vec<_> = policies.iter().map(|name| one_line(name)).collect();
            let policies = match policies.as_slice() {
                [] => "no policy".to_owned(),
                [one] => format!("policy {one}"),
                several => format!("policies {}", several.join(", ")),
            };
            format!("{} ({policies})", shown_name(name))
        }
        TokenKind::Workload => "a workload or node token; the server reports no more".to_owned(),
    }
}

fn shown_name(name: &str) -> String {
    match name {
        "" => "a token without a name".to_owned(),
        name => one_line(name),
    }
}

/// Returns the result as JSON.
pub(crate) fn auth_json(checked: &AuthReport<'_>) -> Value {
    let grants = &checked.access.grants;
    let token = match &checked.access.owner {
        TokenKind::AclDisabled => json!({ "kind": "none" }),
        TokenKind::Anonymous => json!({ "kind": "anonymous" }),
        TokenKind::Management { name } => json!({ "kind": "management", "name": name }),
        TokenKind::Client { name, policies } => {
            json!({ "kind": "client", "name": name, "policies": policies })
        }
        TokenKind::Workload => json!({ "kind": "workload" }),
    };
    let permissions = checked.needs.iter().map(|(permission, why)| {
        json!({
            "permission": permission.to_string(),
            "granted": grants.allows(permission),
            "for": why,
        })
    });
    let problem = checked.access.missing(checked.needs);
    let problem = problem.filter(|_| checked.is_required);
    json!({
        "format_version": 1,
        "server": checked.server,
        "token": token,
        "permissions": permissions.collect::<Vec<_>>(),
        "sufficient": problem.is_none(),
        "policy": checked.is_required.then(|| checked.needs.policy()),
    })
}
