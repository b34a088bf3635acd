//! The plugin that `--endpoint` names.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use nomad_csi_csi::RawClient;
use nomad_csi_model::diagnostic::{Code, Diagnostic};

/// A plugin's socket, and a client for it.
pub(super) struct Plugin {
    pub(super) socket: PathBuf,
    pub(super) client: RawClient,
}

impl Plugin {
    /// Opens the plugin of an endpoint, with a timeout for each call in seconds. A relative path starts
    /// from the working directory.
    ///
    /// # Errors
    /// If the endpoint is not a Unix socket.
    pub(super) fn at(
        context: &CommandContext,
        endpoint: &str,
        seconds: u64,
    ) -> Result<Self, CliError> {
        let path = endpoint
            .strip_prefix("unix://")
            .or_else(|| endpoint.strip_prefix("unix:"))
            .unwrap_or(endpoint);
        if path.is_empty() || path.contains("://") {
            let message = format!("endpoint {endpoint:?} is not a Unix socket");
            return Err(Diagnostic::error(Code::CliInvalidValue, message)
                .help("use a Unix socket, such as unix:///run/csi.sock")
                .into());
        }
        let socket = context.directory.join(path);
        let client = RawClient::new(&socket, Duration::from_secs(seconds));
        Ok(Self { socket, client })
    }
}
