//! Finds the token of an agent of this machine.
//!
//! The agent leaves it in the runtime directory of its user. It is used only for an agent that this user or root runs
//! now, over loopback, and in the agent's network, so no other program gets it: the file is private, its agent holds the
//! lock, and no other socket of that network can have the address.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::env::{Environment, Variable};
use nomad_csi_client::nomad::{ClientSettings, RedactedString, TokenSource, loopback_addresses};
use nomad_csi_model::private::{open_secret, own_network};
use nomad_csi_model::{LONGEST_OPERATOR_TOKEN, OPERATOR_TOKEN_DIRECTORY, operator_token_names};

/// The runtime directory of services of the system.
const SYSTEM_RUNTIME: &str = "/run";

/// Adds the token of the agent at the address, if there is one and the settings have no token.
pub(super) fn add_operator_token(settings: &mut ClientSettings, environment: &Environment) {
    if settings.token.is_some() {
        return;
    }
    let of_user = environment.path(Variable::RuntimeDir);
    let bases = of_user.into_iter().chain([PathBuf::from(SYSTEM_RUNTIME)]);
    let directories: Vec<_> = bases.map(|base| base.join(OPERATOR_TOKEN_DIRECTORY)).collect();
    let addresses = loopback_addresses(settings);
    for address in &addresses {
        let source = OperatorTokenFiles {
            directories: directories.clone(),
            names: operator_token_names(*address),
        };
        let found = source.current();
        // A name of several addresses means the one where an agent is.
        if found.is_some() || addresses.len() == 1 {
            settings.token = found;
            settings.token_source = Some(Arc::new(source));
            settings.host_address = Some(address.ip());
            return;
        }
    }
}

/// The files in which the agent of an address leaves its token.
#[derive(Debug)]
struct OperatorTokenFiles {
    directories: Vec<PathBuf>,
    names: Vec<String>,
}

impl TokenSource for OperatorTokenFiles {
    fn current(&self) -> Option<RedactedString> {
        let of = |directory: &PathBuf| self.names.iter().find_map(|name| read(directory, name));
        self.directories.iter().find_map(of)
    }
}

/// Reads the token of an agent that lives.
fn read(directory: &Path, name: &str) -> Option<RedactedString> {
    match read_locked(directory, name) {
        Ok(token) => token,
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            tracing::debug!(directory = %directory.display(), name, %error, "the operator's token is not used");
            None
        }
    }
}

fn read_locked(directory: &Path, name: &str) -> io::Result<Option<RedactedString>> {
    let file = open_secret(directory, name)?;
    match file.try_lock_shared() {
        Err(std::fs::TryLockError::WouldBlock) => {}
        // Its agent has ended without removing it.
        Ok(()) => return Ok(None),
        Err(std::fs::TryLockError::Error(error)) => return Err(error),
    }
    let mut text = String::new();
    file.take(LONGEST_OPERATOR_TOKEN).read_to_string(&mut text)?;
    let mut lines = text.lines().map(str::trim);
    let token = lines.next().filter(|token| !token.is_empty());
    if lines.next() != Some(own_network()?.as_str()) {
        tracing::debug!(directory = %directory.display(), name, "the operator's token is of an agent in another network");
        return Ok(None);
    }
    Ok(token.map(RedactedString::new))
}

#[cfg(test)]
mod tests {
    use std::fs::{File, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A runtime directory with the token of an agent that lives as long as the file is open.
    fn runtime(name: &str) -> (tempfile::TempDir, File) {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join(OPERATOR_TOKEN_DIRECTORY);
        std::fs::create_dir(&directory).unwrap();
        std::fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
        let path = directory.join(name);
        std::fs::write(&path, format!("the-token\n{}\n", own_network().unwrap())).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let file = File::open(path).unwrap();
        file.lock().unwrap();
        (base, file)
    }

    fn found(base: &Path, settings: ClientSettings) -> ClientSettings {
        let mut settings = settings;
        let environment = Environment::from_iter([("XDG_RUNTIME_DIR", base)]);
        add_operator_token(&mut settings, &environment);
        settings
    }

    fn token(settings: &ClientSettings) -> Option<&str> {
        settings.token.as_ref().map(RedactedString::expose)
    }

    #[test]
    fn the_token_of_a_living_agent_is_used() {
        let (base, agent) = runtime("127.0.0.1:9.token");
        for (address, expected) in [
            ("http://127.0.0.1:9", Some("the-token")),
            ("http://localhost:9", Some("the-token")),
            ("http://127.0.0.1:10", None),
            ("http://127.0.0.2:9", None),
            ("http://[::1]:9", None),
            ("https://127.0.0.1:9", None),
        ] {
            let settings = found(base.path(), ClientSettings::new(address));
            assert_eq!(token(&settings), expected, "{address}");
            let pinned = settings.host_address.map(|ip| ip.to_string());
            if let Some(pinned) = expected.and(pinned) {
                assert_eq!(pinned, "127.0.0.1", "{address}");
            }
        }
        drop(agent);
        let settings = found(base.path(), ClientSettings::new("http://127.0.0.1:9"));
        assert_eq!(token(&settings), None, "the agent has ended");
    }

    #[test]
    fn a_token_of_another_network_is_not_used() {
        for network in ["\nnet:[1]\n", "", "\n"] {
            let (base, _agent) = runtime("127.0.0.1:9.token");
            let path = base.path().join(OPERATOR_TOKEN_DIRECTORY).join("127.0.0.1:9.token");
            std::fs::write(path, format!("the-token{network}")).unwrap();
            let settings = found(base.path(), ClientSettings::new("http://127.0.0.1:9"));
            assert_eq!(token(&settings), None, "{network:?}");
        }
    }

    #[test]
    fn a_token_of_the_user_comes_first() {
        let (base, _agent) = runtime("127.0.0.1:9.token");
        let settings = ClientSettings {
            token: Some(RedactedString::new("own")),
            ..ClientSettings::new("http://127.0.0.1:9")
        };
        assert_eq!(token(&found(base.path(), settings)), Some("own"));
    }

    #[test]
    fn a_token_that_others_can_reach_is_not_used() {
        for (file, directory) in [(0o644, 0o700), (0o600, 0o755)] {
            let (base, _agent) = runtime("127.0.0.1:9.token");
            let path = base.path().join(OPERATOR_TOKEN_DIRECTORY);
            let name = path.join("127.0.0.1:9.token");
            std::fs::set_permissions(name, Permissions::from_mode(file)).unwrap();
            std::fs::set_permissions(path, Permissions::from_mode(directory)).unwrap();
            let settings = found(base.path(), ClientSettings::new("http://127.0.0.1:9"));
            assert_eq!(token(&settings), None, "{file:o} {directory:o}");
        }
    }
}
