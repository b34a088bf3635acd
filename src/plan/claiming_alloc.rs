//! An allocation that claims a volume.

use nomad_csi_model::{Alloc, AllocId, ClientStatus, Volume};

/// An allocation that claims a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimingAlloc {
    /// Its ID.
    pub id: AllocId,
    /// The server's record of it; `None` if the server has no such allocation, so the claim is stuck.
    pub alloc: Option<Alloc>,
}

impl ClaimingAlloc {
    /// Returns the allocations that claim a volume.
    pub fn of(volume: &Volume) -> Vec<Self> {
        let known = |id: &AllocId| volume.allocs.iter().find(|alloc| alloc.id == *id).cloned();
        let claiming = |id: &AllocId| Self { id: id.clone(), alloc: known(id) };
        volume.claiming_allocs().map(claiming).collect()
    }

    /// Returns whether the client reported that the tasks of the allocation have ended.
    pub fn has_ended(&self) -> bool {
        let alloc = self.alloc.as_ref();
        alloc.is_some_and(|alloc| alloc.client.has_ended())
    }
}

/// The remedy for the claim of an allocation that the server does not have.
pub const UNKNOWN_CLAIM_HELP: &str = "no job can release the claim of an unknown allocation; run `nomad-csi volume doctor` to see what may still write and what helps";

impl std::fmt::Display for ClaimingAlloc {
    /// `allocation 8a2f: job web, group cache, node n1 (0c9d), running`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(alloc) = &self.alloc else {
            return write!(f, "allocation {}: unknown to the server", self.id);
        };
        write!(
            f,
            "allocation {}: job {}, group {}, node ",
            self.id, alloc.job_id, alloc.task_group
        )?;
        if alloc.node_name.is_empty() {
            write!(f, "{}", alloc.node_id)?;
        } else {
            write!(f, "{} ({})", alloc.node_name, alloc.node_id)?;
        }
        write!(f, ", {}", status(&alloc.client))
    }
}

fn status(client: &ClientStatus) -> &str {
    match client {
        ClientStatus::Pending => "pending",
        ClientStatus::Running => "running",
        ClientStatus::Complete => "complete, but not yet released",
        ClientStatus::Failed => "failed, but not yet released",
        ClientStatus::Lost => "lost: the server lost its node, and its tasks may still write",
        ClientStatus::Unknown => "unknown: its node is disconnected, and its tasks may still write",
        ClientStatus::Other(word) => word,
    }
}
