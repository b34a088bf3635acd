//! The controller: creates, deletes, lists, attaches and expands volumes.

use std::collections::BTreeMap;

use nomad_csi_proto as proto;
use nomad_csi_proto::volume_content_source::Type as Source;
use tonic::Code;

use super::deviation::Deviation as D;
use super::state::{
    Answer, Content, MAX_SIZE, MAX_VOLUMES, NODE, PluginState, Volume, ZONE, invalid, is_block,
    not_found, refusal,
};

impl PluginState {
    pub(super) fn create_volume(
        &mut self,
        request: proto::CreateVolumeRequest,
    ) -> Answer<proto::CreateVolumeResponse> {
        self.well_formed(&request)?;
        if !request.secrets.is_empty() && self.has(D::LogsSecrets) {
            let secrets: Vec<&String> = request.secrets.values().collect();
            let line = format!("create with {secrets:?}\n");
            self.log += &line;
        }
        if !self.has(D::NewVolumeEachTime)
            && let Some(id) = self.volume_with_name(&request)
        {
            return self.created_before(&id, &request);
        }
        self.make_volume(request)
    }

    /// Returns the ID of the volume with the name of the request.
    pub(super) fn volume_with_name(&self, request: &proto::CreateVolumeRequest) -> Option<String> {
        let copies = request.volume_content_source.is_some();
        if copies && self.has(D::CopyEachTime) {
            return None;
        }
        let found = self.volumes.iter().find(|(_, volume)| volume.request.name == request.name);
        found.map(|(id, _)| id.clone())
    }

    fn well_formed(&mut self, request: &proto::CreateVolumeRequest) -> Answer<()> {
        let required = self.required_parameter;
        if required.is_some_and(|name| !request.parameters.contains_key(name)) {
            return invalid("a parameter is missing");
        }
        if request.name.is_empty() && !self.has(D::NamelessVolume) {
            return invalid("the name is missing");
        }
        if request.name.len() > 64 && self.has(D::ShortNames) {
            return invalid("the name is too long");
        }
        if !request.name.is_ascii() && self.has(D::AsciiNames) {
            return invalid("the name is not ASCII");
        }
        if request.volume_capabilities.is_empty() && !self.has(D::NoCapabilities) {
            return invalid("the capabilities are missing");
        }
        let half =
            |one: &proto::VolumeCapability| one.access_mode.is_none() || one.access_type.is_none();
        if request.volume_capabilities.iter().any(half) && !self.has(D::HalfCapability) {
            return invalid("a capability has no mode or no type");
        }
        if !self.knows(&request.mutable_parameters) {
            return invalid("no such mutable parameter");
        }
        if self.has(D::NameStaysReserved) && self.deleted_names.contains(&request.name) {
            return refusal(Code::AlreadyExists, "the name was taken");
        }
        let range = request.capacity_range.unwrap_or_default();
        self.size_of(&range).map(drop)
    }

    fn size_of(&self, range: &proto::CapacityRange) -> Answer<i64> {
        let (least, most) = (range.required_bytes, range.limit_bytes);
        if self.has(D::NegativeSize) && (least < 0 || most < 0 || (most > 0 && most < least)) {
            return Ok(least.max(0));
        }
        if least < 0 || most < 0 {
            return invalid("a size is negative");
        }
        if most > 0 && most < least {
            return invalid("the limit is below what is required");
        }
        if least > MAX_SIZE && !self.has(D::EndlessSize) {
            return refusal(Code::OutOfRange, "the size is too large");
        }
        let size = if least == 0 { 1 << 19 } else { least };
        Ok(if most > 0 { size.min(most) } else { size })
    }

    fn created_before(
        &mut self,
        id: &str,
        request: &proto::CreateVolumeRequest,
    ) -> Answer<proto::CreateVolumeResponse> {
        let existing = &self.volumes[id];
        let before = &existing.request;
        let differs = [
            (D::OtherSize, before.capacity_range != request.capacity_range),
            (D::OtherParameters, before.parameters != request.parameters),
            (D::OtherCapability, before.volume_capabilities != request.volume_capabilities),
            (D::OtherSource, before.volume_content_source != request.volume_content_source),
        ];
        if differs.iter().any(|(deviation, differs)| *differs && !self.has(*deviation)) {
            let code = if self.has(D::WrongCode) { Code::Internal } else { Code::AlreadyExists };
            return refusal(code, "the name belongs to another volume");
        }
        let mut volume = existing.answer.clone();
        if self.has(D::ChangingContext) {
            let again = ("again".to_owned(), "yes".to_owned());
            volume.volume_context.extend([again]);
        }
        Ok(answer(volume))
    }

    pub(super) fn make_volume(
        &mut self,
        request: proto::CreateVolumeRequest,
    ) -> Answer<proto::CreateVolumeResponse> {
        if let Some((count, stop)) = &mut self.interrupt {
            *count -= 1;
            if *count == 0 {
                stop.cancel();
                self.interrupt = None;
            }
        }
        let mut size = self.size_of(&request.capacity_range.unwrap_or_default())?;
        let (content, shares_with, source_size) = self.filled(&request)?;
        if size < source_size {
            if request.capacity_range.is_none() && self.has(D::SizelessCopy) {
                return invalid("the source is larger");
            }
            if request.capacity_range.is_some() && !self.has(D::SmallerCopy) {
                return refusal(Code::OutOfRange, "the source is larger");
            }
            size = if self.has(D::SmallerCopy) { size } else { source_size };
        }
        let here = proto::Topology { segments: [(ZONE.0.to_owned(), ZONE.1.to_owned())].into() };
        if let Some(requirement) = &request.accessibility_requirements
            && !requirement.requisite.contains(&here)
            && !self.has(D::AnyTopology)
        {
            return refusal(Code::ResourceExhausted, "the topology does not exist");
        }
        let id = self.new_id("volume");
        let zone = if self.has(D::OtherTopology) { "b" } else { ZONE.1 };
        let place = proto::Topology { segments: [(ZONE.0.to_owned(), zone.to_owned())].into() };
        let shown_size = match size {
            size if self.has(D::TooSmall) => size / 2,
            size if self.has(D::TooLarge) => size * 2,
            size => size,
        };
        let volume = proto::Volume {
            capacity_bytes: shown_size,
            volume_id: if self.has(D::NoVolumeId) { String::new() } else { id.clone() },
            volume_context: [("made-by".to_owned(), "exemplar".to_owned())].into(),
            content_source: request.volume_content_source.clone(),
            accessible_topology: vec![place],
        };
        let copied = request.volume_content_source.is_some();
        let seen_size = if copied && self.has(D::SmallFsCopy) { source_size } else { size };
        let created = Volume {
            request,
            answer: volume.clone(),
            content,
            seen_size: u64::try_from(seen_size).expect("a size is not negative"),
            shares_with,
        };
        self.volumes.insert(id, created);
        Ok(answer(volume))
    }

    /// Returns the content of a new volume, the volume that shares it, and the size of the source.
    fn filled(
        &self,
        request: &proto::CreateVolumeRequest,
    ) -> Answer<(Content, Option<String>, i64)> {
        let source = request.volume_content_source.as_ref();
        match source.and_then(|source| source.r#type.as_ref()) {
            None => Ok((Content::new(), None, 0)),
            Some(Source::Volume(source)) => {
                let Some(volume) = self.volumes.get(&source.volume_id) else {
                    return if self.has(D::UnknownSource) {
                        Ok((Content::new(), None, 0))
                    } else {
                        not_found("source volume")
                    };
                };
                let shares = self.has(D::SharedClone).then(|| source.volume_id.clone());
                let content =
                    if self.has(D::EmptyClone) { Content::new() } else { volume.content.clone() };
                Ok((content, shares, volume.answer.capacity_bytes))
            }
            Some(Source::Snapshot(source)) => {
                let Some(snapshot) = self.snapshots.get(&source.snapshot_id) else {
                    return not_found("source snapshot");
                };
                let live = self.volumes.get(&snapshot.answer.source_volume_id);
                let content = match live {
                    Some(volume) if self.has(D::LateRestore) => volume.content.clone(),
                    _ => snapshot.content.clone(),
                };
                Ok((content, None, snapshot.answer.size_bytes))
            }
        }
    }

    pub(super) fn delete_volume(
        &mut self,
        request: &proto::DeleteVolumeRequest,
    ) -> Answer<proto::DeleteVolumeResponse> {
        let id = &request.volume_id;
        if id.is_empty() && !self.has(D::DeleteNothing) {
            return invalid("the volume ID is missing");
        }
        let in_use = self.targets.values().any(|target| target.volume == *id)
            || self.staged.keys().any(|(volume, _)| volume == id);
        if in_use && !self.has(D::DeletesPublished) {
            return refusal(Code::FailedPrecondition, "the volume is staged or published");
        }
        if self.attached.contains_key(id)
            && !self.has(D::DeletesAttached)
            && !self.has(D::DeletesPublished)
        {
            return refusal(Code::FailedPrecondition, "the volume is attached");
        }
        match self.volumes.remove(id) {
            None if self.has(D::DeleteOnce) => return not_found("volume"),
            None => {}
            Some(volume) => {
                self.deleted_names.insert(volume.request.name);
                if self.has(D::DeletedListed) {
                    self.deleted_but_listed.push(volume.answer);
                }
                if self.has(D::SnapshotDeletedWithVolume) {
                    self.snapshots.retain(|_, snapshot| snapshot.answer.source_volume_id != *id);
                }
            }
        }
        Ok(proto::DeleteVolumeResponse {})
    }

    pub(super) fn validate_volume_capabilities(
        &self,
        request: proto::ValidateVolumeCapabilitiesRequest,
    ) -> Answer<proto::ValidateVolumeCapabilitiesResponse> {
        use proto::validate_volume_capabilities_response::Confirmed;
        if request.volume_id.is_empty() {
            return invalid("the volume ID is missing");
        }
        let volume = self.volumes.get(&request.volume_id);
        if volume.is_none() && !self.has(D::ConfirmsUnknown) {
            return not_found("volume");
        }
        if request.volume_capabilities.is_empty() {
            return invalid("the capabilities are missing");
        }
        let fits = volume.is_none_or(|volume| {
            let own = &volume.request.volume_capabilities;
            request.volume_context == volume.answer.volume_context
                && request.volume_capabilities.iter().all(|one| own.contains(one))
        });
        if !fits && !self.has(D::ConfirmsAnything) {
            return Ok(proto::ValidateVolumeCapabilitiesResponse {
                confirmed: None,
                message: "the volume has other capabilities".to_owned(),
            });
        }
        let mut confirmed = Confirmed {
            volume_context: request.volume_context,
            volume_capabilities: request.volume_capabilities,
            parameters: request.parameters,
            mutable_parameters: request.mutable_parameters,
        };
        if self.has(D::EchoesNothing) {
            confirmed.volume_capabilities.clear();
        }
        Ok(proto::ValidateVolumeCapabilitiesResponse {
            confirmed: Some(confirmed),
            message: String::new(),
        })
    }

    pub(super) fn list_volumes(
        &self,
        request: &proto::ListVolumesRequest,
    ) -> Answer<proto::ListVolumesResponse> {
        if self.has(D::CrashesOnToken) && request.starting_token == "-1" {
            self.crash.cancel();
        }
        let (after, limit) =
            self.page(&request.starting_token, request.max_entries, D::LongPages)?;
        if self.has(D::TokenExpires) && !after.is_empty() && !self.volumes.contains_key(&after) {
            return not_found("volume");
        }
        let mut entries: Vec<_> = self
            .volumes
            .values()
            .map(|volume| volume.answer.clone())
            .chain(self.deleted_but_listed.iter().cloned())
            .filter(|volume| volume.volume_id > after)
            .map(|volume| self.entry(volume))
            .collect();
        let next_token = self.cut(&mut entries, limit, |entry| {
            entry.volume.as_ref().map(|volume| volume.volume_id.clone())
        });
        if self.has(D::SamePage) && !next_token.is_empty() && !request.starting_token.is_empty() {
            let next_token = request.starting_token.clone();
            return Ok(proto::ListVolumesResponse { entries, next_token });
        }
        if self.has(D::MissingEntries) && !after.is_empty() {
            entries.truncate(1);
        }
        Ok(proto::ListVolumesResponse { entries, next_token })
    }

    fn entry(&self, volume: proto::Volume) -> proto::list_volumes_response::Entry {
        let is_attached = self.attached.contains_key(&volume.volume_id);
        let shown = is_attached && !self.has(D::AttachHidden);
        proto::list_volumes_response::Entry {
            volume: Some(volume),
            status: Some(proto::list_volumes_response::VolumeStatus {
                published_node_ids: shown.then(|| NODE.to_owned()).into_iter().collect(),
                volume_condition: self.condition(),
            }),
        }
    }

    pub(super) fn condition(&self) -> Option<proto::VolumeCondition> {
        (!self.has(D::NoCondition)).then(|| proto::VolumeCondition {
            abnormal: self.has(D::Abnormal),
            message: "checked".to_owned(),
        })
    }

    /// Returns the ID before the page, and the length of the page.
    pub(super) fn page(&self, token: &str, limit: i32, long: D) -> Answer<(String, usize)> {
        if limit < 0 && !self.has(D::NegativeLimit) {
            return invalid("the limit is negative");
        }
        let known = token.is_empty() || token.starts_with("after-") || self.has(D::AnyToken);
        if !known {
            return refusal(Code::Aborted, "the token is invalid");
        }
        let after = token.strip_prefix("after-").unwrap_or_default().to_owned();
        let limit = match usize::try_from(limit).unwrap_or_default() {
            0 => usize::MAX,
            limit if self.has(long) => limit + 1,
            limit => limit,
        };
        Ok((after, limit))
    }

    pub(super) fn cut<T>(
        &self,
        entries: &mut Vec<T>,
        limit: usize,
        id: impl Fn(&T) -> Option<String>,
    ) -> String {
        if entries.len() <= limit {
            return String::new();
        }
        entries.truncate(limit);
        let last = entries.last().and_then(id).unwrap_or_default();
        format!("after-{last}")
    }

    pub(super) fn get_capacity(
        &self,
        request: &proto::GetCapacityRequest,
    ) -> Answer<proto::GetCapacityResponse> {
        let here = request
            .accessible_topology
            .as_ref()
            .is_none_or(|place| place.segments.get(ZONE.0).map(String::as_str) == Some(ZONE.1));
        let available = if self.has(D::NegativeCapacity) { -1 } else { MAX_SIZE };
        Ok(proto::GetCapacityResponse {
            available_capacity: if here { available } else { 0 },
            maximum_volume_size: Some(MAX_SIZE),
            minimum_volume_size: Some(1),
        })
    }

    pub(super) fn controller_get_volume(
        &self,
        request: &proto::ControllerGetVolumeRequest,
    ) -> Answer<proto::ControllerGetVolumeResponse> {
        use proto::controller_get_volume_response::VolumeStatus;
        let mut shown = match self.volumes.get(&request.volume_id) {
            Some(volume) => volume.answer.clone(),
            None if self.has(D::UnknownShown) => proto::Volume::default(),
            None => return not_found("volume"),
        };
        if self.has(D::OtherVolumeShown) {
            shown.volume_context = BTreeMap::new();
        }
        Ok(proto::ControllerGetVolumeResponse {
            volume: Some(shown),
            status: Some(VolumeStatus {
                published_node_ids: vec![],
                volume_condition: self.condition(),
            }),
        })
    }

    pub(super) fn controller_publish_volume(
        &mut self,
        request: &proto::ControllerPublishVolumeRequest,
    ) -> Answer<proto::ControllerPublishVolumeResponse> {
        let id = &request.volume_id;
        if id.is_empty() || request.node_id.is_empty() || request.volume_capability.is_none() {
            return invalid("a required field is missing");
        }
        if !self.volumes.contains_key(id) {
            return not_found("volume");
        }
        if request.node_id != NODE && !self.has(D::AnyNode) {
            return not_found("node");
        }
        let answer = proto::ControllerPublishVolumeResponse {
            publish_context: [("device".to_owned(), id.clone())].into(),
        };
        let any = self.has(D::AttachReadOnly);
        if let Some((read_only, times)) = self.attached.get_mut(id) {
            if *read_only != request.readonly && !any {
                return refusal(Code::AlreadyExists, "the volume is attached with other arguments");
            }
            *times += 1;
            return Ok(answer);
        }
        if self.attached.len() >= MAX_VOLUMES && !self.has(D::NoAttachLimit) {
            return refusal(Code::ResourceExhausted, "the node is full");
        }
        self.attached.insert(id.clone(), (request.readonly, 1));
        Ok(answer)
    }

    pub(super) fn controller_unpublish_volume(
        &mut self,
        request: &proto::ControllerUnpublishVolumeRequest,
    ) -> Answer<proto::ControllerUnpublishVolumeResponse> {
        let id = &request.volume_id;
        if id.is_empty() {
            return invalid("the volume ID is missing");
        }
        let counts = self.has(D::CountedAttach);
        if let Some((_, times)) = self.attached.get_mut(id) {
            *times -= 1;
            if !counts || *times == 0 {
                self.attached.remove(id);
            }
        }
        Ok(proto::ControllerUnpublishVolumeResponse {})
    }

    pub(super) fn controller_expand_volume(
        &mut self,
        request: &proto::ControllerExpandVolumeRequest,
    ) -> Answer<proto::ControllerExpandVolumeResponse> {
        let range = request.capacity_range;
        if request.volume_id.is_empty() || range.is_none() {
            return invalid("a required field is missing");
        }
        let size = self.size_of(&range.unwrap_or_default());
        let published = self.targets.values().any(|target| target.volume == request.volume_id);
        if published && self.has(D::NeverOnline) {
            return refusal(Code::FailedPrecondition, "the volume is published");
        }
        let (paper, shrinks) = (self.has(D::ExpansionInvisible), self.has(D::Shrinks));
        let (empties, unknown_ok) = (self.has(D::ExpansionEmpties), self.has(D::ExpandUnknown));
        let Some(volume) = self.volumes.get_mut(&request.volume_id) else {
            if unknown_ok {
                return Ok(proto::ControllerExpandVolumeResponse::default());
            }
            return not_found("volume");
        };
        let size = size?;
        let size = if shrinks { size } else { size.max(volume.answer.capacity_bytes) };
        volume.answer.capacity_bytes = size;
        if !paper {
            volume.seen_size = u64::try_from(size).expect("a size is not negative");
        }
        if empties {
            volume.content.clear();
        }
        let block = request.volume_capability.as_ref().is_some_and(is_block);
        Ok(proto::ControllerExpandVolumeResponse {
            capacity_bytes: size,
            node_expansion_required: !block,
        })
    }

    pub(super) fn controller_modify_volume(
        &self,
        request: &proto::ControllerModifyVolumeRequest,
    ) -> Answer<proto::ControllerModifyVolumeResponse> {
        if request.volume_id.is_empty() {
            return invalid("the volume ID is missing");
        }
        if !self.volumes.contains_key(&request.volume_id) {
            return not_found("volume");
        }
        let modified = !request.mutable_parameters.is_empty();
        if modified && self.has(D::NeverModifies) || !self.knows(&request.mutable_parameters) {
            return invalid("no such mutable parameter");
        }
        Ok(proto::ControllerModifyVolumeResponse {})
    }

    /// Returns whether all parameters are mutable. The plugin has one mutable parameter.
    fn knows(&self, mutable: &BTreeMap<String, String>) -> bool {
        self.has(D::AnyMutable) || mutable.keys().all(|key| key == "speed")
    }
}

fn answer(volume: proto::Volume) -> proto::CreateVolumeResponse {
    proto::CreateVolumeResponse { volume: Some(volume) }
}
