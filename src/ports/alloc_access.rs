//! What an operator does with an allocation on its node: its tasks are restarted and get signals, and its files are read.
//!
//! A path begins at the directory of the allocation: `alloc/` is what its tasks share, and `TASK/local/` what one task has. No
//! link is followed, no mount is entered, and the secrets of a task are never shown.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use nomad_csi_model::AllocId;

/// A file or a directory of an allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocFile {
    /// Its name.
    pub name: String,
    /// True if it is a directory.
    pub is_directory: bool,
    /// Its size in bytes.
    pub size: u64,
    /// Its kind and its permissions, as the operating system has them.
    pub mode: u32,
    /// When it was changed, in nanoseconds since the epoch.
    pub modified: i64,
}

/// Why a node does not do what an operator wants of an allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum AllocAccessError {
    /// The task does not run, or none of them.
    #[error("{0}")]
    NotRunning(String),
    /// There is no such file.
    #[error("{0}")]
    NoFile(String),
    /// The request is not allowed, or has no meaning.
    #[error("{0}")]
    Refused(String),
    /// The node could not carry it out.
    #[error("{0}")]
    Failed(String),
}

/// The tasks and the files of the allocations of a node.
#[async_trait]
pub trait AllocAccess: Send + Sync {
    /// Restarts a task, or all that run. Returns before they have ended. Their volumes stay claimed and mounted.
    async fn restart(&self, alloc: &AllocId, task: Option<&str>) -> Result<(), AllocAccessError>;

    /// Sends a signal, such as `SIGHUP`, to a task, or to all that run.
    async fn signal(
        &self,
        alloc: &AllocId,
        task: Option<&str>,
        signal: &str,
    ) -> Result<(), AllocAccessError>;

    /// Returns a file or a directory.
    async fn stat(&self, alloc: &AllocId, path: &str) -> Result<AllocFile, AllocAccessError>;

    /// Returns what a directory contains, sorted by name.
    async fn list(&self, alloc: &AllocId, path: &str) -> Result<Vec<AllocFile>, AllocAccessError>;

    /// Returns bytes of a file, at most `limit`. Empty after its end.
    async fn read(
        &self,
        alloc: &AllocId,
        path: &str,
        offset: u64,
        limit: u64,
    ) -> Result<Vec<u8>, AllocAccessError>;
}
