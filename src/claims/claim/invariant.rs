//! The invariants of every reachable record.

use super::record::{Claim, Claims, Known};

/// Returns every violation, one clause each.
pub fn violations(record: &Claims) -> Vec<String> {
    let mut found = vec![];
    for (node, staging) in &record.stagings {
        if staging.state == Known::No {
            found.push(format!("has a staging on node `{node}` that does not exist"));
        }
        if !record.on(node).any(|(_, claim)| claim.usage == staging.usage) {
            found.push(format!("has no claim left to unstage node `{node}`"));
        }
    }
    for (node, attachment) in &record.attachments {
        if attachment.state == Known::No {
            found.push(format!("has an attachment to node `{node}` that does not exist"));
        }
        if record.on(node).next().is_none() {
            found.push(format!("has no claim left to detach node `{node}`"));
        }
    }
    for (key, claim) in &record.claims {
        if claim.published != Known::No && claim.call.is_none() {
            found.push(format!("published for allocation `{}` without a call", key.alloc));
        }
        let differs = |other: &Claim| other.node == claim.node && other.usage != claim.usage;
        if record.claims.values().any(differs) {
            found.push(format!("is used in two ways on node `{}`", claim.node));
        }
    }
    if record.modes.is_some() == record.claims.is_empty() {
        found.push("has modes without claims, or claims without modes".to_owned());
    }
    for gone in &record.tombstones {
        let mut orphaned = record.through(&gone.volume).peekable();
        if orphaned.peek().is_none() {
            found.push("keeps a tombstone that is done".to_owned());
        }
        if orphaned.any(|(_, claim)| claim.is_held()) {
            found.push("has a held claim of a registration that is gone".to_owned());
        }
    }
    found
}
