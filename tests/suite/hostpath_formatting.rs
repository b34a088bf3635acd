//! The file system of a volume is made when it is first staged, and nothing with content is formatted.

use std::path::PathBuf;

use nomad_csi_proto as proto;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use tonic::Code;

use crate::support::hostpath::{PluginFixture, writer};
use crate::support::plugin_client::{block, clone_of, mount, named, restore_of, sized};

const MIB: i64 = 1 << 20;

fn image(fixture: &PluginFixture, id: &str) -> PathBuf {
    fixture.path("state/images").join(id)
}

fn length(fixture: &PluginFixture, id: &str) -> i64 {
    let length = image(fixture, id).metadata().unwrap().len();
    i64::try_from(length).unwrap()
}

/// The simulated host writes the name of a file system to the beginning of the file.
fn begins_with(fixture: &PluginFixture, id: &str) -> String {
    let content = std::fs::read(image(fixture, id)).unwrap();
    String::from_utf8_lossy(&content[..4]).into_owned()
}

fn is_empty(fixture: &PluginFixture) -> bool {
    let entries = std::fs::read_dir(fixture.path("state/images"));
    entries.unwrap().next().is_none()
}

async fn is_healthy(fixture: &mut PluginFixture, id: &str) -> bool {
    fixture.client.health(id).await.unwrap().is_empty()
}

#[tokio::test]
async fn a_volume_is_formatted_when_it_is_first_staged() {
    let mut fixture = PluginFixture::with_devices().await;
    let request = sized("a", 2 * MIB);
    let id = fixture.client.try_create(request.clone()).await.unwrap();
    assert!(is_empty(&fixture) && is_healthy(&mut fixture, &id).await);
    assert_eq!(fixture.client.try_create(request).await.unwrap(), id);
    fixture.client.expand(&id, 3 * MIB).await.unwrap();
    // The first use may be read-only.
    let read_only = mount(Mode::SingleNodeReaderOnly, &["ro"]);
    fixture.use_once(&id, read_only).await;
    assert_eq!(begins_with(&fixture, &id), "ext4");
    assert_eq!(length(&fixture, &id), 3 * MIB);
    fixture.client.delete(&id).await.unwrap();
    let unused = fixture.client.try_create(sized("b", MIB)).await.unwrap();
    fixture.client.delete(&unused).await.unwrap();
    assert!(is_empty(&fixture));
}

/// Snapshots, restored volumes and clones of a volume that was never staged.
#[tokio::test]
async fn a_copy_of_an_unused_volume_is_unused() {
    for capability in [writer(), block(Mode::SingleNodeWriter)] {
        let mut fixture = PluginFixture::with_devices().await;
        let request = |name: &str, bytes| proto::CreateVolumeRequest {
            volume_capabilities: vec![capability.clone()],
            ..sized(name, bytes)
        };
        let client = &mut fixture.client;
        let id = client.try_create(request("a", 2 * MIB)).await.unwrap();
        let snapshot = client.snapshot("s", &id).await.unwrap();
        assert_eq!(snapshot.size_bytes, 2 * MIB);
        let mut copies = vec![];
        for source in [restore_of(&snapshot.snapshot_id), clone_of(&id)] {
            let copy = proto::CreateVolumeRequest {
                volume_content_source: source.clone(),
                ..request(&format!("{source:?}"), 3 * MIB)
            };
            copies.push(client.try_create(copy).await.unwrap());
        }
        assert!(is_empty(&fixture));
        for id in &copies {
            fixture.use_once(id, capability.clone()).await;
            assert_eq!(length(&fixture, id), 3 * MIB);
        }
        let client = &mut fixture.client;
        client.delete_snapshot(&snapshot.snapshot_id).await.unwrap();
        let snapshots = std::fs::read_dir(fixture.path("state/snapshots"));
        assert_eq!(snapshots.unwrap().count(), 0);
    }
}

#[tokio::test]
async fn the_blocks_of_a_snapshot_of_an_unused_volume_are_holes() {
    let mut fixture = PluginFixture::with_devices().await;
    let client = &mut fixture.client;
    let id = client.try_create(sized("a", MIB)).await.unwrap();
    let snapshot = client.snapshot("s", &id).await.unwrap().snapshot_id;
    let request =
        proto::GetMetadataAllocatedRequest { snapshot_id: snapshot, ..Default::default() };
    let answer = client.metadata.get_metadata_allocated(request).await;
    let mut stream = answer.unwrap().into_inner();
    let first = stream.message().await.unwrap().unwrap();
    assert_eq!(first.volume_capacity_bytes, MIB);
    assert_eq!(first.block_metadata, []);
    assert_eq!(stream.message().await.unwrap(), None);
}

/// An interrupted staging leaves a complete file without a record of it. The next one uses it.
#[tokio::test]
async fn a_file_system_that_an_interrupted_staging_made_is_kept() {
    let mut fixture = PluginFixture::with_devices().await;
    let id = fixture.client.try_create(sized("a", MIB)).await.unwrap();
    let content = [b"ext4".as_slice(), &[7; 100]].concat();
    std::fs::write(image(&fixture, &id), &content).unwrap();
    fixture.use_once(&id, writer()).await;
    assert_eq!(std::fs::read(image(&fixture, &id)).unwrap(), content);
}

#[tokio::test]
async fn a_file_that_contradicts_the_catalogue_is_neither_formatted_nor_mounted() {
    let mut fixture = PluginFixture::with_devices().await;
    let staging = fixture.create_dir("staging");
    let zeros = vec![0; 1 << 20];
    for (is_used, content, reason) in [
        (false, b"data".as_slice(), "was never staged, but its file"),
        (false, b"xfs\0", "it has an xfs file system"),
        (true, zeros.as_slice(), "has no content"),
        (true, b"btrfs", "has a btrfs file system"),
    ] {
        let name = format!("{is_used} {reason}");
        let id = fixture.client.try_create(sized(&name, MIB)).await.unwrap();
        if is_used {
            fixture.use_once(&id, writer()).await;
        }
        let mut expected = content.to_vec();
        expected.resize(1 << 20, 0);
        std::fs::write(image(&fixture, &id), &expected).unwrap();
        let refused = fixture.client.stage(&id, &staging, writer()).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains(reason), "{refused}");
        assert_eq!(std::fs::read(image(&fixture, &id)).unwrap(), expected);
        assert_eq!(fixture.targets(), Vec::<PathBuf>::new());
        fixture.client.delete(&id).await.unwrap();
    }
    assert!(is_empty(&fixture));
}

/// A failed mkfs leaves nothing, and the next staging repeats it.
#[tokio::test]
async fn a_staging_that_cannot_format_can_be_repeated() {
    let mut fixture = PluginFixture::with_devices().await;
    let id = fixture.client.try_create(sized("a", MIB)).await.unwrap();
    let staging = fixture.create_dir("staging");
    fixture.plugin.mounter.fail_after(Some(0));
    let failed = fixture.client.stage(&id, &staging, writer()).await;
    assert_eq!(failed.unwrap_err().code(), Code::Internal);
    assert!(is_empty(&fixture));
    fixture.plugin.mounter.fail_after(None);
    fixture.client.stage(&id, &staging, writer()).await.unwrap();
    assert_eq!(begins_with(&fixture, &id), "ext4");
}

/// Snapshots, restored volumes and clones of a directory that was never staged.
#[tokio::test]
async fn a_copy_of_an_unused_directory_is_unused() {
    let mut fixture = PluginFixture::new().await;
    let client = &mut fixture.client;
    let id = client.try_create(named("a")).await.unwrap();
    let snapshot = client.snapshot("s", &id).await.unwrap();
    for source in [restore_of(&snapshot.snapshot_id), clone_of(&id)] {
        let request = proto::CreateVolumeRequest {
            volume_content_source: source.clone(),
            ..named(&format!("{source:?}"))
        };
        let copy = fixture.client.try_create(request).await.unwrap();
        assert!(!fixture.data(&copy).exists() && is_healthy(&mut fixture, &copy).await);
        fixture.use_once(&copy, writer()).await;
        assert_eq!(std::fs::read_dir(fixture.data(&copy)).unwrap().count(), 0);
        fixture.client.delete(&copy).await.unwrap();
        assert!(!fixture.data(&copy).exists());
    }
    assert!(!fixture.data(&id).exists());
}

/// An interrupted staging leaves a directory without a record of it. The next one uses it, also if its
/// record was taken back and workloads wrote to it.
#[tokio::test]
async fn a_directory_that_an_interrupted_staging_made_is_kept() {
    let mut fixture = PluginFixture::new().await;
    let id = fixture.client.try_create(named("a")).await.unwrap();
    std::fs::create_dir(fixture.data(&id)).unwrap();
    std::fs::write(fixture.data(&id).join("file"), "data").unwrap();
    fixture.use_once(&id, writer()).await;
    assert!(fixture.data(&id).join("file").exists());
    fixture.client.delete(&id).await.unwrap();
    assert!(!fixture.data(&id).exists());
}

/// A directory exists and is open to its users from its first use.
#[tokio::test]
async fn a_directory_is_made_when_it_is_first_staged() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut fixture = PluginFixture::new().await;
    let id = fixture.client.try_create(named("a")).await.unwrap();
    let mode = |fixture: &PluginFixture| {
        let metadata = fixture.data(&id).metadata().unwrap();
        metadata.permissions().mode() & 0o777
    };
    assert!(!fixture.data(&id).exists());
    fixture.use_once(&id, writer()).await;
    assert_eq!(mode(&fixture), 0o777);
    // The workload may change that, and later uses keep it.
    let private = std::fs::Permissions::from_mode(0o750);
    std::fs::set_permissions(fixture.data(&id), private).unwrap();
    fixture.use_once(&id, writer()).await;
    assert_eq!(mode(&fixture), 0o750);
}
