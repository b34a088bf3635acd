//! Copies on file systems with reflinks: XFS and Btrfs, each in an image over a loop device. A test
//! prints what it skips.

use std::path::{Path, PathBuf};

use nomad_csi_node::mounts::{LinuxBlockStorage, LinuxMounter};
use nomad_csi_ports::{
    AttachOptions, BlockStorage as _, DeviceTuning, FileSystem, MountCalls, MountFlags,
};
use nomad_csi_proto as proto;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use tonic::Code;

use crate::hostpath_fixture::{ProcessFixture, run_in_namespace_with_devices};
use crate::plugin_client::{Client, block, clone_of, restore_of, sized};

const MIB: i64 = 1 << 20;
/// The written bytes of each 64 MiB volume.
const WRITTEN: usize = 32 << 20;

/// Mounts a file system with reflinks.
fn mounted(directory: &Path, kind: FileSystem) -> PathBuf {
    let storage = LinuxBlockStorage::default();
    let (image, target) = (directory.join("image"), directory.join("mounted"));
    std::fs::File::create(&image).unwrap().set_len(1 << 30).unwrap();
    storage.make_file_system(&image, kind).unwrap();
    std::fs::create_dir(&target).unwrap();
    let device = storage.attach(&image, AttachOptions::default(), &DeviceTuning::default());
    let device = device.unwrap();
    let mounter = LinuxMounter;
    let flags = MountFlags::default();
    let mounted = mounter.mount_device(&device.path, &target, kind, &[], flags);
    mounted.unwrap();
    target
}

/// Returns the free space after a sync.
fn free(path: &Path) -> u64 {
    let directory = std::fs::File::open(path).unwrap();
    rustix::fs::syncfs(&directory).unwrap();
    let space = rustix::fs::fstatvfs(&directory).unwrap();
    space.f_bfree * space.f_frsize
}

async fn device_of(
    client: &mut Client,
    name: &str,
    source: Option<proto::VolumeContentSource>,
) -> String {
    let request = proto::CreateVolumeRequest {
        volume_capabilities: vec![block(Mode::SingleNodeWriter)],
        volume_content_source: source,
        ..sized(name, 64 * MIB)
    };
    client.try_create(request).await.unwrap()
}

async fn copies_share(base: &Path) {
    let mut fixture = ProcessFixture::below(base, &["--overcommit"]);
    let mut client = fixture.start().await;
    let id = device_of(&mut client, "a", None).await;
    // The first staging makes the file.
    let staging = fixture.create_dir("staging");
    let capability = block(Mode::SingleNodeWriter);
    let staged = client.stage(&id, &staging, capability.clone()).await;
    staged.unwrap();
    client.unstage(&id, &staging).await.unwrap();
    let data: Vec<u8> = (0..=250_u8).cycle().take(WRITTEN).collect();
    let image = |id: &str| fixture.path("state/images").join(id);
    std::fs::File::options()
        .write(true)
        .open(image(&id))
        .and_then(|mut file| std::io::Write::write_all(&mut file, &data))
        .unwrap();
    let before = free(base);
    let snapshot = client.snapshot("s", &id).await.unwrap();
    let clone = device_of(&mut client, "clone", clone_of(&id)).await;
    let restored = device_of(&mut client, "restored", restore_of(&snapshot.snapshot_id)).await;
    let taken = before.saturating_sub(free(base));
    assert!(taken < WRITTEN as u64 / 2, "three copies took {taken} bytes");
    for copy in [&clone, &restored] {
        assert!(std::fs::read(image(copy)).unwrap().starts_with(&data));
    }
    // A device in use can be copied alone, because a reflink is atomic, but not in a group.
    client.stage(&id, &staging, capability).await.unwrap();
    let in_use = client.snapshot("in-use", &id).await.unwrap();
    let group = proto::CreateVolumeGroupSnapshotRequest {
        name: "group".to_owned(),
        source_volume_ids: vec![id.clone(), clone.clone()],
        ..Default::default()
    };
    let refused = client.group.create_volume_group_snapshot(group).await;
    assert_eq!(refused.unwrap_err().code(), Code::FailedPrecondition);
    client.unstage(&id, &staging).await.unwrap();
    for snapshot in [&snapshot, &in_use] {
        client.delete_snapshot(&snapshot.snapshot_id).await.unwrap();
    }
    for volume in [&id, &clone, &restored] {
        client.delete(volume).await.unwrap();
    }
    assert!(fixture.is_empty("state/images") && fixture.is_empty("state/snapshots"));
}

#[test]
fn copies_share_blocks_where_the_file_system_supports_reflinks() {
    run_in_namespace_with_devices(
        "hostpath_reflink::copies_share_blocks_where_the_file_system_supports_reflinks",
        async {
            let offers = LinuxBlockStorage::default().features();
            for kind in [FileSystem::Xfs, FileSystem::Btrfs] {
                if !offers.file_systems.contains(&kind) {
                    eprintln!("SKIPPED copies on {}: it is not available here", kind.name());
                    continue;
                }
                let directory = tempfile::tempdir().unwrap();
                let base = mounted(directory.path(), kind);
                copies_share(&base).await;
                MountCalls::unmount(&LinuxMounter, &base).unwrap();
            }
        },
    );
}
