//! The capacity that a provider has left: for `plugin status`, and in the error of a create.

use std::time::Duration;

use super::*;
use crate::volumes::capacity::MAX_TOPOLOGIES;
use nomad_csi_model::{
    Bytes, Capacity, ControllerCapabilities, ExternalNodeId, ReportedCapacity, Topology,
    TopologyRequest,
};
use nomad_csi_ports::StatusCode;
use nomad_csi_testing::Fault;

const RPC: Rpc = Rpc::GetCapacity;

fn reporting(has_topology: bool) -> PluginSettings {
    let mut settings = PluginSettings {
        controller: Some(ControllerCapabilities {
            create_delete_volume: true,
            get_capacity: true,
            ..ControllerCapabilities::default()
        }),
        ..PluginSettings::default()
    };
    settings.plugin.volume_accessibility_constraints = has_topology;
    settings.description.accessible_topology = has_topology.then(|| zone(0));
    settings
}

fn zone(number: usize) -> Topology {
    Topology { segments: [("zone".to_owned(), format!("z{number:02}"))].into() }
}

fn left(available: i64) -> ReportedCapacity {
    ReportedCapacity { available, maximum: Some(available / 2), minimum: None }
}

fn shown(available: u64) -> Capacity {
    Capacity {
        available: Bytes::new(available).unwrap(),
        maximum_volume_size: Bytes::new(available / 2),
        minimum_volume_size: None,
    }
}

async fn read(agent: &FakeAgent) -> nomad_csi_model::CapacityReport {
    let capacity = agent.volumes.capacity(FakeAgent::PLUGIN.into());
    capacity.await.unwrap()
}

/// Adds a node of the plugin in a zone of its own.
async fn add_zone(agent: &FakeAgent, number: usize) {
    let here = zone(number);
    agent.backend.update_settings(|settings| settings.description.accessible_topology = Some(here));
    let node = format!("node-{number}");
    let external = ExternalNodeId::new(format!("i-{number}"));
    agent.add_node_as(&node, external, &format!("alloc-{number}")).await;
}

/// W56: without topologies there is one question, and with them one for each that a node has.
#[tokio::test(start_paused = true)]
async fn capacity_is_read_for_each_topology_of_the_nodes() {
    let agent = FakeAgent::start(reporting(false)).await.unwrap();
    agent.backend.set_capacity(None, left(100));
    let report = read(&agent).await;
    assert_eq!(report.places, [(None, shown(100))]);
    assert_eq!(report.unknown, Vec::<String>::new());

    let agent = FakeAgent::start(reporting(true)).await.unwrap();
    for number in [0, 1] {
        agent.backend.set_capacity(Some(zone(number)), left(10 + i64::try_from(number).unwrap()));
    }
    add_zone(&agent, 1).await;
    let places = [(Some(zone(0)), shown(10)), (Some(zone(1)), shown(11))];
    assert_eq!(read(&agent).await.places, places);
    for number in 2..=MAX_TOPOLOGIES {
        add_zone(&agent, number).await;
    }
    let before = agent.backend.count(RPC);
    let report = read(&agent).await;
    assert_eq!(report.places.len(), MAX_TOPOLOGIES);
    assert_eq!(agent.backend.count(RPC) - before, MAX_TOPOLOGIES);
    assert_eq!(
        report.unknown,
        ["the nodes of the plugin have 33 topologies, and the first 32 are asked about"]
    );
}

/// W56: a plugin without the capability is not asked; refusals, nonsense and silence are unknown, in bounded time.
#[tokio::test(start_paused = true)]
async fn a_capacity_without_an_answer_is_unknown() {
    let agent = FakeAgent::start(PluginSettings::default()).await.unwrap();
    assert_eq!(read(&agent).await, Default::default());
    assert_eq!(agent.backend.count(RPC), 0);
    let missing = agent.volumes.capacity("no".into()).await;
    assert!(matches!(missing, Err(ServerError::NoPluginToRead)));

    let agent = FakeAgent::start(reporting(false)).await.unwrap();
    agent.backend.inject_faults(RPC, [Fault::Fail(StatusCode::Internal)]);
    let report = read(&agent).await;
    assert_eq!(report.places, []);
    assert_eq!(report.unknown, ["GetCapacity failed with Internal: scripted Internal"]);
    agent.backend.set_capacity(None, left(-1));
    let report = read(&agent).await;
    assert_eq!(report.places, []);
    assert!(report.unknown[0].contains("available_capacity is negative (-1)"));
    agent.backend.set_capacity(None, left(100));
    agent.backend.inject_faults(RPC, [Fault::Hang; 30]);
    let begun = tokio::time::Instant::now();
    let report = read(&agent).await;
    assert_eq!(begun.elapsed(), Duration::from_secs(15));
    assert_eq!(report.unknown, ["the plugin did not answer 1 of 1 question within 15 s"]);
    agent.backend.clear_faults();
    agent.observe(false).await;
    let report = read(&agent).await;
    assert_eq!((report.places.len(), report.unknown.len()), (0, 1));
}

/// Returns the notes of a refused create.
async fn refused(agent: &FakeAgent, request: VolumeRequest, code: StatusCode) -> Vec<String> {
    // RESOURCE_EXHAUSTED is tried again.
    let faults = [Fault::Fail(code); 6];
    agent.backend.inject_faults(Rpc::CreateVolume, faults);
    let error = agent.volumes.create(vec![request.into()]).await;
    agent.backend.clear_faults();
    error.unwrap_err().notes()
}

/// W56: the error of a create that has no room names what is left, for a volume of the same kind and in its topologies. A
/// plugin that does not tell changes nothing.
#[tokio::test(start_paused = true)]
async fn a_create_without_room_names_what_is_left() {
    let agent = FakeAgent::start(reporting(false)).await.unwrap();
    agent.backend.set_capacity(None, left(5 << 30));
    let note = "plugin `fake` reports: 5.0 GiB available, volumes of at most 2.5 GiB";
    for code in [StatusCode::ResourceExhausted, StatusCode::OutOfRange] {
        let notes = refused(&agent, FakeAgent::request("db"), code).await;
        assert_eq!(notes, [note]);
    }
    let asked = agent.backend.count(RPC);
    let notes = refused(&agent, FakeAgent::request("db"), StatusCode::InvalidArgument).await;
    assert_eq!(notes, Vec::<String>::new());
    assert_eq!(agent.backend.count(RPC), asked, "the size is not the reason");
    for fault in [Fault::Fail(StatusCode::Internal), Fault::Hang] {
        agent.backend.inject_faults(RPC, [fault]);
        let begun = tokio::time::Instant::now();
        let notes = refused(&agent, FakeAgent::request("db"), StatusCode::OutOfRange).await;
        assert_eq!(notes, Vec::<String>::new(), "{fault:?}");
        assert!(begun.elapsed() <= Duration::from_secs(5), "{fault:?}");
    }

    let agent = FakeAgent::start(reporting(true)).await.unwrap();
    for number in [0, 1, 2] {
        let free = left((5 - i64::try_from(number).unwrap()) << 30);
        agent.backend.set_capacity(Some(zone(number)), free);
    }
    let mut request = FakeAgent::request("db");
    request.topology_request =
        Some(TopologyRequest { required: vec![zone(2), zone(1)], preferred: vec![zone(1)] });
    let notes = refused(&agent, request, StatusCode::ResourceExhausted).await;
    assert_eq!(
        notes,
        [
            "plugin `fake` reports in zone=z01: 4.0 GiB available, volumes of at most 2.0 GiB",
            "plugin `fake` reports in zone=z02: 3.0 GiB available, volumes of at most 1.5 GiB",
        ]
    );
}
