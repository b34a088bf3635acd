//! What an agent is to do: parsed from what a person said, checked, every default visible.
//!
//! Nothing here reads the environment: what it says is handed over by the command line, which reads
//! it in one place. The one exception is the program's own path, because the embedded plugin is this
//! program.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::serve_plugin::{PlayOptions, parse_play};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};

/// What the command line and the environment say of an agent, word for word.
#[derive(Clone, Debug, Default)]
pub struct AgentOptions {
    /// `--dev`: server and node in one process.
    pub dev: bool,
    /// `--data-dir`.
    pub data_dir: Option<PathBuf>,
    /// `--http ADDR:PORT`.
    pub http: Option<String>,
    /// `--allow-unauthenticated`.
    pub allow_unauthenticated: bool,
    /// `--plugin-…`: which plugin the embedded one plays.
    pub plugin: PlayOptions,
    /// XDG_RUNTIME_DIR.
    pub runtime_dir: Option<PathBuf>,
}

/// Where the agent keeps its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataDirectory {
    /// There, for good.
    Kept(PathBuf),
    /// In a new directory that is removed when the agent ends.
    Temporary,
}

/// What an agent is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentConfig {
    /// Where its state is.
    pub data: DataDirectory,
    /// Where it serves HTTP besides its Unix socket; port 0 is any free port.
    pub http: Option<SocketAddr>,
    /// Where sockets may be made if their path in the data directory would be too long.
    pub runtime_dir: Option<PathBuf>,
    /// The program that is started as `PROGRAM plugin serve …`; by default this program.
    pub plugin_program: PathBuf,
    /// What that program is told of the plugin it plays; checked.
    pub plugin_play: PlayOptions,
    /// How long the start waits for the plugin before the first request is answered.
    pub plugin_patience: Duration,
    /// What to do when another agent has the directory.
    pub on_held: OnHeld,
}

/// What to do when another agent has the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnHeld {
    /// Name it and end.
    Refuse,
    /// Use it, if it serves; wait for it, if it does not.
    Share {
        /// How long to wait before it is named.
        patience: Duration,
    },
}

impl AgentConfig {
    /// Where an agent listens if nothing is said: where Nomad does.
    pub const DEFAULT_HTTP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4646);
    /// An agent serves after that time whatever the plugin does; its state says how the plugin is.
    pub const SERVE_PATIENCE: Duration = Duration::from_secs(3);
    /// A command waits longer: without the plugin it could do nothing.
    pub const COMMAND_PATIENCE: Duration = Duration::from_secs(10);

    /// The agent that a person asked for with `agent`.
    ///
    /// # Errors
    /// Everything that cannot be, at once.
    pub fn parse(options: &AgentOptions) -> Result<Self, Diagnostics> {
        let mut problems = Diagnostics::default();
        if !options.dev {
            problems.push(
                Diagnostic::error(
                    Code::AgentNoMode,
                    "the agent was not told in which mode to run",
                )
                .help("start it with `nomad-csi agent --dev`: server and node in one process")
                .note("separate servers and nodes are not there yet"),
            );
        }
        let http = listen_address(options).map_err(|problem| problems.extend(problem));
        let program = own_program().map_err(|problem| problems.extend(problem));
        if let Err(problem) = parse_play(&options.plugin, "plugin-") {
            problems.extend(problem);
        }
        let (Ok(http), Ok(plugin_program), false) = (http, program, problems.has_errors()) else {
            return Err(problems);
        };
        Ok(Self {
            data: options
                .data_dir
                .clone()
                .map_or(DataDirectory::Temporary, DataDirectory::Kept),
            http: Some(http),
            runtime_dir: options.runtime_dir.clone(),
            plugin_program,
            plugin_play: options.plugin.clone(),
            plugin_patience: Self::SERVE_PATIENCE,
            on_held: OnHeld::Refuse,
        })
    }

    /// The agent of one command, on `directory` and nowhere else (`--embedded`).
    ///
    /// # Errors
    /// If this program cannot find itself.
    pub fn embedded(directory: PathBuf, runtime_dir: Option<PathBuf>) -> Result<Self, Diagnostics> {
        Ok(Self {
            data: DataDirectory::Kept(directory),
            http: None,
            runtime_dir,
            plugin_program: own_program()?,
            plugin_play: PlayOptions::default(),
            plugin_patience: Self::COMMAND_PATIENCE,
            on_held: OnHeld::Share {
                patience: Self::COMMAND_PATIENCE,
            },
        })
    }
}

/// The directory of `--embedded`: the one named, else in XDG_STATE_HOME, else in `.local/state` of
/// the home. As the XDG specification says, a relative XDG_STATE_HOME counts as unset.
///
/// # Errors
/// If nothing says where.
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
            "there is no directory for the embedded agent: neither XDG_STATE_HOME nor HOME is set",
        )
        .help("name one with --embedded=DIR")
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
            format!("--http {text} is not an address to listen on"),
        )
        .help("write an IP address and a port, as in 127.0.0.1:4646, [::1]:4646 or 0.0.0.0:4646")
    })?;
    if address.ip().is_loopback() || options.allow_unauthenticated {
        return Ok(address);
    }
    Err(Diagnostic::error(
        Code::AgentNotLoopback,
        format!("--http {text} would let everyone who reaches this machine create and delete volumes"),
    )
    .note("this agent does not ask who somebody is")
    .help("listen on 127.0.0.1, or add --allow-unauthenticated if everyone on that network may do that")
    .into())
}

/// `localhost` is the one name that needs no resolver.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("{}:{port}", Ipv4Addr::LOCALHOST),
        None => text.to_owned(),
    };
    numeric.parse().ok()
}

fn own_program() -> Result<PathBuf, Diagnostics> {
    std::env::current_exe().map_err(|error| {
        Diagnostic::error(
            Code::AgentDirectory,
            "this program cannot find its own file, and the embedded plugin is this program",
        )
        .note(error.to_string())
        .help("mount /proc, or start the program by its full path")
        .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(http: &str) -> AgentOptions {
        AgentOptions {
            dev: true,
            http: Some(http.to_owned()),
            ..AgentOptions::default()
        }
    }

    fn codes(options: &AgentOptions) -> Vec<Code> {
        match AgentConfig::parse(options) {
            Ok(_) => vec![],
            Err(problems) => problems.iter().map(|problem| problem.code).collect(),
        }
    }

    #[test]
    fn defaults_are_nomads_address_and_a_temporary_directory() {
        let config = AgentConfig::parse(&AgentOptions {
            dev: true,
            ..AgentOptions::default()
        })
        .unwrap();
        assert_eq!(config.http.unwrap().to_string(), "127.0.0.1:4646");
        assert_eq!(config.data, DataDirectory::Temporary);
    }

    #[test]
    fn addresses_are_numeric_and_off_loopback_needs_a_word() {
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
        let allowed = AgentOptions {
            allow_unauthenticated: true,
            ..options("0.0.0.0:4646")
        };
        assert_eq!(codes(&allowed), []);
    }

    #[test]
    fn every_problem_is_told_at_once() {
        let nothing_right = AgentOptions {
            dev: false,
            ..options("nowhere")
        };
        assert_eq!(
            codes(&nothing_right),
            [Code::AgentNoMode, Code::AgentBadAddress]
        );
    }

    #[test]
    fn the_embedded_directory_is_the_one_named_or_in_the_users_state() {
        let path =
            |text: &'static str| Some(Path::new(text)).filter(|path| !path.as_os_str().is_empty());
        for (named, state_home, home, expected) in [
            ("here", "/state", "/home/u", Some("here")),
            ("", "/state", "/home/u", Some("/state/nomad-csi/embedded")),
            (
                "",
                "relative",
                "/home/u",
                Some("/home/u/.local/state/nomad-csi/embedded"),
            ),
            (
                "",
                "",
                "/home/u",
                Some("/home/u/.local/state/nomad-csi/embedded"),
            ),
            ("", "", "", None),
        ] {
            let found = embedded_directory(Some(Path::new(named)), path(state_home), path(home));
            assert_eq!(found.ok(), expected.map(PathBuf::from));
        }
    }
}
