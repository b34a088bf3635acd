//! What a step sends: from the record, the registration and the opened secrets.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::claim::{Claim, ClaimKey, ClaimUsage, Claims};
use crate::model::{
    CapacityRange, NamespacedId, NodeId, PublishContext, RemoteVolume, SealedSecrets, Secrets,
    Usage,
};
use crate::ports::{
    ControllerPublishRequest, ControllerUnpublishRequest, NodeExpandRequest, PublishRequest,
    StageRequest, UnpublishRequest, UnstageRequest,
};
use crate::server::error::ServerError;
use crate::server::sealing::VolumeSealer;
use crate::state::{ClaimsRecord, State};

/// The record of a volume with what its calls need besides.
pub(super) struct StepContext {
    pub(super) volume: RemoteVolume,
    pub(super) record: Arc<ClaimsRecord>,
    /// The registration that provides secrets and context.
    name: NamespacedId,
    sealed: SealedSecrets,
    volume_context: BTreeMap<String, String>,
}

impl StepContext {
    /// Reads the context; `None` if the volume has no claims, or neither registration nor tombstone.
    pub(super) fn read(state: &State, volume: &RemoteVolume) -> Option<Self> {
        let record = state.claims(volume)?.clone();
        let volume = volume.clone();
        if let Some(tombstone) = &record.claims.tombstone {
            return Some(Self {
                name: tombstone.volume.clone(),
                sealed: tombstone.secrets.clone(),
                volume_context: BTreeMap::new(),
                volume,
                record,
            });
        }
        let claims = record.claims.claims.values();
        let mut claimed = claims.filter_map(|claim| state.record(&claim.volume));
        let registration = claimed.next()?;
        Some(Self {
            name: registration.key().clone(),
            sealed: registration.secrets.clone(),
            volume_context: registration.provided.context.to_map(),
            volume,
            record,
        })
    }

    fn claims(&self) -> &Claims {
        &self.record.claims
    }

    /// The claim of a node that a call is for: a held one if there is any.
    fn claim_on(&self, node: &NodeId) -> Option<(&ClaimKey, &Claim)> {
        let claims = self.claims().on(node);
        claims.max_by_key(|(_, claim)| claim.is_held())
    }

    fn secrets(&self, sealer: &VolumeSealer) -> Result<Secrets, ServerError> {
        sealer.open_secrets(&self.name, &self.sealed)
    }

    fn publish_context(&self, node: &NodeId) -> PublishContext {
        let attachment = self.claims().attachments.get(node);
        attachment.map_or_else(PublishContext::new, |attachment| attachment.context.clone())
    }

    /// Flags are sealed for the registration through which the volume was claimed.
    fn usage(&self, sealer: &VolumeSealer, usage: &ClaimUsage) -> Result<Usage, ServerError> {
        let claims = self.claims().claims.values();
        let mut same = claims.filter(|claim| claim.usage == *usage);
        let owner = same.next().map_or(&self.name, |claim| &claim.volume);
        sealer.open_usage(owner, usage)
    }

    /// Whether all claims on the node only read.
    fn only_reads(&self, node: &NodeId) -> bool {
        self.claims().on(node).all(|(_, claim)| claim.read_only)
    }

    pub(super) fn attach(
        &self,
        sealer: &VolumeSealer,
        node: &NodeId,
    ) -> Result<Option<ControllerPublishRequest>, ServerError> {
        let Some((_, claim)) = self.claim_on(node) else {
            return Ok(None);
        };
        let Some(external_node) = self.external_node(node, claim) else {
            return Ok(None);
        };
        Ok(Some(ControllerPublishRequest {
            volume: self.volume.clone(),
            name: claim.volume.clone(),
            node: external_node,
            usage: self.usage(sealer, &claim.usage)?,
            read_only: self.only_reads(node),
            volume_context: self.volume_context.clone(),
            secrets: self.secrets(sealer)?,
        }))
    }

    /// The ID under which the volume was attached stays, also if the node has another one now (B37).
    fn external_node(&self, node: &NodeId, claim: &Claim) -> Option<crate::model::ExternalNodeId> {
        let attachment = self.claims().attachments.get(node);
        let attached = attachment.map(|attachment| attachment.external_node.clone());
        attached.or_else(|| claim.external_node.clone())
    }

    pub(super) fn detach(
        &self,
        sealer: &VolumeSealer,
        node: &NodeId,
    ) -> Result<Option<ControllerUnpublishRequest>, ServerError> {
        let Some(attachment) = self.claims().attachments.get(node) else {
            return Ok(None);
        };
        Ok(Some(ControllerUnpublishRequest {
            volume: self.volume.clone(),
            name: self.name.clone(),
            node: attachment.external_node.clone(),
            secrets: self.secrets(sealer)?,
        }))
    }

    pub(super) fn stage(
        &self,
        sealer: &VolumeSealer,
        node: &NodeId,
    ) -> Result<Option<StageRequest>, ServerError> {
        let Some(staging) = self.claims().stagings.get(node) else {
            return Ok(None);
        };
        Ok(Some(StageRequest {
            volume: self.volume.clone(),
            name: staging.volume.clone(),
            usage: self.usage(sealer, &staging.usage)?,
            publish_context: self.publish_context(node),
            volume_context: self.volume_context.clone(),
            secrets: self.secrets(sealer)?,
        }))
    }

    pub(super) fn unstage(&self) -> UnstageRequest {
        UnstageRequest {
            volume: self.volume.clone(),
            name: self.name.clone(),
        }
    }

    pub(super) fn publish(
        &self,
        sealer: &VolumeSealer,
        key: &ClaimKey,
    ) -> Result<Option<PublishRequest>, ServerError> {
        let Some(claim) = self.claims().claims.get(key) else {
            return Ok(None);
        };
        Ok(Some(PublishRequest {
            volume: self.volume.clone(),
            name: claim.volume.clone(),
            alloc: key.alloc.clone(),
            alias: key.alias.clone(),
            usage: self.usage(sealer, &claim.usage)?,
            read_only: claim.read_only,
            publish_context: self.publish_context(&claim.node),
            volume_context: self.volume_context.clone(),
            secrets: self.secrets(sealer)?,
        }))
    }

    pub(super) fn unpublish(&self, key: &ClaimKey) -> UnpublishRequest {
        UnpublishRequest {
            volume: self.volume.clone(),
            name: self.name.clone(),
            alloc: key.alloc.clone(),
            alias: key.alias.clone(),
        }
    }

    pub(super) fn expand(
        &self,
        sealer: &VolumeSealer,
        node: &NodeId,
    ) -> Result<Option<NodeExpandRequest>, ServerError> {
        let (Some((key, claim)), Some(expansion)) = (self.claim_on(node), &self.claims().expansion)
        else {
            return Ok(None);
        };
        Ok(Some(NodeExpandRequest {
            volume: self.volume.clone(),
            name: claim.volume.clone(),
            usage: self.usage(sealer, &claim.usage)?,
            capacity: CapacityRange {
                min: expansion.to,
                max: Default::default(),
            },
            target: Some((key.alloc.clone(), key.alias.clone())),
            secrets: self.secrets(sealer)?,
        }))
    }
}
