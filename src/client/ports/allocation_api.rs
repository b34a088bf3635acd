//! Allocations and the logs of their tasks on a server, in the words of Nomad's API.

use async_trait::async_trait;

use super::volume_api::{ApiError, WithDocument};
use nomad_csi_model::{AllocId, Namespace};
use nomad_csi_ports::LogStream;
use nomad_csi_wire::{
    AllocFileDocument, AllocationDocument, AllocationStopResponse, AllocationStub,
};

/// The log of a task that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRequest {
    /// The allocation.
    pub alloc: AllocId,
    /// The task.
    pub task: String,
    /// Standard output or standard error.
    pub stream: LogStream,
    /// True if the reader waits for what the task writes later.
    pub follows: bool,
    /// How many bytes before the end to start at; from the start if not given.
    pub from_end: Option<u64>,
}

/// A log or a file that is being read.
#[async_trait]
pub trait LogReader: Send {
    /// Waits for the next piece. `None` is the end; a log that is followed has no end.
    async fn next_piece(&mut self) -> Result<Option<Vec<u8>>, ApiError>;
}

/// Reads and stops allocations.
#[async_trait]
pub trait AllocationApi: Send + Sync {
    /// Returns the allocations of a namespace, or of `*`, whose ID starts with `prefix`, sorted by ID.
    async fn list_allocations(
        &self,
        namespace: &Namespace,
        prefix: &str,
    ) -> Result<Vec<WithDocument<AllocationStub>>, ApiError>;
    /// Returns an allocation; `None` if it does not exist.
    async fn read_allocation(
        &self,
        id: &AllocId,
    ) -> Result<Option<WithDocument<AllocationDocument>>, ApiError>;
    /// Stops an allocation. The scheduler replaces it if its job still runs.
    async fn stop_allocation(&self, id: &AllocId) -> Result<AllocationStopResponse, ApiError>;
    /// Restarts a task of an allocation, or all that run.
    async fn restart_allocation(&self, id: &AllocId, task: &str) -> Result<(), ApiError>;
    /// Sends a signal, such as `SIGHUP`, to a task of an allocation, or to all that run.
    async fn signal_allocation(
        &self,
        id: &AllocId,
        task: &str,
        signal: &str,
    ) -> Result<(), ApiError>;
    /// Returns the facts about a file of an allocation.
    async fn stat_file(
        &self,
        id: &AllocId,
        path: &str,
    ) -> Result<WithDocument<AllocFileDocument>, ApiError>;
    /// Lists a directory of an allocation.
    async fn list_files(
        &self,
        id: &AllocId,
        path: &str,
    ) -> Result<Vec<WithDocument<AllocFileDocument>>, ApiError>;
    /// Opens a file of an allocation.
    async fn open_file(&self, id: &AllocId, path: &str) -> Result<Box<dyn LogReader>, ApiError>;
    /// Opens the log of a task.
    async fn open_log(&self, request: &LogRequest) -> Result<Box<dyn LogReader>, ApiError>;
}
