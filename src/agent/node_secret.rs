//! The secret of a node, which it makes at its first start and which no other node knows.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::blocking::run_blocking;
use super::problems::with_cause;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_model::private::{open_to_read, replace};
use nomad_csi_ports::NodeSecret;

/// Returns the secret that a file keeps, which is made if it is missing.
///
/// # Errors
/// If it cannot be read or made, or the file has something else.
pub(super) async fn open_node_secret(file: PathBuf) -> Result<NodeSecret, Diagnostics> {
    run_blocking(move || open(&file)).await?
}

fn open(file: &Path) -> Result<NodeSecret, Diagnostics> {
    let mut bytes = Zeroizing::new(vec![]);
    let limit = NodeSecret::LENGTH as u64 + 1;
    match open_to_read(file).and_then(|opened| opened.take(limit).read_to_end(&mut bytes)) {
        Ok(_) => match <[u8; NodeSecret::LENGTH]>::try_from(bytes.as_slice()) {
            Ok(secret) => Ok(NodeSecret::new(secret)),
            Err(_) => Err(damaged(file).into()),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => create(file),
        Err(error) => Err(with_cause(unusable(file, &error), &error)),
    }
}

fn create(file: &Path) -> Result<NodeSecret, Diagnostics> {
    let mut secret = Zeroizing::new([0; NodeSecret::LENGTH]);
    let filled = getrandom::fill(&mut *secret).map_err(std::io::Error::other);
    let written = filled.and_then(|()| replace(file, &*secret));
    written.map_err(|error| with_cause(unusable(file, &error), &error))?;
    Ok(NodeSecret::new(*secret))
}

fn unusable(file: &Path, error: &std::io::Error) -> Diagnostic {
    let message = format!("cannot use the secret of this node `{}`: {error}", file.display());
    Diagnostic::error(Code::AgentNodeId, message)
}

fn damaged(file: &Path) -> Diagnostic {
    let message =
        format!("cannot use the secret of this node `{}`: it has not 32 bytes", file.display());
    let help = "restore it from a backup: the servers know the node by it";
    Diagnostic::error(Code::AgentNodeId, message).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_secret_is_made_once_and_stays() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("node.secret");
        let first = open_node_secret(file.clone()).await.unwrap();
        let second = open_node_secret(file.clone()).await.unwrap();
        assert_eq!(first.expose(), second.expose());
        let other = open_node_secret(directory.path().join("other")).await.unwrap();
        assert_ne!(first.expose(), other.expose());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        for damaged in [&b"short"[..], &[7; 33]] {
            std::fs::write(&file, damaged).unwrap();
            let problems = open_node_secret(file.clone()).await.unwrap_err();
            assert_eq!(problems.iter().next().unwrap().code, Code::AgentNodeId);
            assert_eq!(std::fs::read(&file).unwrap(), damaged, "it is not replaced");
        }
    }
}
