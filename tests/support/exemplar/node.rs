//! The node: stagings and targets, which are entries of a map.

use std::path::PathBuf;

use nomad_csi::csi::proto;
use nomad_csi::csi::proto::volume_capability::AccessType;
use nomad_csi::csi::proto::volume_capability::access_mode::Mode;
use tonic::Code;

use super::Deviation as D;
use super::world::{Answer, Target, World, invalid, not_found, refuse};

impl World {
    pub(super) fn node_stage_volume(
        &mut self,
        request: &proto::NodeStageVolumeRequest,
    ) -> Answer<proto::NodeStageVolumeResponse> {
        let Some(capability) = &request.volume_capability else {
            return invalid("the capability is missing");
        };
        let (id, path) = (&request.volume_id, &request.staging_target_path);
        if id.is_empty() || path.is_empty() {
            return invalid("something is missing");
        }
        if !self.volumes.contains_key(id) && !self.is(D::StageUnknown) {
            return not_found("such volume");
        }
        self.has_fs(capability)?;
        let key = (id.clone(), path.clone());
        match self.staged.get(&key) {
            Some(staged) if staged != capability => {
                return refuse(Code::AlreadyExists, "the volume is staged otherwise");
            }
            _ => {}
        }
        self.staged.insert(key, capability.clone());
        Ok(proto::NodeStageVolumeResponse {})
    }

    fn has_fs(&self, capability: &proto::VolumeCapability) -> Answer<()> {
        match &capability.access_type {
            Some(AccessType::Mount(mount)) if !mount.fs_type.is_empty() && !self.is(D::AnyFs) => {
                invalid("there is no such file system")
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
            return invalid("something is missing");
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
            return invalid("something is missing");
        }
        if !self.volumes.contains_key(id) {
            return not_found("such volume");
        }
        self.has_fs(capability)?;
        let staging = (id.clone(), request.staging_target_path.clone());
        if !self.staged.contains_key(&staging) && !self.is(D::Unstaged) {
            return refuse(Code::FailedPrecondition, "the volume is not staged");
        }
        let path = PathBuf::from(&request.target_path);
        let any = self.is(D::OtherUse);
        if let Some(target) = self.targets.get_mut(&path) {
            let same = target.capability == *capability && target.read_only == request.readonly;
            if !same && !any {
                return refuse(
                    Code::AlreadyExists,
                    "the volume is published there otherwise",
                );
            }
            target.times += 1;
            return Ok(proto::NodePublishVolumeResponse {});
        }
        let mode = capability.access_mode.map(|mode| mode.mode());
        let elsewhere = self.targets.values().any(|target| target.volume == *id);
        if elsewhere && mode != Some(Mode::SingleNodeMultiWriter) && !self.is(D::SecondTarget) {
            return refuse(
                Code::FailedPrecondition,
                "the volume is published elsewhere",
            );
        }
        let apart = (elsewhere && self.is(D::TargetsApart)).then(Default::default);
        let target = Target {
            volume: id.clone(),
            capability: capability.clone(),
            read_only: request.readonly,
            times: 1,
            apart,
        };
        self.targets.insert(path, target);
        Ok(proto::NodePublishVolumeResponse {})
    }

    pub(super) fn node_unpublish_volume(
        &mut self,
        request: &proto::NodeUnpublishVolumeRequest,
    ) -> Answer<proto::NodeUnpublishVolumeResponse> {
        if request.volume_id.is_empty() || request.target_path.is_empty() {
            return invalid("something is missing");
        }
        let path = PathBuf::from(&request.target_path);
        let stacks = self.is(D::StackedTargets);
        let Some(target) = self.targets.get_mut(&path) else {
            if self.is(D::UnpublishOnce) && self.unpublished.contains(&path) {
                return refuse(Code::Internal, "nothing is mounted there");
            }
            return Ok(proto::NodeUnpublishVolumeResponse {});
        };
        target.times -= 1;
        if stacks && target.times > 0 {
            return Ok(proto::NodeUnpublishVolumeResponse {});
        }
        self.targets.remove(&path);
        if self.is(D::TargetStays) {
            self.directories.insert(path.clone());
        }
        if self.is(D::LosesData)
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
            return invalid("something is missing");
        }
        let target = self.targets.get(&PathBuf::from(&request.volume_path));
        let is_there = target.is_some_and(|target| target.volume == request.volume_id);
        if !is_there && !self.is(D::StatsAnywhere) {
            return not_found("such volume at that path");
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
            return invalid("something is missing");
        }
        let Some(volume) = self.volumes.get(&request.volume_id) else {
            return not_found("such volume");
        };
        Ok(proto::NodeExpandVolumeResponse {
            capacity_bytes: volume.answer.capacity_bytes,
        })
    }
}
