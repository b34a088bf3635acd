//! A deletion and a write into the same namespace: one of them wins, and nothing is left without its
//! namespace.

use crate::fake::FakeAgent;
use nomad_csi_claims::state::violations;
use nomad_csi_model::{Namespace, VolumeRequest};
use nomad_csi_testing::PluginSettings;

#[tokio::test(start_paused = true)]
async fn a_deletion_and_a_creation_exclude_each_other() {
    let agent = FakeAgent::start(PluginSettings::default()).await.unwrap();
    agent.add_namespaces(&["ops"]).await;
    let name = Namespace::new("ops");
    let request = VolumeRequest { namespace: name.clone(), ..FakeAgent::request("db") };
    let (deleted, created) = tokio::join!(
        agent.services.namespaces.delete(&name),
        agent.volumes.create(vec![request.into()])
    );
    assert_ne!(deleted.is_ok(), created.is_ok());
    assert_eq!(violations(&agent.state()), Vec::<String>::new());
}
