//! The embedded plugin with 64 concurrent callers, with images, loop devices and real mounts.

use nomad_csi::csi::proto::volume_capability::access_mode::Mode;
use tonic::{Code, Status};

use crate::hostpath_fixture::{
    ProcessFixture, run_in_namespace_with_devices, stage_and_publish, unpublish_and_unstage,
};
use crate::plugin_client::{Client, Publish, mount, sized};

const CALLERS: usize = 64;
const MIB: i64 = 1 << 20;

/// The lifecycle of one caller's volume.
async fn run_lifecycle(
    mut client: Client,
    fixture: &ProcessFixture,
    caller: usize,
) -> Result<(), Status> {
    let (staging, target) = (
        fixture.create_dir(&format!("staging-{caller}")),
        fixture.path(&format!("target-{caller}")),
    );
    let id = client
        .try_create(sized(&format!("volume-{caller}"), 8 * MIB))
        .await?;
    let request = Publish {
        id: &id,
        staging: &staging,
        target: &target,
        capability: mount(Mode::SingleNodeWriter, &[]),
        read_only: false,
    };
    stage_and_publish(&mut client, request).await?;
    std::fs::write(target.join("mine"), caller.to_string()).unwrap();
    let snapshot = client.snapshot(&format!("snapshot-{caller}"), &id).await?;
    assert_eq!(
        std::fs::read_to_string(target.join("mine")).unwrap(),
        caller.to_string()
    );
    unpublish_and_unstage(&mut client, &id, &staging, &target).await?;
    client.delete_snapshot(&snapshot.snapshot_id).await?;
    client.delete(&id).await
}

/// Callers with different volumes do not interfere.
#[test]
fn sixty_four_callers_each_have_their_volume() {
    run_in_namespace_with_devices(
        "hostpath_concurrency::sixty_four_callers_each_have_their_volume",
        async {
            let mut fixture = ProcessFixture::new(&["--overcommit"]);
            let client = fixture.start().await;
            let lives = (0..CALLERS).map(|caller| run_lifecycle(client.clone(), &fixture, caller));
            for (caller, lived) in futures_util::future::join_all(lives)
                .await
                .into_iter()
                .enumerate()
            {
                lived.unwrap_or_else(|error| panic!("caller {caller}: {error}"));
            }
            fixture.wait_until_no_devices().await;
            assert!(fixture.is_empty("state/images") && fixture.is_empty("state/snapshots"));
        },
    );
}

/// Callers with the same name get the same volume, or ABORTED (CSI, "Concurrency").
#[test]
fn sixty_four_callers_with_one_name_get_one_volume() {
    run_in_namespace_with_devices(
        "hostpath_concurrency::sixty_four_callers_with_one_name_get_one_volume",
        async {
            let mut fixture = ProcessFixture::new(&["--overcommit"]);
            let client = fixture.start().await;
            let made = (0..CALLERS).map(|_| {
                let mut client = client.clone();
                async move { client.try_create(sized("one", 8 * MIB)).await }
            });
            let mut ids = std::collections::BTreeSet::new();
            for made in futures_util::future::join_all(made).await {
                match made {
                    Ok(id) => drop(ids.insert(id)),
                    Err(status) => assert_eq!(status.code(), Code::Aborted, "{status}"),
                }
            }
            assert_eq!(ids.len(), 1, "{ids:?}");
            let mut client = client;
            let (listed, _) = client.list(0, "").await.unwrap();
            assert_eq!(listed, ids.into_iter().collect::<Vec<_>>());
        },
    );
}
