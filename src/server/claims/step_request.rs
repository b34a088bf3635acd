//! The request of a step: from the record, the registration and the opened secrets.
//!
//! A call that makes an effect sends what was recorded when the effect became possible: its registration's
//! context, the modes and mount options, and `readonly` ([`setup_inputs()`]). So a repeated call is the
//! same, whatever claims or registrations did in between (rule 13 of the claims machine). Secrets are not
//! recorded: a call carries those that its registration has now, so that an operator can correct them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::ServerError;
use crate::sealing::VolumeSealer;
use nomad_csi_claims::claim::{
    Claim, ClaimEvent, ClaimKey, Claims, Facts, PluginSteps, SetupInputs, Step, next_steps,
};
use nomad_csi_claims::state::{ClaimsRecord, State, VolumeRecord};
use nomad_csi_model::{
    AllocId, CapacityRange, NamespacedId, NodeId, PublishContext, RemoteVolume, SealedSecrets,
    Secrets,
};
use nomad_csi_ports::{
    ControllerPublishRequest, ControllerUnpublishRequest, NodeExpandRequest, PublishRequest,
    StageRequest, UnpublishRequest, UnstageRequest,
};

/// Returns the event that records the start of a step for this record of the volume's claims.
pub(super) fn step_started(
    state: &State,
    volume: &RemoteVolume,
    claims: &Claims,
    step: &Step,
    instance: &AllocId,
) -> ClaimEvent {
    ClaimEvent::StepStarted {
        step: step.clone(),
        instance: instance.clone(),
        inputs: setup_inputs((state, instance), volume, claims, step).map(Box::new),
    }
}

/// Returns what the call of a step to this instance sends besides its claim; `None` if the step makes no effect.
pub(super) fn setup_inputs(
    (state, instance): (&State, &AllocId),
    volume: &RemoteVolume,
    claims: &Claims,
    step: &Step,
) -> Option<SetupInputs> {
    if !step.is_setup() {
        return None;
    }
    let registration =
        claims.registration(step).and_then(|name| live_registration(state, volume, name));
    let mut inputs = SetupInputs {
        volume_context: registration
            .map(|record| record.provided.context.to_map())
            .unwrap_or_default(),
        ..SetupInputs::default()
    };
    if let Step::ControllerPublish(node) = step {
        let plugin = &volume.plugin_id;
        let record = state.plugin_record(plugin);
        let alloc = record.and_then(|record| record.allocs.get(instance));
        let controller = alloc.and_then(|alloc| alloc.instance.controller.as_ref());
        inputs.attaches_read_only =
            controller.is_some_and(|controller| controller.capabilities.publish_readonly);
        inputs.external_node = state.external_node(plugin, node);
    }
    Some(inputs)
}

/// Returns a registration if it is one of this external volume.
fn live_registration<'a>(
    state: &'a State,
    volume: &RemoteVolume,
    name: &NamespacedId,
) -> Option<&'a Arc<VolumeRecord>> {
    let record = state.record(name)?;
    (record.remote_volume().as_ref() == Some(volume)).then_some(record)
}

/// A registration, or what is left of one that is gone.
struct Registration {
    name: NamespacedId,
    sealed: SealedSecrets,
    volume_context: BTreeMap<String, String>,
}

/// The record of a volume with what its calls need besides.
pub(super) struct StepContext {
    pub(super) volume: RemoteVolume,
    pub(super) record: Arc<ClaimsRecord>,
    /// The registration of the step, or another one whose claims are on record.
    registration: Registration,
    /// The facts that the steps were decided for (rule 18 of the claims machine).
    facts: Facts,
}

impl StepContext {
    /// Reads what a step needs; `None` if the volume has no claims, or neither registration nor tombstone.
    pub(super) fn read(state: &State, volume: &RemoteVolume, step: &Step) -> Option<Self> {
        let record = state.claims(volume)?.clone();
        let claims = &record.claims;
        let own = claims.registration(step);
        let of_claims = claims.claims.values().map(|claim| &claim.volume);
        let mut names = own.into_iter().chain(of_claims);
        let live = |name: &NamespacedId| {
            let record = live_registration(state, volume, name)?;
            Some(Registration {
                name: name.clone(),
                sealed: record.secrets.clone(),
                volume_context: record.provided.context.to_map(),
            })
        };
        let gone = |name: &NamespacedId| {
            let tombstone = claims.tombstone(name)?;
            Some(Registration {
                name: name.clone(),
                sealed: tombstone.secrets.clone(),
                volume_context: BTreeMap::new(),
            })
        };
        let own = own.and_then(|name| live(name).or_else(|| gone(name)));
        let registration =
            own.or_else(|| names.clone().find_map(live)).or_else(|| names.find_map(gone))?;
        Some(Self {
            volume: volume.clone(),
            registration,
            facts: state.claim_facts(&volume.plugin_id, claims),
            record,
        })
    }

    /// Returns whether the step is still to be done, as its call is about to be sent.
    pub(super) fn is_due(&self, step: &Step) -> bool {
        next_steps(self.claims(), &self.facts).contains(step)
    }

    fn decided_for(&self, node: &NodeId) -> PluginSteps {
        self.facts.steps_on(node).unwrap_or_default()
    }

    fn claims(&self) -> &Claims {
        &self.record.claims
    }

    fn name(&self) -> NamespacedId {
        self.registration.name.clone()
    }

    fn secrets(&self, sealer: &VolumeSealer) -> Result<Secrets, ServerError> {
        sealer.open_secrets(&self.registration.name, &self.registration.sealed)
    }

    fn publish_context(
        &self,
        sealer: &VolumeSealer,
        node: &NodeId,
    ) -> Result<PublishContext, ServerError> {
        match self.claims().attachments.get(node) {
            Some(attachment) => sealer.open_context(&self.volume, &attachment.context),
            None => Ok(PublishContext::new()),
        }
    }

    /// The context on record, or that of the registration if an earlier version started the call.
    fn volume_context(
        &self,
        sealer: &VolumeSealer,
        recorded: Option<&BTreeMap<String, String>>,
    ) -> Result<BTreeMap<String, String>, ServerError> {
        let context = recorded.unwrap_or(&self.registration.volume_context);
        sealer.open_context(&self.volume, context)
    }

    pub(super) fn attach(
        &self,
        sealer: &VolumeSealer,
        node: &NodeId,
    ) -> Result<Option<ControllerPublishRequest>, ServerError> {
        let Some(attachment) = self.claims().attachments.get(node) else {
            return Ok(None);
        };
        let of_claim = || self.claims().claim_for(node).map(|(_, claim)| claim);
        let (owner, usage, read_only) = match (&attachment.made_for, of_claim()) {
            (Some(made_for), _) => (&made_for.volume, &made_for.usage, made_for.read_only),
            (None, Some(claim)) => (&claim.volume, &claim.usage, only_reads(claim)),
            (None, None) => return Ok(None),
        };
        Ok(Some(ControllerPublishRequest {
            volume: self.volume.clone(),
            name: owner.clone(),
            node: attachment.external_node.clone(),
            usage: sealer.open_usage(owner, usage)?,
            read_only,
            volume_context: self.volume_context(sealer, attachment.volume_context.as_ref())?,
            secrets: self.secrets(sealer)?,
        }))
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
            name: self.name(),
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
            usage: sealer.open_usage(&staging.volume, &staging.usage)?,
            attaches: self.decided_for(node).attach,
            publish_context: self.publish_context(sealer, node)?,
            volume_context: self.volume_context(sealer, staging.volume_context.as_ref())?,
            secrets: self.secrets(sealer)?,
        }))
    }

    pub(super) fn unstage(&self) -> UnstageRequest {
        UnstageRequest { volume: self.volume.clone(), name: self.name() }
    }

    pub(super) fn publish(
        &self,
        sealer: &VolumeSealer,
        key: &ClaimKey,
    ) -> Result<Option<PublishRequest>, ServerError> {
        let Some(claim) = self.claims().claims.get(key) else {
            return Ok(None);
        };
        let decided_for = self.decided_for(&claim.node);
        Ok(Some(PublishRequest {
            volume: self.volume.clone(),
            name: claim.volume.clone(),
            alloc: key.alloc.clone(),
            alias: key.alias.clone(),
            usage: sealer.open_usage(&claim.volume, &claim.usage)?,
            attaches: decided_for.attach,
            stages: decided_for.stage,
            read_only: claim.read_only || only_reads(claim),
            publish_context: self.publish_context(sealer, &claim.node)?,
            volume_context: self.volume_context(sealer, claim.volume_context.as_ref())?,
            secrets: self.secrets(sealer)?,
        }))
    }

    pub(super) fn unpublish(&self, key: &ClaimKey) -> UnpublishRequest {
        UnpublishRequest {
            volume: self.volume.clone(),
            name: self.name(),
            alloc: key.alloc.clone(),
            alias: key.alias.clone(),
        }
    }

    pub(super) fn expand(
        &self,
        sealer: &VolumeSealer,
        node: &NodeId,
    ) -> Result<Option<NodeExpandRequest>, ServerError> {
        let claims = self.claims();
        let (Some((key, claim)), Some(expansion)) = (claims.claim_for(node), &claims.expansion)
        else {
            return Ok(None);
        };
        Ok(Some(NodeExpandRequest {
            volume: self.volume.clone(),
            name: claim.volume.clone(),
            usage: sealer.open_usage(&claim.volume, &claim.usage)?,
            capacity: CapacityRange { min: expansion.to, max: Default::default() },
            target: Some((key.alloc.clone(), key.alias.clone())),
            secrets: self.secrets(sealer)?,
        }))
    }
}

/// Returns whether the access mode of a claim has only readers.
fn only_reads(claim: &Claim) -> bool {
    !claim.usage.capability.access_mode.allows_writes()
}

#[cfg(test)]
mod tests;
