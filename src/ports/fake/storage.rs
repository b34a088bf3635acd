//! Lists, snapshots and growth in the fake plugin's world (`csi-spec` 5.7, 5.11 to 5.13, 5.15).

use super::world::{FakeSnapshot, FakeVolume, Refusal, World, refuse, unknown};
use crate::model::{ExternalVolume, Secrets, Snapshot, SnapshotId};
use crate::ports::plugin::{Rpc, StatusCode, VolumeSource};
use crate::ports::storage::{
    CreateSnapshot, ExpandVolume, ExpandedVolume, ListSnapshots, Page, PageRequest,
};

/// When the world's first snapshot is cut, seconds since the epoch; each further one a second later.
const EPOCH: u64 = 1_700_000_000;

impl World {
    /// CSI 5.7.
    ///
    /// # Errors
    /// As the specification says, or with a wrong.
    pub fn list_volumes(&mut self, page: &PageRequest) -> Result<Page<ExternalVolume>, Refusal> {
        let rpc = Rpc::ListVolumes;
        self.advertised(rpc, self.controller().list_volumes)?;
        let all = self.volumes.values().map(|volume| self.listed(volume));
        cut(&all.collect::<Vec<_>>(), page)
    }

    fn listed(&self, volume: &FakeVolume) -> ExternalVolume {
        let (clone_id, snapshot_id) = match &volume.wanted.source {
            Some(VolumeSource::Volume(id)) => (Some(id.clone()), None),
            Some(VolumeSource::Snapshot(id)) => (None, Some(id.clone())),
            None => (None, None),
        };
        let node = &self.settings.description.external_node_id;
        let shows_nodes = self.controller().list_volumes_published_nodes;
        let is_here = self.targets.keys().any(|(id, _)| *id == volume.external_id);
        ExternalVolume {
            external_id: volume.external_id.clone(),
            capacity: volume.capacity,
            context: volume.context.clone(),
            clone_id,
            snapshot_id,
            published_nodes: (shows_nodes && is_here)
                .then(|| node.clone())
                .into_iter()
                .collect(),
            condition: self
                .controller()
                .volume_condition
                .then(|| volume.condition.clone()),
        }
    }

    /// CSI 5.11: of one name there is one snapshot.
    ///
    /// # Errors
    /// As the specification says, or with a wrong.
    pub fn create_snapshot(&mut self, request: &CreateSnapshot) -> Result<Snapshot, Refusal> {
        let rpc = Rpc::CreateSnapshot;
        self.advertised(rpc, self.controller().create_delete_snapshot)?;
        self.carries_secrets(rpc, &request.secrets)?;
        self.has_id(rpc, &request.source)?;
        if request.name.is_empty() || request.name.len() > 128 {
            return self.wrong(rpc, StatusCode::InvalidArgument, "that is no name");
        }
        let same_name = |snapshot: &&FakeSnapshot| snapshot.name == request.name;
        let existing = self.snapshots.values().find(same_name);
        if let Some(existing) = existing {
            if existing.source == request.source {
                return Ok(self.told(existing));
            }
            let message = format!("the name {} is taken by another snapshot", request.name);
            return refuse(StatusCode::AlreadyExists, message);
        }
        let Some(source) = self.volumes.get(&request.source) else {
            return unknown(&request.source);
        };
        self.cut += 1;
        let snapshot = FakeSnapshot {
            id: SnapshotId::new(format!("snap-{}", self.cut)),
            name: request.name.clone(),
            source: request.source.clone(),
            size: source.capacity,
            cut_at: EPOCH + self.cut,
        };
        let answer = self.told(&snapshot);
        self.snapshots.insert(snapshot.id.clone(), snapshot);
        Ok(answer)
    }

    fn told(&self, snapshot: &FakeSnapshot) -> Snapshot {
        Snapshot {
            id: snapshot.id.clone(),
            source: snapshot.source.clone(),
            size: snapshot.size,
            create_time: i64::try_from(snapshot.cut_at * 1_000_000_000).unwrap_or(i64::MAX),
            is_ready: self.settings.snapshots_are_ready,
        }
    }

    /// CSI 5.12: what is not there is deleted.
    ///
    /// # Errors
    /// As the specification says, or with a wrong.
    pub fn delete_snapshot(&mut self, id: &SnapshotId, secrets: &Secrets) -> Result<(), Refusal> {
        let rpc = Rpc::DeleteSnapshot;
        self.advertised(rpc, self.controller().create_delete_snapshot)?;
        self.carries_secrets(rpc, secrets)?;
        if id.as_str().is_empty() {
            return self.wrong(rpc, StatusCode::InvalidArgument, "the snapshot ID is empty");
        }
        match self.snapshots.remove(id) {
            None if self.settings.unknown_is_not_found => {
                refuse(StatusCode::NotFound, format!("no snapshot {id}"))
            }
            None | Some(_) => Ok(()),
        }
    }

    /// CSI 5.13: a filter that nothing matches is an empty list.
    ///
    /// # Errors
    /// As the specification says, or with a wrong.
    pub fn list_snapshots(&mut self, request: &ListSnapshots) -> Result<Page<Snapshot>, Refusal> {
        let rpc = Rpc::ListSnapshots;
        self.advertised(rpc, self.controller().list_snapshots)?;
        self.carries_secrets(rpc, &request.secrets)?;
        let matches = |snapshot: &&FakeSnapshot| {
            request
                .source
                .as_ref()
                .is_none_or(|id| *id == snapshot.source)
                && request.id.as_ref().is_none_or(|id| *id == snapshot.id)
        };
        let matching = self.snapshots.values().filter(matches);
        let all: Vec<_> = matching.map(|snapshot| self.told(snapshot)).collect();
        cut(&all, &request.page)
    }

    /// CSI 5.15: what is large enough already is expanded.
    ///
    /// # Errors
    /// As the specification says, or with a wrong.
    pub fn expand(&mut self, request: &ExpandVolume) -> Result<ExpandedVolume, Refusal> {
        let rpc = Rpc::ControllerExpandVolume;
        self.advertised(rpc, self.controller().expand_volume)?;
        self.carries_secrets(rpc, &request.secrets)?;
        self.has_id(rpc, &request.external_id)?;
        let (min, max) = (request.capacity.min, request.capacity.max);
        if request.capacity.is_unset() || (!max.is_zero() && min > max) {
            return self.wrong(rpc, StatusCode::InvalidArgument, "that is no size");
        }
        let largest = self.settings.largest_capacity;
        let node_expansion_required = self.settings.node_expansion_required;
        let Some(volume) = self.volumes.get_mut(&request.external_id) else {
            return unknown(&request.external_id);
        };
        if largest.is_some_and(|largest| min > largest) {
            let message = format!("{} cannot be so large", request.external_id);
            return refuse(StatusCode::OutOfRange, message);
        }
        volume.capacity = volume.capacity.max(min);
        Ok(ExpandedVolume {
            capacity: volume.capacity,
            node_expansion_required,
        })
    }
}

/// A page of `all`. A token is the number of entries before the page.
fn cut<T: Clone>(all: &[T], page: &PageRequest) -> Result<Page<T>, Refusal> {
    let start = match page.token.as_str() {
        "" => Some(0),
        token => token.parse().ok().filter(|start| *start < all.len()),
    };
    let Some(start) = start else {
        return refuse(StatusCode::Aborted, "the token is not one of this list");
    };
    let length = usize::try_from(page.entries).unwrap_or(usize::MAX);
    let end = match length {
        0 => all.len(),
        length => all.len().min(start.saturating_add(length)),
    };
    Ok(Page {
        entries: all[start..end].to_vec(),
        next: (end < all.len()).then(|| end.to_string()),
    })
}
