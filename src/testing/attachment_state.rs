//! Attachments of the fake plugin.
//!
//! Violations: a node that NodeGetInfo never named (B36), `readonly` without PUBLISH_READONLY (W26), a
//! second node for a volume of one node, and a detach from a node where the volume is still staged or
//! published, unless the node is lost.

use super::in_use::FakeAttachment;
use super::provider_state::ProviderState;
use super::refusal::{Refusal, refuse, unknown};
use nomad_csi_model::{AccessMode, ExternalId, ExternalNodeId, PublishContext};
use nomad_csi_ports::{ControllerPublishVolume, ControllerUnpublishVolume, Rpc, StatusCode};

const fn is_single_node(mode: AccessMode) -> bool {
    match mode {
        AccessMode::SingleNodeReaderOnly | AccessMode::SingleNodeWriter => true,
        AccessMode::MultiNodeReaderOnly
        | AccessMode::MultiNodeSingleWriter
        | AccessMode::MultiNodeMultiWriter => false,
    }
}

impl ProviderState {
    pub(super) fn is_node(&self, node: &ExternalNodeId) -> bool {
        *node == self.settings.description.external_node_id || self.machines.contains_key(node)
    }

    /// Handles ControllerPublishVolume.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn attach(&mut self, request: &ControllerPublishVolume) -> Result<PublishContext, Refusal> {
        let rpc = Rpc::ControllerPublishVolume;
        let (id, node) = (&request.external_id, &request.node_id);
        self.require_capability(rpc, self.controller().publish_unpublish_volume)?;
        self.require_secrets(rpc, &request.secrets)?;
        self.require_id(rpc, id)?;
        self.require_node(rpc, node)?;
        if request.read_only && !self.controller().publish_readonly {
            let what = "readonly is set, but PUBLISH_READONLY is not advertised";
            return self.violation(rpc, StatusCode::InvalidArgument, what);
        }
        self.require_context(rpc, id, &request.context)?;
        let key = (id.clone(), node.clone());
        let desired = FakeAttachment {
            capability: request.capability,
            mount_options: request.mount_options.clone(),
            read_only: request.read_only,
            publish_context: [("device".to_owned(), format!("{id} on {node}"))].into(),
        };
        match self.attachments.get(&key) {
            Some(existing) if *existing == desired => return Ok(desired.publish_context),
            Some(_) => {
                let message = format!("{id} is attached to {node} with other arguments");
                return refuse(StatusCode::AlreadyExists, message);
            }
            None => {}
        }
        self.require_alone(&key, request.capability.access_mode)?;
        if self.settings.max_attachments.is_some_and(|max| self.attached_to(node) >= max) {
            return refuse(StatusCode::ResourceExhausted, format!("{node} is full"));
        }
        self.attachments.insert(key, desired.clone());
        Ok(desired.publish_context)
    }

    fn attached_to(&self, node: &ExternalNodeId) -> usize {
        self.attachments.keys().filter(|(_, at)| at == node).count()
    }

    fn require_node(&mut self, rpc: Rpc, node: &ExternalNodeId) -> Result<(), Refusal> {
        if self.is_node(node) {
            return Ok(());
        }
        let what = format!("the plugin never named a node {node}");
        self.violation(rpc, StatusCode::NotFound, what)
    }

    /// Refuses a second node, if this or another attachment is for one node only.
    fn require_alone(
        &mut self,
        (id, node): &(ExternalId, ExternalNodeId),
        mode: AccessMode,
    ) -> Result<(), Refusal> {
        let mut others = self.attachments.iter();
        let other = others.find(|((volume, at), attachment)| {
            let is_single =
                is_single_node(mode) || is_single_node(attachment.capability.access_mode);
            volume == id && at != node && is_single
        });
        let Some(((_, at), _)) = other else {
            return Ok(());
        };
        let what = format!("{id} is attached to {at}, and one of both uses allows one node");
        let rpc = Rpc::ControllerPublishVolume;
        self.violation(rpc, StatusCode::FailedPrecondition, what)
    }

    /// Handles ControllerUnpublishVolume, which succeeds if the volume is not attached.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn detach(&mut self, request: &ControllerUnpublishVolume) -> Result<(), Refusal> {
        let rpc = Rpc::ControllerUnpublishVolume;
        let (id, node) = (&request.external_id, &request.node_id);
        self.require_capability(rpc, self.controller().publish_unpublish_volume)?;
        self.require_secrets(rpc, &request.secrets)?;
        self.require_id(rpc, id)?;
        self.require_node(rpc, node)?;
        if self.settings.unknown_is_not_found && !self.volumes.contains_key(id) {
            return unknown(id);
        }
        if self.is_used_on(node, id) && !self.lost.contains(node) {
            let what = format!("{id} is still staged or published on {node}");
            return self.violation(rpc, StatusCode::FailedPrecondition, what);
        }
        self.attachments.remove(&(id.clone(), node.clone()));
        Ok(())
    }

    /// Checks what a node needs before it uses a volume: the attachment and its publish context. A call
    /// that was sent before its node was lost can find the volume detached.
    pub(super) fn require_attached(
        &mut self,
        rpc: Rpc,
        (node, id): (&ExternalNodeId, &ExternalId),
        context: &PublishContext,
    ) -> Result<(), Refusal> {
        if !self.controller().publish_unpublish_volume {
            return Ok(());
        }
        let is_lost = self.lost.contains(node);
        let wrong = match self.attachments.get(&(id.clone(), node.clone())) {
            None => format!("{id} is not attached to {node}"),
            Some(attachment) if attachment.publish_context != *context => {
                format!("the publish context is not that of {id} on {node}")
            }
            Some(_) => return Ok(()),
        };
        if is_lost {
            return refuse(StatusCode::FailedPrecondition, wrong);
        }
        self.violation(rpc, StatusCode::FailedPrecondition, wrong)
    }
}
