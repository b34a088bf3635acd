//! An allocation that claims a volume.

use crate::model::{Alloc, AllocId, ClientStatus, DesiredStatus, Volume};

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
        let claiming = |id: &AllocId| Self {
            id: id.clone(),
            alloc: known(id),
        };
        volume.claiming_allocs().map(claiming).collect()
    }

    /// Whether the claim prevents a forced deregistration. Nomad ignores claims of allocations that
    /// it no longer knows, that it stopped, or whose client reports that they ended.
    pub fn is_live(&self) -> bool {
        self.alloc.as_ref().is_some_and(|alloc| {
            let wanted = match alloc.desired {
                DesiredStatus::Stop | DesiredStatus::Evict => false,
                DesiredStatus::Run | DesiredStatus::Other(_) => true,
            };
            wanted && !alloc.client.is_terminal()
        })
    }
}

/// What helps against the claim of an allocation that the server does not have.
pub const UNKNOWN_CLAIM_HELP: &str = "no job can release the claim of an unknown allocation; make sure that no node has the volume mounted, then run `volume deregister --force` and register the volume again";

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
        ClientStatus::Lost => "lost, but not yet released",
        ClientStatus::Unknown => "unknown because its node is disconnected",
        ClientStatus::Other(word) => word,
    }
}
