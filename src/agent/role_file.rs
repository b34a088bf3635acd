//! The configuration files of `agent server` and `agent node`, in TOML.
//!
//! An unknown key is an error with its line. Relative paths start from the directory of the file. A file that another user
//! could have written is refused: it decides which servers the process believes and where its key is.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::config::{AgentConfig, AgentOptions};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_model::private::{NotPrivate, open_given_choice};
use nomad_csi_model::{GoDuration, one_line};
use nomad_csi_rpc::ClusterTlsFiles;
use nomad_csi_server::{AgentInfo, PresenceLimits};

/// The longest file that is read.
const MAX_BYTES: u64 = 1 << 20;
/// The port for nodes of an address without one.
const CLUSTER_PORT: u16 = 4647;

/// The certificate of a process and the authorities that it trusts.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct TlsSection {
    ca: PathBuf,
    cert: PathBuf,
    key: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpSection {
    address: Option<String>,
    #[serde(default)]
    allow_hosts: Vec<String>,
    #[serde(default)]
    allow_unauthenticated: bool,
    #[serde(default)]
    limits: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerCluster {
    address: SocketAddr,
    node_down_after: Option<String>,
    ca: PathBuf,
    cert: PathBuf,
    key: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerFile {
    region: Option<String>,
    data_dir: PathBuf,
    #[serde(default)]
    http: HttpSection,
    cluster: ServerCluster,
    metrics: Option<SocketAddr>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeFile {
    region: Option<String>,
    name: Option<String>,
    datacenter: Option<String>,
    data_dir: PathBuf,
    servers: Vec<String>,
    cluster: TlsSection,
    #[serde(default)]
    host_volumes: BTreeMap<String, String>,
    #[serde(default)]
    plugin_endpoints: Vec<String>,
    #[serde(default)]
    plugin_endpoint_users: Vec<u32>,
    #[serde(default)]
    allow_root_tasks: bool,
    metrics: Option<SocketAddr>,
}

/// The configuration of `agent server`.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// What a server has in common with an agent of one machine.
    pub(super) agent: AgentConfig,
    /// The region of the cluster.
    pub(super) region: String,
    /// The address for nodes.
    pub(super) address: SocketAddr,
    /// How long nodes can be away.
    pub(super) presence: PresenceLimits,
    /// The certificate.
    pub(super) tls: ClusterTlsFiles,
}

/// The configuration of `agent node`.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// What a node has in common with an agent of one machine.
    pub(super) agent: AgentConfig,
    /// The region of the cluster.
    pub(super) region: String,
    /// The name of the node; the host's by default.
    pub(super) name: Option<String>,
    /// Its datacenter.
    pub(super) datacenter: String,
    /// The servers, each as `HOST:PORT`.
    pub(super) servers: Vec<String>,
    /// The certificate.
    pub(super) tls: ClusterTlsFiles,
}

impl ServerConfig {
    /// Reads the file of a server. Blocks.
    ///
    /// # Errors
    /// If the file cannot be read, or says what is not possible.
    pub fn read(path: &Path, runtime_dir: Option<PathBuf>) -> Result<Self, Diagnostics> {
        let file: ServerFile = read_file(path)?;
        let below = |given: &Path| directory_of(path).join(given);
        let ServerCluster { address, node_down_after, ca, cert, key } = file.cluster;
        let down_after = node_down_after.map_or(Ok(PresenceLimits::DOWN_AFTER), |text| {
            down_after(&text).ok_or_else(|| not_a_down_after(path, &text))
        })?;
        let agent = AgentConfig::parse(&AgentOptions {
            dev: true,
            data_dir: Some(below(&file.data_dir)),
            http: file.http.address,
            allow_unauthenticated: file.http.allow_unauthenticated,
            allow_hosts: file.http.allow_hosts,
            limits: file.http.limits,
            runtime_dir,
            metrics: file.metrics,
            ..AgentOptions::default()
        })?;
        Ok(Self {
            agent,
            region: file.region.unwrap_or_else(|| AgentInfo::REGION.to_owned()),
            address,
            presence: PresenceLimits::new(down_after),
            tls: tls_files(&TlsSection { ca, cert, key }, below),
        })
    }
}

impl NodeConfig {
    /// Reads the file of a node. Blocks.
    ///
    /// # Errors
    /// If the file cannot be read, or says what is not possible.
    pub fn read(path: &Path, runtime_dir: Option<PathBuf>) -> Result<Self, Diagnostics> {
        let file: NodeFile = read_file(path)?;
        let below = |given: &Path| directory_of(path).join(given);
        if file.servers.is_empty() {
            let message = format!("cannot use `{}`: `servers` is empty", path.display());
            let help = "write the address of each server: `servers = [\"10.0.0.1:4647\"]`";
            return Err(Diagnostic::error(Code::AgentBadConfig, message).help(help).into());
        }
        let host_volumes = file.host_volumes.iter();
        let host_volumes = host_volumes.map(|(name, volume)| format!("{name}={volume}"));
        let agent = AgentConfig::parse(&AgentOptions {
            dev: true,
            data_dir: Some(below(&file.data_dir)),
            allow_root_tasks: file.allow_root_tasks,
            host_volumes: host_volumes.collect(),
            plugin_endpoints: file.plugin_endpoints,
            plugin_endpoint_users: file.plugin_endpoint_users,
            runtime_dir,
            metrics: file.metrics,
            ..AgentOptions::default()
        })?;
        Ok(Self {
            agent,
            region: file.region.unwrap_or_else(|| AgentInfo::REGION.to_owned()),
            name: file.name,
            datacenter: file.datacenter.unwrap_or_else(|| AgentInfo::DATACENTER.to_owned()),
            servers: file.servers.into_iter().map(with_port).collect(),
            tls: tls_files(&file.cluster, below),
        })
    }
}

/// A time from 10 seconds to a day: a shorter one is less than a connection needs that is renewed.
fn down_after(text: &str) -> Option<Duration> {
    let parsed = GoDuration::parse(text).ok()?.to_std()?;
    (Duration::from_secs(10)..=Duration::from_secs(86_400)).contains(&parsed).then_some(parsed)
}

fn not_a_down_after(path: &Path, text: &str) -> Diagnostics {
    let message =
        format!("cannot use `{}`: `node_down_after` is `{}`", path.display(), one_line(text));
    let help = "write a time from 10 seconds to a day: `node_down_after = \"60s\"`";
    Diagnostic::error(Code::AgentBadConfig, message).help(help).into()
}

/// Adds the port for nodes to an address without one.
fn with_port(server: String) -> String {
    let is_bare_ipv6 = server.matches(':').count() > 1 && !server.contains(']');
    let has_port = !is_bare_ipv6 && server.rsplit(']').next().is_some_and(|end| end.contains(':'));
    match (has_port, is_bare_ipv6) {
        (true, _) => server,
        (false, true) => format!("[{server}]:{CLUSTER_PORT}"),
        (false, false) => format!("{server}:{CLUSTER_PORT}"),
    }
}

fn tls_files(section: &TlsSection, below: impl Fn(&Path) -> PathBuf) -> ClusterTlsFiles {
    ClusterTlsFiles {
        authorities: below(&section.ca),
        certificate: below(&section.cert),
        key: below(&section.key),
    }
}

fn directory_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

fn read_file<T: DeserializeOwned>(path: &Path) -> Result<T, Diagnostics> {
    let unusable = |reason: &dyn std::fmt::Display| {
        let message = format!("cannot use the configuration `{}`: {reason}", path.display());
        Diagnostic::error(Code::AgentBadConfig, message)
    };
    let mut text = String::new();
    let opened = open_given_choice(path);
    let read = opened.and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text));
    match read {
        Err(error) => match NotPrivate::find(&error) {
            Some(refused) => Err(refused.diagnostic("use the configuration").into()),
            None => Err(unusable(&error).into()),
        },
        Ok(_) if text.len() as u64 > MAX_BYTES => Err(unusable(&"it is larger than 1 MiB").into()),
        Ok(_) => toml::from_str(&text).map_err(|error| {
            let line = error.span().map(|span| line_of(&text, span.start));
            let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            let help = "`docs/cluster.md` lists the keys of both files";
            unusable(&format!("{line}{}", error.message())).help(help).into()
        }),
    }
}

fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().iter().take(at);
    before.filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::DataDirSetting;

    const SERVER: &str = "data_dir = 'server'\n[cluster]\naddress = '127.0.0.1:0'\n\
                          ca = 'tls/ca.pem'\ncert = 'tls/s1.pem'\nkey = 'tls/s1-key.pem'\n";
    const NODE: &str = "data_dir = 'node'\nservers = ['10.0.0.1']\n[cluster]\n\
                        ca = 'tls/ca.pem'\ncert = '/tls/n1.pem'\nkey = 'tls/n1-key.pem'\n";

    fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent.toml");
        std::fs::write(&path, text).unwrap();
        (directory, path)
    }

    fn problem<T: std::fmt::Debug>(read: Result<T, Diagnostics>) -> String {
        read.unwrap_err().iter().map(|problem| problem.message.clone()).collect()
    }

    #[test]
    fn paths_start_from_the_directory_of_the_file() {
        let (directory, path) = written(SERVER);
        let server = ServerConfig::read(&path, None).unwrap();
        let data = DataDirSetting::Persistent(directory.path().join("server"));
        assert_eq!((server.agent.data, server.region.as_str()), (data, "global"));
        assert_eq!(server.tls.certificate, directory.path().join("tls/s1.pem"));
        let (_directory, path) = written(NODE);
        let node = NodeConfig::read(&path, None).unwrap();
        assert_eq!(node.tls.certificate, Path::new("/tls/n1.pem"));
        assert_eq!(node.datacenter, "dc1");
    }

    #[test]
    fn the_time_until_a_node_is_down_has_bounds() {
        let read = |text: &str| {
            let key = format!("[cluster]\nnode_down_after = '{text}'");
            let (directory, path) = written(&SERVER.replace("[cluster]", &key));
            let read = ServerConfig::read(&path, None);
            drop(directory);
            read.map(|server| server.presence.down_after.as_secs())
        };
        assert_eq!(
            [read("10s").unwrap(), read("2m").unwrap(), read("24h").unwrap()],
            [10, 120, 86_400]
        );
        for text in ["9s", "25h", "-1m", "soon", ""] {
            let expected = format!("`node_down_after` is `{text}`");
            assert!(problem(read(text)).contains(&expected), "{text}");
        }
        let (_directory, path) = written(SERVER);
        let server = ServerConfig::read(&path, None).unwrap();
        assert_eq!(server.presence.down_after, PresenceLimits::DOWN_AFTER);
    }

    #[test]
    fn servers_have_a_port() {
        for (given, expected) in [
            ("10.0.0.1", "10.0.0.1:4647"),
            ("10.0.0.1:9", "10.0.0.1:9"),
            ("s1.lan", "s1.lan:4647"),
            ("[::1]:9", "[::1]:9"),
            ("[::1]", "[::1]:4647"),
            ("::1", "[::1]:4647"),
        ] {
            assert_eq!(with_port(given.to_owned()), expected);
        }
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, expected) in [
            (format!("nmae = 'n1'\n{SERVER}"), "line 1: unknown field `nmae`"),
            (SERVER.replace("'127.0.0.1:0'", "'nowhere'"), "line 3: invalid socket address syntax"),
            (SERVER.replace("data_dir = 'server'\n", ""), "missing field `data_dir`"),
            (format!("{SERVER}ca = 'again'\n"), "duplicate key"),
        ] {
            let (_directory, path) = written(&text);
            let found = problem(ServerConfig::read(&path, None));
            assert!(found.contains(expected), "{found}");
            assert!(found.contains(&path.display().to_string()), "{found}");
        }
        let (_directory, path) = written(&NODE.replace("'10.0.0.1'", ""));
        assert!(problem(NodeConfig::read(&path, None)).contains("`servers` is empty"));
        let missing = problem(NodeConfig::read(&path.with_file_name("missing"), None));
        assert!(missing.contains("No such file"), "{missing}");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_directory, path) = written(SERVER);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        let problems = ServerConfig::read(&path, None).unwrap_err();
        assert_eq!(problems.iter().next().unwrap().code, Code::FileNotPrivate);
    }
}
