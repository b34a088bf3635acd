//! An etcd cluster of real processes. The program is that of `NOMAD_CSI_TEST_ETCD`, or `etcd` in the path.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use crate::agent_process::signal_process;

/// Returns the program; `None`, with a line that says so, if there is none.
pub(crate) fn etcd_program(test: &str) -> Option<PathBuf> {
    let named = std::env::var_os("NOMAD_CSI_TEST_ETCD").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|directory| directory.join("etcd"));
    let program = named.into_iter().chain(found).find(|program| program.is_file());
    if program.is_none() {
        eprintln!("SKIPPED {test}: it needs etcd; name the program in NOMAD_CSI_TEST_ETCD");
    }
    program
}

/// The members of a cluster. Dropping it kills them.
pub(crate) struct EtcdCluster {
    program: PathBuf,
    directory: PathBuf,
    hosts: Vec<String>,
    members: Vec<Option<Child>>,
}

impl Drop for EtcdCluster {
    fn drop(&mut self) {
        for at in 0..self.members.len() {
            self.kill(at);
        }
    }
}

impl EtcdCluster {
    /// Starts members at addresses of this machine, the first of which begin with these numbers.
    pub(crate) fn start(program: PathBuf, directory: &Path, [a, b]: [u8; 2]) -> Self {
        let hosts = (1..=3).map(|at| format!("127.9{at}.{a}.{b}")).collect();
        let mut cluster = Self {
            program,
            directory: directory.to_owned(),
            hosts,
            members: vec![None, None, None],
        };
        for at in 0..3 {
            cluster.start_member(at);
        }
        cluster
    }

    /// The addresses of the members, as a list in TOML.
    pub(crate) fn endpoints(&self) -> String {
        let all = self.hosts.iter().map(|host| format!("'http://{host}:2379'"));
        format!("[{}]", all.collect::<Vec<_>>().join(", "))
    }

    /// Starts a member, the first time or again.
    pub(crate) fn start_member(&mut self, at: usize) {
        let url = |host: &str, port: u16| format!("http://{host}:{port}");
        let peers = self.hosts.iter().enumerate();
        let peers: Vec<_> = peers.map(|(at, host)| format!("m{at}={}", url(host, 2380))).collect();
        let host = &self.hosts[at];
        let log = self.directory.join(format!("etcd-{at}.log"));
        let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
        let child = Command::new(&self.program)
            .args(["--name", &format!("m{at}"), "--data-dir"])
            .arg(self.directory.join(format!("etcd-{at}")))
            .args(["--listen-client-urls", &url(host, 2379)])
            .args(["--advertise-client-urls", &url(host, 2379)])
            .args(["--listen-peer-urls", &url(host, 2380)])
            .args(["--initial-advertise-peer-urls", &url(host, 2380)])
            .args(["--initial-cluster", &peers.join(","), "--initial-cluster-token", "test"])
            .args(["--logger", "zap", "--log-level", "warn"])
            .env_clear()
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.members[at] = Some(child);
    }

    pub(crate) fn kill(&mut self, at: usize) {
        if let Some(mut member) = self.members[at].take() {
            member.kill().ok();
            member.wait().ok();
        }
    }

    /// Stops a member without ending it, so that its connections stay open and nothing answers.
    pub(crate) fn freeze(&self, at: usize) {
        signal_process(self.members[at].as_ref().unwrap().id(), Signal::STOP);
    }

    pub(crate) fn thaw(&self, at: usize) {
        signal_process(self.members[at].as_ref().unwrap().id(), Signal::CONT);
    }
}
