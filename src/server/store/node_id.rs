//! The file with the identity of this node.
//!
//! The first start creates it, and nothing writes it again. The agent knows by it which node of the
//! state it is, whatever other nodes the state has.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::create_once::create_once;
use nomad_csi_model::{NodeId, private};

/// The identity of the node cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NodeIdError {
    /// The file does not contain a node ID.
    #[error("the file `{}` does not contain a node ID", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The file is missing, and the state does not tell which of its nodes this one is.
    #[error("the file `{}` is missing, and the state has {nodes} nodes", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// How many nodes the state has.
        nodes: usize,
    },
    /// The file cannot be read or created.
    #[error("cannot {operation} the file `{}`", path.display())]
    Unavailable {
        /// The failed operation: `read`, `create`.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

/// Returns the ID of this node. If the file does not exist yet, the only node of the state is this one,
/// and without a node the ID is `new`. Blocks.
///
/// # Errors
/// If the file is damaged or cannot be used. Nothing is changed then.
pub fn open_node_id(path: &Path, known: &[NodeId], new: NodeId) -> Result<NodeId, NodeIdError> {
    if let Some(id) = read_node_id(path)? {
        return Ok(id);
    }
    let id = match known {
        [] => new,
        [only] => only.clone(),
        [_, _, ..] => {
            return Err(NodeIdError::Missing { path: path.to_owned(), nodes: known.len() });
        }
    };
    let created = create_once(path, format!("{id}\n").as_bytes());
    match created.map_err(unavailable("create", path))? {
        true => Ok(id),
        false => read_node_id(path)?
            .ok_or_else(|| unavailable("read", path)(io::ErrorKind::NotFound.into())),
    }
}

/// Returns `None` if the file does not exist.
fn read_node_id(path: &Path) -> Result<Option<NodeId>, NodeIdError> {
    let failed = unavailable("read", path);
    let file = match private::open_to_read(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut content = vec![];
    file.take(64).read_to_end(&mut content).map_err(failed)?;
    let id = std::str::from_utf8(&content).ok().and_then(parse);
    id.map(Some).ok_or_else(|| NodeIdError::Damaged { path: path.to_owned() })
}

fn parse(content: &str) -> Option<NodeId> {
    let id = content.strip_suffix('\n')?;
    let is_uuid = id.len() == 36
        && id.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
        });
    is_uuid.then(|| NodeId::new(id))
}

fn unavailable(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> NodeIdError {
    let path = path.to_owned();
    move |source| NodeIdError::Unavailable { operation, path: path.clone(), source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const FIRST: &str = "0c9d8e7f-1111-4222-8333-444455556666";
    const SECOND: &str = "1d9d8e7f-1111-4222-8333-444455556666";

    fn open(directory: &Path, known: &[&str], new: &str) -> Result<String, NodeIdError> {
        let known: Vec<_> = known.iter().map(|id| NodeId::new(*id)).collect();
        let id = open_node_id(&directory.join("node.id"), &known, NodeId::new(new))?;
        Ok(id.as_str().to_owned())
    }

    #[test]
    fn a_new_identity_is_created_once_for_its_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(open(directory.path(), &[], FIRST).unwrap(), FIRST);
        assert_eq!(open(directory.path(), &[], SECOND).unwrap(), FIRST);
        let file = std::fs::metadata(directory.path().join("node.id")).unwrap();
        assert_eq!(file.permissions().mode() & 0o7777, 0o600);
    }

    /// Data directories of earlier versions have no file, and one node.
    #[test]
    fn the_only_node_of_the_state_is_this_node() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(open(directory.path(), &[SECOND], FIRST).unwrap(), SECOND);
        let with_others = open(directory.path(), &[FIRST, SECOND], FIRST);
        assert_eq!(with_others.unwrap(), SECOND, "the first node is another one");
    }

    #[test]
    fn several_nodes_without_an_identity_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let refused = open(directory.path(), &[FIRST, SECOND], FIRST).unwrap_err();
        let message = refused.to_string();
        assert!(message.ends_with("is missing, and the state has 2 nodes"), "{message}");
        assert!(!directory.path().join("node.id").exists());
    }

    #[test]
    fn a_damaged_identity_is_refused_and_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.id");
        let [cut, extended] = [&FIRST[..35], &format!("{FIRST}0")].map(|id| format!("{id}\n"));
        let upper = FIRST.to_uppercase() + "\n";
        for content in ["", "\n", FIRST, &cut, &extended, &upper, "not a node ID\n"] {
            std::fs::write(&path, content).unwrap();
            let refused = open(directory.path(), &[SECOND], FIRST).unwrap_err();
            assert!(matches!(refused, NodeIdError::Damaged { .. }), "{content:?}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
        std::fs::write(&path, [0xff; 64]).unwrap();
        assert!(open(directory.path(), &[], FIRST).is_err());
    }

    #[test]
    fn an_unusable_directory_is_named() {
        let refused = open(Path::new("/nowhere"), &[], FIRST).unwrap_err();
        assert_eq!(refused.to_string(), "cannot create the file `/nowhere/node.id`");
    }
}
