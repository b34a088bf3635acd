//! The node service of the fake plugin, for several nodes.
//!
//! Violations: stage or publish before attach, publish before stage, a second staging path, unstage
//! under a target, a foreign publish context, and an expansion of what is not there.

use std::path::Path;

use super::in_use::{FakeStaging, FakeTarget};
use super::provider_state::ProviderState;
use super::refusal::{Refusal, refuse, unknown};
use nomad_csi_model::{AccessMode, Bytes, ExternalId, ExternalNodeId};
use nomad_csi_ports::{NodeExpandVolume, PublishVolume, Rpc, StageVolume, StatusCode};

impl ProviderState {
    pub(super) fn is_used_on(&self, node: &ExternalNodeId, id: &ExternalId) -> bool {
        let key = (node.clone(), id.clone());
        self.stagings.contains_key(&key) || self.is_published_on(node, id)
    }

    fn is_published_on(&self, node: &ExternalNodeId, id: &ExternalId) -> bool {
        let mut targets = self.targets.keys();
        targets.any(|(at, volume, _)| at == node && volume == id)
    }

    /// Handles NodeStageVolume: one staging path per volume on a node.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn stage(&mut self, node: &ExternalNodeId, request: &StageVolume) -> Result<(), Refusal> {
        let rpc = Rpc::NodeStageVolume;
        let id = &request.external_id;
        self.require_capability(rpc, self.node().stage_unstage_volume)?;
        self.require_secrets(rpc, &request.secrets)?;
        self.require_id(rpc, id)?;
        self.require_absolute(rpc, &request.staging_path)?;
        self.require_context(rpc, id, &request.context)?;
        self.require_attached(rpc, (node, id), &request.publish_context)?;
        let key = (node.clone(), id.clone());
        let desired = FakeStaging {
            path: request.staging_path.clone(),
            capability: request.capability,
            mount_options: request.mount_options.clone(),
        };
        match self.stagings.get(&key) {
            Some(staging) if staging.path != desired.path => {
                let what = format!("{id} is already staged at {}", staging.path.display());
                self.violation(rpc, StatusCode::FailedPrecondition, what)
            }
            Some(staging) if *staging != desired => {
                let message = format!("{id} is staged with other arguments");
                refuse(StatusCode::AlreadyExists, message)
            }
            Some(_) => Ok(()),
            None => {
                if let Some(Some(machine)) = self.machines.get(node) {
                    machine.stage(id, &desired.path, desired.capability.attachment_mode)?;
                }
                self.stagings.insert(key, desired);
                Ok(())
            }
        }
    }

    /// Handles NodeUnstageVolume, which must follow every unpublish.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn unstage(
        &mut self,
        node: &ExternalNodeId,
        id: &ExternalId,
        path: &Path,
    ) -> Result<(), Refusal> {
        let rpc = Rpc::NodeUnstageVolume;
        self.require_capability(rpc, self.node().stage_unstage_volume)?;
        self.require_id(rpc, id)?;
        self.require_absolute(rpc, path)?;
        if self.settings.unknown_is_not_found && !self.volumes.contains_key(id) {
            return unknown(id);
        }
        let key = (node.clone(), id.clone());
        let is_here = |staging: &FakeStaging| staging.path == path;
        if !self.stagings.get(&key).is_some_and(is_here) {
            return Ok(());
        }
        if self.is_published_on(node, id) {
            let what = format!("{id} is still published");
            return self.violation(rpc, StatusCode::FailedPrecondition, what);
        }
        if let Some(Some(machine)) = self.machines.get(node) {
            machine.unmount(path)?;
        }
        self.stagings.remove(&key);
        Ok(())
    }

    /// Handles NodePublishVolume.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn publish(
        &mut self,
        node: &ExternalNodeId,
        request: &PublishVolume,
    ) -> Result<(), Refusal> {
        let rpc = Rpc::NodePublishVolume;
        let id = &request.external_id;
        self.require_capability(rpc, self.settings.node.is_some())?;
        self.require_secrets(rpc, &request.secrets)?;
        self.require_id(rpc, id)?;
        self.require_absolute(rpc, &request.target_path)?;
        self.require_context(rpc, id, &request.context)?;
        self.require_attached(rpc, (node, id), &request.publish_context)?;
        self.require_staged(rpc, (node, id), request.staging_path.as_deref())?;
        let desired = FakeTarget {
            capability: request.capability,
            mount_options: request.mount_options.clone(),
            read_only: request.read_only,
        };
        let key = (node.clone(), id.clone(), request.target_path.clone());
        match self.targets.get(&key) {
            Some(target) if *target == desired => return Ok(()),
            Some(_) => {
                let message = format!("{id} is published at this path with other arguments");
                return refuse(StatusCode::AlreadyExists, message);
            }
            None => {}
        }
        let one_target = matches!(
            request.capability.access_mode,
            AccessMode::SingleNodeWriter | AccessMode::SingleNodeReaderOnly
        );
        if one_target && self.is_published_on(node, id) {
            let message = format!("{id} is published at another path");
            return refuse(StatusCode::FailedPrecondition, message);
        }
        if let Some(Some(machine)) = self.machines.get(node) {
            let mode = desired.capability.attachment_mode;
            machine.publish(id, &request.target_path, mode)?;
        }
        self.targets.insert(key, desired);
        Ok(())
    }

    pub(super) fn require_staged(
        &mut self,
        rpc: Rpc,
        (node, id): (&ExternalNodeId, &ExternalId),
        path: Option<&Path>,
    ) -> Result<(), Refusal> {
        let stages = self.node().stage_unstage_volume;
        let what = match (self.stagings.get(&(node.clone(), id.clone())), path) {
            (_, Some(_)) if !stages => {
                "a staging path is set, but STAGE_UNSTAGE_VOLUME is not advertised".to_owned()
            }
            _ if !stages => return Ok(()),
            (None, _) => format!("{id} is not staged"),
            (Some(_), None) => "the staging path is missing".to_owned(),
            (Some(staging), Some(path)) if staging.path != *path => {
                format!("{id} is staged at another path")
            }
            (Some(_), Some(_)) => return Ok(()),
        };
        self.violation(rpc, StatusCode::FailedPrecondition, what)
    }

    /// Handles NodeUnpublishVolume, which succeeds if the volume is not published.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn unpublish(
        &mut self,
        node: &ExternalNodeId,
        id: &ExternalId,
        path: &Path,
    ) -> Result<(), Refusal> {
        let rpc = Rpc::NodeUnpublishVolume;
        self.require_capability(rpc, self.settings.node.is_some())?;
        self.require_id(rpc, id)?;
        self.require_absolute(rpc, path)?;
        if self.settings.unknown_is_not_found && !self.volumes.contains_key(id) {
            return unknown(id);
        }
        if let Some(Some(machine)) = self.machines.get(node) {
            machine.unpublish(path)?;
        }
        let key = (node.clone(), id.clone(), path.to_owned());
        self.targets.remove(&key);
        Ok(())
    }

    /// Handles NodeExpandVolume at a path where the volume is staged or published.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn expand_on(
        &mut self,
        node: &ExternalNodeId,
        request: &NodeExpandVolume,
    ) -> Result<Bytes, Refusal> {
        let rpc = Rpc::NodeExpandVolume;
        let id = &request.external_id;
        self.require_capability(rpc, self.node().expand_volume)?;
        self.require_secrets(rpc, &request.secrets)?;
        if let Some(wrong) = request.problem() {
            return self.violation(rpc, StatusCode::InvalidArgument, wrong);
        }
        let Some(volume) = self.volumes.get(id) else {
            return unknown(id);
        };
        let capacity = volume.capacity;
        self.require_staged(rpc, (node, id), request.staging_path.as_deref())?;
        let path = request.volume_path.clone();
        let staging = self.stagings.get(&(node.clone(), id.clone()));
        let is_staged_there = staging.is_some_and(|staging| staging.path == path);
        let target = (node.clone(), id.clone(), path);
        if !is_staged_there && !self.targets.contains_key(&target) {
            let what = format!("{id} is not at {}", request.volume_path.display());
            return self.violation(rpc, StatusCode::NotFound, what);
        }
        if capacity < request.capacity.min {
            let what = format!("{id} was not expanded by the controller first");
            return self.violation(rpc, StatusCode::OutOfRange, what);
        }
        self.expanded.insert((node.clone(), id.clone()), capacity);
        Ok(capacity)
    }
}
