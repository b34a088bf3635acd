//! Growing volumes: what the embedded plugin advertises is what works on the machine it runs on.

use nomad_csi::csi::proto;
use nomad_csi::csi::proto::plugin_capability::{Type, volume_expansion};
use nomad_csi::hostpath::PlayOptions;
use nomad_csi::ports::fake::{FakeBlockStorage, FakeMounter};
use tonic::Code;

use crate::support::hostpath::{Machine, World, writer};
use crate::support::plugin_client::{Client, sized};

const MIB: i64 = 1 << 20;

/// A machine whose kernel does not let this process grow a mounted ext4.
fn growing_unmounted() -> Machine {
    let mounter = FakeMounter::new();
    Machine {
        storage: FakeBlockStorage::growing_unmounted(mounter.clone()),
        ..Machine::plain(mounter)
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

/// `csi-spec` 5.1.1: ONLINE holds for every volume, OFFLINE is the controller's.
#[tokio::test]
async fn expansion_is_advertised_as_it_works_on_each_machine() {
    use volume_expansion::Type::{Offline, Online};
    let without = |names: &[&str]| PlayOptions {
        without: names.iter().map(ToString::to_string).collect(),
        ..PlayOptions::default()
    };
    let none = Machine::plain(FakeMounter::new());
    let controller = "CONTROLLER_SERVICE";
    for (machine, options, expected, has_expand) in [
        (Machine::with_devices(), without(&[]), vec![Online], true),
        (
            Machine::with_devices(),
            without(&[controller]),
            vec![Online],
            false,
        ),
        (growing_unmounted(), without(&[]), vec![Offline], true),
        (growing_unmounted(), without(&[controller]), vec![], false),
        (
            growing_unmounted(),
            without(&["EXPAND_VOLUME"]),
            vec![],
            false,
        ),
        (none, without(&[]), vec![], false),
    ] {
        let mut world = World::on(machine, options.clone()).await;
        let client = &mut world.client;
        assert_eq!(expansion(client).await, expected, "{options:?}");
        let answered = match client.expand("no-such-volume", MIB).await {
            Err(refused) => refused.code() != Code::Unimplemented,
            Ok(_) => true,
        };
        assert_eq!(answered, has_expand, "{options:?}");
    }
}

/// Nothing is promised that the node then cannot do: the refusal comes first, and changes nothing.
#[tokio::test]
async fn a_file_system_that_grows_out_of_use_only_is_refused_in_use_and_stays() {
    let mut world = World::on(growing_unmounted(), PlayOptions::default()).await;
    let staging = world.made("staging");
    let client = &mut world.client;
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
