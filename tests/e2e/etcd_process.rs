//! An etcd cluster of real processes. The program is that of `NOMAD_CSI_TEST_ETCD`, or `etcd` in the path.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use crate::agent_process::signal_process;
use crate::certificates::Authority;

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

/// How members are started.
#[derive(Clone, Copy, Default)]
pub(crate) struct EtcdOptions {
    /// Clients need a certificate, and connections are encrypted.
    pub(crate) has_tls: bool,
    /// The bytes that the database may have.
    pub(crate) quota: Option<u64>,
}

/// The members of a cluster. Dropping it kills them.
pub(crate) struct EtcdCluster {
    program: PathBuf,
    directory: PathBuf,
    hosts: Vec<String>,
    members: Vec<Option<Child>>,
    options: EtcdOptions,
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
    pub(crate) fn start(
        program: PathBuf,
        directory: &Path,
        [a, b]: [u8; 2],
        options: EtcdOptions,
    ) -> Self {
        let hosts: Vec<_> = (1..=3).map(|at| format!("127.9{at}.{a}.{b}")).collect();
        if options.has_tls {
            write_certificates(directory, &hosts);
        }
        let mut cluster = Self {
            program,
            directory: directory.to_owned(),
            hosts,
            members: vec![None, None, None],
            options,
        };
        for at in 0..3 {
            cluster.start_member(at);
        }
        cluster
    }

    /// The section of a server's configuration, with a short lease.
    pub(crate) fn section(&self) -> String {
        let all = self.hosts.iter().map(|host| format!("'{}'", self.client_url(host)));
        let endpoints = all.collect::<Vec<_>>().join(", ");
        let mut section = format!("[etcd]\nendpoints = [{endpoints}]\nlease = '5s'\n");
        if self.options.has_tls {
            let file = |name: &str| self.directory.join(name).display().to_string();
            let (ca, cert, key) = (file("ca.pem"), file("client.pem"), file("client-key.pem"));
            section.extend([format!("ca = '{ca}'\ncert = '{cert}'\nkey = '{key}'\n")]);
        }
        if let Some(quota) = self.options.quota {
            section.extend([format!("quota = '{quota}B'\n")]);
        }
        section
    }

    fn client_url(&self, host: &str) -> String {
        let scheme = if self.options.has_tls { "https" } else { "http" };
        format!("{scheme}://{host}:2379")
    }

    /// Starts a member, the first time or again.
    pub(crate) fn start_member(&mut self, at: usize) {
        let url = |host: &str| format!("http://{host}:2380");
        let peers = self.hosts.iter().enumerate();
        let peers: Vec<_> = peers.map(|(at, host)| format!("m{at}={}", url(host))).collect();
        let host = &self.hosts[at];
        let (client, peer) = (self.client_url(host), url(host));
        let log = self.directory.join(format!("etcd-{at}.log"));
        let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(&self.program);
        command
            .args(["--name", &format!("m{at}"), "--data-dir"])
            .arg(self.directory.join(format!("etcd-{at}")))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &peers.join(","), "--initial-cluster-token", "test"])
            .args(["--logger", "zap", "--log-level", "warn"])
            .env_clear()
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        if self.options.has_tls {
            let file = |name: &str| self.directory.join(name);
            command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(file("ca.pem"));
            command.arg("--cert-file").arg(file("etcd.pem"));
            command.arg("--key-file").arg(file("etcd-key.pem"));
        }
        if let Some(quota) = self.options.quota {
            command.arg(format!("--quota-backend-bytes={quota}"));
        }
        self.members[at] = Some(command.spawn().unwrap());
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

/// Writes an authority, and certificates of the members and of a client.
fn write_certificates(directory: &Path, hosts: &[String]) {
    let authority = Authority::new("etcd");
    authority.write(directory, "ca.pem");
    let hosts: Vec<_> = hosts.iter().map(String::as_str).collect();
    for (name, identity) in [("etcd", authority.server(&hosts)), ("client", authority.client())] {
        let (_, key) = identity.write(directory, name);
        std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
}
