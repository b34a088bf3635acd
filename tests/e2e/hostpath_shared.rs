//! The embedded plugin as one controller and two nodes on a shared directory, each in its own process, with real mounts.

use std::fs::Permissions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nomad_csi_proto as proto;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use tonic::{Code, Status};

use crate::hostpath_fixture::{run_in_namespace, stage_and_publish, unpublish_and_unstage};
use crate::plugin_client::{Client, Publish, mount};
use crate::plugin_process::PluginProcess;
use crate::wait::until_async;

/// A directory for processes of the plugin, and for the mounts of its nodes.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        Self(tempfile::tempdir_in(std::env::temp_dir()).unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Starts a process of the plugin in a directory of its own.
    async fn start(&self, name: &str, flags: &[&str]) -> PluginProcess {
        let directory = self.path(name);
        std::fs::create_dir_all(directory.join("staging")).unwrap();
        let socket = directory.join("csi.sock");
        let mut options = std::fs::File::options();
        let log = options.create(true).append(true).open(directory.join("plugin.log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_nomad-csi"));
        command
            .args(["plugin", "serve", "--node-id", name, "--backing", "directory"])
            .arg("--endpoint")
            .arg(format!("unix://{}", socket.display()))
            .arg("--shared")
            .arg(self.path("shared"))
            .args(flags)
            .stdin(Stdio::null())
            .stderr(log);
        // Others could replace the socket in a directory that is open to them.
        std::fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
        PluginProcess::run(command, &directory, &socket).await
    }

    async fn node(&self, name: &str) -> PluginProcess {
        let state = self.path(name).join("state");
        let state = state.to_str().unwrap();
        self.start(name, &["--role", "node", "--state-dir", state, "--detach-cuts"]).await
    }

    fn publish<'a>(&self, id: &'a str, paths: &'a (PathBuf, PathBuf), mode: Mode) -> Publish<'a> {
        let (staging, target) = paths;
        Publish { id, staging, target, capability: mount(mode, &[]), read_only: false }
    }

    fn paths_of(&self, node: &str) -> (PathBuf, PathBuf) {
        (self.path(node).join("staging"), self.path(node).join("target"))
    }

    /// The lines of the log of calls with this event, as RPC and node.
    fn logged(&self, event: &str, rpc: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("shared/calls.jsonl")).unwrap();
        let lines =
            text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let lines = lines.filter(|line| line["event"] == event && line["rpc"] == rpc);
        lines.map(|line| line["node_id"].as_str().unwrap().to_owned()).collect()
    }
}

async fn create(client: &mut Client, mode: Mode) -> String {
    let request = proto::CreateVolumeRequest {
        name: format!("volume-{mode:?}"),
        volume_capabilities: vec![mount(mode, &[])],
        ..Default::default()
    };
    client.try_create(request).await.unwrap()
}

async fn attach(client: &mut Client, id: &str, node: &str, mode: Mode) -> Result<(), Status> {
    let request = proto::ControllerPublishVolumeRequest {
        volume_id: id.to_owned(),
        node_id: node.to_owned(),
        volume_capability: Some(mount(mode, &[])),
        ..Default::default()
    };
    client.controller.controller_publish_volume(request).await.map(drop)
}

async fn detach(client: &mut Client, id: &str, node: &str) {
    let request = proto::ControllerUnpublishVolumeRequest {
        volume_id: id.to_owned(),
        node_id: node.to_owned(),
        ..Default::default()
    };
    client.controller.controller_unpublish_volume(request).await.unwrap();
}

fn append(file: &Path) -> std::io::Result<()> {
    std::fs::File::options().create(true).append(true).open(file)?.write_all(b"line\n")
}

#[test]
fn a_volume_moves_between_the_nodes_of_a_shared_directory() {
    let name = "hostpath_shared::a_volume_moves_between_the_nodes_of_a_shared_directory";
    run_in_namespace(name, async {
        let mode = Mode::SingleNodeWriter;
        let machine = Machine::new();
        let mut controller = machine.start("c", &["--role", "controller"]).await;
        let (mut first, mut second) = (machine.node("n1").await, machine.node("n2").await);
        let (at_first, at_second) = (machine.paths_of("n1"), machine.paths_of("n2"));
        let id = create(&mut controller.client, mode).await;
        let on_first = machine.publish(&id, &at_first, mode);
        let refused = stage_and_publish(&mut first.client, on_first.clone()).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        attach(&mut controller.client, &id, "n1", mode).await.unwrap();
        stage_and_publish(&mut first.client, on_first.clone()).await.unwrap();
        append(&at_first.1.join("file")).unwrap();
        let refused = attach(&mut controller.client, &id, "n2", mode).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains("`n1`"), "{refused}");
        // A node that is killed finds what it has staged, and the controller what it has attached.
        drop((first, controller));
        first = machine.node("n1").await;
        controller = machine.start("c", &["--role", "controller"]).await;
        stage_and_publish(&mut first.client, on_first).await.unwrap();
        unpublish_and_unstage(&mut first.client, &id, &at_first.0, &at_first.1).await.unwrap();
        detach(&mut controller.client, &id, "n1").await;
        attach(&mut controller.client, &id, "n2", mode).await.unwrap();
        let on_second = machine.publish(&id, &at_second, mode);
        stage_and_publish(&mut second.client, on_second).await.unwrap();
        assert_eq!(std::fs::read(at_second.1.join("file")).unwrap(), b"line\n");
        unpublish_and_unstage(&mut second.client, &id, &at_second.0, &at_second.1).await.unwrap();
        detach(&mut controller.client, &id, "n2").await;
        controller.client.delete(&id).await.unwrap();
        assert_eq!(machine.logged("end", "NodeUnstageVolume"), ["n1", "n2"]);
        let attached = machine.logged("end", "ControllerPublishVolume");
        assert_eq!(attached, ["n1", "n2", "n2"]);
    });
}

#[test]
fn a_detach_ends_the_writes_of_the_node_and_of_no_other() {
    let name = "hostpath_shared::a_detach_ends_the_writes_of_the_node_and_of_no_other";
    run_in_namespace(name, async {
        let mode = Mode::MultiNodeMultiWriter;
        let machine = Machine::new();
        let mut controller = machine.start("c", &["--role", "controller"]).await;
        let (mut first, mut second) = (machine.node("n1").await, machine.node("n2").await);
        let (at_first, at_second) = (machine.paths_of("n1"), machine.paths_of("n2"));
        let id = create(&mut controller.client, mode).await;
        for (name, client, paths) in
            [("n1", &mut first.client, &at_first), ("n2", &mut second.client, &at_second)]
        {
            attach(&mut controller.client, &id, name, mode).await.unwrap();
            stage_and_publish(client, machine.publish(&id, paths, mode)).await.unwrap();
        }
        // A file that is open for reading does not keep the node from being cut off.
        append(&at_first.1.join("file")).unwrap();
        let open = std::fs::File::open(at_first.1.join("file")).unwrap();
        detach(&mut controller.client, &id, "n1").await;
        until_async("the writes of n1 to end", async || match append(&at_first.1.join("file")) {
            Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        until_async("the log of the cut", async || match &*machine.logged("end", "detach-cut") {
            [node] if node == "n1" => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        let refused = append(&at_first.0.join("file")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
        append(&at_second.1.join("file")).unwrap();
        drop(open);
        let refused = machine.publish(&id, &at_first, mode);
        let refused = stage_and_publish(&mut first.client, refused).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        // The volume comes back.
        attach(&mut controller.client, &id, "n1", mode).await.unwrap();
        let again = machine.publish(&id, &at_first, mode);
        stage_and_publish(&mut first.client, again).await.unwrap();
        append(&at_first.1.join("file")).unwrap();
        detach(&mut controller.client, &id, "n1").await;
        until_async("the writes of n1 to end again", async || {
            match append(&at_first.1.join("file")) {
                Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        append(&at_second.1.join("file")).unwrap();
        for (client, paths) in [(&mut first.client, &at_first), (&mut second.client, &at_second)] {
            unpublish_and_unstage(client, &id, &paths.0, &paths.1).await.unwrap();
        }
    });
}
