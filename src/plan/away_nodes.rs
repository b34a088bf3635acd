//! Nodes that are away, and what a server may have forgotten of them.
//!
//! A server forgets an allocation some time after it has ended for the server: Nomad after four hours, or on request. It
//! takes the allocations of a node that is away for ended, also while their tasks write. From then on nothing names them,
//! and the claim of such an allocation went before. So a volume that existed when the node went away, and has changed
//! since, may still be written there. One that did not change had no claim there; one that was made later neither. Indexes
//! tell the order: Nomad records no time of a volume.

use crate::diagnostic::{Code, Diagnostic};
use crate::model::{ClientNode, Volume, one_line};

use super::claim_drops::CUTS_OFF;
use super::cut_offs::CutOffs;

/// A node that is away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwayNode {
    /// The node.
    pub node: ClientNode,
    /// The index at which it went away; `None` if unknown.
    pub since: Option<u64>,
}

impl AwayNode {
    /// Whether an allocation that the server has forgotten may write to the volume on the node.
    pub fn may_use(&self, volume: &Volume) -> bool {
        let Some(since) = self.since else {
            return true;
        };
        let was_there = volume.create_index <= since;
        let has_changed = volume.modify_index >= since;
        was_there && has_changed
    }
}

/// Returns the error for nodes that could not be read: tasks may write on one that is away.
pub fn unread_nodes_problem(what: &str, why: &str) -> Diagnostic {
    let message = format!("cannot {what}: it is not known which nodes are away");
    Diagnostic::error(Code::VolumeInUse, message)
        .note(format!("the nodes could not be read: {}", one_line(why)))
        .note("the server forgets the allocations of a node that is away, and then nothing shows which volumes their tasks use")
        .help("use a token with `node { policy = \"read\" }`")
}

/// Returns an error for each node that is away and on which tasks may write to data that is deleted, unless a person approved it. `volume`
/// is that of the data; `None` if the data is not registered.
pub fn forgotten_user_problems(
    what: &str,
    volume: Option<&Volume>,
    away: &[AwayNode],
    cut_off: &CutOffs,
) -> Vec<Diagnostic> {
    let may_use = |node: &&AwayNode| volume.is_none_or(|volume| node.may_use(volume));
    let is_open = |node: &&AwayNode| !cut_off.allow(node.node.id.as_str());
    let nodes = away.iter().filter(may_use).filter(is_open);
    let problem = |away: &AwayNode| {
        let (id, name) = (one_line(away.node.id.as_str()), one_line(&away.node.name));
        let status = one_line(&away.node.status);
        let message = format!(
            "cannot {what}: approval is required, because tasks on node `{name}`, which is {status}, may still write to it"
        );
        Diagnostic::error(Code::CliApprovalNeeded, message)
            .note("the server forgets the allocations of a node that is away, and then nothing shows which volumes their tasks use")
            .note("`--yes` does not approve that")
            .help("start the node again, and wait until its client has stopped what the server has forgotten: as long as the `kill_timeout` of the tasks")
            .help(format!("if its machine is off or cut off from its storage, add `--approve {CUTS_OFF}:{id}`"))
    };
    nodes.map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NodeId;
    use crate::plan::samples::existing;

    const DOWN: u64 = 500;

    fn away(since: Option<u64>) -> AwayNode {
        AwayNode {
            node: ClientNode {
                id: NodeId::new("n1"),
                name: "worker-1".to_owned(),
                status: "down".to_owned(),
                is_fenced: false,
                has_returned: false,
                description: String::new(),
            },
            since,
        }
    }

    fn volume(create_index: u64, modify_index: u64) -> Volume {
        Volume {
            create_index,
            modify_index,
            ..existing()
        }
    }

    #[test]
    fn a_volume_that_changed_since_the_node_went_away_may_be_used_there() {
        for (since, created, modified, expected) in [
            (Some(DOWN), 1, DOWN + 1, true),
            (Some(DOWN), 1, DOWN, true),
            (Some(DOWN), 1, DOWN - 1, false),
            (Some(DOWN), DOWN, DOWN, true),
            (Some(DOWN), DOWN + 1, DOWN + 9, false),
            (None, 1, 1, true),
            (None, DOWN, DOWN + 9, true),
        ] {
            let found = away(since).may_use(&volume(created, modified));
            assert_eq!(found, expected, "{since:?} {created} {modified}");
        }
    }

    #[test]
    fn a_node_is_approved_by_its_full_id() {
        let nodes = [away(Some(DOWN))];
        let used = volume(1, DOWN + 1);
        let unused = volume(1, 1);
        let problems = |volume: Option<&Volume>, approved: &[&str]| {
            let cut_off = approved.iter().copied().collect();
            forgotten_user_problems("delete it", volume, &nodes, &cut_off).len()
        };
        assert_eq!(problems(Some(&used), &[]), 1);
        assert_eq!(problems(Some(&used), &["n"]), 1);
        assert_eq!(problems(Some(&used), &["n1"]), 0);
        assert_eq!(problems(Some(&unused), &[]), 0);
        assert_eq!(problems(None, &[]), 1, "nothing is known of the data");
        assert_eq!(problems(None, &["n1"]), 0);
    }
}
