//! Volume expansion: the embedded plugin advertises exactly what works on its host.

use nomad_csi_hostpath::ProfileOptions;
use nomad_csi_proto as proto;
use nomad_csi_proto::plugin_capability::{Type, volume_expansion};
use nomad_csi_testing::{FakeBlockStorage, FakeMounter};
use tonic::Code;

use crate::support::hostpath::{PluginFixture, TestHost, writer};
use crate::support::plugin_client::{Client, sized};

const MIB: i64 = 1 << 20;

/// A host whose kernel does not let this process grow a mounted ext4.
fn growing_unmounted() -> TestHost {
    let mounter = FakeMounter::new();
    TestHost {
        storage: FakeBlockStorage::with_offline_growth(mounter.clone()),
        ..TestHost::without_devices(mounter)
    }
}

async fn expansion(client: &mut Client) -> Vec<volume_expansion::Type> {
    let request = proto::GetPluginCapabilitiesRequest {};
    let answer = client.identity.get_plugin_capabilities(request).await;
    let capabilities = answer.unwrap().into_inner().capabilities;
    let kinds = capabilities.into_iter().filter_map(|one| match one.r#type {
        Some(Type::VolumeExpansion(way)) => Some(way.r#type()),
        Some(Type::Service(_)) | None => None,
    });
    kinds.collect()
}

/// CSI, VolumeExpansion: ONLINE applies to every volume, and OFFLINE requires the controller.
#[tokio::test]
async fn expansion_is_advertised_as_it_works_on_the_host() {
    use volume_expansion::Type::{Offline, Online};
    let without = |names: &[&str]| ProfileOptions {
        without: names.iter().map(ToString::to_string).collect(),
        ..ProfileOptions::default()
    };
    let none = TestHost::without_devices(FakeMounter::new());
    let controller = "CONTROLLER_SERVICE";
    for (host, options, expected, has_expand) in [
        (TestHost::with_devices(), without(&[]), vec![Online], true),
        (TestHost::with_devices(), without(&[controller]), vec![Online], false),
        (growing_unmounted(), without(&[]), vec![Offline], true),
        (growing_unmounted(), without(&[controller]), vec![], false),
        (growing_unmounted(), without(&["EXPAND_VOLUME"]), vec![], false),
        (none, without(&[]), vec![], false),
    ] {
        let mut fixture = PluginFixture::on_host(host, options.clone()).await;
        let client = &mut fixture.client;
        assert_eq!(expansion(client).await, expected, "{options:?}");
        let answered = match client.expand("no-such-volume", MIB).await {
            Err(refused) => refused.code() != Code::Unimplemented,
            Ok(_) => true,
        };
        assert_eq!(answered, has_expand, "{options:?}");
    }
}

/// The controller refuses an expansion that the node cannot complete, before it changes anything.
#[tokio::test]
async fn a_file_system_that_grows_offline_only_is_not_expanded_in_use() {
    let mut fixture = PluginFixture::on_host(growing_unmounted(), ProfileOptions::default()).await;
    let staging = fixture.create_dir("staging");
    let client = &mut fixture.client;
    let id = client.try_create(sized("a", 32 * MIB)).await.unwrap();
    client.stage(&id, &staging, writer()).await.unwrap();
    let refused = client.expand(&id, 64 * MIB).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("CAP_SYS_RESOURCE"), "{refused}");
    assert_eq!(client.expand(&id, MIB).await.unwrap(), (32 * MIB, true));
    assert_eq!(client.node_expand(&id, &staging).await.unwrap(), 32 * MIB);
    client.unstage(&id, &staging).await.unwrap();
    let expanded = client.expand(&id, 64 * MIB).await.unwrap();
    assert_eq!(expanded, (64 * MIB, false));
    client.stage(&id, &staging, writer()).await.unwrap();
    assert_eq!(client.node_expand(&id, &staging).await.unwrap(), 64 * MIB);
}
