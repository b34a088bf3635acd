//! The plugin's configuration, checked before the plugin touches anything.

use std::path::{Path, PathBuf};

use super::profile::PluginProfile;
use super::shared::{SharedConfig, is_node_name};
use nomad_csi_model::socket_path;

/// Linux's limit for the path of a Unix socket, without the final NUL.
const MAX_SOCKET_PATH_BYTES: usize = 107;
/// CSI's limit for a node ID (NodeGetInfo).
const MAX_NODE_ID_BYTES: usize = 256;

/// The configuration of the plugin. [`Config::new`] builds only valid ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub(super) socket: PathBuf,
    pub(super) state_dir: PathBuf,
    pub(super) node_id: String,
    pub(super) exit_on_stdin_eof: bool,
    pub(super) profile: PluginProfile,
    pub(super) shared: Option<SharedConfig>,
}

/// Why a configuration is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The endpoint is not a Unix socket.
    #[error(
        "endpoint {0:?} is not a Unix socket: use unix:// and an absolute path, such as unix:///run/csi.sock"
    )]
    NotUnix(String),
    /// The path is longer than the kernel allows for a socket.
    #[error(
        "socket path `{}` has {} bytes, and the kernel allows {MAX_SOCKET_PATH_BYTES}: use a shorter directory",
        .0.display(), .0.as_os_str().len()
    )]
    SocketTooLong(PathBuf),
    /// The path is the root directory, or ends with a slash.
    #[error("endpoint {0:?} names no file")]
    NoFile(String),
    /// The node ID breaks CSI's rules.
    #[error(
        "node ID {0:?} is not valid: CSI allows 1 to {MAX_NODE_ID_BYTES} bytes without control characters; set another one with --node-id"
    )]
    NodeId(String),
    /// The node ID cannot be the name of a file in the shared directory.
    #[error(
        "node ID {0:?} is not valid with --shared: it is the name of a file, so it has at most 255 bytes, no slash, and no dot at the beginning; set another one with --node-id"
    )]
    NodeName(String),
}

impl Config {
    /// Configures a plugin that listens on `endpoint` (`unix:///run/csi.sock`), keeps its data
    /// below `state_dir`, and reports `node_id`, by default the host name.
    ///
    /// With `exit_on_stdin_eof` the plugin stops when its standard input ends. That ties it to the
    /// process that holds the other end.
    ///
    /// # Errors
    /// Reports the value that is not valid, the reason, and what to write instead.
    pub fn new(
        endpoint: &str,
        state_dir: impl Into<PathBuf>,
        node_id: Option<String>,
        exit_on_stdin_eof: bool,
    ) -> Result<Self, ConfigError> {
        let node_id = node_id.unwrap_or_else(host_name);
        let is_bad = node_id.is_empty()
            || node_id.len() > MAX_NODE_ID_BYTES
            || node_id.chars().any(char::is_control);
        if is_bad {
            return Err(ConfigError::NodeId(node_id));
        }
        Ok(Self {
            socket: socket_of(endpoint)?,
            state_dir: state_dir.into(),
            node_id,
            exit_on_stdin_eof,
            profile: PluginProfile::default(),
            shared: None,
        })
    }

    /// Returns this configuration with another profile.
    #[must_use]
    pub fn with_profile(self, profile: PluginProfile) -> Self {
        Self { profile, ..self }
    }

    /// Returns this configuration with a directory that other processes of the plugin use too.
    ///
    /// # Errors
    /// If the node ID cannot be the name of a file there.
    pub fn with_shared(self, shared: Option<SharedConfig>) -> Result<Self, ConfigError> {
        if shared.is_some() && !is_node_name(&self.node_id) {
            return Err(ConfigError::NodeName(self.node_id));
        }
        Ok(Self { shared, ..self })
    }

    /// The socket that the plugin listens on.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

/// Returns the socket of an endpoint. Its path is absolute, because the plugin has no directory of its own.
fn socket_of(endpoint: &str) -> Result<PathBuf, ConfigError> {
    let path = socket_path(endpoint)
        .map(Path::to_owned)
        .filter(|path| path.is_absolute())
        .ok_or_else(|| ConfigError::NotUnix(endpoint.to_owned()))?;
    if path.file_name().is_none() || endpoint.ends_with('/') {
        return Err(ConfigError::NoFile(endpoint.to_owned()));
    }
    if path.as_os_str().len() > MAX_SOCKET_PATH_BYTES {
        return Err(ConfigError::SocketTooLong(path));
    }
    Ok(path)
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::shared::Role;
    use super::*;

    fn config(endpoint: &str, node_id: Option<&str>) -> Result<Config, ConfigError> {
        Config::new(endpoint, "/state", node_id.map(str::to_owned), false)
    }

    #[test]
    fn endpoints_are_absolute_unix_sockets_of_a_length_that_linux_allows() {
        let at_limit = format!("unix:///{}", "s".repeat(MAX_SOCKET_PATH_BYTES - 1));
        let above = format!("{at_limit}s");
        for endpoint in ["unix:///run/csi.sock", "unix:/run/csi.sock", "/run/csi.sock", &at_limit] {
            assert!(config(endpoint, None).is_ok(), "{endpoint}");
        }
        for (endpoint, reason) in [
            ("", "use unix://"),
            ("run/csi.sock", "use unix://"),
            ("tcp://127.0.0.1:1", "use unix://"),
            ("unix://run/csi.sock", "use unix://"),
            ("unix:///", "names no file"),
            ("unix:///run/", "names no file"),
            (above.as_str(), "has 108 bytes, and the kernel allows 107"),
        ] {
            let message = config(endpoint, None).unwrap_err().to_string();
            assert!(message.contains(reason), "{endpoint}: {message}");
        }
    }

    #[test]
    fn a_node_of_a_shared_directory_has_the_name_of_a_file() {
        let shared =
            || SharedConfig { directory: "/d".into(), role: Role::Node, detach_cuts: false };
        let long = "n".repeat(256);
        for id in ["rack/1", ".", "..", ".n", &long] {
            let config = config("unix:///s", Some(id)).unwrap();
            assert!(config.clone().with_shared(None).is_ok(), "{id:?}");
            assert_eq!(
                config.with_shared(Some(shared())),
                Err(ConfigError::NodeName(id.to_owned()))
            );
        }
        assert!(config("unix:///s", Some("n-1.x")).unwrap().with_shared(Some(shared())).is_ok());
    }

    #[test]
    fn a_node_id_has_a_limited_length_and_no_control_characters() {
        assert!(config("unix:///s", Some("node-1")).is_ok());
        for id in ["", "a\nb", &"n".repeat(257)] {
            assert!(config("unix:///s", Some(id)).is_err(), "{id:?}");
        }
    }
}
