//! What the plugin is told when it starts, checked before anything is touched.

use std::path::{Path, PathBuf};

use super::play::Play;

/// The kernel's limit for a Unix socket's path, without the final NUL.
const LONGEST_SOCKET: usize = 107;
/// CSI's limit for a node ID (`csi-spec` 3.3).
const LONGEST_NODE_ID: usize = 256;

/// How the plugin runs. Built by [`Config::new`], so it is always valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub(super) socket: PathBuf,
    pub(super) state_dir: PathBuf,
    pub(super) node_id: String,
    pub(super) exit_on_stdin_eof: bool,
    pub(super) play: Play,
}

/// Why the plugin cannot run so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The endpoint is not a Unix socket's.
    #[error(
        "the endpoint {0:?} is not a Unix socket: write unix:// and an absolute path, as in unix:///run/csi.sock"
    )]
    NotUnix(String),
    /// The kernel cannot bind a path of that length.
    #[error(
        "the socket's path {} has {} bytes, and the kernel allows {LONGEST_SOCKET}: choose a shorter directory",
        .0.display(), .0.as_os_str().len()
    )]
    SocketTooLong(PathBuf),
    /// The socket would lie in the root directory, or has no name.
    #[error("the endpoint {0:?} names no file")]
    NoFile(String),
    /// The node ID breaks CSI's rule.
    #[error(
        "the node ID {0:?} is not usable: CSI allows 1 to {LONGEST_NODE_ID} bytes without control characters; choose one with --node-id"
    )]
    NodeId(String),
}

impl Config {
    /// A plugin that listens on `endpoint` (`unix:///run/csi.sock`), keeps volumes and its records
    /// below `state_dir`, and calls this machine `node_id` (its host name if not given). With
    /// `exit_on_stdin_eof` it stops when its standard input ends, which ties it to the life of the
    /// process that holds the other end.
    ///
    /// # Errors
    /// If one of them cannot be used; says which, why and what to write instead.
    pub fn new(
        endpoint: &str,
        state_dir: impl Into<PathBuf>,
        node_id: Option<String>,
        exit_on_stdin_eof: bool,
    ) -> Result<Self, ConfigError> {
        let node_id = node_id.unwrap_or_else(host_name);
        let is_bad = node_id.is_empty()
            || node_id.len() > LONGEST_NODE_ID
            || node_id.chars().any(char::is_control);
        if is_bad {
            return Err(ConfigError::NodeId(node_id));
        }
        Ok(Self {
            socket: socket_of(endpoint)?,
            state_dir: state_dir.into(),
            node_id,
            exit_on_stdin_eof,
            play: Play::default(),
        })
    }

    /// The same, playing that plugin.
    #[must_use]
    pub fn playing(self, play: Play) -> Self {
        Self { play, ..self }
    }

    /// Where the plugin listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

/// The path in `unix:///path` or `unix:/path`.
fn socket_of(endpoint: &str) -> Result<PathBuf, ConfigError> {
    let path = endpoint
        .strip_prefix("unix://")
        .or_else(|| endpoint.strip_prefix("unix:"))
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .ok_or_else(|| ConfigError::NotUnix(endpoint.to_owned()))?;
    if path.file_name().is_none() || endpoint.ends_with('/') {
        return Err(ConfigError::NoFile(endpoint.to_owned()));
    }
    if path.as_os_str().len() > LONGEST_SOCKET {
        return Err(ConfigError::SocketTooLong(path));
    }
    Ok(path)
}

fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(endpoint: &str, node_id: Option<&str>) -> Result<Config, ConfigError> {
        Config::new(endpoint, "/state", node_id.map(str::to_owned), false)
    }

    #[test]
    fn only_absolute_unix_sockets_of_a_bindable_length_are_endpoints() {
        let at_limit = format!("unix:///{}", "s".repeat(LONGEST_SOCKET - 1));
        let above = format!("{at_limit}s");
        for endpoint in ["unix:///run/csi.sock", "unix:/run/csi.sock", &at_limit] {
            assert!(config(endpoint, None).is_ok(), "{endpoint}");
        }
        for (endpoint, said) in [
            ("", "write unix://"),
            ("/run/csi.sock", "write unix://"),
            ("tcp://127.0.0.1:1", "write unix://"),
            ("unix://run/csi.sock", "write unix://"),
            ("unix:///", "names no file"),
            ("unix:///run/", "names no file"),
            (above.as_str(), "has 108 bytes, and the kernel allows 107"),
        ] {
            let message = config(endpoint, None).unwrap_err().to_string();
            assert!(message.contains(said), "{endpoint}: {message}");
        }
    }

    #[test]
    fn a_node_id_has_a_length_and_no_control_characters() {
        assert!(config("unix:///s", Some("node-1")).is_ok());
        for id in ["", "a\nb", &"n".repeat(257)] {
            assert!(config("unix:///s", Some(id)).is_err(), "{id:?}");
        }
    }
}
