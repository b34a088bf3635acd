//! Which claims a forced deregistration drops.
//!
//! A server that drops a claim lets the next writer start. Nomad drops every claim of an allocation that it
//! wants to stop or takes for lost, also while its tasks write. So this program decides by itself: a claim is
//! dropped if the allocation's end is proven ([`AllocWrites::Ended`]). If the allocation's node is gone or
//! fenced, only a person knows that nothing writes, and approves it by the allocation's full ID. Every other
//! claim is kept, and no approval changes that.

use std::collections::BTreeSet;

use super::claiming_alloc::ClaimingAlloc;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{AllocId, AllocWrites, NodeSight, SeenNodes, Volume, one_line};

/// The name of the approval that cuts off an allocation: `--approve cuts-off:ALLOC`.
pub const CUTS_OFF: &str = "cuts-off";

/// The facts that decide if claims may be dropped. The default allows none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimDrops {
    /// The nodes of the server.
    pub nodes: SeenNodes,
    /// The allocations that a person approved to cut off.
    pub cut_off: BTreeSet<AllocId>,
}

impl ClaimDrops {
    /// Returns whether the allocation of a claim may still write.
    pub fn writes(&self, claim: &ClaimingAlloc) -> AllocWrites {
        match &claim.alloc {
            Some(alloc) => self.nodes.writes(alloc),
            None if self.nodes.away().is_some_and(|away| away.is_empty()) => {
                AllocWrites::Unprovable
            }
            None => AllocWrites::Possible,
        }
    }

    /// Returns the claims of a volume whose allocations only a person can cut off, and did not yet.
    pub fn unapproved(&self, volume: &Volume) -> Vec<ClaimingAlloc> {
        let mut claims = ClaimingAlloc::of(volume);
        claims.retain(|claim| {
            self.writes(claim) == AllocWrites::Unprovable && !self.cut_off.contains(&claim.id)
        });
        claims
    }

    /// Returns every reason against dropping the claims of a volume.
    pub fn problems(&self, volume: &Volume) -> Vec<Diagnostic> {
        let mut kept = ClaimingAlloc::of(volume);
        kept.retain(|claim| self.writes(claim) == AllocWrites::Possible);
        let mut problems = vec![];
        if !kept.is_empty() {
            problems.push(self.may_write(volume, &kept));
        }
        let unapproved = self.unapproved(volume);
        problems.extend(unapproved.iter().map(|claim| self.approval_needed(volume, claim)));
        problems
    }

    /// The error for allocations that may still write.
    fn may_write(&self, volume: &Volume, claims: &[ClaimingAlloc]) -> Diagnostic {
        let count = match claims.len() {
            1 => "1 allocation".to_owned(),
            count => format!("{count} allocations"),
        };
        let message = format!(
            "cannot drop the claims of volume {}: {count} may still write to it",
            volume.key().quoted()
        );
        let mut problem = Diagnostic::error(Code::VolumeInUse, message);
        for claim in claims {
            problem = problem.note(claim.to_string()).note(self.why(claim));
        }
        let sights: Vec<_> = claims.iter().map(|claim| self.sight(claim)).collect();
        if sights.contains(&Some(NodeSight::Up)) {
            problem = problem.help("stop the jobs that use the volume, and wait until the clients report `complete` or `failed`");
        }
        let is_away = |sight: &Option<NodeSight>| matches!(sight, Some(NodeSight::Away(_)));
        if sights.iter().any(is_away) {
            problem = problem.help(
                "start the node again: its client then stops the allocation and reports the end",
            );
        }
        if let SeenNodes::Unread(why) = &self.nodes {
            problem = problem
                .note(format!("the nodes could not be read: {}", one_line(why)))
                .help("use a token with `node { policy = \"read\" }`");
        }
        let are_up = sights.iter().all(|sight| *sight == Some(NodeSight::Up));
        match are_up || problem.help.len() >= 2 {
            true => problem,
            false => problem.help(AFTER_A_PURGE),
        }
    }

    /// Returns what the server shows of the node on which the allocation of a claim may run; `None` if all nodes are up
    /// and none is known to be its node.
    fn sight(&self, claim: &ClaimingAlloc) -> Option<NodeSight> {
        match &claim.alloc {
            Some(alloc) => Some(self.nodes.sight(&alloc.node_id)),
            None => match self.nodes.away() {
                None => Some(NodeSight::Unread),
                Some(away) => away.first().map(|node| node.sight()),
            },
        }
    }

    /// Returns why the tasks of an allocation may still write, or why only a person knows.
    pub fn why(&self, claim: &ClaimingAlloc) -> String {
        let Some(alloc) = &claim.alloc else {
            return match self.nodes.away() {
                None => {
                    "the server has no record of the allocation, and its nodes could not be read"
                        .to_owned()
                }
                Some(away) if away.is_empty() => {
                    "the server has no record of the allocation or of its node".to_owned()
                }
                Some(away) => {
                    let named = |node: &&nomad_csi_model::ClientNode| {
                        format!(
                            "{} ({}, {})",
                            one_line(&node.name),
                            node.id,
                            one_line(&node.status)
                        )
                    };
                    let names: Vec<_> = away.iter().take(5).map(named).collect();
                    format!(
                        "the server has no record of the allocation; it may run on a node that is away: {}",
                        names.join(", ")
                    )
                }
            };
        };
        let node = match alloc.node_name.as_str() {
            "" => one_line(alloc.node_id.as_str()),
            name => one_line(name),
        };
        match self.nodes.sight(&alloc.node_id) {
            NodeSight::Up => format!(
                "its client on node `{node}` has not reported the end of its tasks: it is {}",
                one_line(alloc.client.as_str())
            ),
            NodeSight::Away(status) => {
                format!("node `{node}` is {}, so its tasks may run on", one_line(&status))
            }
            NodeSight::Fenced => format!("node `{node}` is fenced"),
            NodeSight::Gone => format!("the server does not have node `{node}` any more"),
            NodeSight::Unread => {
                format!("node `{node}` could not be read, so its tasks may run on")
            }
        }
    }

    /// The error for an allocation that a person must approve to cut off.
    pub fn approval_needed(&self, volume: &Volume, claim: &ClaimingAlloc) -> Diagnostic {
        let id = one_line(claim.id.as_str());
        let message = format!(
            "cannot drop the claim of allocation `{id}` on volume {}: approval is required",
            volume.key().quoted()
        );
        Diagnostic::error(Code::CliApprovalNeeded, message)
            .note(claim.to_string())
            .note(self.why(claim))
            .note("if its tasks still run, they and the next user of the volume both write to it; `--yes` does not approve that")
            .help(format!("make sure that the machine is off or cut off from its storage, then add `--approve {CUTS_OFF}:{id}`"))
    }
}

/// The remedy if a node never returns.
const AFTER_A_PURGE: &str = "if the machine is off for good, remove its node from the server (`PUT /v1/node/ID/purge` of Nomad, `nomad-csi node fence ID --powered-off` with the agent), then approve the claim with `--approve cuts-off:ALLOC`";

#[cfg(test)]
mod tests;
