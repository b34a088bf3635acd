//! The node: staging and target paths are entries of a map.

use std::path::PathBuf;

use nomad_csi_proto as proto;
use nomad_csi_proto::volume_capability::AccessType;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use tonic::Code;

use super::deviation::Deviation as D;
use super::state::{Answer, PluginState, Target, invalid, not_found, refusal};

impl PluginState {
    pub(super) fn node_stage_volume(
        &mut self,
        request: &proto::NodeStageVolumeRequest,
    ) -> Answer<proto::NodeStageVolumeResponse> {
        let Some(capability) = &request.volume_capability else {
            return invalid("the capability is missing");
        };
        let (id, path) = (&request.volume_id, &request.staging_target_path);
        if id.is_empty() || path.is_empty() {
            return invalid("a required field is missing");
        }
        if !self.volumes.contains_key(id) && !self.has(D::StageUnknown) {
            return not_found("volume");
        }
        self.has_fs(capability)?;
        let key = (id.clone(), path.clone());
        match self.staged.get(&key) {
            Some(staged) if staged != capability => {
                return refusal(
                    Code::AlreadyExists,
                    "the volume is staged with another capability",
                );
            }
            _ => {}
        }
        self.staged.insert(key, capability.clone());
        Ok(proto::NodeStageVolumeResponse {})
    }

    fn has_fs(&self, capability: &proto::VolumeCapability) -> Answer<()> {
        match &capability.access_type {
            Some(AccessType::Mount(mount)) if !mount.fs_type.is_empty() && !self.has(D::AnyFs) => {
                invalid("fs_type is unknown")
            }
            _ => Ok(()),
        }
    }

    pub(super) fn node_unstage_volume(
        &mut self,
        request: &proto::NodeUnstageVolumeRequest,
    ) -> Answer<proto::NodeUnstageVolumeResponse> {
        let (id, path) = (&request.volume_id, &request.staging_target_path);
        if id.is_empty() || path.is_empty() {
            return invalid("a required field is missing");
        }
        self.staged.remove(&(id.clone(), path.clone()));
        Ok(proto::NodeUnstageVolumeResponse {})
    }

    pub(super) fn node_publish_volume(
        &mut self,
        request: &proto::NodePublishVolumeRequest,
    ) -> Answer<proto::NodePublishVolumeResponse> {
        let Some(capability) = &request.volume_capability else {
            return invalid("the capability is missing");
        };
        let id = &request.volume_id;
        if id.is_empty() || request.target_path.is_empty() {
            return invalid("a required field is missing");
        }
        if !self.volumes.contains_key(id) {
            return not_found("volume");
        }
        self.has_fs(capability)?;
        let staging = (id.clone(), request.staging_target_path.clone());
        if !self.staged.contains_key(&staging) && !self.has(D::Unstaged) {
            return refusal(Code::FailedPrecondition, "the volume is not staged");
        }
        let path = PathBuf::from(&request.target_path);
        let any = self.has(D::OtherUse);
        if let Some(target) = self.targets.get_mut(&path) {
            let same = target.capability == *capability && target.read_only == request.readonly;
            if !same && !any {
                return refusal(
                    Code::AlreadyExists,
                    "the volume is published at this path with other arguments",
                );
            }
            target.times += 1;
            return Ok(proto::NodePublishVolumeResponse {});
        }
        let mode = capability.access_mode.map(|mode| mode.mode());
        let elsewhere = self.targets.values().any(|target| target.volume == *id);
        if elsewhere && mode != Some(Mode::SingleNodeMultiWriter) && !self.has(D::SecondTarget) {
            return refusal(Code::FailedPrecondition, "the volume is published at another path");
        }
        let own_content = (elsewhere && self.has(D::TargetsSeparate)).then(Default::default);
        let target = Target {
            volume: id.clone(),
            capability: capability.clone(),
            read_only: request.readonly,
            times: 1,
            own_content,
        };
        self.targets.insert(path, target);
        Ok(proto::NodePublishVolumeResponse {})
    }

    pub(super) fn node_unpublish_volume(
        &mut self,
        request: &proto::NodeUnpublishVolumeRequest,
    ) -> Answer<proto::NodeUnpublishVolumeResponse> {
        if request.volume_id.is_empty() || request.target_path.is_empty() {
            return invalid("a required field is missing");
        }
        let path = PathBuf::from(&request.target_path);
        let stacks = self.has(D::StackedTargets);
        let Some(target) = self.targets.get_mut(&path) else {
            if self.has(D::UnpublishOnce) && self.unpublished.contains(&path) {
                return refusal(Code::Internal, "nothing is mounted there");
            }
            return Ok(proto::NodeUnpublishVolumeResponse {});
        };
        target.times -= 1;
        if stacks && target.times > 0 {
            return Ok(proto::NodeUnpublishVolumeResponse {});
        }
        self.targets.remove(&path);
        if self.has(D::TargetStays) {
            self.directories.insert(path.clone());
        }
        if self.has(D::LosesData)
            && let Some(volume) = self.volumes.get_mut(&request.volume_id)
        {
            volume.content.clear();
        }
        self.unpublished.insert(path);
        Ok(proto::NodeUnpublishVolumeResponse {})
    }

    pub(super) fn node_get_volume_stats(
        &self,
        request: &proto::NodeGetVolumeStatsRequest,
    ) -> Answer<proto::NodeGetVolumeStatsResponse> {
        if request.volume_id.is_empty() || request.volume_path.is_empty() {
            return invalid("a required field is missing");
        }
        let target = self.targets.get(&PathBuf::from(&request.volume_path));
        let is_there = target.is_some_and(|target| target.volume == request.volume_id);
        if !is_there && !self.has(D::StatsAnywhere) {
            return not_found("volume at that path");
        }
        let usage = proto::VolumeUsage {
            available: 90,
            total: 100,
            used: 10,
            unit: proto::volume_usage::Unit::Bytes.into(),
        };
        Ok(proto::NodeGetVolumeStatsResponse {
            usage: vec![usage],
            volume_condition: self.condition(),
        })
    }

    pub(super) fn node_expand_volume(
        &mut self,
        request: &proto::NodeExpandVolumeRequest,
    ) -> Answer<proto::NodeExpandVolumeResponse> {
        if request.volume_id.is_empty() || request.volume_path.is_empty() {
            return invalid("a required field is missing");
        }
        let Some(volume) = self.volumes.get(&request.volume_id) else {
            return not_found("volume");
        };
        Ok(proto::NodeExpandVolumeResponse { capacity_bytes: volume.answer.capacity_bytes })
    }
}
