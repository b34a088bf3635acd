//! [`ClusterFile`]: what a node remembers of its cluster, in a file.
//!
//! It is replaced as a whole. One that is damaged is an error: without it, the node would believe any cluster.

use std::io::{self, Read as _};
use std::path::PathBuf;

use nomad_csi_model::private;
use nomad_csi_ports::{ClusterMemory, ClusterMemoryError, ClusterPosition};

/// The longest file that is read.
const MAX_BYTES: u64 = 64 << 10;

/// What a node remembers of its cluster, in a file.
#[derive(Clone, Debug)]
pub struct ClusterFile {
    path: PathBuf,
}

impl ClusterFile {
    /// Uses the file at this path, in a directory of this user, by convention `cluster.json`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn error(
        &self,
        action: &str,
        reason: impl std::fmt::Display,
        help: &str,
    ) -> ClusterMemoryError {
        let reason = format!("cannot {action} `{}`: {reason}; {help}", self.path.display());
        ClusterMemoryError { reason }
    }
}

impl ClusterMemory for ClusterFile {
    fn load(&self) -> Result<Option<ClusterPosition>, ClusterMemoryError> {
        let help = "restore it from a backup, or remove it if the servers of this node are certainly those of its cluster";
        let mut content = vec![];
        let read = private::open_to_read(&self.path)
            .and_then(|file| file.take(MAX_BYTES).read_to_end(&mut content));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.error("read", error, help)),
        }
        let read = serde_json::from_slice(&content);
        read.map(Some).map_err(|error| self.error("read", format!("it is damaged: {error}"), help))
    }

    fn store(&self, position: &ClusterPosition) -> Result<(), ClusterMemoryError> {
        let stored = serde_json::to_vec(position)
            .map_err(io::Error::from)
            .and_then(|content| private::replace(&self.path, &content));
        stored.map_err(|error| {
            self.error("write", error, "make room, and check the owner of its directory")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::Term;

    #[test]
    fn a_position_comes_back_and_a_damaged_file_is_not_an_empty_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cluster.json");
        let file = ClusterFile::new(&path);
        assert_eq!(file.load(), Ok(None));
        let mut position = ClusterPosition {
            cluster_id: "c1".to_owned(),
            term: Term { epoch: 1, revision: 7 },
            index: 9,
            leader: "l1".to_owned(),
        };
        file.store(&position).unwrap();
        position.index = 10;
        file.store(&position).unwrap();
        assert_eq!(file.load(), Ok(Some(position)));
        for damaged in ["", "{", "{}", r#"{"cluster_id":"c1"}"#] {
            std::fs::write(&path, damaged).unwrap();
            let error = file.load().unwrap_err();
            assert!(error.reason.contains("cluster.json`: it is damaged"), "{error}");
        }
        let missing = ClusterFile::new(directory.path().join("missing/cluster.json"));
        let position = ClusterPosition {
            cluster_id: "c".to_owned(),
            term: Term::default(),
            index: 0,
            leader: String::new(),
        };
        assert!(missing.store(&position).is_err());
    }
}
