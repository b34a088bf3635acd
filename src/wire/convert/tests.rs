//! Golden request bodies, a sample response of Nomad 2.0, and responses of other versions.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::{PluginDocument, VolumeDocument, VolumeStub, WriteRequest, decode, decode_value};
use nomad_csi_model::{
    AccessMode, AttachmentMode, Bytes, Capability, CapacityRange, ClientStatus, DesiredStatus,
    ExternalId, Health, HealthCount, MountOptions, Namespace, NamespacedId, NodeId, PluginId,
    PluginInstance, Secrets, Topology, TopologyRequest, VolumeId, VolumeRequest,
};

/// A response of Nomad's Read Volume API, with the `null` topology that a create leaves.
const SAMPLE: &str = include_str!("../../../tests/data/wire/volume-2.0.json");

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn zone_topology(zone: &str) -> Topology {
    Topology { segments: map(&[("zone", zone)]) }
}

fn minimal() -> VolumeRequest {
    let capability = Capability {
        access_mode: AccessMode::SingleNodeWriter,
        attachment_mode: AttachmentMode::FileSystem,
    };
    let key = NamespacedId::new(Namespace::default(), VolumeId::new("db0"));
    VolumeRequest::new(key, PluginId::new("ebs0"), vec![capability])
}

fn full() -> VolumeRequest {
    VolumeRequest {
        namespace: Namespace::new("prod"),
        name: Some("database".into()),
        external_id: Some(ExternalId::new("vol-0abc")),
        capacity: CapacityRange { min: Bytes::from_wire(10 << 30), max: Bytes::MAX },
        topology_request: Some(TopologyRequest {
            required: vec![zone_topology("b"), zone_topology("a")],
            preferred: vec![],
        }),
        clone_id: Some("vol-1".into()),
        mount_options: Some(MountOptions {
            fs_type: "ext4".into(),
            mount_flags: vec!["noatime".into()],
        }),
        secrets: Some(Secrets::from_iter([("token", "a,b=<c>")])),
        parameters: Some(map(&[("type", "gp3")])),
        context: Some(map(&[("k", "v")])),
        ..minimal()
    }
}

fn body(request: &VolumeRequest, kind: WriteKind) -> Value {
    let volume = request_to_wire(request, kind).expect("the request has redacted values");
    let body = WriteRequest { volumes: vec![volume], ..WriteRequest::default() };
    serde_json::to_value(body).expect("cannot serialise the body")
}

/// Only user fields are sent (W22); `MountOptions` is never null, and secrets are complete.
#[test]
fn request_bodies_match_the_golden_files() {
    let mut empty = minimal();
    empty.secrets = Some(Secrets::default());
    empty.parameters = Some(BTreeMap::new());
    empty.topology_request = Some(TopologyRequest::default());
    for (name, request, kind, golden) in [
        (
            "least",
            minimal(),
            WriteKind::Register,
            include_str!("../../../tests/data/wire/register-least.json"),
        ),
        (
            "empty is not absent",
            empty,
            WriteKind::Register,
            include_str!("../../../tests/data/wire/register-empty.json"),
        ),
        (
            "register",
            full(),
            WriteKind::Register,
            include_str!("../../../tests/data/wire/register-full.json"),
        ),
        (
            "create",
            full(),
            WriteKind::Create,
            include_str!("../../../tests/data/wire/create-full.json"),
        ),
    ] {
        let golden: Value = serde_json::from_str(golden).expect("a golden file is not JSON");
        assert_same_json(&body(&request, kind), &golden, name);
    }
}

/// Asserts equality including the order of keys, which the golden files have from Nomad.
#[track_caller]
fn assert_same_json(actual: &Value, expected: &Value, name: &str) {
    let text = |value: &Value| serde_json::to_string_pretty(value).expect("cannot serialise JSON");
    assert_eq!(text(actual), text(expected), "{name}");
}

#[test]
fn requests_round_trip() {
    for request in [minimal(), full()] {
        let body = body(&request, WriteKind::Register);
        let read: WriteRequest = decode_value(&body).expect("cannot decode the request");
        let (arrived, problems) = request_from_wire(&read.volumes[0], &Namespace::new("other"));
        assert_eq!(problems, []);
        let expected = VolumeRequest {
            mount_options: Some(request.mount_options.clone().unwrap_or_default()),
            ..request
        };
        assert_eq!(arrived, expected);
    }
}

#[test]
fn redacted_values_are_never_sent() {
    let mut flags = minimal();
    flags.mount_options = Some(MountOptions {
        fs_type: String::new(),
        mount_flags: vec!["ro".into(), MountOptions::REDACTED.into()],
    });
    let mut secrets = minimal();
    secrets.secrets = Some(Secrets::from_iter([("token", MountOptions::REDACTED)]));
    for (request, field) in [(flags, "mount flags"), (secrets, "secrets")] {
        assert_eq!(request_to_wire(&request, WriteKind::Register), Err(RedactedValue(field)));
    }
}

/// A Go client sends every field of a volume, of which only user fields are used (W22).
#[test]
fn a_request_of_a_go_client_decodes() {
    let sent = br#"{"Volumes":[{"ID":"db0","Name":"database","ExternalID":"","Namespace":"",
        "Topologies":null,"AccessMode":"multi-node-multi-writer","AttachmentMode":"",
        "MountOptions":null,"Secrets":null,"Parameters":null,"Context":null,"Capacity":99,
        "RequestedCapacityMin":0,"RequestedCapacityMax":0,
        "requestedcapabilities":[{"accessmode":"single-node-writer","ATTACHMENTMODE":"block-device"}],
        "CloneID":"","SnapshotID":"","ReadAllocs":{"x":{}},"WriteAllocs":null,"Allocations":null,
        "Schedulable":true,"PluginID":"ebs0","Provider":"evil","ResourceExhausted":"0001-01-01T00:00:00Z",
        "CreateIndex":7,"ModifyIndex":0,"CreateTime":0,"ModifyTime":0}],
        "PolicyOverride":false,"Region":"","Namespace":"","SecretID":""}"#;
    let read: WriteRequest = decode(sent).expect("cannot decode the request");
    let (request, problems) = request_from_wire(&read.volumes[0], &Namespace::new("prod"));
    assert_eq!(problems, []);
    let expected = VolumeRequest {
        namespace: Namespace::new("prod"),
        name: Some("database".into()),
        capabilities: vec![Capability {
            access_mode: AccessMode::SingleNodeWriter,
            attachment_mode: AttachmentMode::BlockDevice,
        }],
        ..minimal()
    };
    assert_eq!(request, expected);
}

#[test]
fn invalid_values_are_reported() {
    use RequestProblem as Problem;
    let capability = |access: &str, attachment: &str| json!({"RequestedCapabilities": [{"AccessMode": access, "AttachmentMode": attachment}]});
    for (volume, expected, text) in [
        (
            capability("single-node-single-writer", "file-system"),
            vec![Problem::AccessMode("single-node-single-writer".into())],
            "unknown volume access mode: single-node-single-writer",
        ),
        (
            capability("", "filesystem"),
            vec![Problem::AccessMode(String::new()), Problem::AttachmentMode("filesystem".into())],
            "unknown volume access mode: , unknown volume attachment mode: filesystem",
        ),
        (
            json!({"RequestedCapacityMin": -1, "RequestedCapacityMax": i64::MIN}),
            vec![
                Problem::NegativeCapacity("requested capacity min"),
                Problem::NegativeCapacity("requested capacity max"),
            ],
            "requested capacity min cannot be negative, requested capacity max cannot be negative",
        ),
        (
            json!({"RequestedTopologies": {"Required": [{"Segments": {}}], "Preferred": [null, {}]}}),
            vec![
                Problem::TopologyWithoutSegments("required"),
                Problem::TopologyWithoutSegments("preferred"),
            ],
            "required topology is missing segments field, preferred topology is missing segments field",
        ),
    ] {
        let read = decode_value(&volume).expect("cannot decode the request");
        let (_, problems) = request_from_wire(&read, &Namespace::default());
        let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(texts.join(", "), text);
        assert_eq!(problems, expected);
    }
}

#[test]
fn a_volume_round_trips_to_nomads_response() {
    let sample: Value = serde_json::from_str(SAMPLE).expect("the sample is not JSON");
    let document: VolumeDocument = decode_value(&sample).expect("cannot decode the sample");
    let again = volume_to_wire(&volume_from_wire(&document));
    let mut expected = sample;
    expected["Topologies"] = json!([{"Segments": {"zone": "a"}}]);
    let again = serde_json::to_value(again).expect("cannot serialise the volume");
    assert_same_json(&again, &expected, "sample");
}

/// Nomad sorts keys, and the tests of its clients rely on that.
#[test]
fn keys_are_sorted_everywhere() {
    fn check(value: &Value, at: &str) {
        if let Value::Object(entries) = value {
            assert!(entries.keys().is_sorted(), "{at}: {:?}", entries.keys());
            for (key, value) in entries {
                check(value, &format!("{at}.{key}"));
            }
        }
        for (index, value) in value.as_array().into_iter().flatten().enumerate() {
            check(value, &format!("{at}[{index}]"));
        }
    }
    let node = nomad_csi_model::Node::new(NodeId::new("n"), "", "");
    let mut volume =
        volume_from_wire(&decode(SAMPLE.as_bytes()).expect("cannot decode the sample"));
    volume.allocs = vec![allocation_from_sample()];
    let plugin =
        plugin_from_wire(&decode_value(&plugin_sample()).expect("cannot decode the plugin"));
    for value in [
        serde_json::to_value(volume_to_wire(&volume)),
        serde_json::to_value(stub_to_wire(&volume)),
        serde_json::to_value(plugin_to_wire(&plugin)),
        serde_json::to_value(plugin_summary_to_wire(&plugin.summary)),
        serde_json::to_value(node_to_wire(&node)),
        Ok(body(&full(), WriteKind::Register)),
    ] {
        check(&value.expect("cannot serialise the document"), "");
    }
}

fn allocation_from_sample() -> nomad_csi_model::Alloc {
    let stub = json!({"ID": "a1", "NodeID": "n1", "DesiredStatus": "stop", "ClientStatus": "odd",
        "TaskStates": null, "JobVersion": 3, "CreateTime": 5});
    super::allocation::allocation_from_wire(
        &decode_value(&stub).expect("cannot decode the allocation"),
    )
}

#[test]
fn statuses_of_a_later_nomad_are_preserved() {
    let alloc = allocation_from_sample();
    assert_eq!(alloc.desired, DesiredStatus::Stop);
    assert_eq!(alloc.client, ClientStatus::Other("odd".into()));
    assert_eq!(allocation_to_wire(&alloc).client_status, "odd");
}

/// Older versions omit fields, return `null` or return additional fields.
#[test]
fn responses_of_every_version_decode() {
    let volume = |value: Value| volume_from_wire(&decode_value(&value).expect("cannot decode"));
    let base = |extra: Value| {
        let mut all = json!({"ID": "v", "Namespace": "default", "PluginID": "p"});
        let entries = all.as_object_mut().expect("not an object");
        entries.extend(extra.as_object().expect("not an object").clone());
        volume(all)
    };
    // 1.1: no topologies, no capabilities, null mount options; secrets and claims in clear text.
    let old = base(json!({"MountOptions": null, "RequestedCapabilities": null, "Context": null,
        "Secrets": {"token": "hunter2"}, "ReadAllocs": {"a": {"ID": "a", "Job": {}}},
        "WriteAllocs": null, "Allocations": null, "Parameters": null}));
    assert_eq!((old.mount_options.as_ref(), old.capabilities.len()), (None, 0));
    assert_eq!(old.claiming_allocs().map(ToString::to_string).collect::<Vec<_>>(), ["a"]);
    assert!(!format!("{old:?}").contains("hunter2"));
    // 1.3 to 2.0: null topologies after a create, redacted flags.
    let redacted = base(
        json!({"Topologies": [null, {"Segments": {"zone": "a"}}, {"Segments": null}],
        "MountOptions": {"FSType": "", "MountFlags": ["[REDACTED]"]},
        "RequestedTopologies": {"Required": null, "Preferred": [null, {"Segments": {"zone": "b"}}]}}),
    );
    assert_eq!(redacted.topologies, [zone_topology("a"), Topology::default()]);
    assert!(redacted.mount_options.as_ref().is_some_and(MountOptions::are_redacted));
    let requested = redacted.topology_request.expect("the topology request is missing");
    assert_eq!((requested.required.len(), requested.preferred), (0, vec![zone_topology("b")]));
    // 1.10: times. Any version: two forms of times, the largest integers, unknown keys.
    let new = base(json!({"ResourceExhausted": "0001-01-01T00:00:00Z", "CreateTime": i64::MAX,
        "Capacity": i64::MAX, "ModifyIndex": u64::MAX, "AccessMode": "of-the-future", "New": [{}],
        "NodesHealthy": -1}));
    assert_eq!((new.capacity, new.modify_index), (Bytes::MAX, u64::MAX));
    assert_eq!((new.access_mode, new.nodes.healthy), (None, 0));
    assert_eq!((new.create_time, new.external_id), (i64::MAX, None));
}

#[test]
fn a_list_decodes() {
    // 1.2: neither `ControllerRequired` nor `ResourceExhausted`, topologies null.
    let stub = json!({"ID": "v", "Namespace": "prod", "Name": "n", "ExternalID": "x", "PluginID": "p",
        "Provider": "csi.example", "AccessMode": "single-node-writer", "AttachmentMode": "file-system",
        "CurrentReaders": 2, "CurrentWriters": 1, "Schedulable": true, "Topologies": null,
        "ControllersHealthy": 1, "ControllersExpected": 1, "NodesHealthy": 1, "NodesExpected": 2,
        "CreateIndex": 5, "ModifyIndex": 6});
    let stub: VolumeStub = decode_value(&stub).expect("cannot decode the list entry");
    let summary = summary_from_wire(&stub);
    assert_eq!((summary.readers, summary.writers), (2, 1));
    assert_eq!(summary.access_mode, Some(AccessMode::SingleNodeWriter));
    assert_eq!((summary.create_index, summary.modify_index), (5, 6));
}

fn plugin_sample() -> Value {
    json!({"Allocations": null, "ControllerJobs": {"default": {"j": {"Expected": 1}}},
        "ControllerRequired": true, "Controllers": {"n1": {"AllocID": "a1", "Healthy": true,
            "HealthDescription": "healthy", "PluginID": "p", "Provider": "csi.example",
            "ProviderVersion": "v1", "RequiresControllerPlugin": true, "RequiresTopologies": true,
            "UpdateTime": "2026-01-02T03:04:05.000000006Z", "ControllerInfo": {
                "SupportsCreateDelete": true, "SupportsAttachDetach": true, "SupportsExpand": true}}},
        "ControllersExpected": 1, "ControllersHealthy": 1, "CreateIndex": 3, "ID": "p",
        "Nodes": {"n1": {"AllocID": "a2", "Healthy": false, "HealthDescription": "unhealthy",
            "UpdateTime": null, "NodeInfo": {"ID": "i-1", "MaxVolumes": i64::MAX,
                "AccessibleTopology": {"Segments": {"zone": "a"}}, "RequiresNodeStageVolume": true}}},
        "NodesExpected": 2, "NodesHealthy": 0, "Provider": "csi.example", "Version": "v1"})
}

#[test]
fn a_plugin_round_trips() {
    let plugin =
        plugin_from_wire(&decode_value(&plugin_sample()).expect("cannot decode the plugin"));
    let health = HealthCount { healthy: 1, expected: 1 };
    assert_eq!(plugin.summary.controllers, health);
    let controller = &plugin.controllers[&NodeId::new("n1")];
    assert!(controller.requires_topologies && controller.node.is_none());
    assert_eq!(controller.updated_at, 1_767_323_045_000_000_006);
    let node: &PluginInstance = &plugin.nodes[&NodeId::new("n1")];
    let unhealthy = Health { healthy: false, description: "unhealthy".into() };
    assert_eq!((node.health.clone(), node.updated_at), (unhealthy, 0));
    let info = node.node.as_ref().expect("the node service is missing");
    assert_eq!(
        (info.max_volumes, info.accessible_topology.clone()),
        (None, Some(zone_topology("a")))
    );

    let answered = plugin_to_wire(&plugin);
    assert_eq!(answered.nodes["n1"].node_info.as_ref().map(|n| n.max_volumes), Some(i64::MAX));
    assert_eq!(answered.allocations, None);
    assert_eq!(plugin_from_wire(&answered), plugin);
    let bare: PluginDocument =
        decode_value(&json!({"ID": "p", "Controllers": null, "Nodes": null}))
            .expect("cannot decode");
    assert!(plugin_from_wire(&bare).nodes.is_empty());
}

/// The agent tells changes of the specification apart from the steps of claims (W08); Nomad does not.
#[test]
fn without_an_index_of_the_specification_every_change_counts() {
    for (text, expected) in [
        (r#"{"ModifyIndex": 9, "SpecIndex": 5}"#, 5),
        (r#"{"ModifyIndex": 9}"#, 9),
        (r#"{"ModifyIndex": 9, "SpecIndex": null}"#, 9),
    ] {
        let document: VolumeDocument = decode(text.as_bytes()).unwrap();
        assert_eq!(volume_from_wire(&document).spec_index, expected, "{text}");
    }
}

/// The modes and the use of a volume come from its own fields, and never from its claims: Nomad's claims may have no
/// modes. Nothing is made up for a volume with modes and no capabilities.
#[test]
fn modes_and_use_come_from_the_volume_and_not_from_its_claims() {
    let read = |claims: &str| {
        let text = format!(
            r#"{{"AccessMode": "multi-node-reader-only", "AttachmentMode": "file-system",
            "ReadAllocs": {{"a1": null}}, {claims} "WriteAllocs": {{}},
            "RequestedCapabilities": null, "Schedulable": true}}"#
        );
        volume_from_wire(&decode::<VolumeDocument>(text.as_bytes()).unwrap())
    };
    let volume = read("");
    assert_eq!(volume.access_mode, Some(AccessMode::MultiNodeReaderOnly));
    assert_eq!(volume.attachment_mode, Some(AttachmentMode::FileSystem));
    assert!(volume.is_claimed() && volume.has_active_mode() && volume.schedulable);
    assert!(volume.capabilities.is_empty());
    for claims in [
        r#""ReadClaims": {"a1": {"AllocationID": "a1", "AccessMode": "", "AttachmentMode": ""}},"#,
        r#""ReadClaims": null, "WriteClaims": {"a9": {"AccessMode": "single-node-writer"}},"#,
        r#""PastClaims": {"a8": {"AccessMode": "", "State": 3}},"#,
    ] {
        assert_eq!(read(claims), volume, "{claims}");
    }
}
