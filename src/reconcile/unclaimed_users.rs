//! Reads the allocations that use volumes without a claim.
//!
//! Nomad drops the claim of an allocation that it wants to stop or takes for lost, also while its tasks write. Only the
//! job of an allocation shows which volumes it uses, so each allocation whose end is not proven is read. One that should
//! run on a node that is up has its claim.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::model::{
    Alloc, AllocId, AllocWrites, ClientStatus, DesiredStatus, Namespace, NamespacedId, NodeSight,
    SeenNodes, Volume, VolumeId,
};
use crate::ports::{ApiError, ClusterApi};
use crate::wire::{AllocationDocument, allocation_from_wire};

/// How many allocations of a namespace are read.
const MAX_READ: usize = 200;

/// The allocations that use volumes without a claim.
#[derive(Debug, Default)]
pub(super) struct UnclaimedUsers {
    /// Those of each volume. A volume whose users could not be read is missing.
    pub(super) allocs: BTreeMap<NamespacedId, Vec<Alloc>>,
    /// What could not be read, and why.
    pub(super) unread: Vec<String>,
}

/// Returns the allocations that use the volumes without a claim, and whose end is not proven.
pub(super) async fn unclaimed_users(
    api: &dyn ClusterApi,
    volumes: &[Volume],
    nodes: &SeenNodes,
    parallelism: usize,
) -> UnclaimedUsers {
    let mut found = UnclaimedUsers::default();
    let namespaces: BTreeSet<&Namespace> = volumes.iter().map(|v| &v.namespace).collect();
    for namespace in namespaces {
        match users_in(api, namespace, nodes, parallelism).await {
            Ok(users) => {
                for volume in volumes.iter().filter(|one| one.namespace == *namespace) {
                    found
                        .allocs
                        .insert(volume.key(), without_claim(volume, &users));
                }
            }
            Err(why) => found
                .unread
                .push(format!("allocations of namespace `{namespace}`: {why}")),
        }
    }
    found
}

/// An allocation with the volumes that its job names for it.
struct User {
    alloc: Alloc,
    volumes: BTreeSet<VolumeId>,
}

async fn users_in(
    api: &dyn ClusterApi,
    namespace: &Namespace,
    nodes: &SeenNodes,
    parallelism: usize,
) -> Result<Vec<User>, String> {
    let listed = api.list_allocations(namespace, "").await;
    let listed = listed.map_err(|error| error.message)?;
    let suspects: Vec<Alloc> = listed
        .iter()
        .map(|reading| allocation_from_wire(&reading.value))
        .filter(|alloc| may_write_without_claim(alloc, nodes))
        .collect();
    if suspects.len() > MAX_READ {
        return Err(format!(
            "{} of them have not ended as far as is known, more than are read",
            suspects.len()
        ));
    }
    let reads = suspects.into_iter().map(async |alloc| {
        let read = api.read_allocation(&alloc.id).await?;
        let volumes = read.map(|reading| volumes_of(&reading.value));
        Ok::<_, ApiError>(User {
            alloc,
            volumes: volumes.unwrap_or_default(),
        })
    });
    let reads = stream::iter(reads).buffered(parallelism.max(1));
    reads.try_collect().await.map_err(|error| error.message)
}

/// Whether the end of an allocation is not proven although the server may have dropped its claims.
fn may_write_without_claim(alloc: &Alloc, nodes: &SeenNodes) -> bool {
    if nodes.writes(alloc) == AllocWrites::Ended {
        return false;
    }
    let should_run = match alloc.desired {
        DesiredStatus::Run => true,
        DesiredStatus::Stop | DesiredStatus::Evict | DesiredStatus::Other(_) => false,
    };
    let is_heard = match alloc.client {
        ClientStatus::Pending | ClientStatus::Running => true,
        ClientStatus::Complete
        | ClientStatus::Failed
        | ClientStatus::Lost
        | ClientStatus::Unknown
        | ClientStatus::Other(_) => false,
    };
    // What ended before its node went away has nothing to write.
    let has_ended = alloc.client.has_ended();
    let is_up = nodes.sight(&alloc.node_id) == NodeSight::Up;
    let is_well = should_run && is_heard && is_up;
    !has_ended && !is_well
}

/// Returns the volumes that the job of an allocation names for it.
fn volumes_of(alloc: &AllocationDocument) -> BTreeSet<VolumeId> {
    let groups = alloc.job.iter().flat_map(|job| &job.task_groups);
    let own = groups.filter(|group| group.name == alloc.task_group);
    let index = alloc.name.rsplit_once('[').map_or("", |(_, index)| index);
    own.flat_map(|group| group.volumes.values())
        .filter(|volume| volume.volume_type == "csi")
        .map(|volume| match volume.per_alloc {
            true => VolumeId::new(format!("{}[{index}", volume.source)),
            false => VolumeId::new(&volume.source),
        })
        .collect()
}

fn without_claim(volume: &Volume, users: &[User]) -> Vec<Alloc> {
    let claiming: BTreeSet<&AllocId> = volume.claiming_allocs().collect();
    users
        .iter()
        .filter(|user| user.volumes.contains(&volume.id) && !claiming.contains(&user.alloc.id))
        .map(|user| user.alloc.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClientNode, NodeId};

    fn alloc(node: &str, desired: DesiredStatus, client: ClientStatus) -> Alloc {
        Alloc {
            id: AllocId::new("a1"),
            node_id: NodeId::new(node),
            node_name: String::new(),
            evaluation_id: String::new(),
            job_id: "web".to_owned(),
            task_group: "g".to_owned(),
            job_version: 0,
            desired,
            client,
            create_time: 0,
            modify_time: 0,
        }
    }

    #[test]
    fn an_allocation_without_a_proven_end_may_write_without_a_claim() {
        use ClientStatus::{Complete, Failed, Lost, Pending, Running, Unknown};
        use DesiredStatus::{Evict, Run, Stop};
        let node = |id: &str, status: &str| ClientNode {
            id: NodeId::new(id),
            name: id.to_owned(),
            status: status.to_owned(),
            is_fenced: false,
            has_returned: false,
            description: String::new(),
        };
        let nodes = SeenNodes::Read(vec![node("up", "ready"), node("down", "down")]);
        for (node, desired, client, expected) in [
            ("up", Run, Running, false),
            ("up", Run, Pending, false),
            ("up", Stop, Running, true),
            ("up", Evict, Running, true),
            ("up", Stop, Pending, true),
            ("up", Stop, Lost, true),
            ("up", Run, Unknown, true),
            ("up", Stop, Complete, false),
            ("up", Run, Failed, false),
            ("down", Run, Running, true),
            ("down", Stop, Lost, true),
            ("down", Stop, Complete, false),
            ("purged", Stop, Lost, true),
            ("purged", Stop, Failed, false),
        ] {
            let case = format!("{node} {desired:?} {client:?}");
            let found = may_write_without_claim(&alloc(node, desired, client), &nodes);
            assert_eq!(found, expected, "{case}");
        }
        let unread = SeenNodes::default();
        assert!(may_write_without_claim(&alloc("up", Run, Running), &unread));
        assert!(!may_write_without_claim(
            &alloc("up", Stop, Complete),
            &unread
        ));
    }

    #[test]
    fn the_volumes_of_an_allocation_are_those_of_its_group() {
        let document = serde_json::json!({
            "Name": "web.g[2]", "TaskGroup": "g",
            "Job": {"TaskGroups": [
                {"Name": "g", "Volumes": {
                    "a": {"Type": "csi", "Source": "db"},
                    "b": {"Type": "csi", "Source": "data", "PerAlloc": true},
                    "c": {"Type": "host", "Source": "etc"},
                }},
                {"Name": "other", "Volumes": {"a": {"Type": "csi", "Source": "else"}}},
            ]},
        });
        let document: AllocationDocument = crate::wire::decode_value(&document).unwrap();
        let expected: BTreeSet<VolumeId> = ["data[2]", "db"].map(VolumeId::new).into();
        assert_eq!(volumes_of(&document), expected);
    }
}
