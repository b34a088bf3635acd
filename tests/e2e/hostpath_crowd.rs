//! The embedded plugin with 64 callers at once, with images, loop devices and real mounts.

use nomad_csi::csi::proto::volume_capability::access_mode::Mode;
use tonic::{Code, Status};

use crate::hostpath_world::{World, down, run_with_devices, up};
use crate::plugin_client::{Client, Publish, mount, sized};

const CALLERS: usize = 64;
const MIB: i64 = 1 << 20;

/// One caller's volume, from its creation to its end.
async fn live(mut client: Client, world: &World, caller: usize) -> Result<(), Status> {
    let (staging, target) = (
        world.made(&format!("staging-{caller}")),
        world.path(&format!("target-{caller}")),
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
    up(&mut client, request).await?;
    std::fs::write(target.join("mine"), caller.to_string()).unwrap();
    let snapshot = client.snapshot(&format!("snapshot-{caller}"), &id).await?;
    assert_eq!(
        std::fs::read_to_string(target.join("mine")).unwrap(),
        caller.to_string()
    );
    down(&mut client, &id, &staging, &target).await?;
    client.delete_snapshot(&snapshot.snapshot_id).await?;
    client.delete(&id).await
}

/// Callers about different volumes do not disturb one another.
#[test]
fn sixty_four_callers_each_have_their_volume() {
    run_with_devices(
        "hostpath_crowd::sixty_four_callers_each_have_their_volume",
        async {
            let mut world = World::new(&["--overcommit"]);
            let client = world.start().await;
            let lives = (0..CALLERS).map(|caller| live(client.clone(), &world, caller));
            for (caller, lived) in futures_util::future::join_all(lives)
                .await
                .into_iter()
                .enumerate()
            {
                lived.unwrap_or_else(|error| panic!("caller {caller}: {error}"));
            }
            world.no_devices().await;
            assert!(world.is_empty("state/images") && world.is_empty("state/snapshots"));
        },
    );
}

/// Callers about one volume get it, or are told to wait (`csi-spec` 3.4); it is one volume.
#[test]
fn sixty_four_callers_of_one_name_get_one_volume() {
    run_with_devices(
        "hostpath_crowd::sixty_four_callers_of_one_name_get_one_volume",
        async {
            let mut world = World::new(&["--overcommit"]);
            let client = world.start().await;
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
