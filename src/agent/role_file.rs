//! The configuration files of `agent server` and `agent node`, in TOML.
//!
//! An unknown key is an error with its line. Relative paths start from the directory of the file. A file that another user
//! could have written is refused: it decides which servers the process believes and where its key is.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::config::{AgentConfig, AgentOptions};
use nomad_csi_etcd::EtcdEndpoint;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_model::private::{NotPrivate, open_given_choice};
use nomad_csi_model::{Bytes, GoDuration, one_line};
use nomad_csi_rpc::{ClusterTlsFiles, HttpsFiles};
use nomad_csi_server::{AclSettings, AgentInfo, PresenceLimits};

/// The longest file that is read.
const MAX_BYTES: u64 = 1 << 20;
/// For how many seconds a leader that is silent keeps the others out, by default: longer than an election of etcd.
const LEASE: i64 = 10;
/// What to write as addresses of etcd.
const ENDPOINTS: &str =
    "write the address of each member: `endpoints = [\"https://10.0.0.1:2379\"]`";
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
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    #[serde(default)]
    limits: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AclSection {
    enabled: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerCluster {
    address: SocketAddr,
    advertise: Option<String>,
    node_down_after: Option<String>,
    ca: PathBuf,
    cert: PathBuf,
    key: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EtcdSection {
    endpoints: Vec<String>,
    prefix: Option<String>,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    lease: Option<String>,
    quota: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerFile {
    region: Option<String>,
    name: Option<String>,
    etcd: Option<EtcdSection>,
    data_dir: PathBuf,
    #[serde(default)]
    http: HttpSection,
    acl: Option<AclSection>,
    cluster: ServerCluster,
    #[serde(default)]
    allow_root_tasks: bool,
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

/// The etcd cluster in which several servers have their journal.
#[derive(Clone, Debug)]
pub(super) struct EtcdConfig {
    /// The addresses of its members.
    pub(super) endpoints: Vec<EtcdEndpoint>,
    /// What all keys begin with.
    pub(super) prefix: String,
    /// The certificate for members with TLS.
    pub(super) tls: Option<ClusterTlsFiles>,
    /// For how many seconds a leader that is silent keeps the others out.
    pub(super) lease_seconds: i64,
    /// What etcd may use, if it does not say.
    pub(super) quota: Option<u64>,
}

/// The configuration of `agent server`.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The name of the server; the host's by default.
    pub(super) name: Option<String>,
    /// Where the journal is, if not in the data directory.
    pub(super) etcd: Option<EtcdConfig>,
    /// What a server has in common with an agent of one machine.
    pub(super) agent: AgentConfig,
    /// The region of the cluster.
    pub(super) region: String,
    /// The address for nodes.
    pub(super) address: SocketAddr,
    /// Where other servers reach it, as `HOST:PORT`, if not at `address`.
    pub(super) advertise: Option<String>,
    /// How long nodes can be away.
    pub(super) presence: PresenceLimits,
    /// The certificate.
    pub(super) tls: ClusterTlsFiles,
    /// The certificate of the HTTP API; `None` without TLS.
    pub(super) https: Option<HttpsFiles>,
    /// Whether there is an ACL.
    pub(super) acl: AclSettings,
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
    /// Returns the name of the server.
    pub(super) fn name(&self) -> String {
        let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        self.name.clone().unwrap_or_else(host)
    }

    /// Reads the file of a server. Blocks.
    ///
    /// # Errors
    /// If the file cannot be read, or says what is not possible.
    pub fn read(path: &Path, runtime_dir: Option<PathBuf>) -> Result<Self, Diagnostics> {
        let file: ServerFile = read_file(path)?;
        let directory = directory_of(path)?;
        let below = |given: &Path| directory.join(given);
        let ServerCluster { address, advertise, node_down_after, ca, cert, key } = file.cluster;
        let down_after = node_down_after.map_or(Ok(PresenceLimits::DOWN_AFTER), |text| {
            down_after(&text).ok_or_else(|| not_a_down_after(path, &text))
        })?;
        let https = https_files(path, file.http.cert, file.http.key, below)?;
        let acl = AclSettings { is_enabled: file.acl.map(|section| section.enabled) };
        let is_safe = https.is_some() && acl.is_enabled == Some(true);
        let agent = AgentConfig::parse(&AgentOptions {
            dev: true,
            data_dir: Some(below(&file.data_dir)),
            http: file.http.address,
            allow_unauthenticated: file.http.allow_unauthenticated,
            has_acl_and_tls: is_safe,
            allow_hosts: file.http.allow_hosts,
            limits: file.http.limits,
            allow_root_tasks: file.allow_root_tasks,
            runtime_dir,
            metrics: file.metrics,
            ..AgentOptions::default()
        });
        let region = file.region.unwrap_or_else(|| AgentInfo::REGION.to_owned());
        let etcd = file.etcd.map(|section| etcd_config(path, section, &region, below));
        let advertise = advertised(path, advertise, address, etcd.is_some())?;
        Ok(Self {
            agent: agent.map_err(|problems| of_file(path, problems))?,
            name: file.name,
            etcd: etcd.transpose()?,
            region,
            address,
            advertise,
            presence: PresenceLimits::new(down_after),
            tls: tls_files(&TlsSection { ca, cert, key }, below),
            https,
            acl,
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
        let directory = directory_of(path)?;
        let below = |given: &Path| directory.join(given);
        let servers = servers(path, &file.servers)?;
        let host_volumes = file.host_volumes.iter();
        let host_volumes = host_volumes.map(|(name, volume)| match volume.as_str() {
            "" => format!("{name}="),
            volume => format!("{name}={}", below(Path::new(volume)).display()),
        });
        let agent = AgentConfig::parse(&AgentOptions {
            dev: true,
            directory: directory.clone(),
            data_dir: Some(below(&file.data_dir)),
            allow_root_tasks: file.allow_root_tasks,
            host_volumes: host_volumes.collect(),
            plugin_endpoints: file.plugin_endpoints,
            plugin_endpoint_users: file.plugin_endpoint_users,
            runtime_dir,
            metrics: file.metrics,
            ..AgentOptions::default()
        });
        Ok(Self {
            agent: agent.map_err(|problems| of_file(path, problems))?,
            region: file.region.unwrap_or_else(|| AgentInfo::REGION.to_owned()),
            name: file.name,
            datacenter: file.datacenter.unwrap_or_else(|| AgentInfo::DATACENTER.to_owned()),
            servers,
            tls: tls_files(&file.cluster, below),
        })
    }
}

/// Returns where other servers reach this one, if the file says it.
fn advertised(
    path: &Path,
    given: Option<String>,
    address: SocketAddr,
    has_others: bool,
) -> Result<Option<String>, Diagnostics> {
    let refused = |what: String| -> Diagnostics {
        let message = format!("cannot use `{}`: {what}", path.display());
        let help = "write where the other servers reach this one: `advertise = \"10.0.0.1:4647\"`";
        Diagnostic::error(Code::AgentBadConfig, message).help(help).into()
    };
    match given {
        Some(text) => {
            let why = |why| refused(format!("`cluster.advertise` is `{}`: {why}", one_line(&text)));
            with_port(&text).map(Some).map_err(why)
        }
        None if has_others && address.ip().is_unspecified() => Err(refused(format!(
            "`cluster.address` is `{address}`, which is every address of this machine, and `cluster.advertise` is missing"
        ))),
        None => Ok(None),
    }
}

/// Returns the certificate of the HTTP API.
fn https_files(
    path: &Path,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    below: impl Fn(&Path) -> PathBuf,
) -> Result<Option<HttpsFiles>, Diagnostics> {
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => {
            Ok(Some(HttpsFiles { certificate: below(&certificate), key: below(&key) }))
        }
        (Some(_) | None, Some(_) | None) => {
            let message =
                format!("cannot use `{}`: `http` needs `cert` and `key` together", path.display());
            let help = "name both files: `cert = \"tls/s1.pem\"` and `key = \"tls/s1-key.pem\"`";
            Err(Diagnostic::error(Code::AgentBadConfig, message).help(help).into())
        }
    }
}

/// Reads the section `etcd`.
fn etcd_config(
    path: &Path,
    section: EtcdSection,
    region: &str,
    below: impl Fn(&Path) -> PathBuf,
) -> Result<EtcdConfig, Diagnostics> {
    let EtcdSection { endpoints, prefix, ca, cert, key, lease, quota } = section;
    let refused = |what: String, help: &str| -> Diagnostics {
        let message = format!("cannot use `{}`: {what}", path.display());
        Diagnostic::error(Code::AgentBadConfig, message).help(help).into()
    };
    let mut parsed = vec![];
    for text in &endpoints {
        let endpoint = EtcdEndpoint::parse(text).map_err(|error| {
            let text = one_line(text);
            refused(format!("`etcd.endpoints` has `{text}`: {error}"), ENDPOINTS)
        })?;
        parsed.push(endpoint);
    }
    if parsed.is_empty() {
        return Err(refused("`etcd.endpoints` is empty".to_owned(), ENDPOINTS));
    }
    let tls = match (ca, cert, key) {
        (Some(ca), Some(cert), Some(key)) => Some(tls_files(&TlsSection { ca, cert, key }, below)),
        (None, None, None) if parsed.iter().all(|endpoint| !endpoint.has_tls()) => None,
        (Some(_) | None, Some(_) | None, Some(_) | None) => {
            let what = "`etcd` needs `ca`, `cert` and `key` together, and addresses with `https` need them";
            return Err(refused(what.to_owned(), "name the three files"));
        }
    };
    let prefix = prefix.unwrap_or_else(|| format!("/nomad-csi/{region}/"));
    if !prefix.ends_with('/') || prefix.chars().any(|c| !c.is_ascii_graphic()) {
        let what = format!("`etcd.prefix` is `{}`", one_line(&prefix));
        let help = "end it with a slash, without spaces: `prefix = \"/nomad-csi/global/\"`";
        return Err(refused(what, help));
    }
    let lease_seconds = lease.map_or(Ok(LEASE), |text| {
        let seconds = GoDuration::parse(&text).ok().and_then(GoDuration::to_std);
        let seconds = seconds.and_then(|time| i64::try_from(time.as_secs()).ok());
        seconds.filter(|seconds| (5..=60).contains(seconds)).ok_or_else(|| {
            let what = format!("`etcd.lease` is `{}`", one_line(&text));
            refused(what, "write a time from 5 to 60 seconds: `lease = \"10s\"`")
        })
    })?;
    let quota = quota.map(|text| {
        let bytes = Bytes::parse(&text).ok().map(Bytes::get).filter(|bytes| *bytes > 0);
        bytes.ok_or_else(|| {
            let what = format!("`etcd.quota` is `{}`", one_line(&text));
            refused(what, "write the size that etcd was started with: `quota = \"2GiB\"`")
        })
    });
    Ok(EtcdConfig { endpoints: parsed, prefix, tls, lease_seconds, quota: quota.transpose()? })
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

/// Returns the addresses of the servers, each with its port.
fn servers(path: &Path, given: &[String]) -> Result<Vec<String>, Diagnostics> {
    let mut problems = Diagnostics::default();
    let mut refuse = |what: String| {
        let message = format!("cannot use `{}`: {what}", path.display());
        let help = "write the address of each server: `servers = [\"10.0.0.1:4647\"]`";
        problems.push(Diagnostic::error(Code::AgentBadConfig, message).help(help));
    };
    if given.is_empty() {
        refuse("`servers` is empty".to_owned());
    }
    let mut found: Vec<String> = vec![];
    for text in given {
        match with_port(text) {
            Ok(server) if found.contains(&server) => {
                refuse(format!("`servers` has `{server}` twice"));
            }
            Ok(server) => found.push(server),
            Err(why) => refuse(format!("`servers` has `{}`: {why}", one_line(text))),
        }
    }
    match problems.has_errors() {
        true => Err(problems),
        false => Ok(found),
    }
}

/// Adds the port for nodes to an address without one.
fn with_port(server: &str) -> Result<String, &'static str> {
    if server.contains("://") {
        return Err("it is a URL, and not HOST or HOST:PORT");
    }
    let is_bare_ipv6 = server.parse::<Ipv6Addr>().is_ok();
    let (host, port) = match server.rsplit_once(':') {
        Some((host, port)) if !is_bare_ipv6 && !port.ends_with(']') => (host, Some(port)),
        Some(_) | None => (server, None),
    };
    if host.is_empty() {
        return Err("it has no host");
    }
    let port = match port.map(str::parse::<u16>) {
        None => CLUSTER_PORT,
        Some(Ok(port)) if port > 0 => port,
        Some(Ok(_) | Err(_)) => return Err("its port is not a number from 1 to 65535"),
    };
    let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_ipv6 = in_brackets.is_some_and(|host| host.parse::<Ipv6Addr>().is_ok());
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    match (is_bare_ipv6, is_ipv6 || host.chars().all(is_name)) {
        (true, _) => Ok(format!("[{host}]:{port}")),
        (false, true) => Ok(format!("{host}:{port}")),
        (false, false) => Err("its host is neither a name nor an IP address"),
    }
}

/// The keys of both files for what the options of `agent` with another name set, by the problem with the value.
const KEYS: [(Code, &str); 5] = [
    (Code::AgentBadAddress, "`http.address` is `--http`, and `http.allow_hosts` is `--allow-host`"),
    (
        Code::AgentNotLoopback,
        "`http.address` is `--http`, and `http.allow_unauthenticated` is `--allow-unauthenticated`; with `cert` and `key` in `[http]` and `enabled = true` in `[acl]` a server needs neither",
    ),
    (Code::AgentBadLimit, "`http.limits` is `--limit`"),
    (Code::AgentBadHostVolume, "`host_volumes` is `--host-volume`"),
    (Code::AgentBadPluginEndpoint, "`plugin_endpoints` is `--plugin-endpoint`"),
];

/// Adds which keys of a file the options are that the problems name.
fn of_file(path: &Path, problems: Diagnostics) -> Diagnostics {
    let mut all = Diagnostics::default();
    for problem in problems {
        let keys = KEYS.iter().find(|(code, _)| *code == problem.code);
        all.push(match keys {
            Some((_, keys)) => {
                problem.note(format!("the value is in `{}`, where {keys}", path.display()))
            }
            None => problem,
        });
    }
    all
}

fn tls_files(section: &TlsSection, below: impl Fn(&Path) -> PathBuf) -> ClusterTlsFiles {
    ClusterTlsFiles {
        authorities: below(&section.ca),
        certificate: below(&section.cert),
        key: below(&section.key),
    }
}

/// Returns the directory of the file, from which its relative paths start.
fn directory_of(path: &Path) -> Result<PathBuf, Diagnostics> {
    let absolute = std::path::absolute(path).map_err(|error| unusable(path, &error))?;
    Ok(absolute.parent().unwrap_or(&absolute).to_owned())
}

fn unusable(path: &Path, reason: &dyn std::fmt::Display) -> Diagnostic {
    let message = format!("cannot use the configuration `{}`: {reason}", path.display());
    Diagnostic::error(Code::AgentBadConfig, message)
}

fn read_file<T: DeserializeOwned>(path: &Path) -> Result<T, Diagnostics> {
    let unusable = |reason: &dyn std::fmt::Display| unusable(path, reason);
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
    fn the_section_of_etcd_is_checked() {
        let read = |section: &str| {
            let (directory, path) = written(&format!("{SERVER}[etcd]\n{section}"));
            let read = ServerConfig::read(&path, None);
            drop(directory);
            read.map(|server| server.etcd.unwrap())
        };
        let files = "ca = 'ca'\ncert = 'cert'\nkey = 'key'\n";
        let local = "endpoints = ['http://127.0.0.1:2379']\n";
        let etcd = read(local).unwrap();
        let found = (etcd.prefix.as_str(), etcd.lease_seconds, etcd.quota);
        assert_eq!(found, ("/nomad-csi/global/", 10, None));
        assert!(etcd.tls.is_none());
        let all = "endpoints = ['https://a:1', 'https://b:1']\nprefix = '/x/'\nlease = '1m'\nquota = '4GiB'\n";
        let etcd = read(&format!("{all}{files}")).unwrap();
        let found = (etcd.prefix.as_str(), etcd.lease_seconds, etcd.quota);
        assert_eq!(found, ("/x/", 60, Some(4 << 30)));
        assert!(etcd.tls.unwrap().key.ends_with("key"));
        for (section, expected) in [
            ("endpoints = []", "`etcd.endpoints` is empty"),
            ("endpoints = ['http://10.0.0.1:2379']", "without TLS only an address of this machine"),
            ("endpoints = ['a:1']", "`https://HOST:PORT`"),
            (all, "`etcd` needs `ca`, `cert` and `key` together"),
            (&format!("{local}ca = 'ca'\n"), "`etcd` needs `ca`, `cert` and `key` together"),
            (&format!("{local}prefix = 'x'\n"), "`etcd.prefix` is `x`"),
            (&format!("{local}prefix = '/a b/'\n"), "`etcd.prefix` is `/a b/`"),
            (&format!("{local}lease = '4s'\n"), "`etcd.lease` is `4s`"),
            (&format!("{local}lease = '61s'\n"), "`etcd.lease` is `61s`"),
            (&format!("{local}quota = '0'\n"), "`etcd.quota` is `0`"),
            (&format!("{local}quota = 'much'\n"), "`etcd.quota` is `much`"),
        ] {
            let found = problem(read(section));
            assert!(found.contains(expected), "{section}: {found}");
        }
    }

    #[test]
    fn endpoints_and_host_volumes_start_from_the_directory_of_the_file() {
        let given = "plugin_endpoints = ['ebs=csi.sock']\n[host_volumes]\nscratch = 'scratch:ro'\n";
        let (directory, path) = written(&NODE.replace("[cluster]", &format!("{given}[cluster]")));
        std::fs::create_dir(directory.path().join("scratch")).unwrap();
        let agent = NodeConfig::read(&path, None).unwrap().agent;
        assert_eq!(agent.plugin_endpoints[0].socket, directory.path().join("csi.sock"));
        let scratch = &agent.host_volumes["scratch"];
        let real = directory.path().canonicalize().unwrap();
        assert_eq!((&scratch.path, scratch.read_only), (&real.join("scratch"), true));
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
            assert_eq!(with_port(given).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn servers_that_cannot_be_dialled_are_refused_with_the_reason() {
        for (servers, expected) in [
            ("''", "`servers` has ``: it has no host"),
            ("':4647'", "`servers` has `:4647`: it has no host"),
            ("'s1:'", "`servers` has `s1:`: its port is not a number from 1 to 65535"),
            ("'s1:0'", "its port is not"),
            ("'s1:65536'", "its port is not"),
            ("'https://s1:4647'", "it is a URL, and not HOST or HOST:PORT"),
            ("'s1/v1'", "its host is neither a name nor an IP address"),
            ("'[s1]:4647'", "its host is neither"),
            ("'1::2::3'", "its host is neither"),
            ("'s1', 's1:4647'", "`servers` has `s1:4647` twice"),
        ] {
            let (_directory, path) = written(&NODE.replace("'10.0.0.1'", servers));
            let found = problem(NodeConfig::read(&path, None));
            assert!(found.contains(expected), "{servers}: {found}");
            assert!(found.contains(&path.display().to_string()), "{found}");
        }
    }

    /// Only a server whose clients need rights, over connections that are encrypted, may listen beyond loopback.
    #[test]
    fn a_server_listens_beyond_loopback_with_tls_and_an_acl() {
        let certificate = "cert = 'c.pem'\nkey = 'k.pem'\n";
        let acl = "[acl]\nenabled = true\n";
        for (http, acl, expected) in [
            (certificate, acl, Ok(true)),
            (certificate, "", Err("other machines could reach the agent")),
            (certificate, "[acl]\nenabled = false\n", Err("other machines could reach the agent")),
            ("", acl, Err("other machines could reach the agent")),
            ("allow_unauthenticated = true\n", "", Ok(false)),
            ("cert = 'c.pem'\n", acl, Err("`http` needs `cert` and `key` together")),
            ("key = 'k.pem'\n", acl, Err("`http` needs `cert` and `key` together")),
        ] {
            let sections = format!("[http]\naddress = '0.0.0.0:1'\n{http}{acl}[cluster]");
            let (directory, path) = written(&SERVER.replace("[cluster]", &sections));
            match (ServerConfig::read(&path, None), expected) {
                (Ok(config), Ok(has_tls)) => {
                    let file = directory.path().join("c.pem");
                    let found = config.https.map(|files| files.certificate);
                    assert_eq!(found, has_tls.then_some(file), "{sections}");
                }
                (Err(problems), Err(expected)) => {
                    let found = problem(Err::<ServerConfig, _>(problems));
                    assert!(found.contains(expected), "{sections}: {found}");
                }
                (Ok(_), Err(expected)) => panic!("{sections}: {expected}"),
                (Err(problems), Ok(_)) => panic!("{sections}: {problems:?}"),
            }
        }
    }

    #[test]
    fn a_problem_with_a_value_names_its_key_and_file() {
        let server =
            |http: &str| SERVER.replace("[cluster]", &format!("[http]\n{http}\n[cluster]"));
        let node = |given: &str| NODE.replace("[cluster]", &format!("{given}\n[cluster]"));
        let both = [
            (true, server("address = 'nowhere'"), "`http.address` is `--http`"),
            (true, server("address = '0.0.0.0:1'"), "`http.allow_unauthenticated` is"),
            (true, server("limits = ['x=1']"), "`http.limits` is `--limit`"),
            (true, server("allow_hosts = ['a:1']"), "`http.allow_hosts` is `--allow-host`"),
            (false, node("plugin_endpoints = ['=a']"), "`plugin_endpoints` is"),
            (false, node("[host_volumes]\na = ''"), "`host_volumes` is `--host-volume`"),
        ];
        for (is_server, text, expected) in both {
            let (_directory, path) = written(&text);
            let problems = match is_server {
                true => ServerConfig::read(&path, None).unwrap_err(),
                false => NodeConfig::read(&path, None).unwrap_err(),
            };
            let notes: Vec<_> = problems.into_iter().flat_map(|one| one.notes).collect();
            let is_named = |note: &String| {
                note.contains(expected) && note.contains(&path.display().to_string())
            };
            assert!(notes.iter().any(is_named), "{expected}: {notes:?}");
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
