//! Expand: the provider makes a volume larger, then the nodes expand its file system.
//!
//! The intent is recorded before ControllerExpandVolume. It is removed with the answer, or when the
//! call had certainly no effect. Otherwise the next request for the volume sends the identical call
//! first, whatever size that request wants. If the outcome stays unknown, a request for another size
//! is refused; any other update is stored with a warning. If the plugin requires node expansion,
//! that is recorded with the answer and stays until a node has expanded the volume.
//!
//! An expansion changes only the size. The update that needed it is planned again on the expanded
//! volume, so the record never shows a larger size than the provider's.

use tracing::{info, warn};

use super::call_effect::{PriorCalls, certainly_had_no_effect, is_permanently_refused};
use super::limiter::OperationLimiter;
use super::store::{VolumeStore, unchanged};
use crate::candidates::Candidates;
use crate::early_reply::reply_early;
use crate::error::{
    CallTarget, ControllerOperation, PluginFailure, ResidualState, ServerError, UpdateOrigin,
};
use crate::forward::ControllerCaller;
use crate::forward_error::ForwardError;
use crate::plugin_call_queue::CallClass;
use crate::plugin_call_queues::CallPermit;
use nomad_csi_claims::state::{EventKind, VolumeRecord, provider_name};
use nomad_csi_model::{Capability, CapacityRange, CapacityReport, NamespacedId, Secrets};
use nomad_csi_ports::{ExpandVolume, ExpandedVolume};

/// An expansion that comes before an update.
#[derive(Debug)]
pub(super) struct ExpansionStep {
    pub(super) key: NamespacedId,
    /// The pending expansion's capacity if there is one, else the update's.
    pub(super) capacity: CapacityRange,
    pub(super) need: ExpansionNeed,
    /// The volume's secrets after the update.
    pub(super) secrets: Secrets,
    pub(super) origin: UpdateOrigin,
}

/// What the update needs from the expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpansionNeed {
    /// This size.
    ThisSize,
    /// A size larger than the pending one.
    LargerSize,
    /// Nothing: the update can be stored without it.
    None,
}

/// What is known after an expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpansionResult {
    /// The volume's size. The update must be planned again.
    Settled,
    /// Nothing new. The update can be stored as planned.
    StillPending,
}

/// A recorded expansion.
struct ExpandIntent {
    record: VolumeRecord,
    prior: PriorCalls,
}

/// Expands volumes.
#[derive(Clone)]
pub(super) struct VolumeExpander {
    pub(super) store: VolumeStore,
    pub(super) limiter: OperationLimiter,
    pub(super) controller_caller: ControllerCaller,
}

impl VolumeExpander {
    /// Expands a volume, or resolves a pending expansion. The caller holds the permits of the volume
    /// and of its external volume.
    pub(super) async fn run(&self, step: &ExpansionStep) -> Result<ExpansionResult, ServerError> {
        match (self.expand(step).await, step.need) {
            (Ok(()), _) => Ok(ExpansionResult::Settled),
            (Err(error), ExpansionNeed::ThisSize) => Err(error),
            (Err(error), ExpansionNeed::LargerSize | ExpansionNeed::None) => {
                let record = self.store.record(&step.key);
                match (record.and_then(|record| record.expanding), step.need) {
                    (None, _) => Ok(ExpansionResult::Settled),
                    (Some(_), ExpansionNeed::None) => Ok(ExpansionResult::StillPending),
                    (Some(_), ExpansionNeed::ThisSize | ExpansionNeed::LargerSize) => Err(error),
                }
            }
        }
    }

    async fn expand(&self, step: &ExpansionStep) -> Result<(), ServerError> {
        let record = self.record(&step.key)?;
        let id = &record.definition.plugin_id;
        let plugin = self.store.plugin(id)?;
        let candidates = plugin
            .candidates()
            .map_err(|error| failure(step, &record, error.into(), self.residual(&record)))?;
        let permit = self.limiter.acquire_call(CallClass::Change, id).await?;
        let intent = self.record_intent(step, &record).await?;
        match self.send(step, &intent.record, (&candidates, &permit)).await {
            Ok(expanded) => self.record_success(step, &intent, expanded).await,
            Err(error) => Err(self.record_failure(step, &intent, error).await),
        }
    }

    fn record(&self, key: &NamespacedId) -> Result<VolumeRecord, ServerError> {
        let record = self.store.record(key);
        let record = record.ok_or_else(|| ServerError::VolumeNotFound(key.clone()))?;
        Ok(VolumeRecord::clone(&record))
    }

    /// Records the intent, unless it is on record already.
    async fn record_intent(
        &self,
        step: &ExpansionStep,
        record: &VolumeRecord,
    ) -> Result<ExpandIntent, ServerError> {
        let prior = match record.expanding {
            Some(_) => PriorCalls::Possible,
            None => {
                let event =
                    EventKind::VolumeExpandIntended { key: step.key.clone(), to: step.capacity };
                self.store.commit(unchanged(record), event).await?;
                PriorCalls::None
            }
        };
        Ok(ExpandIntent { record: self.record(&step.key)?, prior })
    }

    async fn send(
        &self,
        step: &ExpansionStep,
        record: &VolumeRecord,
        to: (&Candidates, &CallPermit),
    ) -> Result<ExpandedVolume, ForwardError> {
        let request = ExpandVolume {
            external_id: record.provider_id(),
            capacity: step.capacity,
            capability: self.capability_in_use(record),
            mount_options: Default::default(),
            secrets: step.secrets.clone(),
        };
        let rpc = ControllerOperation::Expand(step.origin).rpc();
        let report = |error| {
            reply_early(failure(step, record, error, self.residual(record)));
        };
        let answer = self.controller_caller.change(to, rpc, report, |controller| {
            let request = request.clone();
            async move { controller.expand_volume(request).await }
        });
        answer.await
    }

    /// The modes in force, if the volume is claimed.
    fn capability_in_use(&self, record: &VolumeRecord) -> Option<Capability> {
        let remote = record.remote_volume()?;
        self.store.read(|state| state.claims(&remote)?.claims.modes)
    }

    async fn record_success(
        &self,
        step: &ExpansionStep,
        intent: &ExpandIntent,
        expanded: ExpandedVolume,
    ) -> Result<(), ServerError> {
        let key = step.key.clone();
        let event = EventKind::VolumeExpanded {
            key: key.clone(),
            // Some plugins do not report the size. Success means at least the requested one.
            capacity: expanded.capacity.max(step.capacity.min),
            node_expansion_required: expanded.node_expansion_required,
        };
        let index = self.store.commit(unchanged(&intent.record), event).await?;
        info!(volume.id = %key.id, volume.namespace = %key.namespace, index,
            node_expansion_required = expanded.node_expansion_required, "volume expanded");
        Ok(())
    }

    async fn record_failure(
        &self,
        step: &ExpansionStep,
        intent: &ExpandIntent,
        error: ForwardError,
    ) -> ServerError {
        let key = step.key.clone();
        let record = &intent.record;
        let without_effect = failure(step, record, error.clone(), ResidualState::None);
        if certainly_had_no_effect(&error, intent.prior) || is_permanently_refused(&without_effect)
        {
            let event = EventKind::VolumeExpandAbandoned { key: key.clone() };
            match self.store.commit(unchanged(record), event).await {
                Ok(_) => return without_effect,
                Err(error) => {
                    warn!(volume.id = %key.id, volume.namespace = %key.namespace, error = error.detail(),
                        "the intent to expand the volume stays on record");
                }
            }
        }
        failure(step, record, error, self.residual(record))
    }

    /// The state that a failure leaves: the pending expansion, if one is on record.
    fn residual(&self, record: &VolumeRecord) -> ResidualState {
        match record.expanding {
            None => ResidualState::None,
            Some(_) => ResidualState::PendingIntent {
                provider_name: self.store.read(|state| provider_name(state, record)),
            },
        }
    }
}

fn failure(
    step: &ExpansionStep,
    record: &VolumeRecord,
    error: ForwardError,
    residual: ResidualState,
) -> ServerError {
    ServerError::Plugin(Box::new(PluginFailure {
        operation: ControllerOperation::Expand(step.origin),
        target: CallTarget::Volume(step.key.clone()),
        subject: record.provider_id().to_string(),
        plugin: record.definition.plugin_id.clone(),
        error,
        residual,
        capacity: CapacityReport::default(),
    }))
}
