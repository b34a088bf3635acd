//! [`next_steps`]: from the desired and the known state to what must be done now.
//!
//! A held claim needs the attachment, then the staging, then its target, in that order. [`Known::Maybe`]
//! is not enough: the same idempotent call is repeated. Where the plugin attaches no longer, an attachment
//! that is `Maybe` is undone before anything is there. A released claim undoes its target, then the
//! staging if no other claim on the node uses it, then the attachment, then itself; here `Maybe` must be
//! undone too. On a lost node nothing is called: what it has is given up explicitly, and the attachment
//! is undone at the controller. A node that returned is swept before it is used again.

use std::collections::BTreeSet;

use super::facts::Facts;
use super::key::ClaimKey;
use super::record::{Claim, Claims, Known};
use super::step::Step;
use nomad_csi_model::NodeId;

/// Returns all steps that can be done now, in any order. Total: every record and all facts have an
/// answer, and an empty answer means that the volume is at rest, or waits for its plugin.
pub fn next_steps(record: &Claims, facts: &Facts) -> BTreeSet<Step> {
    let claims = record.claims.iter();
    let steps = claims.filter_map(|(key, claim)| {
        if claim.is_held() && !facts.is_lost(&claim.node) {
            setup(record, facts, key, claim)
        } else {
            Some(teardown(record, facts, key, claim))
        }
    });
    let sweeps = facts.returned.iter().filter(|node| is_given_up(record, node));
    steps.chain(sweeps.cloned().map(Step::Sweep)).collect()
}

/// Returns whether the record has neither a target nor a staging on the node.
fn is_given_up(record: &Claims, node: &NodeId) -> bool {
    record.staged(node) == Known::No
        && record.on(node).all(|(_, claim)| claim.published == Known::No)
}

/// The next step towards the target path.
fn setup(record: &Claims, facts: &Facts, key: &ClaimKey, claim: &Claim) -> Option<Step> {
    let node = &claim.node;
    if claim.published == Known::Yes {
        return expansion(record, node);
    }
    let plugin = facts.steps_on(node)?;
    Some(if plugin.attach && record.attached(node) != Known::Yes {
        Step::ControllerPublish(node.clone())
    } else if record.attached(node) == Known::Maybe && is_given_up(record, node) {
        // The plugin no longer attaches, and a detach that is still under way would cut the target off.
        Step::ControllerUnpublish(node.clone())
    } else if plugin.stage && record.staged(node) != Known::Yes {
        Step::NodeStage(node.clone())
    } else {
        Step::NodePublish(key.clone())
    })
}

/// The second half of an expansion on a node that uses the volume.
fn expansion(record: &Claims, node: &NodeId) -> Option<Step> {
    let expansion = record.expansion.as_ref()?;
    (!expansion.done.contains(node)).then(|| Step::NodeExpand(node.clone()))
}

/// The next step towards the end of the claim. It depends on the record alone, so a plugin that no
/// longer reports a capability does not keep what it made with it.
fn teardown(record: &Claims, facts: &Facts, key: &ClaimKey, claim: &Claim) -> Step {
    let node = &claim.node;
    let is_lost = facts.is_lost(node);
    let has_target = claim.published != Known::No;
    let is_staged = record.staged(node) != Known::No;
    if is_lost && (has_target || is_staged) {
        Step::AssumeNodeGone(node.clone())
    } else if has_target {
        Step::NodeUnpublish(key.clone())
    } else if is_shared(record, key, claim, is_lost) {
        Step::Release(key.clone())
    } else if is_staged {
        Step::NodeUnstage(node.clone())
    } else if record.attached(node) != Known::No {
        Step::ControllerUnpublish(node.clone())
    } else {
        Step::Release(key.clone())
    }
}

/// Returns whether another claim on the node uses its staging and attachment: one that is or may be published,
/// also while it is released (B44, W37), and one that waits to be published.
fn is_shared(record: &Claims, key: &ClaimKey, claim: &Claim, is_lost: bool) -> bool {
    record.on(&claim.node).any(|(other_key, other)| {
        let uses = match other.published {
            Known::No => other.is_held() && !is_lost,
            Known::Maybe | Known::Yes => true,
        };
        other_key != key && uses
    })
}
