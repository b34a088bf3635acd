//! The token of the operator: made once for a data directory, and written where only the agent's user and root can read
//! it.
//!
//! It stays the same when the agent starts again, so that a script that has read it goes on. To change it, the operator
//! removes the file and starts the agent again. A file that others could have read, or that does not hold a token, is
//! replaced. The command line finds the copy in the runtime directory. It uses it only while the agent holds the lock of
//! the file, which the kernel releases at the end of the agent.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::directory::AgentDirs;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::model::{OPERATOR_TOKEN_DIRECTORY, hex, operator_token_name};
use crate::private::{self, create_subdirectory, has_private_mode};
use crate::server::http::{OperatorAccess, OperatorToken};

/// The runtime directory of a service of the system.
const SYSTEM_RUNTIME: &str = "/run";
/// The random bytes of a token.
const BYTES: usize = 32;
/// The permissions of a file for its group and for everyone.
const OF_OTHERS: u32 = 0o077;

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
    /// Reads or makes the token of an agent whose clients reach it under these addresses; without one it needs no
    /// token. Blocks.
    ///
    /// # Errors
    /// If there is no randomness, or the file in the data directory cannot be read or written.
    pub(super) fn create(
        dirs: &AgentDirs,
        runtime: Option<&Path>,
        addresses: &[SocketAddr],
    ) -> Result<Self, Diagnostics> {
        let mut files = Self {
            access: OperatorAccess {
                token: None,
                socket: dirs.agent_socket(),
            },
            runtime: vec![],
        };
        if addresses.is_empty() {
            return Ok(files);
        }
        let path = dirs.operator_token();
        let text = read_or_write(&path).map_err(|error| {
            let path = path.display();
            let message = format!("cannot use the operator's token `{path}`: {error}");
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

    /// Removes the files in the runtime directory. Blocks.
    pub(super) fn remove(self) {
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
        let file = private::exchange(&path, text.as_bytes())?;
        file.lock()?;
        Ok(Self { path, file })
    }
}

/// Returns the directory of tokens in the runtime directory of the user, without links; `None` if the user has none.
/// Blocks.
pub(super) fn token_directory(runtime: Option<&Path>) -> Option<PathBuf> {
    let is_root = rustix::process::geteuid().is_root();
    let base = runtime.or_else(|| is_root.then_some(Path::new(SYSTEM_RUNTIME)));
    let base = base.map(|base| base.canonicalize().unwrap_or_else(|_| base.to_owned()));
    base.map(|base| base.join(OPERATOR_TOKEN_DIRECTORY))
}

/// Returns the token of the earlier start; a new one if there is none.
fn read_or_write(path: &Path) -> io::Result<Zeroizing<String>> {
    match read(path)? {
        Some(text) => Ok(text),
        None => write_new(path),
    }
}

/// Reads a token that only this user and root can have read; `None` if there is none.
fn read(path: &Path) -> io::Result<Option<Zeroizing<String>>> {
    let file = match private::open_to_read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let shared = file.metadata()?.mode() & OF_OTHERS;
    if shared != 0 {
        tracing::warn!(
            path = %path.display(),
            "other users could read the operator's token, so it is replaced by a new one"
        );
        return Ok(None);
    }
    let mut text = Zeroizing::new(String::new());
    let longest = 2 * BYTES as u64 + 2;
    if file.take(longest).read_to_string(&mut text).is_err() {
        return Ok(None);
    }
    let token = text.strip_suffix('\n').unwrap_or(&text);
    let is_token = token.len() == 2 * BYTES && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    Ok(is_token.then(|| Zeroizing::new(token.to_owned())))
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
