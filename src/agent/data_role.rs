//! Which process a data directory belongs to, and where a node's directory was made.
//!
//! A server, a node and an agent of one machine keep different things under the same names, so none of them starts on the
//! directory of another. The directory of a node is the node: a copy of it would be a second one, which the servers
//! take for a restart of the first. So it starts only where it was made. And it does not start without its identity while
//! something of it is there: under another one, the servers would know nothing of its tasks.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::directory::{AgentDirs, journal_file};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_model::private::{open_to_read, replace};

/// The longest file that is read.
const MAX_BYTES: u64 = 64 << 10;
/// The identity of the machine's operating system.
const MACHINE_ID: &str = "/etc/machine-id";

/// The process of a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataRole {
    /// Server and node in one process.
    Machine,
    /// `agent server`.
    Server,
    /// `agent node`.
    Node,
}

impl DataRole {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Machine => "agent --dev",
            Self::Server => "agent server",
            Self::Node => "agent node",
        }
    }
}

/// Refuses the directory of another role, and marks a new one. Blocks.
///
/// # Errors
/// If it is of another role, or the mark cannot be read or written.
pub(super) fn check_role(data: &Path, role: DataRole) -> Result<(), Diagnostics> {
    let file = data.join("role");
    let marked = match read_text(&file) {
        Ok(text) => Some(text.trim_end().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(unusable(&file, &error)),
    };
    let found = match &marked {
        Some(marked) => marked.as_str(),
        // The directories of agents of one machine have no mark.
        None if journal_file(data).exists() => DataRole::Machine.as_str(),
        None => role.as_str(),
    };
    if found != role.as_str() {
        let message =
            format!("cannot use the data directory `{}`: it is that of `{found}`", data.display());
        let help = format!("use another directory for `{}`", role.as_str());
        return Err(Diagnostic::error(Code::AgentDirectory, message).help(help).into());
    }
    if marked.is_none() && role != DataRole::Machine {
        replace(&file, format!("{found}\n").as_bytes()).map_err(|error| unusable(&file, &error))?;
    }
    Ok(())
}

/// Where the directory of a node was made.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodePlace {
    directory: String,
    /// Empty if the system has none.
    machine: String,
}

/// Refuses the directory of a node that is a copy, or lacks the identity of what is there. Blocks.
///
/// # Errors
/// With what to do.
pub(super) fn check_node_directory(dirs: &AgentDirs) -> Result<(), Diagnostics> {
    require_identity(dirs)?;
    let file = dirs.data().join("node.place");
    let here = NodePlace {
        directory: dirs.data().display().to_string(),
        machine: fs::read_to_string(MACHINE_ID).unwrap_or_default().trim_end().to_owned(),
    };
    let made = match read_text(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let written = serde_json::to_vec(&here).map_err(io::Error::from);
            let written = written.and_then(|content| replace(&file, &content));
            return written.map_err(|error| unusable(&file, &error));
        }
        Err(error) => return Err(unusable(&file, &error)),
    };
    let made: NodePlace =
        serde_json::from_str(&made).map_err(|error| unusable(&file, &io::Error::from(error)))?;
    if made == here {
        return Ok(());
    }
    let where_made = match made.machine == here.machine {
        true => format!("at `{}`", made.directory),
        false => format!("at `{}` of another machine", made.directory),
    };
    let message = format!(
        "cannot use the data directory `{}`: it was made {where_made}, and is moved or a copy",
        here.directory
    );
    let help = format!(
        "a copy needs an empty directory instead; if it was moved, and the node runs nowhere else, remove `{}`",
        file.display()
    );
    Err(Diagnostic::error(Code::AgentNodeId, message).help(help).into())
}

fn require_identity(dirs: &AgentDirs) -> Result<(), Diagnostics> {
    let is_used = |directory: &Path| {
        let entries = fs::read_dir(directory);
        entries.is_ok_and(|mut entries| entries.next().is_some())
    };
    let used = [dirs.data().join("allocs"), dirs.mounts()].into_iter().find(|path| is_used(path));
    let Some(used) = used else { return Ok(()) };
    let identity = [dirs.node_id_file(), dirs.node_secret_file(), dirs.cluster_file()];
    let Some(missing) = identity.into_iter().find(|file| !file.exists()) else { return Ok(()) };
    let message = format!(
        "cannot start the node: `{}` is missing, and `{}` has tasks or mounts of the node",
        missing.display(),
        used.display()
    );
    let help = "restore the file from a backup; else end the tasks of the node, unmount what is below its directory, and start \
                with an empty one, which is another node";
    Err(Diagnostic::error(Code::AgentNodeId, message).help(help).into())
}

fn read_text(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_to_read(file)?.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn unusable(file: &Path, error: &io::Error) -> Diagnostics {
    let message = format!("cannot use `{}`: {error}", file.display());
    Diagnostic::error(Code::AgentDirectory, message).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::DataDirSetting;
    use crate::agent::directory::DataDir;

    const ROLES: [DataRole; 3] = [DataRole::Machine, DataRole::Server, DataRole::Node];

    fn dirs(path: &Path) -> AgentDirs {
        let setting = DataDirSetting::Persistent(path.to_owned());
        AgentDirs::create_dirs(DataDir::prepare(&setting).unwrap(), None).unwrap()
    }

    fn message<T: std::fmt::Debug>(refused: Result<T, Diagnostics>) -> String {
        refused.unwrap_err().iter().map(|problem| problem.message.clone()).collect()
    }

    #[test]
    fn a_directory_stays_with_its_role() {
        for first in ROLES {
            let directory = tempfile::tempdir().unwrap();
            check_role(directory.path(), first).unwrap();
            if first != DataRole::Node {
                fs::write(journal_file(directory.path()), "").unwrap();
            }
            for role in ROLES {
                let checked = check_role(directory.path(), role);
                assert_eq!(checked.is_ok(), role == first, "{first:?} {role:?}");
            }
        }
    }

    #[test]
    fn a_node_starts_where_its_directory_was_made() {
        let base = tempfile::tempdir().unwrap();
        let (first, second) = (base.path().join("first"), base.path().join("second"));
        for _ in 0..2 {
            check_node_directory(&dirs(&first)).unwrap();
        }
        fs::rename(&first, &second).unwrap();
        let refused = message(check_node_directory(&dirs(&second)));
        assert!(refused.contains("moved or a copy"), "{refused}");
        assert!(refused.contains(first.to_str().unwrap()), "{refused}");
        fs::remove_file(second.join("node.place")).unwrap();
        check_node_directory(&dirs(&second)).unwrap();
        let other = r#"{"directory":"DIR","machine":"another"}"#;
        let other = other.replace("DIR", second.to_str().unwrap());
        fs::write(second.join("node.place"), other).unwrap();
        let refused = message(check_node_directory(&dirs(&second)));
        assert!(refused.contains("of another machine"), "{refused}");
    }

    #[test]
    fn a_node_with_tasks_or_mounts_does_not_lose_its_identity() {
        for used in ["allocs", "mounts"] {
            for missing in ["node.id", "node.secret", "cluster.json"] {
                let base = tempfile::tempdir().unwrap();
                let dirs = dirs(base.path());
                fs::create_dir_all(dirs.data().join(used)).unwrap();
                check_node_directory(&dirs).unwrap();
                fs::create_dir(dirs.data().join(used).join("a1")).unwrap();
                for name in ["node.id", "node.secret", "cluster.json"] {
                    fs::write(dirs.data().join(name), "").unwrap();
                }
                check_node_directory(&dirs).unwrap();
                fs::remove_file(dirs.data().join(missing)).unwrap();
                let refused = message(check_node_directory(&dirs));
                assert!(refused.contains(missing) && refused.contains(used), "{refused}");
            }
        }
    }
}
