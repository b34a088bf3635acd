//! The embedded plugin over its socket, without privileges: images, block devices, snapshots and
//! profiles.
//!
//! Loop devices and mounts are simulated in memory; files and copies are real.
//! `tests/e2e/hostpath_images.rs` uses real devices and mounts.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use nomad_csi_hostpath::ProfileOptions;
use nomad_csi_proto as proto;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use tonic::{Code, Status};

use crate::support::hostpath::{PluginFixture, TestHost, code, device, writer};
use crate::support::plugin_client::{
    Client, Publish, Reported, block, bytes, clone_of, mount, named, restore_of, sized,
};

const MIB: i64 = 1 << 20;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(pair).collect()
}

fn options(change: impl FnOnce(&mut ProfileOptions)) -> ProfileOptions {
    let mut options = ProfileOptions::default();
    change(&mut options);
    options
}

fn image(fixture: &PluginFixture, id: &str) -> PathBuf {
    fixture.path("state/images").join(id)
}

async fn get(client: &mut Client, id: &str) -> proto::ControllerGetVolumeResponse {
    let request = proto::ControllerGetVolumeRequest { volume_id: id.to_owned() };
    let answer = client.controller.controller_get_volume(request).await;
    answer.unwrap().into_inner()
}

async fn capacity_of(client: &mut Client, id: &str) -> i64 {
    get(client, id).await.volume.unwrap().capacity_bytes
}

/// CSI, CreateVolume: the size is within the range, or the call fails with OUT_OF_RANGE.
#[tokio::test]
async fn a_size_is_exact_to_the_sector() {
    let mut fixture = PluginFixture::with_devices().await;
    let client = &mut fixture.client;
    for (range, expected) in [
        (bytes(1, 0), Ok(512)),
        (bytes(512 * 7, 512 * 7), Ok(512 * 7)),
        (bytes(513, 1023), Err(Code::OutOfRange)),
        (bytes(513, 1024), Ok(1024)),
        (bytes(0, 5000), Ok(4608)),
        (bytes(i64::MAX, 0), Err(Code::OutOfRange)),
    ] {
        let request = proto::CreateVolumeRequest {
            capacity_range: Some(range),
            ..device(&format!("{range:?}"), 0)
        };
        let created = client.try_create(request).await;
        let found = match created {
            Ok(id) => Ok(capacity_of(client, &id).await),
            Err(status) => Err(status.code()),
        };
        assert_eq!(found, expected, "{range:?}");
    }
    // A file system has a minimum size.
    let id = client.try_create(sized("small", 1)).await.unwrap();
    assert_eq!(capacity_of(client, &id).await, MIB);
    let too_small =
        proto::CreateVolumeRequest { capacity_range: Some(bytes(1, 4096)), ..named("too small") };
    assert_eq!(code(client.try_create(too_small).await), Code::OutOfRange);
    // A volume without a requested size has the plugin's default size.
    let any =
        proto::CreateVolumeRequest { parameters: map(&[("backing", "image")]), ..named("any") };
    let id = client.try_create(any).await.unwrap();
    assert_eq!(capacity_of(client, &id).await, 1 << 30);
    fixture.use_once(&id, writer()).await;
    let length = std::fs::metadata(image(&fixture, &id)).unwrap().len();
    assert_eq!(length, 1 << 30);
}

#[tokio::test]
async fn space_is_not_provisioned_twice() {
    let mut fixture = PluginFixture::with_devices().await;
    let client = &mut fixture.client;
    let left = async |client: &mut Client, parameters: &[(&str, &str)]| {
        let request =
            proto::GetCapacityRequest { parameters: map(parameters), ..Default::default() };
        let answer = client.controller.get_capacity(request).await?;
        Ok::<_, Status>(answer.into_inner().available_capacity)
    };
    let before = left(client, &[]).await.unwrap();
    // Other programs use the file system too, so half of the space is safely more than the rest.
    let id = client.try_create(sized("half", before / 2)).await.unwrap();
    let after = left(client, &[("backing", "image")]).await.unwrap();
    assert!(after < before - before / 4, "{after} of {before}");
    let refused = client.try_create(sized("more", before / 4 * 3)).await;
    assert_eq!(code(refused), Code::ResourceExhausted);
    assert_eq!(code(client.expand(&id, before / 4 * 5).await), Code::ResourceExhausted);
    let unknown = left(client, &[("colour", "red")]).await;
    assert_eq!(code(unknown), Code::InvalidArgument);
    client.delete(&id).await.unwrap();
    assert!(left(client, &[]).await.unwrap() > after);
    let mut fixture = fixture.restart_with(options(|o| o.overcommit = true)).await;
    fixture.client.try_create(sized("too much", before * 2)).await.unwrap();
}

/// CSI, CreateVolume: one name is one volume, and only for a request with the same arguments.
#[tokio::test]
async fn a_name_belongs_to_a_request() {
    let mut fixture = PluginFixture::with_devices().await;
    let client = &mut fixture.client;
    let source = client.try_create(sized("source", MIB)).await.unwrap();
    let request = proto::CreateVolumeRequest {
        parameters: map(&[("backing", "image")]),
        mutable_parameters: map(&[("direct_io", "false")]),
        volume_content_source: clone_of(&source),
        ..sized("db", MIB)
    };
    let id = client.try_create(request.clone()).await.unwrap();
    assert_eq!(client.try_create(request.clone()).await.unwrap(), id);
    for (differs, other) in [
        (
            "capacity",
            proto::CreateVolumeRequest {
                capacity_range: Some(bytes(2 * MIB, 0)),
                ..request.clone()
            },
        ),
        (
            "parameters",
            proto::CreateVolumeRequest {
                mutable_parameters: map(&[("direct_io", "true")]),
                ..request.clone()
            },
        ),
        ("source", proto::CreateVolumeRequest { volume_content_source: None, ..request.clone() }),
        (
            "capabilities",
            proto::CreateVolumeRequest {
                volume_capabilities: vec![mount(Mode::MultiNodeMultiWriter, &[])],
                ..request.clone()
            },
        ),
    ] {
        let refused = client.try_create(other).await.unwrap_err();
        assert_eq!(refused.code(), Code::AlreadyExists, "{differs}");
        assert!(refused.message().contains(differs), "{refused}");
    }
    // The source may be deleted. The repeated request still returns the same volume.
    client.delete(&source).await.unwrap();
    assert_eq!(client.try_create(request).await.unwrap(), id);
}

async fn list(
    client: &mut Client,
    most: i32,
    token: &str,
    source: &str,
    id: &str,
) -> Result<(Vec<String>, String), Status> {
    let request = proto::ListSnapshotsRequest {
        max_entries: most,
        starting_token: token.to_owned(),
        source_volume_id: source.to_owned(),
        snapshot_id: id.to_owned(),
        ..Default::default()
    };
    let page = client.controller.list_snapshots(request).await?.into_inner();
    let id = |entry: proto::list_snapshots_response::Entry| entry.snapshot.unwrap().snapshot_id;
    let ids: Vec<_> = page.entries.into_iter().map(id).collect();
    Ok((ids, page.next_token))
}

/// CSI, CreateSnapshot, DeleteSnapshot, ListSnapshots and GetSnapshot.
#[tokio::test]
async fn a_snapshot_is_created_once_listed_and_deleted() {
    let mut fixture = PluginFixture::with_devices().await;
    let client = &mut fixture.client;
    let a = client.try_create(sized("a", MIB)).await.unwrap();
    let b = client.try_create(device("b", MIB)).await.unwrap();
    let first = client.snapshot("s", &a).await.unwrap();
    assert_eq!(client.snapshot("s", &a).await.unwrap(), first);
    assert_eq!((first.size_bytes, first.ready_to_use), (MIB, true));
    assert_eq!(first.creation_time.unwrap().seconds, 1_767_225_600);
    assert_eq!(code(client.snapshot("s", &b).await), Code::AlreadyExists);
    assert_eq!(code(client.snapshot("t", "no").await), Code::NotFound);
    for (name, source) in [("", a.as_str()), ("s", ""), (&"n".repeat(129), &a)] {
        assert_eq!(code(client.snapshot(name, source).await), Code::InvalidArgument);
    }
    let mut of_a = vec![first.snapshot_id.clone()];
    for name in ["s2", "s3"] {
        of_a.push(client.snapshot(name, &a).await.unwrap().snapshot_id);
    }
    of_a.sort();
    let of_b = client.snapshot("of b", &b).await.unwrap();
    let (page, token) = list(client, 2, "", &a, "").await.unwrap();
    assert_eq!(page, of_a[..2]);
    client.delete_snapshot(&of_a[1]).await.unwrap();
    let (page, token) = list(client, 2, &token, &a, "").await.unwrap();
    assert_eq!((page.as_slice(), token.as_str()), (&of_a[2..], ""));
    assert_eq!(list(client, 0, "", "", "").await.unwrap().0.len(), 3);
    assert_eq!(list(client, 0, "", "", &of_b.snapshot_id).await.unwrap().0.len(), 1);
    for (source, id) in [("no", ""), ("", "no"), (a.as_str(), of_b.snapshot_id.as_str())] {
        assert_eq!(list(client, 0, "", source, id).await.unwrap().0, Vec::<String>::new());
    }
    assert_eq!(code(list(client, 0, "invalid-token", "", "").await), Code::Aborted);
    let one = async |client: &mut Client, id: &str| {
        let snapshot_id = id.to_owned();
        let secrets = BTreeMap::new();
        let request = proto::GetSnapshotRequest { snapshot_id, secrets };
        client.controller.get_snapshot(request).await
    };
    assert_eq!(code(one(client, "").await), Code::InvalidArgument);
    assert_eq!(code(one(client, &of_a[1]).await), Code::NotFound);
    assert_eq!(
        one(client, &of_a[0]).await.unwrap().into_inner().snapshot.unwrap().source_volume_id,
        a
    );
    // A volume and its snapshots can be deleted independently.
    client.delete(&a).await.unwrap();
    assert!(one(client, &of_a[0]).await.is_ok());
    for id in [&of_a[0], &of_a[2], &of_b.snapshot_id, &"never-was".to_owned()] {
        client.delete_snapshot(id).await.unwrap();
        client.delete_snapshot(id).await.unwrap();
    }
    assert_eq!(std::fs::read_dir(fixture.path("state/snapshots")).unwrap().count(), 0);
}

/// A snapshot contains nothing that was written after its creation, and a restored volume equals
/// the snapshot.
#[tokio::test]
async fn a_copy_equals_its_source() {
    let mut fixture = PluginFixture::with_devices().await;
    let id = fixture.client.try_create(device("a", 2 * MIB)).await.unwrap();
    fixture.use_once(&id, block(Mode::SingleNodeWriter)).await;
    let file = std::fs::File::options().write(true).open(image(&fixture, &id)).unwrap();
    file.write_all_at(b"before", 0).unwrap();
    let snapshot = fixture.client.snapshot("s", &id).await.unwrap().snapshot_id;
    file.write_all_at(b"after!", 0).unwrap();
    for (name, source, expected) in
        [("restored", restore_of(&snapshot), b"before"), ("cloned", clone_of(&id), b"after!")]
    {
        let request = proto::CreateVolumeRequest {
            volume_content_source: source.clone(),
            ..device(name, 3 * MIB)
        };
        let answer = fixture.client.controller.create_volume(request.clone()).await;
        let volume = answer.unwrap().into_inner().volume.unwrap();
        assert_eq!(volume.content_source, source);
        assert_eq!(volume.capacity_bytes, 3 * MIB);
        let copy = std::fs::read(image(&fixture, &volume.volume_id)).unwrap();
        assert_eq!((&copy[..6], copy.len()), (expected.as_slice(), 3 << 20));
        assert_eq!(fixture.client.try_create(request).await.unwrap(), volume.volume_id);
    }
    let client = &mut fixture.client;
    let from = |source, capability, range| proto::CreateVolumeRequest {
        volume_content_source: source,
        volume_capabilities: vec![capability],
        capacity_range: Some(range),
        ..named("wrong")
    };
    let device = || block(Mode::SingleNodeWriter);
    for (request, expected) in [
        (from(restore_of("no"), device(), bytes(MIB, 0)), Code::NotFound),
        (from(clone_of("no"), device(), bytes(MIB, 0)), Code::NotFound),
        (from(restore_of(&snapshot), device(), bytes(MIB, MIB)), Code::OutOfRange),
        (from(clone_of(&id), writer(), bytes(2 * MIB, 0)), Code::InvalidArgument),
        (from(restore_of(""), device(), bytes(MIB, 0)), Code::InvalidArgument),
    ] {
        assert_eq!(code(client.try_create(request).await), expected);
    }
}

/// CSI, ControllerExpandVolume and NodeExpandVolume.
#[tokio::test]
async fn a_volume_grows_while_it_is_in_use_and_never_shrinks() {
    let mut fixture = PluginFixture::with_devices().await;
    let (staging, target) = (fixture.create_dir("staging"), fixture.path("target"));
    let client = &mut fixture.client;
    let id = client.try_create(device("a", MIB)).await.unwrap();
    assert_eq!(client.expand(&id, 2 * MIB).await.unwrap(), (2 * MIB, false));
    assert_eq!(client.expand(&id, MIB).await.unwrap(), (2 * MIB, false));
    let capability = block(Mode::SingleNodeWriter);
    client.stage(&id, &staging, capability.clone()).await.unwrap();
    let publish =
        Publish { id: &id, staging: &staging, target: &target, capability, read_only: false };
    client.publish(publish).await.unwrap();
    let path = fixture.plugin.host.storage.devices()[0].path.clone();
    let now = |fixture: &PluginFixture| fixture.plugin.host.storage.bytes_of(&path);
    assert_eq!(now(&fixture), Some(2 << 20));
    let client = &mut fixture.client;
    assert_eq!(client.expand(&id, 4 * MIB).await.unwrap(), (4 * MIB, true));
    for path in [&staging, &target] {
        assert_eq!(client.node_expand(&id, path).await.unwrap(), 4 * MIB);
    }
    assert_eq!(now(&fixture), Some(4 << 20));
    let client = &mut fixture.client;
    let elsewhere = client.node_expand(&id, Path::new("/elsewhere")).await;
    assert_eq!(code(elsewhere), Code::NotFound);
    let shrunk = proto::ControllerExpandVolumeRequest {
        volume_id: id.clone(),
        capacity_range: Some(bytes(0, MIB)),
        ..Default::default()
    };
    let shrunk = client.controller.controller_expand_volume(shrunk).await;
    assert_eq!(code(shrunk), Code::OutOfRange);
    assert_eq!(code(client.expand("no", MIB).await), Code::NotFound);
    let directory = proto::CreateVolumeRequest {
        parameters: map(&[("backing", "directory")]),
        ..named("directory")
    };
    let directory = client.try_create(directory).await.unwrap();
    assert_eq!(code(client.expand(&directory, MIB).await), Code::OutOfRange);
}

/// CSI, ControllerModifyVolume: all parameters change, or none.
#[tokio::test]
async fn known_parameters_can_be_changed() {
    let mut fixture = PluginFixture::with_devices().await;
    let client = &mut fixture.client;
    let id = client.try_create(sized("a", MIB)).await.unwrap();
    let directory =
        proto::CreateVolumeRequest { parameters: map(&[("backing", "directory")]), ..named("b") };
    let directory = client.try_create(directory).await.unwrap();
    for (id, changes, expected) in [
        (id.as_str(), vec![("direct_io", "false")], None),
        (&id, vec![("read_ahead_kib", "64"), ("direct_io", "true")], None),
        (&id, vec![], Some(Code::InvalidArgument)),
        (&id, vec![("direct_io", "true"), ("XXX_FakeKey", "x")], Some(Code::InvalidArgument)),
        (&id, vec![("read_ahead_kib", "many")], Some(Code::InvalidArgument)),
        (&directory, vec![("direct_io", "true")], Some(Code::InvalidArgument)),
        ("no", vec![("direct_io", "true")], Some(Code::NotFound)),
        ("", vec![("direct_io", "true")], Some(Code::InvalidArgument)),
    ] {
        let request = proto::ControllerModifyVolumeRequest {
            volume_id: id.to_owned(),
            mutable_parameters: map(&changes),
            ..Default::default()
        };
        let answer = client.controller.controller_modify_volume(request).await;
        assert_eq!(answer.err().map(|status| status.code()), expected, "{changes:?}");
    }
}

async fn attach(client: &mut Client, id: &str, node: &str, readonly: bool) -> Result<(), Status> {
    let request = proto::ControllerPublishVolumeRequest {
        volume_id: id.to_owned(),
        node_id: node.to_owned(),
        volume_capability: Some(writer()),
        readonly,
        ..Default::default()
    };
    let answer = client.controller.controller_publish_volume(request).await;
    answer.map(drop)
}

async fn detach(client: &mut Client, id: &str, node: &str) -> Result<(), Status> {
    let request = proto::ControllerUnpublishVolumeRequest {
        volume_id: id.to_owned(),
        node_id: node.to_owned(),
        ..Default::default()
    };
    let answer = client.controller.controller_unpublish_volume(request).await;
    answer.map(drop)
}

/// CSI, ControllerPublishVolume and ControllerUnpublishVolume.
#[tokio::test]
async fn a_volume_can_be_used_only_where_it_is_attached() {
    let profile_options = options(|o| o.attach_limit = Some(2));
    let mut fixture = PluginFixture::on_host(TestHost::with_devices(), profile_options).await;
    let (staging, target) = (fixture.create_dir("staging"), fixture.path("target"));
    let client = &mut fixture.client;
    let (a, b, c) = (
        client.try_create(sized("a", MIB)).await.unwrap(),
        client.try_create(sized("b", MIB)).await.unwrap(),
        client.try_create(sized("c", MIB)).await.unwrap(),
    );
    assert_eq!(code(client.stage(&a, &staging, writer()).await), Code::FailedPrecondition);
    for (id, node, expected) in [
        ("", "node-1", Code::InvalidArgument),
        (a.as_str(), "", Code::InvalidArgument),
        ("no", "node-1", Code::NotFound),
        (&a, "node-2", Code::NotFound),
    ] {
        assert_eq!(code(attach(client, id, node, false).await), expected);
    }
    for _ in 0..2 {
        attach(client, &a, "node-1", true).await.unwrap();
        attach(client, &b, "node-1", false).await.unwrap();
    }
    assert_eq!(code(attach(client, &a, "node-1", false).await), Code::AlreadyExists);
    assert_eq!(code(attach(client, &c, "node-1", false).await), Code::ResourceExhausted);
    assert_eq!(get(client, &a).await.status.unwrap().published_node_ids, ["node-1"]);
    assert_eq!(code(client.delete(&a).await), Code::FailedPrecondition);
    client.stage(&a, &staging, writer()).await.unwrap();
    let publish = Publish {
        id: &a,
        staging: &staging,
        target: &target,
        capability: writer(),
        read_only: false,
    };
    client.publish(publish).await.unwrap();
    let mounts = fixture.plugin.mounter.mounts();
    assert!(mounts.iter().all(|mount| mount.flags.read_only), "attached read-only");
    let client = &mut fixture.client;
    assert_eq!(code(detach(client, &a, "node-1").await), Code::FailedPrecondition);
    client.unpublish(&a, &target).await.unwrap();
    client.unstage(&a, &staging).await.unwrap();
    for id in [a.as_str(), "no"] {
        detach(client, id, "").await.unwrap();
        detach(client, id, "node-1").await.unwrap();
        detach(client, id, "node-9").await.unwrap();
    }
    attach(client, &c, "node-1", false).await.unwrap();
    client.delete(&a).await.unwrap();
    let info = client.node.node_get_info(proto::NodeGetInfoRequest {}).await;
    assert_eq!(info.unwrap().into_inner().max_volumes_per_node, 2);
}

async fn group(
    client: &mut Client,
    name: &str,
    ids: &[&str],
) -> Result<proto::VolumeGroupSnapshot, Status> {
    let request = proto::CreateVolumeGroupSnapshotRequest {
        name: name.to_owned(),
        source_volume_ids: ids.iter().map(ToString::to_string).collect(),
        ..Default::default()
    };
    let answer = client.group.create_volume_group_snapshot(request).await?;
    Ok(answer.into_inner().group_snapshot.unwrap())
}

/// A task may have the image mounted in its own namespace after its claim: the plugin cannot freeze it there.
#[tokio::test]
async fn an_image_in_use_where_no_mount_shows_it_is_not_copied() {
    let mut fixture = PluginFixture::with_devices().await;
    let staging = fixture.create_dir("staging");
    let client = &mut fixture.client;
    let id = client.try_create(sized("a", MIB)).await.unwrap();
    client.stage(&id, &staging, writer()).await.unwrap();
    fixture.plugin.host.storage.mount_elsewhere(true);
    let client = &mut fixture.client;
    client.snapshot("seen", &id).await.unwrap();
    client.unstage(&id, &staging).await.unwrap();
    let refused = client.snapshot("hidden", &id).await;
    assert_eq!(code(refused), Code::FailedPrecondition);
    let together = group(client, "hidden", &[&id]).await;
    assert_eq!(code(together), Code::FailedPrecondition);
    fixture.plugin.host.storage.mount_elsewhere(false);
    fixture.client.snapshot("hidden", &id).await.unwrap();
}

/// CSI, CreateVolumeGroupSnapshot: all snapshots at the same moment, or none.
#[tokio::test]
async fn a_group_is_created_complete_or_not_at_all() {
    let mut fixture = PluginFixture::with_devices().await;
    let (staging, at_device) = (fixture.create_dir("staging"), fixture.create_dir("device"));
    let client = &mut fixture.client;
    let a = client.try_create(sized("a", MIB)).await.unwrap();
    let b = client.try_create(device("b", MIB)).await.unwrap();
    client.stage(&a, &staging, writer()).await.unwrap();
    let group_snapshot = group(client, "g", &[&a, &b]).await.unwrap();
    assert_eq!(group(client, "g", &[&b, &a, &a]).await.unwrap(), group_snapshot);
    assert_eq!(group_snapshot.snapshots.len(), 2);
    let id = group_snapshot.group_snapshot_id.clone();
    assert!(group_snapshot.snapshots.iter().all(|member| member.group_snapshot_id == id));
    assert_eq!(code(group(client, "g", &[&a]).await), Code::AlreadyExists);
    assert_eq!(code(group(client, "", &[&a]).await), Code::InvalidArgument);
    assert_eq!(code(group(client, "h", &[]).await), Code::InvalidArgument);
    assert_eq!(code(group(client, "h", &[&a, "no"]).await), Code::NotFound);
    // A block device in use cannot be frozen.
    client.stage(&b, &at_device, block(Mode::SingleNodeWriter)).await.unwrap();
    assert_eq!(code(group(client, "h", &[&a, &b]).await), Code::FailedPrecondition);
    assert_eq!(code(client.snapshot("b", &b).await), Code::FailedPrecondition);
    let snapshots = fixture.path("state/snapshots");
    assert_eq!(std::fs::read_dir(&snapshots).unwrap().count(), 2, "nothing is left over");
    assert_eq!(fixture.plugin.host.storage.frozen(), Vec::<PathBuf>::new());
    fixture.plugin.host.storage.enable_reflink();
    let client = &mut fixture.client;
    client.snapshot("b", &b).await.unwrap();
    assert_eq!(code(group(client, "h", &[&a, &b]).await), Code::FailedPrecondition);
    // A member can be deleted only with its group.
    let member = group_snapshot.snapshots[0].snapshot_id.clone();
    assert_eq!(code(client.delete_snapshot(&member).await), Code::InvalidArgument);
    let found = |members: &[&str]| proto::GetVolumeGroupSnapshotRequest {
        group_snapshot_id: id.clone(),
        snapshot_ids: members.iter().map(ToString::to_string).collect(),
        ..Default::default()
    };
    let answer = client.group.get_volume_group_snapshot(found(&[])).await;
    assert_eq!(answer.unwrap().into_inner().group_snapshot.unwrap(), group_snapshot);
    let wrong = client.group.get_volume_group_snapshot(found(&[&member])).await;
    assert_eq!(code(wrong), Code::InvalidArgument);
    let restored = proto::CreateVolumeRequest {
        volume_content_source: restore_of(&group_snapshot.snapshots[0].snapshot_id),
        volume_capabilities: vec![if group_snapshot.snapshots[0].source_volume_id == a {
            writer()
        } else {
            block(Mode::SingleNodeWriter)
        }],
        ..named("restored")
    };
    client.try_create(restored).await.unwrap();
    let request = proto::DeleteVolumeGroupSnapshotRequest {
        group_snapshot_id: id.clone(),
        ..Default::default()
    };
    for _ in 0..2 {
        client.group.delete_volume_group_snapshot(request.clone()).await.unwrap();
    }
    let gone = client.group.get_volume_group_snapshot(found(&[])).await;
    assert_eq!(code(gone), Code::NotFound);
    assert_eq!(std::fs::read_dir(&snapshots).unwrap().count(), 1);
}

async fn allocated(
    client: &mut Client,
    id: &str,
    start: i64,
    most: i32,
) -> Result<Vec<Vec<(i64, i64)>>, Status> {
    let request = proto::GetMetadataAllocatedRequest {
        snapshot_id: id.to_owned(),
        starting_offset: start,
        max_results: most,
        ..Default::default()
    };
    let mut stream = client.metadata.get_metadata_allocated(request).await?.into_inner();
    let mut messages = vec![];
    while let Some(message) = stream.message().await? {
        assert_eq!(message.volume_capacity_bytes, MIB);
        messages.push(ranges(&message.block_metadata));
    }
    Ok(messages)
}

async fn delta(
    client: &mut Client,
    base: &str,
    target: &str,
    start: i64,
) -> Result<Vec<(i64, i64)>, Status> {
    let request = proto::GetMetadataDeltaRequest {
        base_snapshot_id: base.to_owned(),
        target_snapshot_id: target.to_owned(),
        starting_offset: start,
        ..Default::default()
    };
    let mut stream = client.metadata.get_metadata_delta(request).await?.into_inner();
    let mut all = vec![];
    while let Some(message) = stream.message().await? {
        all.extend(ranges(&message.block_metadata));
    }
    Ok(all)
}

/// CSI, GetMetadataAllocated and GetMetadataDelta.
#[tokio::test]
async fn the_blocks_of_a_snapshot_are_reported_in_order() {
    let mut fixture = PluginFixture::with_devices().await;
    let id = fixture.client.try_create(device("a", MIB)).await.unwrap();
    fixture.use_once(&id, block(Mode::SingleNodeWriter)).await;
    let file = std::fs::File::options().write(true).open(image(&fixture, &id)).unwrap();
    let first = fixture.client.snapshot("1", &id).await.unwrap().snapshot_id;
    for at in [0, 4096, 16384] {
        file.write_all_at(&[7; 4096], at).unwrap();
    }
    let second = fixture.client.snapshot("2", &id).await.unwrap().snapshot_id;
    file.write_all_at(&[8; 512], 16384).unwrap();
    file.write_all_at(&[9; 1], 40960).unwrap();
    let third = fixture.client.snapshot("3", &id).await.unwrap().snapshot_id;
    let client = &mut fixture.client;
    // The file system decides which holes it keeps. Blocks with data are always reported.
    let reported = allocated(client, &second, 0, 0).await.unwrap().concat();
    for at in [0, 4096, 16384] {
        assert!(
            reported.iter().any(|(start, size)| (*start..start + size).contains(&at)),
            "{reported:?}"
        );
    }
    assert!(reported.windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0), "{reported:?}");
    let messages = allocated(client, &second, 0, 1).await.unwrap();
    assert!(messages.iter().all(|message| message.len() <= 1));
    assert_eq!(allocated(client, &second, MIB, 0).await.unwrap(), [[]]);
    assert_eq!(delta(client, &first, &second, 0).await.unwrap(), [(0, 8192), (16384, 4096)]);
    assert_eq!(delta(client, &second, &third, 0).await.unwrap(), [(16384, 4096), (40960, 4096)]);
    assert_eq!(delta(client, &second, &third, 20480).await.unwrap(), [(40960, 4096)]);
    assert_eq!(delta(client, &third, &third, 0).await.unwrap(), []);
    let other = client.try_create(device("b", MIB)).await.unwrap();
    let other = client.snapshot("other", &other).await.unwrap().snapshot_id;
    assert_eq!(code(delta(client, &first, &other, 0).await), Code::InvalidArgument);
    assert_eq!(code(delta(client, "no", &other, 0).await), Code::NotFound);
    assert_eq!(code(allocated(client, "", 0, 0).await), Code::InvalidArgument);
    assert_eq!(code(allocated(client, "no", 0, 0).await), Code::NotFound);
    assert_eq!(code(allocated(client, &first, -1, 0).await), Code::OutOfRange);
    assert_eq!(code(allocated(client, &first, MIB + 1, 0).await), Code::OutOfRange);
    assert_eq!(code(allocated(client, &first, 0, -1).await), Code::InvalidArgument);
}

fn ranges(metadata: &[proto::BlockMetadata]) -> Vec<(i64, i64)> {
    let pair = |range: &proto::BlockMetadata| (range.byte_offset, range.size_bytes);
    metadata.iter().map(pair).collect()
}

/// CSI, TopologyRequirement: a volume is where it was requested, or it is not created.
#[tokio::test]
async fn a_volume_is_in_the_requested_topology_or_not_created() {
    let profile_options = options(|o| o.topology = vec!["t.x/zone=a".into(), "t.x/rack=r".into()]);
    let mut fixture = PluginFixture::on_host(TestHost::with_devices(), profile_options).await;
    let client = &mut fixture.client;
    let topology = |pairs: &[(&str, &str)]| proto::Topology { segments: map(pairs) };
    let placed = |name: &str, requisite: Vec<proto::Topology>| proto::CreateVolumeRequest {
        accessibility_requirements: Some(proto::TopologyRequirement {
            requisite,
            preferred: vec![],
        }),
        ..sized(name, MIB)
    };
    let here = topology(&[("t.x/zone", "a"), ("t.x/rack", "r")]);
    let request = placed("here", vec![topology(&[("t.x/zone", "b")]), here.clone()]);
    let answer = client.controller.create_volume(request).await;
    let volume = answer.unwrap().into_inner().volume.unwrap();
    assert_eq!(volume.accessible_topology, std::slice::from_ref(&here));
    let there = || vec![topology(&[("t.x/zone", "a"), ("t.x/rack", "other")])];
    let refused = client.try_create(placed("there", there())).await;
    assert_eq!(code(refused), Code::ResourceExhausted);
    let moved = client.try_create(placed("here", there())).await;
    assert_eq!(code(moved), Code::AlreadyExists);
    let info = client.node.node_get_info(proto::NodeGetInfoRequest {}).await;
    assert_eq!(info.unwrap().into_inner().accessible_topology, Some(here));
    let request = proto::GetCapacityRequest {
        accessible_topology: Some(topology(&[("t.x/zone", "b")])),
        ..Default::default()
    };
    let capacity = client.controller.get_capacity(request).await.unwrap();
    assert_eq!(capacity.into_inner().available_capacity, 0);
    let mut fixture = fixture.restart_with(ProfileOptions::default()).await;
    let refused = fixture.client.try_create(placed("nowhere", there())).await;
    assert_eq!(code(refused), Code::InvalidArgument);
}

/// A removed capability is neither advertised nor answered.
#[tokio::test]
async fn a_profile_can_remove_every_capability() {
    let without = |names: &[&str]| {
        let names = names.iter().map(ToString::to_string).collect();
        options(|o| o.without = names)
    };
    let mut fixture = PluginFixture::on_host(
        TestHost::with_devices(),
        without(&["CONTROLLER_SERVICE", "LIST_VOLUMES"]),
    )
    .await;
    assert_eq!(code(fixture.client.try_create(named("a")).await), Code::Unimplemented);
    let request = proto::GetPluginCapabilitiesRequest {};
    let answer = fixture.client.identity.get_plugin_capabilities(request).await;
    let capabilities = answer.unwrap().into_inner().capabilities;
    let is_controller = |capability: &proto::PluginCapability| {
        use proto::plugin_capability::{Type, service};
        matches!(&capability.r#type, Some(Type::Service(of)) if of.r#type() == service::Type::ControllerService)
    };
    assert!(!capabilities.iter().any(is_controller));
    let mut fixture = fixture.restart_with(without(&["NODE_SERVICE"])).await;
    let id = fixture.client.try_create(sized("a", MIB)).await.unwrap();
    let staging = fixture.create_dir("staging");
    assert_eq!(code(fixture.client.stage(&id, &staging, writer()).await), Code::Unimplemented);
    let mut fixture = fixture.restart_with(without(&["STAGE_UNSTAGE_VOLUME"])).await;
    let target = fixture.path("target");
    let publish = Publish {
        id: &id,
        staging: Path::new(""),
        target: &target,
        capability: writer(),
        read_only: true,
    };
    for _ in 0..2 {
        fixture.client.publish(publish.clone()).await.unwrap();
    }
    let mounts = fixture.plugin.mounter.mounts();
    assert_eq!((mounts.len(), mounts[0].flags.read_only), (1, true));
    fixture.client.unpublish(&id, &target).await.unwrap();
    assert_eq!(
        fixture.plugin.host.storage.devices(),
        [],
        "the kernel detaches the device with its mount"
    );
    let mut fixture = fixture.restart_with(without(&["CONFIRMED"])).await;
    let request = proto::ValidateVolumeCapabilitiesRequest {
        volume_id: id.clone(),
        volume_capabilities: vec![writer()],
        ..Default::default()
    };
    let answer = fixture.client.controller.validate_volume_capabilities(request).await;
    assert_eq!(answer.unwrap().into_inner().confirmed, None);
}

#[tokio::test]
async fn injected_faults_occur() {
    let faults =
        ["NodeStageVolume:UNAVAILABLE:2", "CreateVolume:lose-reply:1", "ListVolumes:delay=1ms"];
    let profile_options = options(|o| o.fault = faults.iter().map(ToString::to_string).collect());
    let mut fixture = PluginFixture::on_host(TestHost::with_devices(), profile_options).await;
    let staging = fixture.create_dir("staging");
    let lost = fixture.client.try_create(sized("a", MIB)).await.unwrap_err();
    assert_eq!(lost.code(), Code::Unavailable);
    assert!(lost.message().contains("injected by --fault"), "{lost}");
    let (listed, _) = fixture.client.list(0, "").await.unwrap();
    let id = fixture.client.try_create(sized("a", MIB)).await.unwrap();
    assert_eq!(listed, std::slice::from_ref(&id), "the call completed, and its answer was lost");
    for _ in 0..2 {
        assert_eq!(code(fixture.client.stage(&id, &staging, writer()).await), Code::Unavailable);
        assert_eq!(fixture.targets(), Vec::<PathBuf>::new());
    }
    fixture.client.stage(&id, &staging, writer()).await.unwrap();
}

/// After a power failure the mounts and devices are missing, and the records exist.
#[tokio::test]
async fn a_reboot_loses_nothing() {
    let mut fixture = PluginFixture::with_devices().await;
    let (staging, at_device) = (fixture.create_dir("staging"), fixture.create_dir("device"));
    let target = fixture.path("target");
    let client = &mut fixture.client;
    let image = client.try_create(sized("a", MIB)).await.unwrap();
    let device = client.try_create(device("b", MIB)).await.unwrap();
    let read_only = block(Mode::MultiNodeReaderOnly);
    client.stage(&image, &staging, writer()).await.unwrap();
    client.stage(&device, &at_device, read_only.clone()).await.unwrap();
    let publish = Publish {
        id: &device,
        staging: &at_device,
        target: &target,
        capability: read_only,
        read_only: true,
    };
    client.publish(publish.clone()).await.unwrap();
    fixture.plugin.host.mounter.reboot();
    fixture.plugin.host.storage.reboot();
    let mut fixture = fixture.restart().await;
    let devices = fixture.plugin.host.storage.devices();
    assert_eq!(devices.len(), 1, "the block device is set up again: {devices:?}");
    assert!(devices[0].read_only);
    fixture.client.publish(publish).await.unwrap();
    fixture.client.stage(&image, &staging, writer()).await.unwrap();
    assert_eq!(fixture.targets(), [target.clone(), staging.clone()]);
    assert_eq!(code(fixture.client.delete(&device).await), Code::FailedPrecondition);
    fixture.client.unpublish(&device, &target).await.unwrap();
    assert!(!target.exists());
    fixture.client.unstage(&device, &at_device).await.unwrap();
    fixture.client.unstage(&image, &staging).await.unwrap();
    assert_eq!(fixture.plugin.host.storage.devices(), []);
    fixture.client.delete(&device).await.unwrap();
    fixture.client.delete(&image).await.unwrap();
}

#[tokio::test]
async fn a_volume_without_its_data_has_lost_data_and_cannot_be_used() {
    let mut fixture = PluginFixture::with_devices().await;
    let staging = fixture.create_dir("staging");
    let id = fixture.client.try_create(sized("a", MIB)).await.unwrap();
    let has_lost = |health: &[Reported], reason: &str| {
        health == [(proto::VolumeHealthErrorType::DataLoss, reason.to_owned())]
    };
    fixture.use_once(&id, writer()).await;
    assert_eq!(fixture.client.health(&id).await.unwrap(), []);
    let file = std::fs::File::options().write(true).open(image(&fixture, &id)).unwrap();
    file.set_len(4096).unwrap();
    let health = fixture.client.health(&id).await.unwrap();
    assert!(has_lost(&health, "DataTruncated"), "{health:?}");
    let refused = fixture.client.stage(&id, &staging, writer()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("truncated"), "{refused}");
    std::fs::remove_file(image(&fixture, &id)).unwrap();
    let health = fixture.client.health(&id).await.unwrap();
    assert!(has_lost(&health, "DataMissing"), "{health:?}");
    fixture.client.delete(&id).await.unwrap();
}
