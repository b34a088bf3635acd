//! The configuration of an agent: parsed options with all defaults.
//!
//! The command line reads the environment and passes it in. Only the path of this program is read
//! here, because the embedded plugin is this program, and whether host volumes are directories.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::plugin_endpoint::PluginEndpoint;
use super::serve_plugin::{ProfileOptions, parse_profile};
use nomad_csi_model::HostVolume;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_server::http::{AllowedHosts, HttpSettings, Limits};
use nomad_csi_server::{PluginConcurrency, StateLimits};

/// The options of an agent, as given on the command line and in the environment.
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
#[derive(Clone, Debug, Default)]
pub struct AgentOptions {
    /// `--dev`: server and node in one process.
    pub dev: bool,
    /// The working directory, from which relative paths of sockets start.
    pub directory: PathBuf,
    /// `--data-dir`.
    pub data_dir: Option<PathBuf>,
    /// `--http ADDR:PORT`.
    pub http: Option<String>,
    /// `--allow-unauthenticated`.
    pub allow_unauthenticated: bool,
    /// Whether clients need rights and the connection is encrypted, so that other machines may reach it.
    pub has_acl_and_tls: bool,
    /// `--allow-host`.
    pub allow_hosts: Vec<String>,
    /// `--limit NAME=VALUE`.
    pub limits: Vec<String>,
    /// `--allow-core-dumps`.
    pub allow_core_dumps: bool,
    /// `--allow-root-tasks`.
    pub allow_root_tasks: bool,
    /// `--host-volume NAME=PATH`.
    pub host_volumes: Vec<String>,
    /// `--plugin-endpoint [ID=]URL`.
    pub plugin_endpoints: Vec<String>,
    /// `--no-embedded-plugin`.
    pub no_embedded_plugin: bool,
    /// `--plugin-endpoint-user UID`.
    pub plugin_endpoint_users: Vec<u32>,
    /// `--plugin-…`: the profile of the embedded plugin.
    pub plugin: ProfileOptions,
    /// XDG_RUNTIME_DIR.
    pub runtime_dir: Option<PathBuf>,
    /// `--…-per-plugin`: how many calls a plugin gets at the same time.
    pub calls: PluginConcurrency,
    /// `--metrics`: the address of the metrics.
    pub metrics: Option<SocketAddr>,
}

/// The data directory of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataDirSetting {
    /// A directory that stays.
    Persistent(PathBuf),
    /// A new directory that is removed when the agent stops.
    Temporary,
}

/// The configuration of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentConfig {
    /// The data directory.
    pub data: DataDirSetting,
    /// The TCP address for HTTP, in addition to the Unix socket. Port 0 is any free port.
    pub http: Option<SocketAddr>,
    /// The limits of the HTTP API, and the names of the agent.
    pub http_settings: HttpSettings,
    /// The limits of what clients can put into the state.
    pub state_limits: StateLimits,
    /// The directories that jobs can mount by name.
    pub host_volumes: BTreeMap<String, HostVolume>,
    /// The plugins that run already.
    pub plugin_endpoints: Vec<PluginEndpoint>,
    /// True if the agent runs the embedded plugin.
    pub runs_embedded_plugin: bool,
    /// The users that may run them, besides this user and root.
    pub plugin_endpoint_users: Vec<u32>,
    /// The directory for sockets whose path in the data directory would be too long.
    pub runtime_dir: Option<PathBuf>,
    /// The program that is started as `PROGRAM plugin serve …`; by default this program.
    pub plugin_program: PathBuf,
    /// The profile of the plugin, validated.
    pub plugin_profile: ProfileOptions,
    /// How long the start waits for the plugin before it serves requests.
    pub plugin_timeout: Duration,
    /// The behaviour if another agent has locked the data directory.
    pub on_lock_conflict: LockConflict,
    /// How many calls a plugin gets at the same time.
    pub calls: PluginConcurrency,
    /// The TCP address for metrics.
    pub metrics: Option<SocketAddr>,
    /// True if the agent and the plugin may make core dumps.
    pub allows_core_dumps: bool,
    /// True if tasks of `exec` may run as root.
    pub allows_root_tasks: bool,
}

/// The behaviour if another agent has locked the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockConflict {
    /// Fail, and name the other agent.
    Fail,
    /// Fail, because no agent may run during the work.
    FailOffline,
    /// Use the other agent if it serves; else wait for the lock.
    Share {
        /// How long to wait before failing.
        timeout: Duration,
    },
}

impl AgentConfig {
    /// Returns the data directory; `None` if it is temporary.
    pub(super) fn data_dir(&self) -> Option<&Path> {
        match &self.data {
            DataDirSetting::Persistent(path) => Some(path),
            DataDirSetting::Temporary => None,
        }
    }

    /// The default address, which is also Nomad's.
    pub const DEFAULT_HTTP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4646);
    /// An agent serves after this time even if the plugin is not healthy.
    pub const SERVE_PLUGIN_TIMEOUT: Duration = Duration::from_secs(3);
    /// A command waits longer, because it needs the plugin.
    pub const COMMAND_PLUGIN_TIMEOUT: Duration = Duration::from_secs(10);

    /// Parses the options of `nomad-csi agent`.
    ///
    /// # Errors
    /// All invalid options together.
    pub fn parse(options: &AgentOptions) -> Result<Self, Diagnostics> {
        let mut problems = Diagnostics::default();
        if !options.dev {
            problems.push(
                Diagnostic::error(Code::AgentNoMode, "cannot start the agent: no mode is given")
                    .help("run `nomad-csi agent --dev` for server and node in one process, or `nomad-csi agent server` and `nomad-csi agent node`"),
            );
        }
        let http = listen_address(options).map_err(|problem| problems.extend(problem));
        let limits = limits(options).map_err(|problem| problems.extend(problem));
        let (limits, state_limits) = limits.unwrap_or_default();
        let settings = http_settings(options, limits).map_err(|problem| problems.extend(problem));
        let volumes = host_volumes(options).map_err(|problem| problems.extend(problem));
        let program = own_program().map_err(|problem| problems.extend(problem));
        let endpoints = PluginEndpoint::parse_all(&options.plugin_endpoints, &options.directory)
            .map_err(|problem| problems.extend(problem));
        if let Err(problem) = parse_profile(&options.plugin, "plugin-") {
            problems.extend(problem);
        }
        let parsed = (http, settings, volumes, program, endpoints);
        let (Ok(http), Ok(http_settings), Ok(host_volumes), Ok(plugin_program), Ok(endpoints)) =
            parsed
        else {
            return Err(problems);
        };
        if problems.has_errors() {
            return Err(problems);
        }
        Ok(Self {
            data: options
                .data_dir
                .clone()
                .map_or(DataDirSetting::Temporary, DataDirSetting::Persistent),
            http: Some(http),
            http_settings,
            state_limits,
            host_volumes,
            plugin_endpoints: endpoints,
            runs_embedded_plugin: !options.no_embedded_plugin,
            runtime_dir: options.runtime_dir.clone(),
            plugin_program,
            plugin_profile: options.plugin.clone(),
            plugin_timeout: Self::SERVE_PLUGIN_TIMEOUT,
            on_lock_conflict: LockConflict::Fail,
            calls: options.calls,
            metrics: options.metrics,
            allows_core_dumps: options.allow_core_dumps,
            allows_root_tasks: options.allow_root_tasks,
            plugin_endpoint_users: options.plugin_endpoint_users.clone(),
        })
    }

    /// The configuration of an embedded agent on `directory` (`--embedded`).
    ///
    /// # Errors
    /// If the path of this program is unknown.
    pub fn embedded(directory: PathBuf, runtime_dir: Option<PathBuf>) -> Result<Self, Diagnostics> {
        Ok(Self {
            data: DataDirSetting::Persistent(directory),
            http: None,
            http_settings: HttpSettings::default(),
            state_limits: StateLimits::default(),
            host_volumes: BTreeMap::new(),
            plugin_endpoints: vec![],
            runs_embedded_plugin: true,
            runtime_dir,
            plugin_program: own_program()?,
            plugin_profile: ProfileOptions::default(),
            plugin_timeout: Self::COMMAND_PLUGIN_TIMEOUT,
            on_lock_conflict: LockConflict::Share { timeout: Self::COMMAND_PLUGIN_TIMEOUT },
            calls: PluginConcurrency::DEFAULT,
            metrics: None,
            allows_core_dumps: false,
            allows_root_tasks: false,
            plugin_endpoint_users: vec![],
        })
    }

    /// Returns whether the agent runs for one command (`--embedded`).
    pub(super) fn is_of_command(&self) -> bool {
        matches!(self.on_lock_conflict, LockConflict::Share { .. })
    }
}

/// Returns the directory of `--embedded`: the given one, else one in `XDG_STATE_HOME`, else one in
/// `~/.local/state`. A relative `XDG_STATE_HOME` counts as unset, as the XDG specification requires.
///
/// # Errors
/// If none of them is set.
pub fn embedded_directory(
    named: Option<&Path>,
    state_home: Option<&Path>,
    home: Option<&Path>,
) -> Result<PathBuf, Diagnostics> {
    let below = |base: PathBuf| base.join("nomad-csi").join("embedded");
    if let Some(named) = named.filter(|named| !named.as_os_str().is_empty()) {
        return Ok(named.to_owned());
    }
    if let Some(state_home) = state_home.filter(|path| path.is_absolute()) {
        return Ok(below(state_home.to_owned()));
    }
    match home.filter(|path| path.is_absolute()) {
        Some(home) => Ok(below(home.join(".local").join("state"))),
        None => Err(Diagnostic::error(
            Code::AgentNoStateHome,
            "cannot choose the directory of the embedded agent: neither `XDG_STATE_HOME` nor `HOME` is set",
        )
        .help("specify it with `--embedded=DIR`")
        .into()),
    }
}

fn listen_address(options: &AgentOptions) -> Result<SocketAddr, Diagnostics> {
    let Some(text) = &options.http else {
        return Ok(AgentConfig::DEFAULT_HTTP);
    };
    let address = parse_address(text).ok_or_else(|| {
        Diagnostic::error(
            Code::AgentBadAddress,
            format!("cannot listen on `{text}`: it is not an IP address with a port"),
        )
        .help("use `--http` with an IP address and a port, such as `127.0.0.1:4646`, `[::1]:4646` or `0.0.0.0:4646`")
    })?;
    if address.ip().to_canonical().is_loopback()
        || options.allow_unauthenticated
        || options.has_acl_and_tls
    {
        return Ok(address);
    }
    Err(Diagnostic::error(
        Code::AgentNotLoopback,
        format!("cannot listen on `{text}`: other machines could reach the agent"),
    )
    .note("every client could read its volumes and jobs, and the network could see the token of its operator")
    .help("listen on `127.0.0.1`, or add `--allow-unauthenticated` to let every client read")
    .into())
}

fn limits(options: &AgentOptions) -> Result<(Limits, StateLimits), Diagnostics> {
    let mut problems = Diagnostics::default();
    let mut limits = Limits::default();
    let mut state_limits = StateLimits::default();
    for text in &options.limits {
        let set = state_limits.set(text);
        if let Err(why) = set.unwrap_or_else(|| limits.set(text)) {
            let message = format!("cannot set the limit `{text}`: {why}");
            let help = "`docs/security.md` lists the limits";
            problems.push(Diagnostic::error(Code::AgentBadLimit, message).help(help));
        }
    }
    match problems.has_errors() {
        true => Err(problems),
        false => Ok((limits, state_limits)),
    }
}

fn http_settings(options: &AgentOptions, limits: Limits) -> Result<HttpSettings, Diagnostics> {
    match AllowedHosts::parse(&options.allow_hosts) {
        Ok(allowed_hosts) => Ok(HttpSettings { limits, allowed_hosts }),
        Err(name) => {
            let message = format!("cannot allow the host `{name}`: it is not a host name");
            let help = "use `--allow-host` with a name or an IP address, without a port";
            let problem = Diagnostic::error(Code::AgentBadAddress, message);
            Err(problem.help(help).into())
        }
    }
}

fn host_volumes(options: &AgentOptions) -> Result<BTreeMap<String, HostVolume>, Diagnostics> {
    let mut problems = Diagnostics::default();
    let mut found = BTreeMap::new();
    for text in &options.host_volumes {
        let why = match HostVolume::parse(text) {
            Ok((name, _)) if found.contains_key(&name) => format!("`{name}` is given twice"),
            Ok((_, volume)) if !volume.path.is_dir() => {
                format!("`{}` is not a directory", volume.path.display())
            }
            // A link is followed now and never later: a job may be able to replace one in another volume.
            Ok((name, volume)) => match std::fs::canonicalize(&volume.path) {
                Ok(path) => {
                    found.insert(name, HostVolume { path, ..volume });
                    continue;
                }
                Err(error) => format!("`{}`: {error}", volume.path.display()),
            },
            Err(why) => why,
        };
        let message = format!("cannot offer the host volume `{text}`: {why}");
        let help =
            "use `--host-volume NAME=PATH`, or `NAME=PATH:ro` for a volume that jobs can only read";
        problems.push(Diagnostic::error(Code::AgentBadHostVolume, message).help(help));
    }
    match problems.has_errors() {
        true => Err(problems),
        false => Ok(found),
    }
}

/// Parses an address. `localhost` is the only name, because it needs no resolver.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("{}:{port}", Ipv4Addr::LOCALHOST),
        None => text.to_owned(),
    };
    numeric.parse().ok()
}

#[expect(clippy::disallowed_methods, reason = "the program starts itself again as a plugin")]
fn own_program() -> Result<PathBuf, Diagnostics> {
    std::env::current_exe().map_err(|error| {
        Diagnostic::error(
            Code::AgentDirectory,
            "cannot start the embedded plugin: the path of this program is unknown",
        )
        .note(error.to_string())
        .help("mount `/proc`, or start the program by its full path")
        .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(http: &str) -> AgentOptions {
        AgentOptions { dev: true, http: Some(http.to_owned()), ..AgentOptions::default() }
    }

    fn codes(options: &AgentOptions) -> Vec<Code> {
        match AgentConfig::parse(options) {
            Ok(_) => vec![],
            Err(problems) => problems.iter().map(|problem| problem.code).collect(),
        }
    }

    #[test]
    fn defaults_are_nomads_address_and_a_temporary_directory() {
        let config =
            AgentConfig::parse(&AgentOptions { dev: true, ..AgentOptions::default() }).unwrap();
        assert_eq!(config.http.unwrap().to_string(), "127.0.0.1:4646");
        assert_eq!(config.data, DataDirSetting::Temporary);
    }

    #[test]
    fn addresses_are_numeric_and_others_than_loopback_need_a_flag() {
        for (http, expected) in [
            ("127.0.0.1:0", None),
            ("[::1]:4646", None),
            ("localhost:4646", None),
            ("127.3.2.1:80", None),
            ("0.0.0.0:4646", Some(Code::AgentNotLoopback)),
            ("[::]:4646", Some(Code::AgentNotLoopback)),
            ("192.0.2.1:4646", Some(Code::AgentNotLoopback)),
            ("4646", Some(Code::AgentBadAddress)),
            ("127.0.0.1", Some(Code::AgentBadAddress)),
            ("127.0.0.1:65536", Some(Code::AgentBadAddress)),
            ("example.com:80", Some(Code::AgentBadAddress)),
            ("http://127.0.0.1:4646", Some(Code::AgentBadAddress)),
            ("", Some(Code::AgentBadAddress)),
        ] {
            assert_eq!(codes(&options(http)), Vec::from_iter(expected), "{http:?}");
        }
        let allowed = AgentOptions { allow_unauthenticated: true, ..options("0.0.0.0:4646") };
        assert_eq!(codes(&allowed), []);
    }

    #[test]
    fn limits_and_names_are_parsed() {
        let given = AgentOptions {
            limits: vec!["connections=7".into(), "body-bytes=1MiB".into()],
            allow_hosts: vec!["nas.lan".into()],
            ..options("127.0.0.1:0")
        };
        let config = AgentConfig::parse(&given).unwrap();
        assert_eq!(config.http_settings.limits.connections, 7);
        assert_eq!(config.http_settings.limits.body_bytes, 1 << 20);
        let wrong = AgentOptions {
            limits: vec!["conections=7".into()],
            allow_hosts: vec!["nas.lan:80".into()],
            ..options("127.0.0.1:0")
        };
        assert_eq!(codes(&wrong), [Code::AgentBadLimit, Code::AgentBadAddress]);
    }

    #[test]
    fn host_volumes_are_existing_directories() {
        let given = |volumes: &[&str]| AgentOptions {
            host_volumes: volumes.iter().map(ToString::to_string).collect(),
            ..options("127.0.0.1:0")
        };
        let config = AgentConfig::parse(&given(&["root=/:ro"])).unwrap();
        assert!(config.host_volumes["root"].read_only);
        for wrong in
            [&["root"][..], &["root=relative"], &["root=/does/not/exist"], &["root=/", "root=/"]]
        {
            assert_eq!(codes(&given(wrong)), [Code::AgentBadHostVolume], "{wrong:?}");
        }
    }

    #[test]
    fn all_problems_are_reported_together() {
        let all_wrong = AgentOptions { dev: false, ..options("nowhere") };
        assert_eq!(codes(&all_wrong), [Code::AgentNoMode, Code::AgentBadAddress]);
    }

    #[test]
    fn the_embedded_directory_is_the_given_one_or_in_the_users_state() {
        let path =
            |text: &'static str| Some(Path::new(text)).filter(|path| !path.as_os_str().is_empty());
        for (named, state_home, home, expected) in [
            ("here", "/state", "/home/u", Some("here")),
            ("", "/state", "/home/u", Some("/state/nomad-csi/embedded")),
            ("", "relative", "/home/u", Some("/home/u/.local/state/nomad-csi/embedded")),
            ("", "", "/home/u", Some("/home/u/.local/state/nomad-csi/embedded")),
            ("", "", "", None),
        ] {
            let found = embedded_directory(Some(Path::new(named)), path(state_home), path(home));
            assert_eq!(found.ok(), expected.map(PathBuf::from));
        }
    }
}
