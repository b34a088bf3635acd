//! The token of the operator: made at each start, and written where only the agent's user and root can read it.
//!
//! A token ends with its agent, so one that was left behind or sent to another program admits no client. The command line
//! finds the one in the runtime directory. It uses it only while the agent holds the lock of the file, which the
//! agent releases before it gives up its address, and the kernel at the end of the agent; and only in the network of the
//! agent, because the same address may belong to another program elsewhere.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use super::directory::AgentDirs;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_model::private::{self, create_subdirectory, has_private_mode};
use nomad_csi_model::{OPERATOR_TOKEN_DIRECTORY, hex, operator_token_name};
use nomad_csi_server::http::{OperatorAccess, OperatorToken};

/// The runtime directory of a service of the system.
const SYSTEM_RUNTIME: &str = "/run";
/// The random bytes of a token.
const BYTES: usize = 32;

/// The token's file in the runtime directory, which is removed at the end.
#[derive(Debug)]
struct RuntimeFile {
    path: PathBuf,
    /// Locked as long as the agent lives.
    file: File,
}

/// The token of a running agent.
#[derive(Debug)]
pub(super) struct OperatorTokenFiles {
    access: OperatorAccess,
    runtime: Vec<RuntimeFile>,
}

impl OperatorTokenFiles {
    /// Makes the token of an agent whose clients reach it under these addresses; without one it needs no token.
    /// Blocks.
    ///
    /// # Errors
    /// If there is no randomness, or the file in the data directory cannot be written.
    pub(super) fn create(
        dirs: &AgentDirs,
        runtime: Option<&Path>,
        addresses: &[SocketAddr],
    ) -> Result<Self, Diagnostics> {
        let mut files = Self {
            access: OperatorAccess {
                token: None,
                socket: dirs.agent_socket(),
                ended: CancellationToken::new(),
            },
            runtime: vec![],
        };
        if addresses.is_empty() {
            return Ok(files);
        }
        let path = dirs.operator_token();
        let text = write_new(&path).map_err(|error| {
            let path = path.display();
            let message = format!("cannot write the operator's token `{path}`: {error}");
            Diagnostics::from(Diagnostic::error(Code::AgentDirectory, message))
        })?;
        files.access.token = OperatorToken::new(&text).map(|token| (token, path));
        let names = addresses.iter().copied().filter_map(operator_token_name);
        let directory = token_directory(runtime);
        for (name, directory) in names.zip(directory.iter().cycle()) {
            match RuntimeFile::create(directory, &name, &text) {
                Ok(file) => files.runtime.push(file),
                Err(error) => tracing::warn!(
                    directory = %directory.display(),
                    %error,
                    "commands do not find the operator's token by themselves; set `NOMAD_TOKEN` for them"
                ),
            }
        }
        Ok(files)
    }

    /// How the operator is recognized.
    pub(super) fn access(&self) -> OperatorAccess {
        self.access.clone()
    }

    /// Ends the token: no request is admitted by it any more, and no command finds it. After that another program may
    /// have the agent's address. Blocks.
    pub(super) fn end(self) {
        self.access.ended.cancel();
        for RuntimeFile { path, file } in self.runtime {
            // An agent with other networks may have replaced it.
            let is_own = file.metadata().and_then(|own| {
                let found = std::fs::symlink_metadata(&path)?;
                Ok((own.dev(), own.ino()) == (found.dev(), found.ino()))
            });
            if is_own.unwrap_or(false)
                && let Err(error) = std::fs::remove_file(&path)
            {
                tracing::warn!(path = %path.display(), %error, "cannot remove the path");
            }
        }
    }
}

impl RuntimeFile {
    fn create(directory: &Path, name: &str, text: &str) -> io::Result<Self> {
        create_subdirectory(directory)?;
        if !has_private_mode(directory)? {
            return Err(io::Error::other("other users can enter the directory"));
        }
        let path = directory.join(name);
        let content = Zeroizing::new(format!("{text}\n{}\n", private::own_network()?));
        let file = private::exchange(&path, content.as_bytes())?;
        file.lock()?;
        Ok(Self { path, file })
    }
}

/// Returns the directory of tokens in the runtime directory of the user, without links; `None` if the user has none.
/// Blocks.
fn token_directory(runtime: Option<&Path>) -> Option<PathBuf> {
    let is_root = rustix::process::geteuid().is_root();
    let base = runtime.or_else(|| is_root.then_some(Path::new(SYSTEM_RUNTIME)));
    let base = base.map(|base| base.canonicalize().unwrap_or_else(|_| base.to_owned()));
    base.map(|base| base.join(OPERATOR_TOKEN_DIRECTORY))
}

/// Returns where tokens may be that this user can read: in its runtime directory, and for root where an agent without one
/// writes them. Blocks.
pub(super) fn token_directories(runtime: Option<&Path>) -> Vec<PathBuf> {
    let all = [token_directory(runtime), token_directory(None)];
    let all: BTreeSet<_> = all.into_iter().flatten().collect();
    all.into_iter().collect()
}

/// Writes a new token, with a line end for programs that print it.
fn write_new(path: &Path) -> io::Result<Zeroizing<String>> {
    let mut bytes = Zeroizing::new([0; BYTES]);
    getrandom::fill(&mut *bytes).map_err(io::Error::other)?;
    let text: Zeroizing<String> = Zeroizing::new(hex(&*bytes).collect());
    private::replace(path, format!("{}\n", *text).as_bytes())?;
    Ok(text)
}

#[cfg(test)]
mod tests;
