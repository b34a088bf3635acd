//! Requests other than volumes, to a real server with a plugin that supports snapshots. Run with
//! `NOMAD_ADDR=http://127.0.0.1:4646 NOMAD_CSI_TEST_PLUGIN=hostpath cargo test
//! --test suite neighbours_real -- --ignored`. Leaves nothing behind on success.

use std::collections::BTreeMap;
use std::time::Duration;

use nomad_csi_client::nomad::{ClientSettings, NomadClient, RedactedString};
use nomad_csi_client::ports::{
    ProviderReader as _, SnapshotApi as _, SnapshotRequest, VolumeApi as _, VolumeQuery,
    VolumeReader as _, VolumeWatch as _, WatchRequest,
};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{
    AccessMode, AttachmentMode, Bytes, Capability, CapacityRange, Namespace, NamespacedId, NodeId,
    PluginId, Secrets, VolumeRequest,
};
use nomad_csi_ports::{IdSource as _, RandomIds};

fn client() -> NomadClient {
    let address = std::env::var("NOMAD_ADDR").expect("NOMAD_ADDR is set");
    let token = std::env::var("NOMAD_TOKEN").ok().map(RedactedString::new);
    let settings = ClientSettings { token, ..ClientSettings::new(address) };
    NomadClient::new(&settings).expect("NOMAD_ADDR is valid")
}

fn plugin() -> PluginId {
    let named = std::env::var("NOMAD_CSI_TEST_PLUGIN");
    PluginId::new(named.unwrap_or_else(|_| "hostpath".into()))
}

/// Returns a request for a new volume.
fn unique_request() -> VolumeRequest {
    let id = format!("test-{}", RandomIds.uuid());
    let key = NamespacedId::new(Namespace::default(), id.as_str().into());
    let capability = Capability {
        access_mode: AccessMode::SingleNodeWriter,
        attachment_mode: AttachmentMode::FileSystem,
    };
    VolumeRequest {
        name: Some(id),
        capacity: CapacityRange {
            min: Bytes::new(1 << 20).expect("the size is valid"),
            // Nomad before 1.6.3 requires it.
            max: Bytes::new(10 << 20).expect("the size is valid"),
        },
        ..VolumeRequest::new(key, plugin(), vec![capability])
    }
}

#[tokio::test]
#[ignore = "needs a server with a plugin: NOMAD_ADDR"]
async fn real_volumes_and_snapshots_are_listed_and_deleted() {
    let (client, namespace, none) = (client(), Namespace::default(), Secrets::default());
    let request = unique_request();
    client.create_volume(&request).await.expect("the volume is created");
    let read = client.read_volume(&request.key()).await.expect("the read succeeds");
    let volume = read.expect("the volume exists").value;
    let external =
        client.list_external_volumes(&plugin(), &namespace).await.expect("the list succeeds");
    let in_list = external
        .iter()
        .find(|listed| listed.external_id == volume.remote_id())
        .expect("the provider lists the volume");
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
        .expect("the snapshot is created");
    assert_eq!(snapshot.source, volume.remote_id());
    let list = async || {
        let listed = client.list_snapshots(&plugin(), &namespace, &none).await;
        let listed = listed.expect("the list succeeds");
        listed.iter().any(|one| one.id == snapshot.id)
    };
    assert!(list().await);
    client
        .delete_snapshot(&plugin(), &namespace, &snapshot.id, &none)
        .await
        .expect("the delete succeeds");
    assert!(!list().await);
    client.delete_volume(&request.key(), &none).await.expect("the delete succeeds");
}

#[tokio::test]
#[ignore = "needs a server with a plugin: NOMAD_ADDR"]
async fn real_a_change_or_a_timeout_ends_a_blocking_query() {
    let client = client();
    let query =
        VolumeQuery { namespace: Namespace::default(), prefix: None, plugin: None, filter: None };
    let request = unique_request();
    let wait = |index, seconds| WatchRequest { index, max_wait: Duration::from_secs(seconds) };
    let first = client.watch_volume(&request.key(), wait(None, 1)).await;
    let first = first.expect("the server responds");
    assert_eq!((first.value.is_none(), first.changed), (true, true));
    let listed = client.watch_volumes(&query, wait(None, 1)).await;
    let listed = listed.expect("the server responds");
    let (waited, created) = tokio::join!(
        client.watch_volumes(&query, wait(Some(listed.index), 60)),
        client.create_volume(&request),
    );
    created.expect("the volume is created");
    let waited = waited.expect("the server responds");
    assert!(waited.changed && waited.index > listed.index, "{}", waited.index);
    client.delete_volume(&request.key(), &Secrets::default()).await.expect("the delete succeeds");
    let last = client.watch_volume(&request.key(), wait(None, 1)).await;
    let last = last.expect("the server responds");
    let idle = client
        .watch_volume(&request.key(), wait(Some(last.index), 1))
        .await
        .expect("the server responds");
    assert!(idle.value.is_none());
}

#[tokio::test]
#[ignore = "needs a server with a plugin: NOMAD_ADDR"]
async fn real_missing_objects_are_reported() {
    let (client, none) = (client(), Secrets::default());
    let unknown = PluginId::new("missing");
    let refused = client
        .list_external_volumes(&unknown, &Namespace::default())
        .await
        .expect_err("the plugin does not exist");
    assert_eq!(refused.code, Code::PluginUnknown, "{refused:?}");
    let refused = client
        .list_snapshots(&unknown, &Namespace::default(), &none)
        .await
        .expect_err("the plugin does not exist");
    assert_eq!(refused.code, Code::PluginUnknown, "{refused:?}");
    let node = NodeId::new(RandomIds.uuid());
    let refused = client
        .detach_volume(&unique_request().key(), &node)
        .await
        .expect_err("the volume does not exist");
    assert_eq!(refused.code, Code::VolumeNotFound, "{refused:?}");
}
