//! The embedded plugin's identity and controller over its socket: CSI's rules, one by one.

use std::collections::BTreeMap;

use nomad_csi::csi::proto;
use nomad_csi::csi::proto::volume_capability::access_mode::Mode;
use nomad_csi::csi::proto::volume_capability::{AccessType, BlockVolume, MountVolume};
use tonic::Code;

use crate::support::hostpath::{World, code, writer};
use crate::support::plugin_client::{mount, named};

#[tokio::test]
async fn it_says_who_it_is_and_advertises_what_it_has() {
    use proto::controller_service_capability::{Type as ControllerArm, rpc::Type as Controller};
    use proto::node_service_capability::{Type as NodeArm, rpc::Type as Node};
    let mut world = World::with_devices().await;
    let client = &mut world.client;
    let info = client
        .identity
        .get_plugin_info(proto::GetPluginInfoRequest {})
        .await;
    let info = info.unwrap().into_inner();
    assert_eq!(info.name, "hostpath.nomad-csi.internal");
    assert_eq!(info.vendor_version, env!("CARGO_PKG_VERSION"));
    let probe = client.identity.probe(proto::ProbeRequest {}).await.unwrap();
    assert_eq!(probe.into_inner().ready, Some(true));
    let answer = client
        .controller
        .controller_get_capabilities(proto::ControllerGetCapabilitiesRequest {})
        .await
        .unwrap();
    let controller: Vec<_> = answer
        .into_inner()
        .capabilities
        .iter()
        .map(|capability| match &capability.r#type {
            Some(ControllerArm::Rpc(rpc)) => rpc.r#type(),
            None => panic!("a capability without a type"),
        })
        .collect();
    let expected = [
        Controller::CreateDeleteVolume,
        Controller::ListVolumes,
        Controller::GetCapacity,
        Controller::CreateDeleteSnapshot,
        Controller::ListSnapshots,
        Controller::GetSnapshot,
        Controller::CloneVolume,
        Controller::ExpandVolume,
        Controller::GetVolume,
        Controller::ModifyVolume,
        Controller::VolumeCondition,
        Controller::SingleNodeMultiWriter,
    ];
    assert_eq!(controller, expected);
    let answer = client
        .node
        .node_get_capabilities(proto::NodeGetCapabilitiesRequest {})
        .await
        .unwrap();
    let node: Vec<_> = answer
        .into_inner()
        .capabilities
        .iter()
        .map(|capability| match &capability.r#type {
            Some(NodeArm::Rpc(rpc)) => rpc.r#type(),
            None => panic!("a capability without a type"),
        })
        .collect();
    let expected = [
        Node::StageUnstageVolume,
        Node::GetVolumeStats,
        Node::ExpandVolume,
        Node::VolumeCondition,
        Node::SingleNodeMultiWriter,
        Node::VolumeMountGroup,
    ];
    assert_eq!(node, expected);
    let info = client
        .node
        .node_get_info(proto::NodeGetInfoRequest {})
        .await
        .unwrap();
    assert_eq!(info.into_inner().node_id, "node-1");
    // Attaching has to be asked for.
    let attached = client
        .controller
        .controller_publish_volume(proto::ControllerPublishVolumeRequest::default());
    assert_eq!(code(attached.await), Code::Unimplemented);
}

/// `csi-spec` 5.2 and 5.3.
#[tokio::test]
async fn one_name_is_one_volume_until_it_is_deleted() {
    let mut world = World::new().await;
    let sized = |required_bytes| proto::CreateVolumeRequest {
        capacity_range: Some(proto::CapacityRange {
            required_bytes,
            limit_bytes: 0,
        }),
        ..named("db")
    };
    let id = world.client.try_create(sized(1 << 20)).await.unwrap();
    assert_eq!(world.client.try_create(sized(1 << 20)).await.unwrap(), id);
    assert!(world.data(&id).is_dir());
    let other_capability = proto::CreateVolumeRequest {
        volume_capabilities: vec![mount(Mode::MultiNodeMultiWriter, &[])],
        ..sized(1 << 20)
    };
    for (request, differs) in [
        (sized(2 << 20), "capacity"),
        (other_capability, "capabilities"),
    ] {
        let refused = world.client.try_create(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::AlreadyExists);
        assert!(refused.message().contains(differs), "{refused}");
    }
    let spelled_twice = proto::CreateVolumeRequest {
        volume_capabilities: vec![writer(), writer()],
        ..sized(1 << 20)
    };
    assert_eq!(world.client.try_create(spelled_twice).await.unwrap(), id);
    std::fs::write(world.data(&id).join("file"), "data").unwrap();
    for _ in 0..2 {
        world.client.delete(&id).await.unwrap();
    }
    assert!(!world.data(&id).exists());
    assert_ne!(world.client.try_create(sized(1)).await.unwrap(), id);
    world.client.delete("never-was").await.unwrap();
}

fn one(key: &str) -> BTreeMap<String, String> {
    [(key.to_owned(), "x".to_owned())].into()
}

fn capable(access_type: AccessType) -> proto::CreateVolumeRequest {
    proto::CreateVolumeRequest {
        volume_capabilities: vec![proto::VolumeCapability {
            access_type: Some(access_type),
            ..writer()
        }],
        ..named("a")
    }
}

fn sized(required_bytes: i64, limit_bytes: i64) -> proto::CreateVolumeRequest {
    proto::CreateVolumeRequest {
        capacity_range: Some(proto::CapacityRange {
            required_bytes,
            limit_bytes,
        }),
        ..named("a")
    }
}

fn placed(requisite: Vec<proto::Topology>) -> proto::CreateVolumeRequest {
    proto::CreateVolumeRequest {
        accessibility_requirements: Some(proto::TopologyRequirement {
            requisite,
            preferred: vec![],
        }),
        ..named("a")
    }
}

fn cloned(volume_id: &str) -> proto::CreateVolumeRequest {
    use proto::volume_content_source::{Type, VolumeSource};
    let volume_id = volume_id.to_owned();
    proto::CreateVolumeRequest {
        volume_content_source: Some(proto::VolumeContentSource {
            r#type: Some(Type::Volume(VolumeSource { volume_id })),
        }),
        ..named("a")
    }
}

/// Requests that cannot be, and a part of what is said to each.
fn wrong_requests() -> Vec<(proto::CreateVolumeRequest, &'static str)> {
    let formatted = |fs_type: &str| MountVolume {
        fs_type: fs_type.to_owned(),
        ..Default::default()
    };
    let mut incapable = named("a");
    incapable.volume_capabilities.clear();
    let mut with_parameter = named("a");
    with_parameter.parameters = one("skuname");
    let mut with_mutable = named("a");
    with_mutable.mutable_parameters = one("iops");
    let mut with_secrets = named("a");
    with_secrets.secrets = one(&"k".repeat(4096));
    let mut with_flag = named("a");
    with_flag.volume_capabilities = vec![mount(Mode::SingleNodeWriter, &["password=x"])];
    let mut with_option = named("a");
    with_option.volume_capabilities = vec![mount(Mode::SingleNodeWriter, &["discard"])];
    vec![
        (named(""), "name is missing"),
        (named(&"n".repeat(129)), "129 bytes"),
        (named("a\u{7}b"), "control character"),
        (named("a\u{85}b"), "control character"),
        (incapable, "capabilities are missing"),
        (
            capable(AccessType::Block(BlockVolume {})),
            "this machine has none",
        ),
        (
            capable(AccessType::Mount(formatted("ext4"))),
            "leave fs_type out",
        ),
        (with_flag, "mount_flags"),
        (with_option, "no file system that"),
        (sized(-1, 0), "negative"),
        (sized(2, 1), "above limit_bytes"),
        (placed(vec![proto::Topology::default()]), "no topology"),
        (with_parameter, "\"skuname\""),
        (with_mutable, "\"iops\""),
        (with_secrets, "4097 bytes"),
    ]
}

/// `csi-spec` 3.2, 3.3, 3.6, 5.2: what is wrong is refused in words; what the specification allows,
/// or harmless older orchestrators send (GH-11238, W27), is taken.
#[tokio::test]
async fn wrong_requests_are_refused_before_anything_is_made() {
    let mut world = World::new().await;
    for (request, said) in wrong_requests() {
        let refused = world.client.try_create(request.clone()).await.unwrap_err();
        assert_eq!(
            refused.code(),
            Code::InvalidArgument,
            "{request:?}: {refused}"
        );
        assert!(refused.message().contains(said), "{request:?}: {refused}");
    }
    let too_large = world.client.try_create(sized(i64::MAX, 0)).await;
    assert_eq!(code(too_large), Code::OutOfRange);
    let no_source = world.client.try_create(cloned("x")).await;
    assert_eq!(code(no_source), Code::NotFound);
    assert_eq!(
        world.client.list(0, "").await.unwrap().0,
        Vec::<String>::new()
    );
    let mut with_secrets = named("b");
    with_secrets.secrets = one("token");
    let mut nowhere = placed(vec![]);
    nowhere.name = "c".to_owned();
    let mut sizeless = sized(0, 0);
    sizeless.name = "d".to_owned();
    let longest = named(&"n".repeat(128));
    let strange = named("tab\tand\nline and 日本");
    for request in [longest, strange, with_secrets, nowhere, sizeless] {
        world.client.try_create(request).await.unwrap();
    }
}

/// `csi-spec` 5.6: what cannot be is an answer and no error.
#[tokio::test]
async fn capabilities_are_confirmed_or_the_reason_is_said() {
    let mut world = World::new().await;
    let id = world.client.create("a").await;
    let request = |capability: proto::VolumeCapability| proto::ValidateVolumeCapabilitiesRequest {
        volume_id: id.clone(),
        volume_capabilities: vec![writer(), capability],
        ..Default::default()
    };
    let block = proto::VolumeCapability {
        access_type: Some(AccessType::Block(BlockVolume {})),
        ..writer()
    };
    let with_parameters = proto::ValidateVolumeCapabilitiesRequest {
        parameters: [("p".to_owned(), "v".to_owned())].into(),
        ..request(writer())
    };
    let controller = &mut world.client.controller;
    let good = request(mount(Mode::MultiNodeReaderOnly, &["noexec"]));
    let answer = controller.validate_volume_capabilities(good.clone()).await;
    let confirmed = answer.unwrap().into_inner().confirmed.unwrap();
    assert_eq!(confirmed.volume_capabilities, good.volume_capabilities);
    for (request, said) in [
        (request(block), "no block device"),
        (with_parameters, "\"p\""),
    ] {
        let answer = controller.validate_volume_capabilities(request).await;
        let answer = answer.unwrap().into_inner();
        assert_eq!(answer.confirmed, None);
        assert!(answer.message.contains(said), "{}", answer.message);
    }
    let unknown = proto::ValidateVolumeCapabilitiesRequest {
        volume_id: "no".to_owned(),
        ..good.clone()
    };
    let nothing = proto::ValidateVolumeCapabilitiesRequest {
        volume_capabilities: vec![],
        ..good
    };
    for (request, expected) in [(unknown, Code::NotFound), (nothing, Code::InvalidArgument)] {
        let answer = controller.validate_volume_capabilities(request).await;
        assert_eq!(code(answer), expected);
    }
}

/// `csi-spec` 5.7.
#[tokio::test]
async fn volumes_are_listed_in_pages_that_survive_changes() {
    let mut world = World::new().await;
    let client = &mut world.client;
    let mut ids = vec![];
    for name in ["a", "b", "c", "d", "e"] {
        ids.push(client.create(name).await);
    }
    ids.sort();
    let (first, token) = client.list(2, "").await.unwrap();
    assert_eq!(first, ids[..2]);
    // The token names the last volume of its page; that volume may go.
    client.delete(&ids[1]).await.unwrap();
    let (second, token) = client.list(2, &token).await.unwrap();
    assert_eq!(second, ids[2..4]);
    let (last, token) = client.list(2, &token).await.unwrap();
    assert_eq!((last.as_slice(), token.as_str()), (&ids[4..], ""));
    let (exactly_all, token) = client.list(4, "").await.unwrap();
    assert_eq!((exactly_all.len(), token.as_str()), (4, ""));
    assert_eq!(client.list(0, "").await.unwrap().0.len(), 4);
    assert_eq!(code(client.list(0, "invalid-token").await), Code::Aborted);
    assert_eq!(code(client.list(-1, "").await), Code::InvalidArgument);
}

#[tokio::test]
async fn a_directory_has_no_size_of_its_own() {
    let mut world = World::new().await;
    let id = world.client.create("a").await;
    let controller = &mut world.client.controller;
    let request = |volume_id: &str| proto::ControllerGetVolumeRequest {
        volume_id: volume_id.to_owned(),
    };
    let answer = controller
        .controller_get_volume(request(&id))
        .await
        .unwrap();
    let answer = answer.into_inner();
    let volume = answer.volume.unwrap();
    assert_eq!((volume.volume_id, volume.capacity_bytes), (id, 0));
    assert!(answer.status.is_some());
    assert_eq!(
        code(controller.controller_get_volume(request("no")).await),
        Code::NotFound
    );
    let capacity = controller
        .get_capacity(proto::GetCapacityRequest::default())
        .await;
    let capacity = capacity.unwrap().into_inner();
    assert!(capacity.available_capacity > 0);
    assert!(capacity.maximum_volume_size.unwrap() >= capacity.available_capacity);
}

/// `csi-spec` 3.4: a caller that lost its state may send what is under way already.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_64_callers_with_one_name_all_get_the_one_volume() {
    let world = World::new().await;
    let callers = (0..64).map(|_| {
        let mut client = world.client.clone();
        tokio::spawn(async move {
            loop {
                match client.try_create(named("shared")).await {
                    Err(busy) if busy.code() == Code::Aborted => tokio::task::yield_now().await,
                    answer => return answer.unwrap(),
                }
            }
        })
    });
    let mut ids = vec![];
    for caller in callers.collect::<Vec<_>>() {
        ids.push(caller.await.unwrap());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1);
    let mut client = world.client.clone();
    assert_eq!(client.list(0, "").await.unwrap().0, ids);
}
