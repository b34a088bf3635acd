//! Lists, snapshots and expansion of the fake plugin.

use std::collections::BTreeSet;

use super::provider_state::{FakeSnapshot, FakeVolume, ProviderState};
use super::refusal::{Refusal, refuse, unknown};
use nomad_csi_model::{ExternalId, ExternalNodeId, ExternalVolume, Secrets, Snapshot, SnapshotId};
use nomad_csi_ports::{
    CreateSnapshot, ExpandVolume, ExpandedVolume, ListSnapshots, ModifyVolume, Page, PageRequest,
    Rpc, StatusCode, VolumeSource,
};

/// The creation time of the first snapshot in seconds since the epoch; each later one adds a second.
const EPOCH: u64 = 1_700_000_000;

impl ProviderState {
    /// Handles ListVolumes.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn list_volumes(&mut self, page: &PageRequest) -> Result<Page<ExternalVolume>, Refusal> {
        let rpc = Rpc::ListVolumes;
        self.require_capability(rpc, self.controller().list_volumes)?;
        let all = self.volumes.values().map(|volume| self.list_entry(volume));
        page_of(&all.collect::<Vec<_>>(), page)
    }

    fn list_entry(&self, volume: &FakeVolume) -> ExternalVolume {
        let (clone_id, snapshot_id) = match &volume.arguments.source {
            Some(VolumeSource::Volume(id)) => (Some(id.clone()), None),
            Some(VolumeSource::Snapshot(id)) => (None, Some(id.clone())),
            None => (None, None),
        };
        let shows_nodes = self.controller().list_volumes_published_nodes;
        ExternalVolume {
            health: None,
            external_id: volume.external_id.clone(),
            capacity: volume.capacity,
            context: volume.context.clone(),
            clone_id,
            snapshot_id,
            published_nodes: if shows_nodes { self.nodes_of(&volume.external_id) } else { vec![] },
            condition: self.controller().volume_condition.then(|| volume.condition.clone()),
        }
    }

    /// Returns the nodes to which a volume is attached, or on which it is published.
    fn nodes_of(&self, id: &ExternalId) -> Vec<ExternalNodeId> {
        let attached = self.attachments.keys();
        let attached = attached.filter(|(volume, _)| volume == id);
        let published = self.targets.keys();
        let published = published.filter(|(_, volume, _)| volume == id);
        let nodes = attached.map(|(_, node)| node.clone());
        let nodes: BTreeSet<_> = nodes.chain(published.map(|(node, _, _)| node.clone())).collect();
        nodes.into_iter().collect()
    }

    /// Handles CreateSnapshot: one name is one snapshot.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn create_snapshot(&mut self, request: &CreateSnapshot) -> Result<Snapshot, Refusal> {
        let rpc = Rpc::CreateSnapshot;
        self.require_capability(rpc, self.controller().create_delete_snapshot)?;
        self.require_secrets(rpc, &request.secrets)?;
        self.require_id(rpc, &request.source)?;
        if request.name.is_empty() || request.name.len() > 128 {
            return self.violation(rpc, StatusCode::InvalidArgument, "the name is not valid");
        }
        let same_name = |snapshot: &&FakeSnapshot| snapshot.name == request.name;
        let existing = self.snapshots.values().find(same_name);
        if let Some(existing) = existing {
            if existing.source == request.source {
                return Ok(self.snapshot_response(existing));
            }
            let message = format!("the name {} is taken by another snapshot", request.name);
            return refuse(StatusCode::AlreadyExists, message);
        }
        let Some(source) = self.volumes.get(&request.source) else {
            return unknown(&request.source);
        };
        self.snapshots_created += 1;
        let snapshot = FakeSnapshot {
            id: SnapshotId::new(format!("snap-{}", self.snapshots_created)),
            name: request.name.clone(),
            source: request.source.clone(),
            size: source.capacity,
            created_at: EPOCH + self.snapshots_created,
        };
        let answer = self.snapshot_response(&snapshot);
        self.snapshots.insert(snapshot.id.clone(), snapshot);
        Ok(answer)
    }

    fn snapshot_response(&self, snapshot: &FakeSnapshot) -> Snapshot {
        Snapshot {
            id: snapshot.id.clone(),
            source: snapshot.source.clone(),
            size: snapshot.size,
            create_time: i64::try_from(snapshot.created_at * 1_000_000_000).unwrap_or(i64::MAX),
            is_ready: self.settings.snapshots_are_ready,
        }
    }

    /// Handles DeleteSnapshot, which succeeds if the snapshot does not exist.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn delete_snapshot(&mut self, id: &SnapshotId, secrets: &Secrets) -> Result<(), Refusal> {
        let rpc = Rpc::DeleteSnapshot;
        self.require_capability(rpc, self.controller().create_delete_snapshot)?;
        self.require_secrets(rpc, secrets)?;
        if id.as_str().is_empty() {
            return self.violation(rpc, StatusCode::InvalidArgument, "the snapshot ID is empty");
        }
        match self.snapshots.remove(id) {
            None if self.settings.unknown_is_not_found => {
                refuse(StatusCode::NotFound, format!("no snapshot {id}"))
            }
            None | Some(_) => Ok(()),
        }
    }

    /// Handles ListSnapshots. A filter without a match returns an empty list.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn list_snapshots(&mut self, request: &ListSnapshots) -> Result<Page<Snapshot>, Refusal> {
        let rpc = Rpc::ListSnapshots;
        self.require_capability(rpc, self.controller().list_snapshots)?;
        self.require_secrets(rpc, &request.secrets)?;
        let matches = |snapshot: &&FakeSnapshot| {
            request.source.as_ref().is_none_or(|id| *id == snapshot.source)
                && request.id.as_ref().is_none_or(|id| *id == snapshot.id)
        };
        let matching = self.snapshots.values().filter(matches);
        let all: Vec<_> = matching.map(|snapshot| self.snapshot_response(snapshot)).collect();
        page_of(&all, &request.page)
    }

    /// Handles ControllerModifyVolume: only the named parameters change, all or none. One with the value `wrong` is
    /// refused.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn modify(&mut self, request: &ModifyVolume) -> Result<(), Refusal> {
        let rpc = Rpc::ControllerModifyVolume;
        self.require_capability(rpc, self.controller().modify_volume)?;
        self.require_secrets(rpc, &request.secrets)?;
        self.require_id(rpc, &request.external_id)?;
        if request.parameters.is_empty() {
            return self.violation(rpc, StatusCode::InvalidArgument, "no parameters");
        }
        let Some(volume) = self.volumes.get_mut(&request.external_id) else {
            return unknown(&request.external_id);
        };
        if request.parameters.values().any(|value| value == "wrong") {
            return refuse(StatusCode::InvalidArgument, "a value is wrong");
        }
        volume.mutable_parameters.extend(request.parameters.clone());
        Ok(())
    }

    /// Handles ControllerExpandVolume, which succeeds if the volume is already large enough.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn expand(&mut self, request: &ExpandVolume) -> Result<ExpandedVolume, Refusal> {
        let rpc = Rpc::ControllerExpandVolume;
        self.require_capability(rpc, self.controller().expand_volume)?;
        self.require_secrets(rpc, &request.secrets)?;
        self.require_id(rpc, &request.external_id)?;
        let (min, max) = (request.capacity.min, request.capacity.max);
        if request.capacity.is_unset() || (!max.is_zero() && min > max) {
            return self.violation(rpc, StatusCode::InvalidArgument, "the size is not valid");
        }
        let largest = self.settings.max_capacity;
        let node_expansion_required = self.settings.node_expansion_required;
        let Some(volume) = self.volumes.get_mut(&request.external_id) else {
            return unknown(&request.external_id);
        };
        if largest.is_some_and(|largest| min > largest) {
            let message = format!("{} is limited to a smaller size", request.external_id);
            return refuse(StatusCode::OutOfRange, message);
        }
        volume.capacity = volume.capacity.max(min);
        Ok(ExpandedVolume { capacity: volume.capacity, node_expansion_required })
    }
}

/// Returns one page of `all`. A token is the number of entries before the page.
pub(super) fn page_of<T: Clone>(all: &[T], page: &PageRequest) -> Result<Page<T>, Refusal> {
    let start = match page.starting_token.as_str() {
        "" => Some(0),
        token => token.parse().ok().filter(|start| *start < all.len()),
    };
    let Some(start) = start else {
        return refuse(StatusCode::Aborted, "the page token is unknown");
    };
    let length = usize::try_from(page.entries).unwrap_or(usize::MAX);
    let end = match length {
        0 => all.len(),
        length => all.len().min(start.saturating_add(length)),
    };
    Ok(Page {
        entries: all[start..end].to_vec(),
        next_token: (end < all.len()).then(|| end.to_string()),
    })
}
