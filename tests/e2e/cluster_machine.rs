//! A server, a node and a plugin on one machine, each in a process of its own.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use crate::agent_process::{AgentProcess, WaitingAgent, program};
use crate::job_machine::Machine;
use crate::plugin_process::{KilledOnDrop, endpoint, plugin_command};
use crate::wait::until;

/// The ID of the plugin.
pub(crate) const PLUGIN: &str = "ebs";

/// A server with one node.
pub(crate) struct Cluster {
    /// The API is that of the server.
    pub(crate) machine: Machine,
    node: Option<NodeProcess>,
    plugin: Option<KilledOnDrop>,
    faults: Vec<String>,
    address: String,
    /// The address of a second server for nodes.
    second: String,
    /// The section of the servers' configuration that names etcd.
    etcd: String,
}

/// The process of a node. Its log is one file for all runs.
struct NodeProcess {
    child: Child,
    log: PathBuf,
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            eprintln!(
                "log of the node:\n{}",
                std::fs::read_to_string(&self.log).unwrap_or_default()
            );
        }
    }
}

impl Cluster {
    /// Starts a server, a node, and a plugin with these options.
    pub(crate) fn start(faults: &[String]) -> Self {
        Self::start_over(faults, String::new())
    }

    /// Starts the same with the journal in etcd, by this section of the configuration. A second server is configured.
    pub(crate) fn start_over_etcd(section: String) -> Self {
        Self::start_over(&[], section)
    }

    fn start_over(faults: &[String], etcd: String) -> Self {
        // An own address of this machine: another process cannot have taken its port when the server starts again.
        let [a, b, ..] = std::process::id().to_le_bytes();
        let mut cluster = Self {
            machine: Machine::of_cluster(),
            node: None,
            plugin: None,
            faults: faults.to_vec(),
            address: format!("127.77.{a}.{b}:4647"),
            second: format!("127.78.{a}.{b}:4647"),
            etcd,
        };
        for words in [&["init"][..], &["server", "s1"], &["node", "n1"], &["node", "stranger"]] {
            cluster.run(&[&["agent", "tls"], words, &["--dir", "tls"]].concat());
        }
        cluster.write_servers();
        cluster.write_node("node.toml", "node", "n1");
        cluster.start_server();
        cluster.start_plugin();
        cluster.start_node();
        cluster
    }

    fn write_servers(&self) {
        for (name, address) in [("server", &self.address), ("server-2", &self.second)] {
            let Self { etcd, .. } = self;
            let text = format!(
                "name = '{name}'\ndata_dir = '{name}'\n[http]\naddress = '127.0.0.1:0'\n{etcd}[cluster]\n\
                 address = '{address}'\nca = 'tls/ca.pem'\ncert = 'tls/s1.pem'\nkey = 'tls/s1-key.pem'\n"
            );
            std::fs::write(self.path(&format!("{name}.toml")), text).unwrap();
        }
    }

    /// Lets the servers have their journal in etcd from their next start on.
    pub(crate) fn configure_etcd(&mut self, section: String) {
        self.etcd = section;
        self.write_servers();
    }

    /// Starts a server that waits until it can lead: `server` or `server-2`, which gets the key of the other one.
    pub(crate) fn start_standby(&self, name: &str) -> WaitingAgent {
        let key = self.path(name).join("secrets.key");
        if !key.exists() {
            std::fs::create_dir_all(self.path(name)).unwrap();
            let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            std::fs::set_permissions(self.path(name), private).unwrap();
            std::fs::copy(self.path("server").join("secrets.key"), key).unwrap();
        }
        let mut command = program(["agent", "server", "--config"]);
        command.arg(self.path(&format!("{name}.toml"))).env("NOMAD_CSI_LOG", "info");
        WaitingAgent::start(command)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.machine.directory.path().join(name)
    }

    /// Runs a command in the directory of the cluster, which succeeds.
    pub(crate) fn run(&self, words: &[&str]) -> String {
        let output = program(words).current_dir(self.machine.directory.path()).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn write(&self, name: &str, keys: &str, certificate: &str) {
        let text = format!(
            "{keys}\n[cluster]\nca = 'tls/ca.pem'\ncert = 'tls/{certificate}.pem'\n\
             key = 'tls/{certificate}-key.pem'\n"
        );
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Writes the configuration of a node.
    pub(crate) fn write_node(&self, name: &str, data: &str, certificate: &str) {
        self.write_node_of(name, data, certificate, &[&self.address, &self.second]);
    }

    /// Lets the node know only the second server from its next start on.
    pub(crate) fn write_node_of_second(&self) {
        self.write_node_of("node.toml", "node", "n1", &[&self.second]);
    }

    fn write_node_of(&self, name: &str, data: &str, certificate: &str, servers: &[&str]) {
        let endpoint = endpoint(self.machine.directory.path());
        let servers: Vec<_> = servers.iter().map(|server| format!("'{server}'")).collect();
        let keys = format!(
            "data_dir = '{data}'\nservers = [{}]\nplugin_endpoints = ['{PLUGIN}={endpoint}']",
            servers.join(", ")
        );
        self.write(name, &keys, certificate);
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

    pub(crate) fn start_node(&mut self) {
        self.node = Some(self.spawn_node("node.toml"));
        self.wait_for_node("the node is ready");
    }

    fn spawn_node(&self, config: &str) -> NodeProcess {
        let log = self.path(&format!("{config}.log"));
        let mut command = program(["agent", "node", "--config"]);
        command.arg(self.path(config)).stdout(Stdio::null());
        command.stderr(File::options().create(true).append(true).open(&log).unwrap());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("NOMAD_CSI_LOG", "info");
        NodeProcess { child: command.spawn().unwrap(), log }
    }

    /// Runs another node until its log has a text.
    pub(crate) fn run_node_until(&self, config: &str, text: &str) {
        let node = self.spawn_node(config);
        until(text, || {
            let log = std::fs::read_to_string(&node.log).unwrap();
            log.contains(text).then_some(()).ok_or(log)
        });
    }

    /// Waits until the log of the newest run of the node has a text.
    pub(crate) fn wait_for_node(&self, text: &str) {
        let log = &self.node.as_ref().unwrap().log;
        until(text, || {
            let log = std::fs::read_to_string(log).unwrap();
            log.contains(text).then_some(()).ok_or(log)
        });
    }

    pub(crate) fn kill_node(&mut self) {
        self.node = None;
    }

    /// Stops the node with a signal and waits for its end.
    pub(crate) fn stop_node(&mut self) {
        let mut node = self.node.take().unwrap();
        crate::agent_process::signal_process(node.child.id(), rustix::process::Signal::TERM);
        let status = until("the node to end", || {
            let ended = node.child.try_wait().unwrap();
            ended.ok_or_else(|| "it runs".to_owned())
        });
        assert!(status.success(), "{status}");
    }

    pub(crate) fn start_plugin(&mut self) {
        let directory = self.machine.directory.path();
        let faults = self.faults.iter().flat_map(|fault| ["--fault", fault]);
        let flags: Vec<_> =
            ["--attach", "--backing", "directory"].into_iter().chain(faults).collect();
        self.plugin = Some(KilledOnDrop(plugin_command(directory, &flags).spawn().unwrap()));
    }

    pub(crate) fn kill_plugin(&mut self) {
        self.plugin = None;
    }

    /// The next process of the plugin has no faults of an RPC.
    pub(crate) fn forget_fault(&mut self, rpc: &str) {
        self.faults.retain(|fault| !fault.starts_with(&format!("{rpc}:")));
    }

    /// Waits until the plugin has injected a fault into an RPC.
    pub(crate) fn wait_for_fault(&self, rpc: &str) {
        let log = self.path("plugin.log");
        until(&format!("a fault of {rpc}"), || {
            let text = std::fs::read_to_string(&log).unwrap();
            let is_meant = |line: &str| line.contains("injecting a fault") && line.contains(rpc);
            text.lines().any(is_meant).then_some(()).ok_or(text)
        });
    }

    /// Nothing is left, and every process ends.
    pub(crate) fn end(mut self) {
        self.machine.assert_clean();
        self.stop_node();
        let server = self.machine.agent.take().unwrap();
        assert!(server.stop().success());
    }
}
