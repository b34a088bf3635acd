//! The texts of the reasons why a node cannot take an allocation because of a volume.
//!
//! Where Nomad's scheduler has the reason too, its text is kept, because programs match on it. What follows after a
//! colon is not in Nomad: the volume, where Nomad does not name it, and who holds it. The text of a volume changes only
//! if what it says does, because every change is recorded.

use crate::claim::{ClaimDenied, ClaimDeniedReason, ClaimHolder, ClaimRequest};
use crate::state::State;
use nomad_csi_model::{AllocId, FenceStatement, Node, NodeId, NodeStatus, RemoteVolume, Topology};

/// How many holders and topologies a text names.
const MAX_NAMED: usize = 3;

/// Returns why the node has no plugin for the volume.
pub(super) fn plugin_refusal(
    state: &State,
    request: &ClaimRequest,
    remote: &RemoteVolume,
) -> String {
    let (volume, plugin, node) = (&request.volume.id, &remote.plugin_id, &request.node);
    let record = state.plugin_record(plugin);
    let mut allocs = record.into_iter().flat_map(|record| record.allocs.values());
    let runs = allocs.any(|alloc| alloc.node == *node && alloc.instance.node.is_some());
    let problem = if runs { "unhealthy on" } else { "missing from" };
    format!("CSI plugin {plugin} is {problem} client {node}: CSI volume {volume} needs it")
}

/// Returns why the volume is not accessible from the node.
pub(super) fn topology_refusal(
    state: &State,
    request: &ClaimRequest,
    topologies: &[Topology],
    accessible: Option<&Topology>,
) -> String {
    let from: Vec<String> = topologies.iter().map(|one| format!("`{one}`")).collect();
    let node = node_name(state, &request.node);
    let there = match accessible {
        Some(topology) if !topology.segments.is_empty() => {
            format!("node `{node}` is in `{topology}`")
        }
        Some(_) | None => format!("the plugin names no topology of node `{node}`"),
    };
    format!(
        "did not meet topology requirement: CSI volume {} is accessible from {}, and {there}",
        request.volume.id,
        first_of(&from, " or ")
    )
}

/// Returns why the volume cannot be claimed, with who is in the way.
pub(super) fn claim_refusal(
    state: &State,
    denied: &ClaimDenied,
    request: &ClaimRequest,
    remote: &RemoteVolume,
) -> String {
    let text = denial_text(&denied.reason, request, remote);
    match denied.holders.as_slice() {
        [] => text,
        holders => {
            let names: Vec<_> = holders.iter().map(|holder| holder_text(state, holder)).collect();
            format!("{text}: {}", first_of(&names, ", "))
        }
    }
}

/// Nomad's text where it has one.
fn denial_text(
    reason: &ClaimDeniedReason,
    request: &ClaimRequest,
    remote: &RemoteVolume,
) -> String {
    let (volume, plugin, node) = (&request.volume.id, &remote.plugin_id, &request.node);
    match (reason, request.read_only) {
        (ClaimDeniedReason::Unschedulable, false) => {
            format!("CSI volume {volume} is unschedulable or is read-only")
        }
        (ClaimDeniedReason::Unschedulable | ClaimDeniedReason::MaxClaims { .. }, true) => format!(
            "CSI volume {volume} is unschedulable or has exhausted its available reader claims"
        ),
        (ClaimDeniedReason::MaxClaims { .. }, false) => {
            format!("CSI volume {volume} has exhausted its available writer claims")
        }
        (ClaimDeniedReason::NodeFull { .. }, _) => format!(
            "CSI plugin {plugin} has the maximum number of volumes on client {node}: CSI volume {volume} has no room"
        ),
        (
            reason @ (ClaimDeniedReason::BeingReleased
            | ClaimDeniedReason::OtherClaim
            | ClaimDeniedReason::Detaching
            | ClaimDeniedReason::NodeLost(_)
            | ClaimDeniedReason::Exhausted(_)
            | ClaimDeniedReason::AttachmentMode
            | ClaimDeniedReason::Capability(_)
            | ClaimDeniedReason::OtherUsage(_)),
            _,
        ) => format!("CSI volume {volume}: {reason}"),
    }
}

/// The holder of a claim. One that the same decision places has no record yet, and is named by its slot.
fn holder_text(state: &State, holder: &ClaimHolder) -> String {
    let node = node_name(state, &holder.node);
    let away = state.node(&holder.node).and_then(away_text).unwrap_or_default();
    let text = match (state.alloc(&holder.alloc).is_some(), job_of(state, &holder.alloc)) {
        (true, Some(job)) => {
            format!("allocation {} of job `{job}` holds it on node `{node}`", holder.alloc)
        }
        (true, None) => format!("allocation {} holds it on node `{node}`", holder.alloc),
        (false, _) => format!("allocation {} gets it on node `{node}`", holder.alloc),
    };
    text + &away
}

/// What is the matter with the node of a holder, and what gives the volume back.
fn away_text(node: &Node) -> Option<String> {
    let status = match node.status {
        NodeStatus::Ready => return None,
        NodeStatus::Disconnected => "not connected",
        NodeStatus::Down => "down",
    };
    let fence = FenceStatement::command(&node.id);
    Some(format!(", which is {status}: if that machine is off, `{fence}` frees it"))
}

fn job_of(state: &State, alloc: &AllocId) -> Option<String> {
    let placement = state.alloc(alloc)?.placement.as_deref()?;
    Some(placement.job.job.id.to_string())
}

fn node_name(state: &State, id: &NodeId) -> String {
    let name = state.node(id).map(|node| node.name.as_str());
    name.filter(|name| !name.is_empty()).unwrap_or(id.as_str()).to_owned()
}

fn first_of(texts: &[String], between: &str) -> String {
    let named: Vec<&str> = texts.iter().take(MAX_NAMED).map(String::as_str).collect();
    match texts.len().saturating_sub(MAX_NAMED) {
        0 => named.join(between),
        others => format!("{} and {others} more", named.join(between)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{World, web};
    use super::*;
    use crate::claim::{ClaimKey, ClaimProgress, ClaimUsage, SealedFlags};
    use crate::state::EventKind;
    use nomad_csi_model::{
        AccessMode, AttachmentMode, Capability, ExternalId, JobType, Namespace, NamespacedId,
        PluginId, VolumeAlias, VolumeId,
    };

    fn request(read_only: bool) -> ClaimRequest {
        let capability = Capability {
            access_mode: AccessMode::SingleNodeWriter,
            attachment_mode: AttachmentMode::FileSystem,
        };
        ClaimRequest {
            key: ClaimKey { alloc: AllocId::new("web.g[0]"), alias: VolumeAlias::new("data") },
            volume: NamespacedId::new(Namespace::default(), VolumeId::new("data")),
            node: NodeId::new("n1"),
            external_node: None,
            usage: ClaimUsage::new(capability, "", SealedFlags::default()),
            read_only,
        }
    }

    fn remote() -> RemoteVolume {
        RemoteVolume { plugin_id: PluginId::new("ebs"), external_id: ExternalId::new("vol-1") }
    }

    fn holder(alloc: &str) -> ClaimHolder {
        ClaimHolder {
            alloc: AllocId::new(alloc),
            node: NodeId::new("n1"),
            progress: ClaimProgress::Publishing,
            read_only: false,
        }
    }

    /// A pending allocation holds its claim too, and is not called running.
    #[test]
    fn the_allocation_and_the_job_that_hold_the_volume_are_named() {
        let mut world = World::new(&["n1"]);
        world.submit(web(JobType::Service, 1));
        world.place("a1", "n1");
        let text = |holders: &[&str], read_only| {
            let denied = ClaimDenied {
                reason: ClaimDeniedReason::MaxClaims { mode: AccessMode::SingleNodeWriter },
                holders: holders.iter().map(|alloc| holder(alloc)).collect(),
            };
            claim_refusal(&world.state, &denied, &request(read_only), &remote())
        };
        let exhausted = "CSI volume data has exhausted its available writer claims";
        let held = "allocation a1 of job `web` holds it on node `machine n1`";
        assert_eq!(text(&[], false), exhausted);
        assert_eq!(text(&["a1"], false), format!("{exhausted}: {held}"));
        let readers =
            "CSI volume data is unschedulable or has exhausted its available reader claims";
        assert_eq!(text(&["a1"], true), format!("{readers}: {held}"));
        let many = text(&["a1", "a1", "a1", "a1", "a1"], false);
        assert!(many.ends_with(&format!(": {held}, {held}, {held} and 2 more")), "{many}");
    }

    /// Who waits for a volume of a node that is away reads what gives it back.
    #[test]
    fn a_holder_on_a_node_that_is_away_is_named_with_what_frees_the_volume() {
        let mut world = World::new(&["n1"]);
        world.submit(web(JobType::Service, 1));
        world.place("a1", "n1");
        let text = |world: &World| {
            let denied = ClaimDenied {
                reason: ClaimDeniedReason::MaxClaims { mode: AccessMode::SingleNodeWriter },
                holders: vec![holder("a1")],
            };
            claim_refusal(&world.state, &denied, &request(false), &remote())
        };
        let node = || NodeId::new("n1");
        world.apply(EventKind::NodeDisconnected { node: node() });
        let frees = "if that machine is off, `nomad-csi node fence n1 --powered-off` frees it";
        let held = "of job `web` holds it on node `machine n1`, which is";
        assert!(
            text(&world).ends_with(&format!("{held} not connected: {frees}")),
            "{}",
            text(&world)
        );
        world.apply(EventKind::NodeDown { node: node() });
        assert!(text(&world).ends_with(&format!("{held} down: {frees}")), "{}", text(&world));
    }

    #[test]
    fn a_topology_is_refused_with_both_sides() {
        let world = World::new(&["n1"]);
        let topology = |zone: &str| Topology { segments: [("zone".into(), zone.into())].into() };
        let refusal = |there: Option<&Topology>| {
            topology_refusal(&world.state, &request(false), &[topology("a"), topology("b")], there)
        };
        let from = "did not meet topology requirement: CSI volume data is accessible from `zone=a` or `zone=b`, and";
        let unknown = format!("{from} the plugin names no topology of node `machine n1`");
        assert_eq!(
            refusal(Some(&topology("c"))),
            format!("{from} node `machine n1` is in `zone=c`")
        );
        assert_eq!(refusal(None), unknown);
        assert_eq!(refusal(Some(&Topology::default())), unknown);
    }
}
