//! Applies every example in `specs/` and checks that the plan is empty afterwards.
//!
//! Examples of the embedded plugin run on an embedded agent with the real plugin. All others run on
//! an agent with the strict fake plugin over gRPC, with the capabilities of their driver.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nomad_csi_csi::GrpcConnector;
use nomad_csi_model::{ControllerCapabilities, Secrets};
use nomad_csi_ports::{Connector as _, SentSecrets};
use nomad_csi_server::fake::FakeAgent;
use nomad_csi_server::http::{HttpSettings, operator_router};
use nomad_csi_testing::{FakeBackend, PluginSettings};
use tokio_util::sync::CancellationToken;

use crate::support::client_process::run_client;
use crate::support::fake_plugin::FakePluginServer;
use crate::support::faulty_proxy::FaultyProxy;

const EMBEDDED_PLUGIN_EXAMPLES: [&str; 4] =
    ["hostpath.hcl", "hostpath.json", "hostpath.yaml", "volumes.hcl"];

/// An example for another plugin.
struct Example {
    file: &'static str,
    plugin_id: &'static str,
    /// True if the plugin reports topologies.
    has_topology: bool,
    /// The secrets that every call requires.
    secrets: &'static [(&'static str, &'static str)],
}

const OTHER_EXAMPLES: [Example; 4] = [
    Example { file: "drivers/aws-ebs.hcl", plugin_id: "aws-ebs", has_topology: true, secrets: &[] },
    Example {
        file: "drivers/ceph-rbd.hcl",
        plugin_id: "ceph-rbd",
        has_topology: false,
        secrets: &[
            ("userID", "nomad"),
            ("userKey", "PLACEHOLDER-replace-with-the-key-of-client.nomad"),
        ],
    },
    Example {
        file: "drivers/democratic-csi-nfs.yaml",
        plugin_id: "democratic-csi-nfs",
        has_topology: false,
        secrets: &[],
    },
    Example { file: "drivers/hetzner.hcl", plugin_id: "hetzner", has_topology: true, secrets: &[] },
];

fn specs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("specs")
}

fn collect_files(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect_files(&path, found);
        } else {
            let name = path.strip_prefix(specs()).unwrap();
            found.insert(name.to_string_lossy().into_owned());
        }
    }
}

#[test]
fn every_example_is_covered() {
    let mut found = BTreeSet::new();
    collect_files(&specs(), &mut found);
    // Job files are no specifications of volumes, and `environments` covers what needs variables.
    found.retain(|file| !file.ends_with(".nomad.hcl") && !file.starts_with("environments/"));
    let others = OTHER_EXAMPLES.iter().map(|example| example.file);
    let known = EMBEDDED_PLUGIN_EXAMPLES.into_iter().chain(others);
    assert_eq!(found, known.map(str::to_owned).collect());
}

/// Applies an example and checks that the next plan is empty, without a question.
async fn assert_fixpoint(server: &str, directory: &Path, file: &str, arguments: &[&str]) {
    let path = specs().join(file);
    let path = path.to_str().unwrap();
    let never = CancellationToken::new();
    for (command, expected) in [
        (&["plan", "-f", path][..], 2),
        (&["apply", "--yes", "-f", path], 0),
        (&["plan", "-f", path], 0),
        (&["apply", "--yes", "-f", path], 0),
    ] {
        let command = [command, arguments].concat();
        let ended = run_client(server, directory, &command, &never).await;
        assert_eq!(ended.code, Some(expected), "{command:?}: {}", ended.output);
    }
}

#[tokio::test]
async fn examples_of_the_embedded_plugin_are_unchanged_after_an_apply() {
    let directory = tempfile::tempdir().unwrap();
    let embedded = format!("--embedded={}", directory.path().join("data").display());
    for file in EMBEDDED_PLUGIN_EXAMPLES {
        // No server listens at this address.
        assert_fixpoint("", directory.path(), file, &[&embedded]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn examples_of_other_plugins_are_unchanged_after_an_apply() {
    let directory = tempfile::tempdir().unwrap();
    let agent = FakeAgent::start(PluginSettings::default()).await.unwrap();
    let mut plugins = vec![];
    for example in &OTHER_EXAMPLES {
        let id = example.plugin_id;
        let mut settings = PluginSettings {
            secrets: example.secrets.iter().copied().collect::<Secrets>(),
            controller: Some(ControllerCapabilities {
                create_delete_volume: true,
                publish_unpublish_volume: true,
                expand_volume: true,
                ..ControllerCapabilities::default()
            }),
            ..PluginSettings::default()
        };
        settings.plugin.volume_accessibility_constraints = example.has_topology;
        let backend = FakeBackend::new(settings.clone());
        let socket = directory.path().join(format!("{id}.sock"));
        let plugin = FakePluginServer::start(backend, &socket);
        let connection =
            GrpcConnector::new().connect(plugin.socket(), None, &SentSecrets::default());
        agent.add_plugin(id, settings, connection).await;
        plugins.push(plugin);
    }
    let proxy =
        FaultyProxy::start(operator_router(agent.services.clone(), HttpSettings::default()).await)
            .await;
    for (Example { file, .. }, plugin) in OTHER_EXAMPLES.iter().zip(&plugins) {
        assert_fixpoint(proxy.url(), directory.path(), file, &[]).await;
        assert_eq!(plugin.backend.volumes().len(), 1, "{file}");
    }
}
