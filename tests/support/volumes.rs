//! Volumes of the embedded plugin, created and listed over HTTP.

use std::collections::BTreeSet;
use std::io;

use serde_json::{Value, json};

use crate::http::{Address, Answer};

/// Creates a volume. Fails if the connection breaks before the response.
pub(crate) fn create(agent: &Address, id: &str) -> io::Result<Answer> {
    let volume = json!({
        "ID": id,
        "Name": id,
        "PluginID": "hostpath",
        "RequestedCapabilities": [
            {"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}
        ],
    });
    let path = format!("/v1/volume/csi/{id}/create");
    agent.ask("PUT", &path, Some(&json!({ "Volumes": [volume] })))
}

/// Returns the ID and the external ID of every volume.
pub(crate) fn list(agent: &Address) -> Vec<(String, String)> {
    let volumes = agent.ask("GET", "/v1/volumes?type=csi", None).unwrap().json();
    let text = |volume: &Value, key: &str| volume[key].as_str().unwrap().to_owned();
    let volumes = volumes.as_array().unwrap();
    volumes.iter().map(|volume| (text(volume, "ID"), text(volume, "ExternalID"))).collect()
}

/// Checks the health of the plugin that the agent reports.
pub(crate) fn is_healthy(agent: &Address) -> Result<(), String> {
    let answer = agent.ask("GET", "/v1/plugin/csi/hostpath", None).map_err(|e| e.to_string())?;
    let healthy = answer.status == 200 && answer.json()["ControllersHealthy"] == 1;
    healthy.then_some(()).ok_or_else(|| answer.text())
}

/// Returns the volumes at the provider.
pub(crate) fn provided(agent: &Address) -> BTreeSet<String> {
    let path = "/v1/volumes/external?plugin_id=hostpath";
    let answer = agent.ask("GET", path, None).unwrap().json();
    let volumes = answer["Volumes"].as_array().unwrap();
    assert_eq!(answer["NextToken"], "", "one page has them all");
    volumes.iter().map(|volume| volume["ExternalID"].as_str().unwrap().to_owned()).collect()
}

/// Asserts that agent and provider have exactly the volumes `ids`, each once.
pub(crate) fn assert_volumes(agent: &Address, ids: &BTreeSet<String>) {
    let listed = list(agent);
    let found: BTreeSet<String> = listed.iter().map(|(id, _)| id.clone()).collect();
    assert_eq!(found, *ids);
    let external: BTreeSet<String> = listed.iter().map(|(_, external)| external.clone()).collect();
    assert_eq!(
        external.len(),
        listed.len(),
        "two registered volumes share an external ID: {listed:?}"
    );
    let provided = provided(agent);
    assert_eq!(external, provided, "left: registered; right: at the provider");
}
