//! The embedded plugin with 64 concurrent callers, with images, loop devices and real mounts.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use nomad_csi_proto::volume_capability::access_mode::Mode;
use tonic::{Code, Status};

use crate::hostpath_fixture::{
    ProcessFixture, run_in_namespace, run_in_namespace_with_devices, stage_and_publish,
    unpublish_and_unstage,
};
use crate::plugin_client::{Client, Publish, mount, named, sized};
use crate::wait::until_async;

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
    let id = client.try_create(sized(&format!("volume-{caller}"), 8 * MIB)).await?;
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
    assert_eq!(std::fs::read_to_string(target.join("mine")).unwrap(), caller.to_string());
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
            for (caller, lived) in
                futures_util::future::join_all(lives).await.into_iter().enumerate()
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

/// The knowledge of the callers of one run.
#[derive(Default)]
struct Known {
    created: BTreeSet<String>,
    /// Deletions that began, which a kill may have interrupted.
    deleting: BTreeSet<String>,
    deleted: BTreeSet<String>,
}

/// Creates volumes and deletes every second one, until the plugin is gone.
async fn create_and_delete(mut client: Client, prefix: String, known: Arc<Mutex<Known>>) {
    for number in 0.. {
        let Ok(id) = client.try_create(named(&format!("{prefix}-{number}"))).await else {
            return;
        };
        known.lock().unwrap().created.insert(id.clone());
        if number % 2 == 1 {
            continue;
        }
        known.lock().unwrap().deleting.insert(id.clone());
        if client.delete(&id).await.is_err() {
            return;
        }
        known.lock().unwrap().deleted.insert(id);
    }
}

/// `kill -9` while 32 callers share transactions: every answer holds after the restart, and only volumes
/// have directories.
#[test]
fn a_kill_during_shared_writes_loses_no_answer() {
    run_in_namespace("hostpath_concurrency::a_kill_during_shared_writes_loses_no_answer", async {
        let mut fixture = ProcessFixture::new(&[]);
        let mut client = fixture.start().await;
        for round in 0..20 {
            let known = Arc::new(Mutex::new(Known::default()));
            let callers: Vec<_> = (0..32)
                .map(|caller| {
                    let prefix = format!("{round}-{caller}");
                    tokio::spawn(create_and_delete(client.clone(), prefix, known.clone()))
                })
                .collect();
            let some = 10 + 7 * round;
            until_async("some answers", async || {
                let created = known.lock().unwrap().created.len();
                let message = || format!("{created} of {some}");
                (created >= some).then_some(()).ok_or_else(message)
            })
            .await;
            fixture.kill();
            for caller in callers {
                caller.await.unwrap();
            }
            client = fixture.start().await;
            let known = std::mem::take(&mut *known.lock().unwrap());
            let (listed, _) = client.list(0, "").await.unwrap();
            let listed: BTreeSet<_> = listed.into_iter().collect();
            for id in known.created.difference(&known.deleting) {
                assert!(listed.contains(id), "round {round}: volume {id} is lost");
            }
            for id in &known.deleted {
                assert!(!listed.contains(id), "round {round}: volume {id} is back");
            }
            until_async("the end of the removals", async || {
                let found = std::fs::read_dir(fixture.path("state/volumes")).unwrap();
                let name = |entry: std::fs::DirEntry| entry.file_name().into_string().unwrap();
                let found: BTreeSet<_> = found.map(|entry| name(entry.unwrap())).collect();
                found
                    .is_subset(&listed)
                    .then_some(())
                    .ok_or_else(|| format!("{} of {}", found.len(), listed.len()))
            })
            .await;
        }
    });
}
