//! A server and three nodes on one machine. Their plugins share a directory, as a network storage is shared: `n3` has the
//! controller, and each node its own node service, so a volume must be attached to a node before it is used there.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::agent_process::{AgentProcess, processes_with, program, signal_process};
use crate::job_machine::{Machine, volume};
use crate::plugin_process::KilledOnDrop;
use crate::wait::until;

/// The ID of the plugin.
pub(crate) const PLUGIN: &str = "shared";
/// The nodes. The last one has the controller.
pub(crate) const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// The processes of one machine of the fleet.
struct FleetNode {
    agent: Option<Child>,
    plugin: Option<KilledOnDrop>,
}

/// A server with three nodes.
pub(crate) struct Fleet {
    /// The API is that of the server.
    pub(crate) machine: Machine,
    nodes: BTreeMap<&'static str, FleetNode>,
    address: String,
}

/// One call that a plugin has begun, with the node of the process.
#[derive(Debug)]
pub(crate) struct Call {
    /// Its name, such as `NodeStageVolume`.
    pub(crate) rpc: String,
    /// The node that it is about.
    pub(crate) node: String,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for node in self.nodes.values_mut() {
            if let Some(mut agent) = node.agent.take() {
                agent.kill().ok();
                agent.wait().ok();
            }
        }
        if std::thread::panicking() {
            for name in NODES {
                let log = std::fs::read_to_string(self.path(&format!("{name}.log")));
                eprintln!("log of {name}:\n{}", log.unwrap_or_default());
            }
        }
    }
}

impl Fleet {
    /// Starts everything. A node is down after ten seconds without a connection.
    pub(crate) fn start() -> Self {
        let [a, b, ..] = std::process::id().to_le_bytes();
        let mut fleet = Self {
            machine: Machine::of_cluster(),
            nodes: BTreeMap::new(),
            address: format!("127.78.{a}.{b}:4647"),
        };
        for words in
            [&["init"][..], &["server", "s1"], &["node", "n1"], &["node", "n2"], &["node", "n3"]]
        {
            fleet.run(&[&["agent", "tls"], words, &["--dir", "tls"]].concat());
        }
        let server = format!(
            "data_dir = 'server'\n[http]\naddress = '127.0.0.1:0'\n[cluster]\naddress = '{}'\n\
             node_down_after = '10s'\n{}",
            fleet.address,
            certificate("s1")
        );
        fleet.write("server.toml", &server);
        fleet.start_server();
        for name in NODES.into_iter().rev() {
            let keys = format!(
                "name = '{name}'\ndata_dir = '{name}'\nservers = ['{}']\n\
                 plugin_endpoints = ['{PLUGIN}=unix://{}']\n[cluster]\n{}",
                fleet.address,
                fleet.socket(name).display(),
                certificate(name)
            );
            fleet.write(&format!("{name}.toml"), &keys);
            fleet.nodes.insert(name, FleetNode { agent: None, plugin: None });
            fleet.start_plugin(name);
            fleet.start_node(name);
        }
        until("the plugin to serve every node", || {
            let plugins = fleet.machine.get("/v1/plugins?type=csi");
            let mut all = plugins.as_array().unwrap().iter();
            let is_up = |one: &Value| one["NodesHealthy"] == 3 && one["ControllersHealthy"] == 1;
            all.any(is_up).then_some(()).ok_or_else(|| format!("{plugins:#}"))
        });
        fleet
    }

    fn path(&self, name: &str) -> PathBuf {
        self.machine.directory.path().join(name)
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.path(&format!("sockets-{name}")).join("csi.sock")
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn log(&self, name: &str) -> File {
        File::options().create(true).append(true).open(self.path(&format!("{name}.log"))).unwrap()
    }

    fn run(&self, words: &[&str]) {
        let output = program(words).current_dir(self.machine.directory.path()).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs a command of an operator against the server. Returns its exit code and what it wrote.
    pub(crate) fn operate(&self, words: &[&str]) -> (Option<i32>, String) {
        let mut command = program(words);
        let directory = self.machine.directory.path();
        command.current_dir(directory);
        command.env("NOMAD_ADDR", format!("http://{}", self.machine.address().tcp()));
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }

    pub(crate) fn start_server(&mut self) {
        let mut command = program(["agent", "server", "--config"]);
        command.arg(self.path("server.toml"));
        command.env("NOMAD_CSI_LOG", "info,nomad_csi_server::claims=debug");
        self.machine.agent = Some(AgentProcess::run_with_its_log(command));
    }

    pub(crate) fn kill_server(&mut self) {
        self.machine.kill();
    }

    fn node_mut(&mut self, name: &str) -> &mut FleetNode {
        self.nodes.get_mut(name).unwrap()
    }

    pub(crate) fn start_node(&mut self, name: &str) {
        let mut command: Command = program(["agent", "node", "--config"]);
        command.arg(self.path(&format!("{name}.toml"))).stdout(Stdio::null());
        command.stderr(self.log(name)).env("NOMAD_CSI_LOG", "info");
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        self.node_mut(name).agent = Some(command.spawn().unwrap());
    }

    /// Starts the plugin of a node. One that runs is killed before.
    pub(crate) fn start_plugin(&mut self, name: &'static str) {
        self.node_mut(name).plugin = None;
        let role = if name == "n3" { "all" } else { "node" };
        let mut command = program(["plugin", "serve", "--backing", "directory", "--role", role]);
        command
            .args(["--node-id", &format!("external-{name}")])
            .args(["--endpoint", &format!("unix://{}", self.socket(name).display())])
            .arg("--shared")
            .arg(self.path("storage"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null())
            .stderr(self.log(&format!("plugin-{name}")));
        // The process with the controller keeps its state in the storage.
        if role == "node" {
            command.arg("--state-dir").arg(self.path(&format!("staged-{name}")));
        }
        self.node_mut(name).plugin = Some(KilledOnDrop(command.spawn().unwrap()));
    }

    /// Kills the agent of a node. Its tasks and its plugin go on.
    pub(crate) fn kill_agent(&mut self, name: &str) {
        let mut agent = self.node_mut(name).agent.take().unwrap();
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    /// Stops the agent of a node without ending it, as a machine that hangs.
    pub(crate) fn freeze_agent(&self, name: &str) {
        signal_process(self.nodes[name].agent.as_ref().unwrap().id(), Signal::STOP);
    }

    /// Lets a frozen agent go on.
    pub(crate) fn thaw_agent(&self, name: &str) {
        signal_process(self.nodes[name].agent.as_ref().unwrap().id(), Signal::CONT);
    }

    /// Ends every process of a node at once, as when its power fails.
    pub(crate) fn power_off(&mut self, name: &str) {
        self.kill_agent(name);
        self.node_mut(name).plugin = None;
        let data = self.path(name).display().to_string();
        until("the processes of the machine to end", || {
            let left = processes_with(&[&data]);
            for process in &left {
                let id = rustix::process::Pid::from_raw((*process).try_into().unwrap_or(0));
                id.map(|id| rustix::process::kill_process(id, Signal::KILL));
            }
            left.is_empty().then_some(()).ok_or_else(|| format!("{left:?}"))
        });
    }

    /// A service with a volume for one writer that may run on the first two nodes.
    pub(crate) fn writer(&self, script: &str) -> Value {
        let mut job =
            self.machine.job("web", "service", &volume("db", "single-node-writer"), script);
        job["Constraints"] =
            json!([{"LTarget": "${node.unique.name}", "RTarget": "n3", "Operand": "!="}]);
        job
    }

    /// A node as the server lists it.
    pub(crate) fn node(&self, name: &str) -> Value {
        let nodes = self.machine.get("/v1/nodes");
        let nodes = nodes.as_array().unwrap().iter();
        nodes.clone().find(|node| node["Name"] == name).unwrap().clone()
    }

    /// Waits until the server gives a node this status.
    pub(crate) fn wait_for_status(&self, name: &str, status: &str) -> Value {
        until(&format!("{name} to be {status}"), || {
            let node = self.node(name);
            (node["Status"] == status).then_some(node.clone()).ok_or_else(|| format!("{node:#}"))
        })
    }

    /// The name of the node of an allocation.
    pub(crate) fn node_of(&self, alloc: &Value) -> &'static str {
        let name = alloc["NodeName"].as_str().unwrap();
        NODES.into_iter().find(|one| *one == name).unwrap()
    }

    /// The calls that began, of these RPCs, in their order.
    pub(crate) fn calls(&self, rpcs: &[&str]) -> Vec<Call> {
        let text = std::fs::read_to_string(self.path("storage/calls.jsonl")).unwrap();
        let calls = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let begun = calls.filter(|call| call["event"] == "begin");
        let named = begun.filter(|call| rpcs.iter().any(|rpc| call["rpc"] == *rpc));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        named.map(|call| Call { rpc: text(&call["rpc"]), node: text(&call["node_id"]) }).collect()
    }

    /// What tasks wrote to the volume: the name of a node per line.
    pub(crate) fn lines(&self) -> Vec<String> {
        let logs = find(&self.path("storage"), "log");
        let text = logs.into_iter().map(|path| std::fs::read_to_string(path).unwrap());
        text.collect::<String>().lines().map(ToOwned::to_owned).collect()
    }

    /// Nothing is left on any node, and every process ends.
    pub(crate) fn end(mut self) {
        self.machine.assert_no_claims();
        for name in NODES {
            self.machine.assert_nothing_mounted_below(&self.path(name));
            let mut agent = self.node_mut(name).agent.take().unwrap();
            signal_process(agent.id(), Signal::TERM);
            assert!(agent.wait().unwrap().success(), "{name}");
        }
        assert!(self.machine.agent.take().unwrap().stop().success());
    }
}

fn certificate(name: &str) -> String {
    format!("ca = 'tls/ca.pem'\ncert = 'tls/{name}.pem'\nkey = 'tls/{name}-key.pem'\n")
}

fn find(directory: &Path, name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => find(&path, name),
            false if path.file_name().is_some_and(|found| found == name) => vec![path],
            false => vec![],
        })
        .collect()
}
