//! What the client asks besides volumes, of a server that is really there and a plugin that can cut
//! snapshots: run with `NOMAD_ADDR=http://127.0.0.1:4646 NOMAD_CSI_TEST_PLUGIN=hostpath cargo test
//! --test suite neighbours_real -- --ignored`. Leaves nothing behind if it passes.

use std::collections::BTreeMap;
use std::time::Duration;

use nomad_csi::diagnostic::Code;
use nomad_csi::model::{
    AccessMode, AttachmentMode, Bytes, Capability, CapacityRange, Namespace, NamespacedId, NodeId,
    PluginId, Secrets, VolumeRequest,
};
use nomad_csi::nomad::{Hidden, NomadClient, Settings};
use nomad_csi::ports::{
    IdSource as _, ProviderReader as _, RandomIds, SnapshotApi as _, SnapshotRequest,
    VolumeApi as _, VolumeQuery, VolumeReader as _, VolumeWatch as _, WaitFor,
};

fn client() -> NomadClient {
    let address = std::env::var("NOMAD_ADDR").expect("NOMAD_ADDR says where the server is");
    let token = std::env::var("NOMAD_TOKEN").ok().map(Hidden::new);
    let settings = Settings {
        token,
        ..Settings::new(address)
    };
    NomadClient::new(&settings).expect("NOMAD_ADDR is an address")
}

fn plugin() -> PluginId {
    let named = std::env::var("NOMAD_CSI_TEST_PLUGIN");
    PluginId::new(named.unwrap_or_else(|_| "hostpath".into()))
}

/// A volume that nobody else has.
fn wanted() -> VolumeRequest {
    let id = format!("test-{}", RandomIds.uuid());
    let key = NamespacedId::new(Namespace::default(), id.as_str().into());
    let capability = Capability {
        access_mode: AccessMode::SingleNodeWriter,
        attachment_mode: AttachmentMode::FileSystem,
    };
    VolumeRequest {
        name: Some(id),
        capacity: CapacityRange {
            min: Bytes::new(1 << 20).expect("it is small"),
            // Before 1.6.3 a volume is not created without.
            max: Bytes::new(10 << 20).expect("it is small"),
        },
        ..VolumeRequest::new(key, plugin(), vec![capability])
    }
}

#[tokio::test]
#[ignore = "needs a server with a plugin: NOMAD_ADDR"]
async fn real_a_volume_is_in_its_providers_list_and_its_snapshots_come_and_go() {
    let (client, namespace, none) = (client(), Namespace::default(), Secrets::default());
    let request = wanted();
    client.create_volume(&request).await.expect("it is created");
    let read = client.read_volume(&request.key()).await.expect("it reads");
    let volume = read.expect("it is there").value;
    let external = client
        .list_external_volumes(&plugin(), &namespace)
        .await
        .expect("it lists");
    let in_list = external
        .iter()
        .find(|listed| listed.external_id == volume.remote_id())
        .expect("the provider has it");
    assert_eq!(in_list.capacity, volume.capacity);

    let snapshot = client
        .create_snapshot(&SnapshotRequest {
            volume: request.key(),
            plugin_id: plugin(),
            name: format!("snapshot-{}", request.id),
            parameters: BTreeMap::new(),
            secrets: none.clone(),
        })
        .await
        .expect("it is cut");
    assert_eq!(snapshot.source, volume.remote_id());
    let list = async || {
        let listed = client.list_snapshots(&plugin(), &namespace, &none).await;
        let listed = listed.expect("it lists");
        listed.iter().any(|one| one.id == snapshot.id)
    };
    assert!(list().await);
    client
        .delete_snapshot(&plugin(), &namespace, &snapshot.id, &none)
        .await
        .expect("it is deleted");
    assert!(!list().await);
    client
        .delete_volume(&request.key(), &none)
        .await
        .expect("it is deleted");
}

#[tokio::test]
#[ignore = "needs a server with a plugin: NOMAD_ADDR"]
async fn real_a_change_ends_a_wait_and_time_does_too() {
    let client = client();
    let query = VolumeQuery {
        namespace: Namespace::default(),
        prefix: None,
        plugin: None,
    };
    let request = wanted();
    let wait = |index, seconds| WaitFor {
        index,
        at_most: Duration::from_secs(seconds),
    };
    let first = client.watch_volume(&request.key(), wait(None, 1)).await;
    let first = first.expect("it answers");
    assert_eq!((first.value.is_none(), first.changed), (true, true));
    let listed = client.watch_volumes(&query, wait(None, 1)).await;
    let listed = listed.expect("it answers");
    let (waited, created) = tokio::join!(
        client.watch_volumes(&query, wait(Some(listed.index), 60)),
        client.create_volume(&request),
    );
    created.expect("it is created");
    let waited = waited.expect("it answers");
    assert!(
        waited.changed && waited.index > listed.index,
        "{}",
        waited.index
    );
    client
        .delete_volume(&request.key(), &Secrets::default())
        .await
        .expect("it is deleted");
    let last = client.watch_volume(&request.key(), wait(None, 1)).await;
    let last = last.expect("it answers");
    let idle = client
        .watch_volume(&request.key(), wait(Some(last.index), 1))
        .await
        .expect("it answers");
    assert!(idle.value.is_none());
}

#[tokio::test]
#[ignore = "needs a server with a plugin: NOMAD_ADDR"]
async fn real_what_is_not_there_is_said_to_be_so() {
    let (client, none) = (client(), Secrets::default());
    let unknown = PluginId::new("nobody");
    let refused = client
        .list_external_volumes(&unknown, &Namespace::default())
        .await
        .expect_err("there is no such plugin");
    assert_eq!(refused.code, Code::PluginUnknown, "{refused:?}");
    let refused = client
        .list_snapshots(&unknown, &Namespace::default(), &none)
        .await
        .expect_err("there is no such plugin");
    assert_eq!(refused.code, Code::PluginUnknown, "{refused:?}");
    let node = NodeId::new(RandomIds.uuid());
    let refused = client
        .detach_volume(&wanted().key(), &node)
        .await
        .expect_err("there is no such volume");
    assert_eq!(refused.code, Code::VolumeNotFound, "{refused:?}");
}
