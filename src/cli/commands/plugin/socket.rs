//! The plugin that `--endpoint` means.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::csi::RawClient;
use crate::diagnostic::{Code, Diagnostic};

/// A plugin's socket, and a client for it.
pub(super) struct Plugin {
    pub(super) socket: PathBuf,
    pub(super) client: RawClient,
}

impl Plugin {
    /// The one that is meant, with so many seconds for each call; a relative path starts from the
    /// working directory.
    ///
    /// # Errors
    /// If the endpoint is not a Unix socket's.
    pub(super) fn at(context: &CommandContext, endpoint: &str, seconds: u64) -> Result<Self, CliError> {
        let path = endpoint
            .strip_prefix("unix://")
            .or_else(|| endpoint.strip_prefix("unix:"))
            .unwrap_or(endpoint);
        if path.is_empty() || path.contains("://") {
            let message = format!("the endpoint {endpoint:?} is not a Unix socket's");
            return Err(Diagnostic::error(Code::CliInvalidValue, message)
                .help("write unix:// and a path, as in unix:///run/csi.sock; CSI knows no other transport")
                .into());
        }
        let socket = context.directory.join(path);
        let client = RawClient::new(&socket, Duration::from_secs(seconds));
        Ok(Self { socket, client })
    }
}
