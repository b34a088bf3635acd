//! Why a node cannot take an allocation.
//!
//! Every reason is returned, not the first. `refusal_text` spells those about volumes. Own checks that Nomad's scheduler lacks: the driver of each task that mounts a volume
//! (W52), the modes of the request against the volume's capabilities and its claims (W46), and the volumes that the
//! same evaluation has already promised (W45).

use std::collections::{BTreeMap, BTreeSet};

use super::constraint;
use super::refusal_text::{claim_refusal, plugin_refusal, topology_refusal};
use super::returned::is_needed_for_sweep;
use crate::claim::{
    AdmissionFacts, ClaimKey, ClaimRequest, ClaimUsage, Claims, NodeVolumes, SealedFlags,
    admit_placement,
};
use crate::state::{State, VolumeRecord, plugin_status};
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, Capability, Job, JobVolume, JobVolumeKind, MountConfig,
    NamespacedId, Node, NodeId, NodeStatus, RemoteVolume, TaskGroup, VolumeAlias, shell_quoted,
};

/// An allocation that could be placed.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The job.
    pub job: &'a Job,
    /// Its group.
    pub group: &'a TaskGroup,
    /// The index in the group.
    pub index: u32,
}

/// The promises of the same evaluation so far, and the resources that it counts as given back.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingReservations {
    claims: BTreeMap<RemoteVolume, Vec<ClaimRequest>>,
    /// The allocations that are replaced: their claims are not in the way, the new claim waits for them.
    pub replaced: BTreeSet<AllocId>,
}

/// Returns every reason why the node cannot take the allocation; none if it can.
pub fn refusals(state: &State, candidate: Candidate<'_>, node: &Node) -> Vec<String> {
    refusals_beside(state, candidate, node, &PendingReservations::default())
}

/// Returns every reason, with what was promised so far.
pub(super) fn refusals_beside(
    state: &State,
    candidate: Candidate<'_>,
    node: &Node,
    promises: &PendingReservations,
) -> Vec<String> {
    let mut found = node_refusals(state, candidate, node);
    found.extend(constraint_refusals(candidate, node));
    found.extend(driver_refusals(candidate.group, node));
    found.extend(volume_refusals(state, candidate, node, promises));
    found
}

impl PendingReservations {
    /// Remembers what an allocation will claim.
    pub(super) fn add(&mut self, state: &State, candidate: Candidate<'_>, node: &NodeId) {
        for (alias, volume) in &candidate.group.volumes {
            let Some((request, record)) = csi_request(state, candidate, node, alias, volume) else {
                continue;
            };
            if let Some(remote) = record.remote_volume() {
                self.claims.entry(remote).or_default().push(request);
            }
        }
    }

    /// The claims of a volume as they will be.
    fn claims_of(&self, state: &State, volume: &RemoteVolume) -> Claims {
        let recorded = state.claims(volume).map(|record| record.claims.clone());
        let mut claims = recorded.unwrap_or_default();
        claims.claims.retain(|key, _| !self.replaced.contains(&key.alloc));
        for request in self.claims.get(volume).into_iter().flatten() {
            claims.modes.get_or_insert(request.usage.capability);
            let (key, claim) = request.clone().granted(0);
            claims.claims.insert(key, claim);
        }
        if claims.claims.is_empty() {
            claims.modes = None;
        }
        claims
    }

    /// How many volumes of the plugin the node gets besides this one.
    fn new_volumes(&self, state: &State, volume: &RemoteVolume, node: &NodeId) -> u64 {
        let is_new = |(other, requests): &(&RemoteVolume, &Vec<ClaimRequest>)| {
            other.plugin_id == volume.plugin_id
                && *other != volume
                && requests.iter().any(|request| request.node == *node)
                && state.claims(other).is_none_or(|record| !record.claims.nodes().contains(node))
        };
        u64::try_from(self.claims.iter().filter(is_new).count()).unwrap_or(u64::MAX)
    }
}

fn node_refusals(state: &State, candidate: Candidate<'_>, node: &Node) -> Vec<String> {
    let Candidate { job, group, .. } = candidate;
    let mut found = vec![];
    let is_swept = is_needed_for_sweep(state, &node.id, group);
    let loss = state.node_loss(&node.id).filter(|_| !is_swept);
    let status = match node.status {
        NodeStatus::Ready => None,
        NodeStatus::Disconnected => Some("not connected"),
        NodeStatus::Down => Some("down"),
    };
    let is_gone = loss.is_some_and(|loss| !loss.has_returned);
    let problem = is_gone.then_some("not ready").or(status);
    if let Some(problem) = problem {
        found.push(format!("node `{}` is {problem}", node.id));
    } else if loss.is_some() {
        found.push(format!(
            "node `{}` has returned, and is swept before it is used; `nomad-csi node status {}` shows what it waits for",
            node.id,
            shell_quoted(node.id.as_str())
        ));
    }
    if !node.is_eligible && !is_swept {
        found.push(format!("node `{}` is not eligible", node.id));
    }
    if !job.accepts_datacenter(&node.datacenter) {
        found.push(format!(
            "node `{}` is in datacenter `{}`, which the job does not name",
            node.id, node.datacenter
        ));
    }
    if ![Job::DEFAULT_NODE_POOL, "all"].contains(&job.node_pool.as_str()) {
        found.push(format!("node pool `{}` has no nodes", job.node_pool));
    }
    found
}

fn constraint_refusals(candidate: Candidate<'_>, node: &Node) -> Vec<String> {
    let Candidate { job, group, .. } = candidate;
    let of_tasks = group.tasks.iter().flat_map(|task| &task.constraints);
    let all = job.constraints.iter().chain(&group.constraints);
    let failed = all.chain(of_tasks).filter(|one| !constraint::is_fulfilled(one, node));
    failed.map(constraint::text).collect()
}

fn driver_refusals(group: &TaskGroup, node: &Node) -> Vec<String> {
    let mut found = vec![];
    for task in &group.tasks {
        match node.drivers.get(&task.driver) {
            None => {
                let known: Vec<_> = node.drivers.keys().map(String::as_str).collect();
                found.push(format!(
                    "missing drivers: task `{}` needs driver `{}`, and node `{}` has {}",
                    task.name,
                    task.driver,
                    node.id,
                    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
                ));
            }
            Some(MountConfig::None) if !task.volume_mounts.is_empty() => found.push(format!(
                "task driver {:?} for {:?} does not support {}",
                task.driver,
                task.name,
                group.kind_of_mounts(task)
            )),
            Some(MountConfig::None | MountConfig::All) => {}
        }
    }
    found
}

fn volume_refusals(
    state: &State,
    candidate: Candidate<'_>,
    node: &Node,
    promises: &PendingReservations,
) -> Vec<String> {
    let mut promises = promises.clone();
    let mut missing = vec![];
    let mut found = vec![];
    for (alias, volume) in &candidate.group.volumes {
        match (&volume.kind, csi_request(state, candidate, &node.id, alias, volume)) {
            (JobVolumeKind::Host { .. }, _) => {
                let name = volume.source_of(candidate.index);
                let reason = match node.host_volumes.get(name.as_str()) {
                    None => "is not offered",
                    Some(host) if host.read_only && !volume.read_only => "can only be read",
                    Some(_) => continue,
                };
                found.push(format!("missing compatible host volumes: `{name}` {reason}"));
            }
            (JobVolumeKind::Csi { .. }, None) => {
                missing.push(volume.source_of(candidate.index).to_string());
            }
            (JobVolumeKind::Csi { .. }, Some((request, record))) => {
                let Some(remote) = record.remote_volume() else {
                    continue;
                };
                let refused = refusal_of_volume(state, &request, record, &remote, &promises);
                match refused {
                    Some(reason) => found.push(reason),
                    None => promises.claims.entry(remote).or_default().push(request),
                }
            }
        }
    }
    if !missing.is_empty() {
        found.insert(0, format!("missing CSI volume(s) {}", missing.join(", ")));
    }
    found
}

/// Returns what the allocation will ask for; `None` for a host volume and for a volume that is not registered.
fn csi_request<'a>(
    state: &'a State,
    candidate: Candidate<'_>,
    node: &NodeId,
    alias: &VolumeAlias,
    volume: &JobVolume,
) -> Option<(ClaimRequest, &'a VolumeRecord)> {
    let JobVolumeKind::Csi { access_mode, attachment_mode, .. } = &volume.kind else {
        return None;
    };
    let namespace = candidate.job.namespace.clone();
    let key = NamespacedId::new(namespace, volume.source_of(candidate.index));
    let record = state.record(&key).filter(|record| record.is_visible())?;
    let capability = Capability {
        access_mode: access_mode.unwrap_or(AccessMode::SingleNodeWriter),
        attachment_mode: attachment_mode.unwrap_or(AttachmentMode::FileSystem),
    };
    let plugin = &record.definition.plugin_id;
    let request = ClaimRequest {
        key: ClaimKey {
            alloc: AllocId::new(format!(
                "{}.{}[{}]",
                candidate.job.id, candidate.group.name, candidate.index
            )),
            alias: alias.clone(),
        },
        volume: key,
        node: node.clone(),
        external_node: state.external_node(plugin, node),
        usage: ClaimUsage::new(capability, "", SealedFlags::default()),
        read_only: volume.read_only,
    };
    Some((request, record))
}

fn refusal_of_volume(
    state: &State,
    request: &ClaimRequest,
    record: &VolumeRecord,
    remote: &RemoteVolume,
    promises: &PendingReservations,
) -> Option<String> {
    let plugin = &remote.plugin_id;
    let node = &request.node;
    let Some(instance) = state.node_instance(plugin, node) else {
        return Some(plugin_refusal(state, request, remote));
    };
    let topologies = &record.provided.topologies;
    let accessible = instance.node.as_ref().and_then(|info| info.accessible_topology.as_ref());
    let is_there = |one| accessible.is_some_and(|accessible| accessible.is_within(one));
    if !topologies.is_empty() && !topologies.iter().any(is_there) {
        return Some(topology_refusal(state, request, topologies, accessible));
    }
    let NodeVolumes { others, limit } = state.node_volumes(remote, node);
    let facts = AdmissionFacts {
        capabilities: &record.definition.capabilities,
        is_schedulable: plugin_status(state, plugin).is_some_and(|status| status.is_schedulable()),
        is_node_lost: false,
        node_volumes: NodeVolumes {
            others: others.saturating_add(promises.new_volumes(state, remote, node)),
            limit,
        },
    };
    let denied = admit_placement(&promises.claims_of(state, remote), request, facts).err()?;
    Some(claim_refusal(state, &denied, request, remote))
}

#[cfg(test)]
mod tests;
