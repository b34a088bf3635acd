//! Tokens and policies, as text.

use super::TimeReference;
use super::table::table;
use super::time::local_time;
use nomad_csi_model::one_line;
use nomad_csi_wire::{PolicyDocument, TokenDocument, nanoseconds_from_wire};

/// Returns a table of tokens.
pub(crate) fn token_list(tokens: &[TokenDocument], now: &TimeReference) -> String {
    let rows = tokens.iter().map(|token| {
        [
            token.accessor_id.clone(),
            token.name.clone(),
            token.kind.clone(),
            policies(token),
            expiry(token, now),
        ]
    });
    table(["Accessor ID", "Name", "Type", "Policies", "Expires"], rows)
}

/// Returns one token in detail, with its secret where the server shows it.
pub(crate) fn token_detail(token: &TokenDocument, now: &TimeReference) -> String {
    let secret = match token.secret_id.0.as_str() {
        "" => "(shown when the token is created only)",
        secret => secret,
    };
    let rows = [
        ("Accessor ID", token.accessor_id.clone()),
        ("Secret ID", secret.to_owned()),
        ("Name", one_line(&token.name)),
        ("Type", token.kind.clone()),
        ("Policies", policies(token)),
        ("Expires", expiry(token, now)),
    ];
    rows.iter().map(|(name, value)| format!("{name:<11}  {value}\n")).collect()
}

fn policies(token: &TokenDocument) -> String {
    match &token.policies {
        Some(policies) if !policies.is_empty() => one_line(&policies.join(", ")),
        Some(_) | None => "-".to_owned(),
    }
}

fn expiry(token: &TokenDocument, now: &TimeReference) -> String {
    match nanoseconds_from_wire(token.expiration_time.as_deref()) {
        0 => "never".to_owned(),
        end => local_time(end, &now.zone),
    }
}

/// Returns a table of policies.
pub(crate) fn policy_list(policies: &[PolicyDocument]) -> String {
    let rows = policies.iter().map(|policy| [policy.name.clone(), policy.description.clone()]);
    table(["Name", "Description"], rows)
}

/// Returns one policy with its rules.
pub(crate) fn policy_detail(policy: &PolicyDocument) -> String {
    let description = match policy.description.as_str() {
        "" => "-".to_owned(),
        text => one_line(text),
    };
    let rules = policy.rules.trim_end();
    format!("Name         {}\nDescription  {description}\n\n{rules}\n", policy.name)
}
