//! The Identity and Controller services of the embedded plugin, over its socket.

use std::collections::BTreeMap;

use nomad_csi_proto as proto;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use nomad_csi_proto::volume_capability::{AccessType, BlockVolume, MountVolume};
use tonic::Code;

use crate::support::hostpath::{PluginFixture, code, writer};
use crate::support::plugin_client::{mount, named};

#[tokio::test]
async fn the_plugin_reports_its_name_and_its_capabilities() {
    use proto::controller_service_capability::{Type as ControllerArm, rpc::Type as Controller};
    use proto::node_service_capability::{Type as NodeArm, rpc::Type as Node};
    let mut fixture = PluginFixture::with_devices().await;
    let client = &mut fixture.client;
    let info = client.identity.get_plugin_info(proto::GetPluginInfoRequest {}).await;
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
        Controller::GetVolumeHealth,
        Controller::ListVolumeHealth,
        Controller::SingleNodeMultiWriter,
    ];
    assert_eq!(controller, expected);
    let answer =
        client.node.node_get_capabilities(proto::NodeGetCapabilitiesRequest {}).await.unwrap();
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
        Node::GetVolumeHealth,
        Node::GetStorageHealth,
        Node::SingleNodeMultiWriter,
        Node::VolumeMountGroup,
    ];
    assert_eq!(node, expected);
    let info = client.node.node_get_info(proto::NodeGetInfoRequest {}).await.unwrap();
    assert_eq!(info.into_inner().node_id, "node-1");
    // The plugin requires attachment only with `--attach`.
    let attached = client
        .controller
        .controller_publish_volume(proto::ControllerPublishVolumeRequest::default());
    assert_eq!(code(attached.await), Code::Unimplemented);
}

/// CSI, CreateVolume and DeleteVolume.
#[tokio::test]
async fn one_name_is_one_volume_until_it_is_deleted() {
    let mut fixture = PluginFixture::new().await;
    let sized = |required_bytes| proto::CreateVolumeRequest {
        capacity_range: Some(proto::CapacityRange { required_bytes, limit_bytes: 0 }),
        ..named("db")
    };
    let id = fixture.client.try_create(sized(1 << 20)).await.unwrap();
    assert_eq!(fixture.client.try_create(sized(1 << 20)).await.unwrap(), id);
    let other_capability = proto::CreateVolumeRequest {
        volume_capabilities: vec![mount(Mode::MultiNodeMultiWriter, &[])],
        ..sized(1 << 20)
    };
    for (request, differs) in [(sized(2 << 20), "capacity"), (other_capability, "capabilities")] {
        let refused = fixture.client.try_create(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::AlreadyExists);
        assert!(refused.message().contains(differs), "{refused}");
    }
    let spelled_twice = proto::CreateVolumeRequest {
        volume_capabilities: vec![writer(), writer()],
        ..sized(1 << 20)
    };
    assert_eq!(fixture.client.try_create(spelled_twice).await.unwrap(), id);
    fixture.use_once(&id, writer()).await;
    std::fs::write(fixture.data(&id).join("file"), "data").unwrap();
    for _ in 0..2 {
        fixture.client.delete(&id).await.unwrap();
    }
    assert!(!fixture.data(&id).exists());
    assert_ne!(fixture.client.try_create(sized(1)).await.unwrap(), id);
    fixture.client.delete("never-was").await.unwrap();
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
        capacity_range: Some(proto::CapacityRange { required_bytes, limit_bytes }),
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

/// Invalid requests, and a part of each error message.
fn wrong_requests() -> Vec<(proto::CreateVolumeRequest, &'static str)> {
    let formatted =
        |fs_type: &str| MountVolume { fs_type: fs_type.to_owned(), ..Default::default() };
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
        (capable(AccessType::Block(BlockVolume {})), "this machine has none"),
        (capable(AccessType::Mount(formatted("ext4"))), "remove fs_type"),
        (with_flag, "mount_flags"),
        (with_option, "without its own file system"),
        (sized(-1, 0), "negative"),
        (sized(2, 1), "above limit_bytes"),
        (placed(vec![proto::Topology::default()]), "no topology"),
        (with_parameter, "\"skuname\""),
        (with_mutable, "\"iops\""),
        (with_secrets, "4097 bytes"),
    ]
}

/// Invalid requests are refused with a reason. Requests that CSI allows, or that older
/// orchestrators send without harm (Nomad issue 11238), are accepted.
#[tokio::test]
async fn invalid_requests_are_refused_before_anything_is_created() {
    let mut fixture = PluginFixture::new().await;
    for (request, reason) in wrong_requests() {
        let refused = fixture.client.try_create(request.clone()).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{request:?}: {refused}");
        assert!(refused.message().contains(reason), "{request:?}: {refused}");
    }
    let too_large = fixture.client.try_create(sized(i64::MAX, 0)).await;
    assert_eq!(code(too_large), Code::OutOfRange);
    let no_source = fixture.client.try_create(cloned("x")).await;
    assert_eq!(code(no_source), Code::NotFound);
    assert_eq!(fixture.client.list(0, "").await.unwrap().0, Vec::<String>::new());
    let mut with_secrets = named("b");
    with_secrets.secrets = one("token");
    let mut nowhere = placed(vec![]);
    nowhere.name = "c".to_owned();
    let mut sizeless = sized(0, 0);
    sizeless.name = "d".to_owned();
    let longest = named(&"n".repeat(128));
    let strange = named("tab\tand\nline and 日本");
    for request in [longest, strange, with_secrets, nowhere, sizeless] {
        fixture.client.try_create(request).await.unwrap();
    }
}

/// CSI, ValidateVolumeCapabilities: an unsupported capability is an answer, not an error.
#[tokio::test]
async fn capabilities_are_confirmed_or_refused_with_a_reason() {
    let mut fixture = PluginFixture::new().await;
    let id = fixture.client.create("a").await;
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
    let controller = &mut fixture.client.controller;
    let good = request(mount(Mode::MultiNodeReaderOnly, &["noexec"]));
    let answer = controller.validate_volume_capabilities(good.clone()).await;
    let confirmed = answer.unwrap().into_inner().confirmed.unwrap();
    assert_eq!(confirmed.volume_capabilities, good.volume_capabilities);
    for (request, reason) in [(request(block), "not a block device"), (with_parameters, "\"p\"")] {
        let answer = controller.validate_volume_capabilities(request).await;
        let answer = answer.unwrap().into_inner();
        assert_eq!(answer.confirmed, None);
        assert!(answer.message.contains(reason), "{}", answer.message);
    }
    let unknown =
        proto::ValidateVolumeCapabilitiesRequest { volume_id: "no".to_owned(), ..good.clone() };
    let nothing = proto::ValidateVolumeCapabilitiesRequest { volume_capabilities: vec![], ..good };
    for (request, expected) in [(unknown, Code::NotFound), (nothing, Code::InvalidArgument)] {
        let answer = controller.validate_volume_capabilities(request).await;
        assert_eq!(code(answer), expected);
    }
}

/// CSI, ListVolumes.
#[tokio::test]
async fn pages_of_volumes_survive_changes() {
    let mut fixture = PluginFixture::new().await;
    let client = &mut fixture.client;
    let mut ids = vec![];
    for name in ["a", "b", "c", "d", "e"] {
        ids.push(client.create(name).await);
    }
    ids.sort();
    let (first, token) = client.list(2, "").await.unwrap();
    assert_eq!(first, ids[..2]);
    // The token names the last volume of its page. That volume may be deleted.
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
    let mut fixture = PluginFixture::new().await;
    let id = fixture.client.create("a").await;
    let controller = &mut fixture.client.controller;
    let request =
        |volume_id: &str| proto::ControllerGetVolumeRequest { volume_id: volume_id.to_owned() };
    let answer = controller.controller_get_volume(request(&id)).await.unwrap();
    let answer = answer.into_inner();
    let volume = answer.volume.unwrap();
    assert_eq!((volume.volume_id, volume.capacity_bytes), (id, 0));
    assert!(answer.status.is_some());
    assert_eq!(code(controller.controller_get_volume(request("no")).await), Code::NotFound);
    let capacity = controller.get_capacity(proto::GetCapacityRequest::default()).await;
    let capacity = capacity.unwrap().into_inner();
    assert!(capacity.available_capacity > 0);
    assert!(capacity.maximum_volume_size.unwrap() >= capacity.available_capacity);
}

/// CSI, "Concurrency": a caller that lost its state may repeat a call in progress.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_four_callers_with_one_name_get_one_volume() {
    let fixture = PluginFixture::new().await;
    let callers = (0..64).map(|_| {
        let mut client = fixture.client.clone();
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
    let mut client = fixture.client.clone();
    assert_eq!(client.list(0, "").await.unwrap().0, ids);
}
