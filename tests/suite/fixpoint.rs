//! Every example in `specs/`: after `apply` there is nothing left to plan (`users` 12).
//!
//! Those of the embedded plugin run on an embedded agent with the real plugin, all others on the
//! agent over the strict fake plugin, reached by gRPC, with what that driver reports of itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nomad_csi::csi::GrpcConnector;
use nomad_csi::model::{ControllerCapabilities, Secrets};
use nomad_csi::ports::Connector as _;
use nomad_csi::ports::fake::{FakeBackend, Settings};
use nomad_csi::server::fake::FakeAgent;
use nomad_csi::server::http::router;
use tokio_util::sync::CancellationToken;

use crate::support::client_process::run;
use crate::support::fake_plugin::FakePluginServer;
use crate::support::road::Road;

const OF_THE_EMBEDDED_PLUGIN: [&str; 4] = [
    "hostpath.hcl",
    "hostpath.json",
    "hostpath.yaml",
    "volumes.hcl",
];

/// An example for another plugin.
struct Example {
    file: &'static str,
    plugin_id: &'static str,
    /// Whether its volumes are in places.
    in_places: bool,
    /// What every call has to carry.
    secrets: &'static [(&'static str, &'static str)],
}

const OF_OTHERS: [Example; 4] = [
    Example {
        file: "drivers/aws-ebs.hcl",
        plugin_id: "aws-ebs",
        in_places: true,
        secrets: &[],
    },
    Example {
        file: "drivers/ceph-rbd.hcl",
        plugin_id: "ceph-rbd",
        in_places: false,
        secrets: &[
            ("userID", "nomad"),
            (
                "userKey",
                "PLACEHOLDER-replace-with-the-key-of-client.nomad",
            ),
        ],
    },
    Example {
        file: "drivers/democratic-csi-nfs.yaml",
        plugin_id: "democratic-csi-nfs",
        in_places: false,
        secrets: &[],
    },
    Example {
        file: "drivers/hetzner.hcl",
        plugin_id: "hetzner",
        in_places: true,
        secrets: &[],
    },
];

fn specs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("specs")
}

fn files(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found);
        } else {
            let name = path.strip_prefix(specs()).unwrap();
            found.insert(name.to_string_lossy().into_owned());
        }
    }
}

#[test]
fn no_example_is_forgotten() {
    let mut found = BTreeSet::new();
    files(&specs(), &mut found);
    let others = OF_OTHERS.iter().map(|example| example.file);
    let known = OF_THE_EMBEDDED_PLUGIN.into_iter().chain(others);
    assert_eq!(found, known.map(str::to_owned).collect());
}

/// Applies an example and plans it again; nothing may be left, nor asked for.
async fn reaches_its_fixpoint(server: &str, directory: &Path, file: &str, words: &[&str]) {
    let path = specs().join(file);
    let path = path.to_str().unwrap();
    let never = CancellationToken::new();
    for (command, expected) in [
        (&["plan", "-f", path][..], 2),
        (&["apply", "--yes", "-f", path], 0),
        (&["plan", "-f", path], 0),
        (&["apply", "--yes", "-f", path], 0),
    ] {
        let command = [command, words].concat();
        let ended = run(server, directory, &command, &never).await;
        assert_eq!(ended.code, Some(expected), "{command:?}: {}", ended.said);
    }
}

#[tokio::test]
async fn examples_of_the_embedded_plugin_are_unchanged_after_they_were_applied() {
    let directory = tempfile::tempdir().unwrap();
    let embedded = format!("--embedded={}", directory.path().join("data").display());
    for file in OF_THE_EMBEDDED_PLUGIN {
        // Nobody listens where the address says.
        reaches_its_fixpoint("", directory.path(), file, &[&embedded]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn examples_of_other_plugins_are_unchanged_after_they_were_applied() {
    let directory = tempfile::tempdir().unwrap();
    let agent = FakeAgent::start(Settings::default()).await.unwrap();
    let mut plugins = vec![];
    for example in &OF_OTHERS {
        let id = example.plugin_id;
        let mut settings = Settings {
            secrets: example.secrets.iter().copied().collect::<Secrets>(),
            controller: Some(ControllerCapabilities {
                create_delete_volume: true,
                publish_unpublish_volume: true,
                expand_volume: true,
                ..ControllerCapabilities::default()
            }),
            ..Settings::default()
        };
        settings.plugin.volume_accessibility_constraints = example.in_places;
        let backend = FakeBackend::new(settings.clone());
        let socket = directory.path().join(format!("{id}.sock"));
        let plugin = FakePluginServer::start(backend, &socket);
        let connection = GrpcConnector::new().connect(plugin.socket());
        agent.add_plugin(id, settings, connection).await;
        plugins.push(plugin);
    }
    let road = Road::to(router(agent.services.clone())).await;
    for (Example { file, .. }, plugin) in OF_OTHERS.iter().zip(&plugins) {
        reaches_its_fixpoint(road.url(), directory.path(), file, &[]).await;
        assert_eq!(plugin.backend.volumes().len(), 1, "{file}");
    }
}
