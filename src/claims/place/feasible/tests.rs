//! Each reason against a node, alone and together.

use super::super::samples::{World, node, web, with_volume};
use super::*;
use crate::state::EventKind;
use nomad_csi_model::{Constraint, ConstraintOperator, HostVolume, JobType, PluginId};

fn reasons(world: &World, job: &Job, index: u32) -> Vec<String> {
    let candidate = Candidate { job, group: &job.groups[0], index };
    let node = world.state.node(&NodeId::new("n1")).unwrap();
    refusals(&world.state, candidate, node)
}

fn writer() -> Job {
    with_volume(web(JobType::Service, 1), "data", false)
}

#[test]
fn a_healthy_node_with_free_volumes_takes_the_allocation() {
    let world = World::new(&["n1"]);
    assert_eq!(reasons(&world, &writer(), 0), Vec::<String>::new());
    let per_alloc = with_volume(web(JobType::Service, 3), "data", true);
    assert_eq!(reasons(&world, &per_alloc, 2), Vec::<String>::new());
}

/// A host volume is offered by the node, and a volume that can only be read takes no writer.
#[test]
fn a_host_volume_must_be_offered_by_the_node() {
    let mut world = World::new(&["n1"]);
    let mut job = with_volume(web(JobType::Service, 1), "logs", false);
    let volume = job.groups[0].volumes.values_mut().next().unwrap();
    volume.kind =
        JobVolumeKind::Host { access_mode: None, attachment_mode: None, has_mount_options: false };
    let missing = ["missing compatible host volumes: `logs` is not offered"];
    let read_only = ["missing compatible host volumes: `logs` can only be read"];
    assert_eq!(reasons(&world, &job, 0), missing);
    for (offered, reads, expected) in [
        ("logs=/var/log", false, &[][..]),
        ("logs=/var/log:ro", false, &read_only[..]),
        ("logs=/var/log:ro", true, &[]),
        ("other=/var/log", true, &missing),
    ] {
        let (name, volume) = HostVolume::parse(offered).unwrap();
        let node = Node { host_volumes: [(name, volume)].into(), ..node("n1") };
        world.apply(EventKind::NodeRegistered { node });
        let desired = job.groups[0].volumes.values_mut().next().unwrap();
        desired.read_only = reads;
        assert_eq!(reasons(&world, &job, 0), expected, "{offered}");
    }
}

#[test]
fn missing_volumes_are_named_together_and_per_allocation() {
    let world = World::new(&["n1"]);
    let job = with_volume(with_volume(web(JobType::Service, 1), "a", false), "b", false);
    assert_eq!(reasons(&world, &job, 0), ["missing CSI volume(s) a, b"]);
    let per_alloc = with_volume(web(JobType::Service, 9), "data", true);
    assert_eq!(reasons(&world, &per_alloc, 7), ["missing CSI volume(s) data[7]"]);
}

#[test]
fn a_plugin_must_be_there_and_healthy() {
    let mut world = World::new(&["n1", "n2"]);
    world.observe("n1", false, None);
    assert_eq!(
        reasons(&world, &writer(), 0),
        ["CSI plugin hostpath is unhealthy on client n1: CSI volume data needs it"]
    );
    world.apply(EventKind::PluginAllocGone {
        plugin: PluginId::new("hostpath"),
        alloc: AllocId::new("plugin-n1"),
    });
    assert_eq!(
        reasons(&world, &writer(), 0),
        ["CSI plugin hostpath is missing from client n1: CSI volume data needs it"]
    );
}

/// The volumes of one group count together, and each once (W45).
#[test]
fn the_limit_of_volumes_counts_what_the_group_will_use() {
    let mut world = World::new(&["n1"]);
    world.register("other", "ext-9", AccessMode::SingleNodeWriter);
    let job = with_volume(writer(), "other", false);
    for (limit, expected) in [
        (2, vec![]),
        (
            1,
            vec![
                "CSI plugin hostpath has the maximum number of volumes on client n1: CSI volume other has no room",
            ],
        ),
    ] {
        world.observe("n1", true, Some(limit));
        assert_eq!(reasons(&world, &job, 0), expected, "{limit}");
    }
}

/// The modes of the request are compared with the volume before the claim (W46).
#[test]
fn the_modes_of_the_request_must_be_the_volumes() {
    let mut world = World::new(&["n1"]);
    world.register("shared", "ext-8", AccessMode::MultiNodeReaderOnly);
    let mut job = with_volume(web(JobType::Service, 1), "shared", false);
    assert_eq!(reasons(&world, &job, 0), ["CSI volume shared is unschedulable or is read-only"]);
    let alias = VolumeAlias::new("shared");
    job.groups[0].volumes.get_mut(&alias).unwrap().read_only = true;
    assert_eq!(
        reasons(&world, &job, 0),
        [
            "CSI volume shared: the volume does not have the capability single-node-writer, file-system"
        ]
    );
}

/// A driver that cannot mount is found before the allocation is placed (B80, W52).
#[test]
fn the_driver_of_a_mounting_task_must_be_able_to_mount() {
    let world = World::new(&["n1"]);
    let mut job = writer();
    job.groups[0].tasks[0].driver = "raw_exec".to_owned();
    assert_eq!(
        reasons(&world, &job, 0),
        ["task driver \"raw_exec\" for \"t\" does not support CSI"]
    );
    let mut with_host_volume = job.clone();
    for volume in with_host_volume.groups[0].volumes.values_mut() {
        volume.kind = JobVolumeKind::Host {
            access_mode: None,
            attachment_mode: None,
            has_mount_options: false,
        };
    }
    let found = reasons(&world, &with_host_volume, 0);
    let expected = "task driver \"raw_exec\" for \"t\" does not support host volumes";
    assert!(found.iter().any(|reason| reason == expected), "{found:?}");
    job.groups[0].tasks[0].volume_mounts.clear();
    assert_eq!(reasons(&world, &job, 0), Vec::<String>::new());
    job.groups[0].tasks[0].driver = "docker".to_owned();
    assert_eq!(
        reasons(&world, &job, 0),
        ["missing drivers: task `t` needs driver `docker`, and node `n1` has exec, raw_exec"]
    );
}

#[test]
fn every_reason_is_named() {
    let mut world = World::new(&["n1"]);
    world.apply(EventKind::NodeRegistered { node: Node { is_eligible: false, ..node("n1") } });
    let mut job = with_volume(web(JobType::Service, 1), "nosuch", false);
    job.datacenters = vec!["eu-*".to_owned()];
    job.constraints.push(Constraint {
        attribute: "${attr.kernel.name}".to_owned(),
        operator: ConstraintOperator::Equal,
        value: "plan9".to_owned(),
    });
    assert_eq!(
        reasons(&world, &job, 0),
        [
            "node `n1` is not eligible",
            "node `n1` is in datacenter `dc1`, which the job does not name",
            "${attr.kernel.name} = plan9",
            "missing CSI volume(s) nosuch",
        ]
    );
}
