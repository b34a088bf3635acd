//! Reads the allocations that use volumes without a claim, and those whose tasks did not start.
//!
//! Nomad drops the claim of an allocation that it wants to stop or takes for lost, also while its tasks write. Only the
//! job of an allocation shows which volumes it uses, so each allocation whose end is not proven is read. One that should
//! run on a node that is up has its claim.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::volume_list::list_all_volumes;
use crate::ports::{ApiError, ClusterApi};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{
    Alloc, AllocId, AllocWrites, ClientStatus, DesiredStatus, Namespace, NamespacedId, NodeSight,
    SeenNodes, UnstartedAlloc, Volume, VolumeId,
};
use nomad_csi_wire::{AllocationDocument, AllocationStub, allocation_from_wire};

/// How many allocations of a namespace whose tasks did not start are read, the newest first.
const MAX_UNSTARTED: usize = 50;
/// How many allocations are read: those of some nodes that are away.
const MAX_READ: usize = 2_000;

/// The allocations that use volumes without a claim.
#[derive(Debug, Default)]
pub(super) struct UnclaimedUsers {
    /// Those of each volume. A volume whose users could not be read is missing.
    pub(super) allocs: BTreeMap<NamespacedId, Vec<Alloc>>,
    /// The allocations of each volume that should run, and whose tasks did not start.
    pub(super) unstarted: BTreeMap<NamespacedId, Vec<UnstartedAlloc>>,
    /// The namespaces whose allocations could not be read, and why.
    pub(super) unread: Vec<(Namespace, ApiError)>,
}

impl UnclaimedUsers {
    /// Counts the allocations without a claim as if they had one, and returns them.
    pub(super) fn count_in(&self, volume: &mut Volume) -> &[Alloc] {
        let users = self.allocs.get(&volume.key()).map_or(&[][..], Vec::as_slice);
        for alloc in users {
            volume.write_allocs.insert(alloc.id.clone());
            volume.allocs.push(alloc.clone());
        }
        users
    }

    /// Returns what could not be read, for a report.
    pub(super) fn reasons(&self) -> impl Iterator<Item = String> {
        self.unread.iter().map(|(namespace, error)| {
            format!("allocations of namespace `{namespace}`: {}", error.message)
        })
    }
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
            Ok((users, unstarted)) => {
                for volume in volumes.iter().filter(|one| one.namespace == *namespace) {
                    let key = volume.key();
                    found.allocs.insert(key.clone(), without_claim(volume, &users));
                    let names = unstarted.iter().filter(|(_, of)| of.contains(&volume.id));
                    let names = names.map(|(alloc, _)| alloc.clone());
                    found.unstarted.insert(key, names.collect());
                }
            }
            Err(why) => found.unread.push((namespace.clone(), why)),
        }
    }
    found
}

/// Returns the allocations whose end is not proven and whose jobs name a volume that is not registered, or was registered
/// after them, with that volume. Which data they have is not known.
///
/// # Errors
/// If the volumes or the allocations cannot be read.
pub(super) async fn unregistered_users(
    api: &dyn ClusterApi,
    nodes: &SeenNodes,
    parallelism: usize,
) -> Result<Vec<(NamespacedId, Alloc)>, ApiError> {
    let listed = list_all_volumes(api).await?;
    let registered: BTreeMap<NamespacedId, u64> =
        listed.iter().map(|volume| (volume.key(), volume.create_index)).collect();
    let all = Namespace::new(Namespace::ALL);
    let (users, _) = users_in(api, &all, nodes, parallelism).await?;
    let mut found = vec![];
    for User { namespace, create_index, alloc, volumes } in users {
        let named = volumes.into_iter();
        let keys = named.map(|id| NamespacedId::new(namespace.clone(), id));
        // An older allocation has the data of an earlier registration.
        let is_own = |key: &NamespacedId| {
            let registration = registered.get(key);
            registration.is_some_and(|index| *index <= create_index)
        };
        let gone = keys.filter(|key| !is_own(key));
        found.extend(gone.map(|key| (key, alloc.clone())));
    }
    Ok(found)
}

/// An allocation whose tasks did not start, with the volumes that its job names for it.
type Unstarted = (UnstartedAlloc, BTreeSet<VolumeId>);

/// An allocation with the volumes that its job names for it.
struct User {
    /// As the server lists it.
    namespace: Namespace,
    create_index: u64,
    alloc: Alloc,
    volumes: BTreeSet<VolumeId>,
}

async fn users_in(
    api: &dyn ClusterApi,
    namespace: &Namespace,
    nodes: &SeenNodes,
    parallelism: usize,
) -> Result<(Vec<User>, Vec<Unstarted>), ApiError> {
    let listed = api.list_allocations(namespace, "").await?;
    let suspects: Vec<(&AllocationStub, Alloc)> = listed
        .iter()
        .map(|reading| (&reading.value, allocation_from_wire(&reading.value)))
        .filter(|(_, alloc)| may_write_without_claim(alloc, nodes))
        .collect();
    if suspects.len() > MAX_READ {
        return Err(too_many(suspects.len()));
    }
    let reads = suspects.into_iter().map(async |(stub, alloc)| {
        let volumes = read_volumes(api, &alloc.id).await?;
        Ok::<_, ApiError>(User {
            namespace: Namespace::new(&stub.namespace),
            create_index: stub.create_index,
            alloc,
            volumes,
        })
    });
    let reads = stream::iter(reads).buffered(parallelism.max(1));
    let users: Vec<User> = reads.try_collect().await?;
    let mut unstarted: Vec<UnstartedAlloc> =
        listed.iter().filter_map(|reading| unstarted_alloc(&reading.value)).collect();
    unstarted.sort_by_key(|one| std::cmp::Reverse(one.reported_at));
    unstarted.truncate(MAX_UNSTARTED);
    let reads = unstarted.into_iter().map(async |one| {
        let volumes = read_volumes(api, &one.alloc.id).await?;
        Ok::<_, ApiError>((one, volumes))
    });
    let reads = stream::iter(reads).buffered(parallelism.max(1));
    Ok((users, reads.try_collect().await?))
}

fn too_many(count: usize) -> ApiError {
    ApiError::new(
        Code::ApiTooLarge,
        format!(
            "{count} allocations have not ended as far as is known, and at most {MAX_READ} are read"
        ),
    )
    .help("start the nodes that are away, or remove those that are off for good from the server")
}

/// Returns the volumes that the job of an allocation names for it; none if the server has forgotten the allocation.
///
/// # Errors
/// If the allocation cannot be read.
pub(super) async fn read_volumes(
    api: &dyn ClusterApi,
    id: &AllocId,
) -> Result<BTreeSet<VolumeId>, ApiError> {
    let read = api.read_allocation(id).await?;
    let volumes = read.map(|reading| volumes_of(&reading.value));
    Ok(volumes.unwrap_or_default())
}

/// Returns an allocation that should run and has failed before its tasks started, or is pending. Tasks that have started
/// had their volumes.
fn unstarted_alloc(stub: &AllocationStub) -> Option<UnstartedAlloc> {
    let alloc = allocation_from_wire(stub);
    let is_stuck = matches!(alloc.client, ClientStatus::Failed | ClientStatus::Pending);
    if alloc.desired != DesiredStatus::Run || !is_stuck {
        return None;
    }
    let tasks = stub.task_states.iter().flat_map(BTreeMap::values);
    let mut events: Vec<_> = tasks.flat_map(|task| &task.events).collect();
    events.sort_by_key(|event| event.time);
    if events.iter().any(|event| event.event_type == "Started") {
        return None;
    }
    let failure = events.iter().rev().find(|event| event.event_type == "Setup Failure");
    // A client reports nothing of an allocation before its setup has ended.
    let newest = match alloc.client {
        ClientStatus::Failed => Some(failure?),
        _ => failure.or(events.last()),
    };
    let (report, reported_at) = match newest {
        Some(event) => (event.display_message.clone(), event.time),
        None => ("nothing since it was placed".to_owned(), alloc.create_time),
    };
    Some(UnstartedAlloc { alloc, report, reported_at })
}

/// Returns whether the end of an allocation is not proven although the server may have dropped its claims.
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
    use nomad_csi_model::{ClientNode, NodeId};
    use nomad_csi_testing::alloc_samples;

    fn alloc(node: &str, desired: DesiredStatus, client: ClientStatus) -> Alloc {
        alloc_samples::alloc("a1", node, desired, client)
    }

    /// The events are those that Nomad 2.0.6 recorded for a volume that a plugin does not publish again.
    #[test]
    fn an_allocation_whose_tasks_did_not_start_is_known_with_the_reason() {
        let setup = serde_json::json!({"Type": "Setup Failure", "Time": 5, "DisplayMessage":
            "failed to setup alloc: pre-run hook \"csi_hook\" failed: mounting volumes: already published"});
        let received =
            serde_json::json!({"Type": "Received", "Time": 3, "DisplayMessage": "received"});
        let started = serde_json::json!({"Type": "Started", "Time": 4});
        let exited =
            serde_json::json!({"Type": "Terminated", "Time": 5, "DisplayMessage": "Exit Code: 1"});
        for (client, desired, events, expected) in [
            ("failed", "run", vec![&received, &setup], Some(5)),
            ("failed", "stop", vec![&received, &setup], None),
            ("failed", "run", vec![&received, &started, &exited], None),
            ("failed", "run", vec![&received, &exited], None),
            ("pending", "run", vec![&received], Some(3)),
            ("pending", "run", vec![], Some(2)),
            ("pending", "stop", vec![&received], None),
            ("running", "run", vec![&received], None),
            ("complete", "run", vec![&received], None),
            ("lost", "run", vec![&received, &setup], None),
        ] {
            let stub = serde_json::json!({"ID": "a1", "ClientStatus": client, "DesiredStatus": desired, "CreateTime": 2,
                "TaskStates": {"t": {"Events": events}}});
            let stub: AllocationStub = nomad_csi_wire::decode_value(&stub).unwrap();
            let found = unstarted_alloc(&stub);
            assert_eq!(found.map(|one| one.reported_at), expected, "{client} {desired} {stub:?}");
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
            modify_index: 0,
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
        assert!(!may_write_without_claim(&alloc("up", Stop, Complete), &unread));
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
        let document: AllocationDocument = nomad_csi_wire::decode_value(&document).unwrap();
        let expected: BTreeSet<VolumeId> = ["data[2]", "db"].map(VolumeId::new).into();
        assert_eq!(volumes_of(&document), expected);
    }
}
