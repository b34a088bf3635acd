//! The socket that `--endpoint` or `CSI_ENDPOINT` names, in any spelling ([`socket_path`]).

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::command_context::CommandContext;
use crate::cli::env::{Environment, NotUtf8, Variable};
use crate::cli::error::CliError;
use nomad_csi_csi::RawClient;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::socket_path;

/// A plugin's socket, and a client for it.
pub(super) struct Plugin {
    pub(super) socket: PathBuf,
    pub(super) client: RawClient,
}

impl Plugin {
    /// Opens the plugin of an endpoint, with a timeout for each call in seconds.
    ///
    /// # Errors
    /// Those of [`named_socket`].
    pub(super) fn at(
        context: &CommandContext,
        endpoint: Option<&str>,
        seconds: u64,
    ) -> Result<Self, CliError> {
        let socket = named_socket(context, endpoint)?;
        let client = RawClient::new(&socket, Duration::from_secs(seconds));
        Ok(Self { socket, client })
    }
}

/// Returns the socket that the option, else the environment, names. A relative path starts from the working directory.
///
/// # Errors
/// If nothing names an endpoint, or it is not a Unix socket.
pub(super) fn named_socket(
    context: &CommandContext,
    option: Option<&str>,
) -> Result<PathBuf, CliError> {
    let Some(endpoint) = named_endpoint(&context.environment, option)? else {
        let message = "no endpoint of a plugin is given";
        return Err(Diagnostic::error(Code::CliInvalidValue, message)
            .help("use `--endpoint unix:///run/csi.sock`, or set CSI_ENDPOINT")
            .into());
    };
    let Some(path) = socket_path(endpoint) else {
        let message = format!("endpoint {endpoint:?} is not a Unix socket");
        return Err(Diagnostic::error(Code::CliInvalidValue, message)
            .help("use a Unix socket, such as unix:///run/csi.sock")
            .into());
    };
    Ok(context.directory.join(path))
}

/// Returns the option, or without it what the environment has.
fn named_endpoint<'e>(
    environment: &'e Environment,
    option: Option<&'e str>,
) -> Result<Option<&'e str>, NotUtf8> {
    match option {
        Some(option) => Ok(Some(option)),
        None => environment.text(Variable::CsiEndpoint),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn the_environment_is_read_only_without_the_option() {
        let broken = std::ffi::OsStr::from_bytes(b"/run/\xff.sock");
        for (variable, option, expected) in [
            (Some("/run/a.sock".as_ref()), None, Some(Some("/run/a.sock"))),
            (Some("/run/a.sock".as_ref()), Some("/run/b.sock"), Some(Some("/run/b.sock"))),
            (Some(broken), Some("/run/b.sock"), Some(Some("/run/b.sock"))),
            (Some(broken), None, None),
            (None, None, Some(None)),
        ] {
            let environment = Environment::from_iter(variable.map(|value| ("CSI_ENDPOINT", value)));
            let named = named_endpoint(&environment, option).ok();
            assert_eq!(named, expected, "{variable:?} {option:?}");
        }
    }
}
