//! Snapshots and group snapshots.

use std::path::Path;

use nomad_csi_proto as proto;
use tonic::Code;

use super::deviation::Deviation as D;
use super::state::{Answer, PluginState, Snapshot, ZONE, invalid, not_found, refusal};

impl PluginState {
    pub(super) fn create_snapshot(
        &mut self,
        request: &proto::CreateSnapshotRequest,
    ) -> Answer<proto::CreateSnapshotResponse> {
        let source = &request.source_volume_id;
        if request.name.is_empty() || source.is_empty() {
            return invalid("a required field is missing");
        }
        if request.name.len() > 64 && self.has(D::ShortSnapshotNames) {
            return invalid("the name is too long");
        }
        let existing = self.snapshots.values().find(|one| one.name == request.name);
        if let Some(existing) = existing
            && !self.has(D::SnapshotEachTime)
        {
            if existing.answer.source_volume_id != *source && !self.has(D::SnapshotOfOther) {
                return refusal(Code::AlreadyExists, "the name already exists");
            }
            return Ok(proto::CreateSnapshotResponse { snapshot: Some(existing.answer.clone()) });
        }
        let mut of_volume = self.snapshots.values();
        if self.has(D::OneSnapshot) && of_volume.any(|one| one.answer.source_volume_id == *source) {
            return refusal(Code::ResourceExhausted, "the volume already has a snapshot");
        }
        let snapshot = self.add_snapshot(&request.name, source, "")?;
        Ok(proto::CreateSnapshotResponse { snapshot: Some(snapshot) })
    }

    fn add_snapshot(&mut self, name: &str, source: &str, group: &str) -> Answer<proto::Snapshot> {
        let (content, size) = match self.volumes.get(source) {
            Some(volume) => (volume.content.clone(), volume.answer.capacity_bytes),
            None if self.has(D::SnapshotUnknownVolume) => (Default::default(), 0),
            None => return not_found("volume"),
        };
        let zone = if self.has(D::SnapshotElsewhere) { "b" } else { ZONE.1 };
        let id = self.new_id("snapshot");
        let time = prost_types::Timestamp { seconds: 1_700_000_000, nanos: 0 };
        let answer = proto::Snapshot {
            size_bytes: size,
            snapshot_id: id.clone(),
            source_volume_id: source.to_owned(),
            creation_time: (!self.has(D::NoCreationTime)).then_some(time),
            ready_to_use: true,
            group_snapshot_id: group.to_owned(),
            accessible_topology: vec![proto::Topology {
                segments: [(ZONE.0.to_owned(), zone.to_owned())].into(),
            }],
        };
        let snapshot = Snapshot { answer: answer.clone(), name: name.to_owned(), content };
        self.snapshots.insert(id, snapshot);
        Ok(answer)
    }

    pub(super) fn delete_snapshot(
        &mut self,
        request: &proto::DeleteSnapshotRequest,
    ) -> Answer<proto::DeleteSnapshotResponse> {
        let id = &request.snapshot_id;
        if id.is_empty() {
            return invalid("the snapshot ID is missing");
        }
        let of_group =
            self.snapshots.get(id).is_some_and(|one| !one.answer.group_snapshot_id.is_empty());
        if of_group && !self.has(D::GroupMemberDeletes) {
            return invalid("the snapshot is a member of a group snapshot");
        }
        self.snapshots.remove(id);
        Ok(proto::DeleteSnapshotResponse {})
    }

    pub(super) fn list_snapshots(
        &self,
        request: &proto::ListSnapshotsRequest,
    ) -> Answer<proto::ListSnapshotsResponse> {
        let (after, limit) =
            self.page(&request.starting_token, request.max_entries, D::SnapshotPages)?;
        let (id, source) = (&request.snapshot_id, &request.source_volume_id);
        let fits = |one: &proto::Snapshot| {
            self.has(D::FilterIgnored)
                || ((id.is_empty() || one.snapshot_id == *id)
                    && (source.is_empty() || one.source_volume_id == *source))
        };
        let mut entries: Vec<_> = self
            .snapshots
            .values()
            .map(|snapshot| snapshot.answer.clone())
            .filter(|snapshot| snapshot.snapshot_id > after && fits(snapshot))
            .map(|snapshot| proto::list_snapshots_response::Entry { snapshot: Some(snapshot) })
            .collect();
        if self.has(D::FilterFails) && !id.is_empty() && entries.is_empty() {
            return not_found("snapshot");
        }
        let next_token = self.cut(&mut entries, limit, |entry| {
            let snapshot = entry.snapshot.as_ref();
            snapshot.map(|snapshot| snapshot.snapshot_id.clone())
        });
        Ok(proto::ListSnapshotsResponse { entries, next_token })
    }

    pub(super) fn get_snapshot(
        &self,
        request: &proto::GetSnapshotRequest,
    ) -> Answer<proto::GetSnapshotResponse> {
        if request.snapshot_id.is_empty() {
            return invalid("the snapshot ID is missing");
        }
        match self.snapshots.get(&request.snapshot_id) {
            Some(snapshot) => {
                Ok(proto::GetSnapshotResponse { snapshot: Some(snapshot.answer.clone()) })
            }
            None => not_found("snapshot"),
        }
    }

    pub(super) fn create_volume_group_snapshot(
        &mut self,
        request: &proto::CreateVolumeGroupSnapshotRequest,
    ) -> Answer<proto::CreateVolumeGroupSnapshotResponse> {
        let sources = &request.source_volume_ids;
        if request.name.is_empty() || sources.is_empty() {
            return invalid("a required field is missing");
        }
        let existing = self.groups.iter().find(|(_, (name, _))| *name == request.name);
        if let Some((id, (_, members))) = existing {
            let (id, members) = (id.clone(), members.clone());
            if members.len() != sources.len() && !self.has(D::GroupOfOthers) {
                return refusal(Code::AlreadyExists, "the name already exists");
            }
            return Ok(proto::CreateVolumeGroupSnapshotResponse {
                group_snapshot: Some(self.group(&id, &members)),
            });
        }
        let unknown = sources.iter().any(|id| !self.volumes.contains_key(id));
        if unknown && !self.has(D::GroupLeaks) {
            return not_found("volume");
        }
        let id = self.new_id("group");
        let mut members = vec![];
        let cut = if self.has(D::GroupPartial) { 1 } else { sources.len() };
        for source in sources.iter().take(cut) {
            let name = format!("{}-{source}", request.name);
            let group = if unknown { "" } else { id.as_str() };
            members.push(self.add_snapshot(&name, source, group)?.snapshot_id);
        }
        self.groups.insert(id.clone(), (request.name.clone(), members.clone()));
        Ok(proto::CreateVolumeGroupSnapshotResponse {
            group_snapshot: Some(self.group(&id, &members)),
        })
    }

    fn group(&self, id: &str, members: &[String]) -> proto::VolumeGroupSnapshot {
        let member = |member: &String| self.snapshots.get(member).map(|one| one.answer.clone());
        proto::VolumeGroupSnapshot {
            group_snapshot_id: id.to_owned(),
            snapshots: members.iter().filter_map(member).collect(),
            creation_time: Some(prost_types::Timestamp { seconds: 1_700_000_000, nanos: 0 }),
            ready_to_use: true,
        }
    }

    pub(super) fn delete_volume_group_snapshot(
        &mut self,
        request: &proto::DeleteVolumeGroupSnapshotRequest,
    ) -> Answer<proto::DeleteVolumeGroupSnapshotResponse> {
        let id = &request.group_snapshot_id;
        if id.is_empty() {
            return invalid("the group snapshot ID is missing");
        }
        if let Some((_, members)) = self.groups.remove(id)
            && !self.has(D::GroupStays)
        {
            self.snapshots.retain(|member, _| !members.contains(member));
        }
        Ok(proto::DeleteVolumeGroupSnapshotResponse {})
    }

    pub(super) fn get_volume_group_snapshot(
        &self,
        request: &proto::GetVolumeGroupSnapshotRequest,
    ) -> Answer<proto::GetVolumeGroupSnapshotResponse> {
        if request.group_snapshot_id.is_empty() {
            return invalid("the group snapshot ID is missing");
        }
        let Some((_, members)) = self.groups.get(&request.group_snapshot_id) else {
            return not_found("group snapshot");
        };
        if request.snapshot_ids.iter().any(|id| !members.contains(id)) {
            return invalid("snapshot_ids does not match the members");
        }
        Ok(proto::GetVolumeGroupSnapshotResponse {
            group_snapshot: Some(self.group(&request.group_snapshot_id, members)),
        })
    }

    /// Returns the bytes of a snapshot of a block volume, and the size of the volume.
    fn bytes(&self, id: &str) -> Answer<(Vec<u8>, i64)> {
        if id.is_empty() {
            return invalid("the snapshot ID is missing");
        }
        let Some(snapshot) = self.snapshots.get(id) else {
            if self.has(D::BlocksOfNothing) {
                return Ok((vec![], 0));
            }
            return not_found("snapshot");
        };
        let bytes = snapshot.content.get(Path::new("")).cloned();
        Ok((bytes.unwrap_or_default(), snapshot.answer.size_bytes))
    }

    fn offset(&self, offset: i64, size: i64) -> Answer<()> {
        if offset < 0 || offset > size {
            return refusal(Code::OutOfRange, "the offset is beyond the volume");
        }
        Ok(())
    }

    pub(super) fn allocated(
        &self,
        request: &proto::GetMetadataAllocatedRequest,
    ) -> Answer<Vec<proto::GetMetadataAllocatedResponse>> {
        let (bytes, size) = self.bytes(&request.snapshot_id)?;
        self.offset(request.starting_offset, size)?;
        let mut starts =
            if bytes.is_empty() || self.has(D::BlocksMissing) { vec![8192] } else { vec![0, 8192] };
        if self.has(D::BlocksBackwards) {
            starts.reverse();
        }
        if self.has(D::BlocksBeyond) {
            starts.push(size);
        }
        let message = |start| proto::GetMetadataAllocatedResponse {
            block_metadata_type: proto::BlockMetadataType::FixedLength.into(),
            volume_capacity_bytes: size,
            block_metadata: vec![block(start)],
        };
        Ok(starts.into_iter().map(message).collect())
    }

    pub(super) fn delta(
        &self,
        request: &proto::GetMetadataDeltaRequest,
    ) -> Answer<Vec<proto::GetMetadataDeltaResponse>> {
        let (base, _) = self.bytes(&request.base_snapshot_id)?;
        let (target, size) = self.bytes(&request.target_snapshot_id)?;
        self.offset(request.starting_offset, size)?;
        let differs = base != target && !self.has(D::DeltaMissing);
        Ok(vec![proto::GetMetadataDeltaResponse {
            block_metadata_type: proto::BlockMetadataType::FixedLength.into(),
            volume_capacity_bytes: size,
            block_metadata: differs.then(|| block(0)).into_iter().collect(),
        }])
    }
}

fn block(byte_offset: i64) -> proto::BlockMetadata {
    proto::BlockMetadata { byte_offset, size_bytes: 4096 }
}
