//! An allocation that holds a volume, and how it is told to people.

use crate::model::{Alloc, AllocId, ClientStatus, DesiredStatus, Volume};

/// A claim's allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its ID.
    pub id: AllocId,
    /// What the server knows of it; `None` if it no longer knows it, so that the claim is stuck.
    pub alloc: Option<Alloc>,
}

impl Holder {
    /// Everybody who claims a volume.
    pub fn of(volume: &Volume) -> Vec<Self> {
        let known = |id: &AllocId| volume.allocs.iter().find(|alloc| alloc.id == *id).cloned();
        let holder = |id: &AllocId| Self {
            id: id.clone(),
            alloc: known(id),
        };
        volume.claimants().map(holder).collect()
    }

    /// As the server judges a forced deregistration: an allocation that is gone, or that has ended
    /// on the server or on its client, holds nothing back (`csi-orchestration` 2.9).
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

impl std::fmt::Display for Holder {
    /// `allocation 8a2f: job web, group cache, node n1 (0c9d), running`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(alloc) = &self.alloc else {
            return write!(f, "allocation {}: the server no longer knows it", self.id);
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
        ClientStatus::Unknown => "unknown: its node is disconnected",
        ClientStatus::Other(word) => word,
    }
}
