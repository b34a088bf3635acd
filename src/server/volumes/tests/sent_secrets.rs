//! The secrets that an earlier agent has sent and the next one knows.

use std::sync::Arc;

use super::*;
use crate::sent_secrets::RecordedSecrets;
use nomad_csi_model::{PluginId, Secrets};
use nomad_csi_ports::SentSecretsReader as _;

#[tokio::test]
async fn secrets_and_flags_of_recorded_volumes_are_known() {
    let settings = PluginSettings {
        secrets: Secrets::from_iter([("token", "hunter2")]),
        ..PluginSettings::default()
    };
    let agent = FakeAgent::start(settings).await.unwrap();
    let mut request = FakeAgent::request("db");
    request.secrets = Some(Secrets::from_iter([("token", "hunter2")]));
    request.mount_options = Some(MountOptions {
        fs_type: String::new(),
        mount_flags: vec!["password=sesame".to_owned()],
    });
    agent.create(request.clone()).await.unwrap();
    let next = RecordedSecrets::new(agent.cell.clone(), Arc::new(agent.sealer.clone()));
    let sent = async |plugin: Option<&str>| {
        let sent = next.sent(plugin.map(PluginId::new).as_ref()).await;
        let secrets: Vec<String> = sent.secrets().map(str::to_owned).collect();
        let sealed: Vec<String> = sent.sealed().map(str::to_owned).collect();
        (secrets, sealed)
    };
    let texts = |texts: &[&str]| -> Vec<String> { texts.iter().map(ToString::to_string).collect() };
    let own = (texts(&["hunter2"]), texts(&["password=sesame"]));
    assert_eq!(sent(Some(request.plugin_id.as_str())).await, own);
    // A plugin that had another ID before hides it too, and may have it in its addresses.
    let of_another = (vec![], texts(&["hunter2", "password=sesame"]));
    assert_eq!(sent(Some("another")).await, of_another);
    assert_eq!(sent(None).await, of_another);
}
