//! What a token may do, for people and machines. No token is ever shown.

use serde_json::{Value, json};

use super::printer::one_line;
use super::table::{key_values, table};
use crate::plan::{Needs, missing_permissions};
use crate::ports::TokenOwner;
use crate::reconcile::Access;

/// What was asked and what came of it.
pub(crate) struct Checked<'c> {
    /// What people call the server.
    pub server: &'c str,
    /// What the token may do.
    pub access: &'c Access,
    /// What is needed, or could be.
    pub needs: &'c Needs,
    /// Whether files want it, so that what is missing is a problem.
    pub wanted: bool,
}

/// A table, and whose token it is.
pub(crate) fn auth_text(checked: &Checked<'_>) -> String {
    let owner = key_values([
        ("Server", checked.server.to_owned()),
        ("Token", owner(&checked.access.owner)),
    ]);
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

fn owner(owner: &TokenOwner) -> String {
    match owner {
        TokenOwner::Anyone => "none needed: the server asks nobody who he is".to_owned(),
        TokenOwner::Management { name } => format!("{} (management)", one_line(name)),
        TokenOwner::Client { name, policies } => {
            let policies: Vec<_> = policies.iter().map(|name| one_line(name)).collect();
            let policies = match policies.as_slice() {
                [] => "no policy of its own".to_owned(),
                [one] => format!("policy {one}"),
                several => format!("policies {}", several.join(", ")),
            };
            format!("{} ({policies})", one_line(name))
        }
        TokenOwner::Workload => {
            "a workload's or a node's, of which the server says no more".to_owned()
        }
    }
}

/// The same as one document.
pub(crate) fn auth_json(checked: &Checked<'_>) -> Value {
    let grants = &checked.access.grants;
    let token = match &checked.access.owner {
        TokenOwner::Anyone => json!({ "kind": "none" }),
        TokenOwner::Management { name } => json!({ "kind": "management", "name": name }),
        TokenOwner::Client { name, policies } => {
            json!({ "kind": "client", "name": name, "policies": policies })
        }
        TokenOwner::Workload => json!({ "kind": "workload" }),
    };
    let permissions = checked.needs.iter().map(|(permission, why)| {
        json!({
            "permission": permission.to_string(),
            "granted": grants.allows(permission),
            "for": why,
        })
    });
    let problem = missing_permissions(checked.needs, grants).filter(|_| checked.wanted);
    json!({
        "format_version": 1,
        "server": checked.server,
        "token": token,
        "permissions": permissions.collect::<Vec<_>>(),
        "sufficient": problem.is_none(),
        "policy": checked.wanted.then(|| checked.needs.policy()),
    })
}
