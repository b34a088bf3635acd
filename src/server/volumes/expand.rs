//! Expand: the provider makes a volume larger, then the nodes expand its file system.
//!
//! The intent is recorded before ControllerExpandVolume, with the controller that gets it. It is removed with the answer, when
//! the call had certainly no effect, or when the plugin refuses the call as it is, and every earlier one sent the same, with the same
//! secrets and the same capability, or went to a controller that is gone. Such a refusal does not
//! say that a controller that is gone did nothing; but the volume is not smaller than recorded, and a repeated expansion finds it as
//! large as it is. Otherwise the next request for the volume sends the identical call
//! first, whatever size that request wants. If the outcome stays unknown, a request for another size
//! is refused; any other update is stored with a warning. If the plugin requires node expansion,
//! that is recorded with the answer and stays until a node has expanded the volume.
//!
//! An expansion changes only the size. The update that needed it is planned again on the expanded
//! volume, so the record never shows a larger size than the provider's.

use tracing::{info, warn};

use super::call_effect::{certainly_had_no_effect, is_permanently_refused};
use super::deps::VolumeDeps;
use super::named_intent::{NamedIntent, Prior, is_named};
use super::store::unchanged;
use crate::early_reply::EarlyReply;
use crate::error::{
    CallDescription, ControllerOperation, ResidualState, ServerError, UpdateOrigin,
};
use crate::forward::PermittedCalls;
use crate::forward_error::ForwardError;
use crate::plugin_call_queue::CallClass;
use nomad_csi_claims::state::{ControllerCall, EventKind, VolumeIntent, VolumeRecord};
use nomad_csi_model::{Capability, CapacityRange, NamespacedId, Secrets};
use nomad_csi_ports::{ExpandVolume, ExpandedVolume, Rpc};

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

/// The reason why an update needs an expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpansionNeed {
    /// The update needs this size.
    ThisSize,
    /// The update needs a size larger than the pending one.
    LargerSize,
    /// The update can be stored without it.
    None,
}

/// The result of an expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpansionResult {
    /// The size is known. The update must be planned again.
    Settled,
    /// The size is still unknown. The update can be stored as planned.
    StillPending,
}

/// Expands a volume, or resolves a pending expansion. The caller holds the locks of the volume
/// and of its external volume.
pub(super) async fn run_expansion(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    step: &ExpansionStep,
) -> Result<ExpansionResult, ServerError> {
    match (expand(deps, reply, step).await, step.need) {
        (Ok(()), _) => Ok(ExpansionResult::Settled),
        (Err(error), ExpansionNeed::ThisSize) => Err(error),
        (Err(error), ExpansionNeed::LargerSize | ExpansionNeed::None) => {
            let record = deps.store.record(&step.key);
            match (record.and_then(|record| record.expanding), step.need) {
                (None, _) => Ok(ExpansionResult::Settled),
                (Some(_), ExpansionNeed::None) => Ok(ExpansionResult::StillPending),
                (Some(_), ExpansionNeed::ThisSize | ExpansionNeed::LargerSize) => Err(error),
            }
        }
    }
}

async fn expand(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    step: &ExpansionStep,
) -> Result<(), ServerError> {
    let record = volume_record(deps, &step.key)?;
    let operation = ControllerOperation::Expand(step.origin);
    let (id, plugin) = (record.provider_id(), &record.definition.plugin_id);
    let call = CallDescription::of_volume(operation, step.key.clone(), &id, plugin);
    let plugin = deps.store.plugin(plugin)?;
    let left = residual(deps, &record);
    let bound = ControllerCall::of_intent(&record, VolumeIntent::Expand);
    let calls = deps.admit_for((CallClass::Change, &bound), &plugin, &call, left).await?;
    let request = expansion_request(deps, &record, step);
    let intent = record_intent(deps, &request, record, (&bound, &calls)).await?;
    let report = |error| reply.send(call.failed(error, residual(deps, &intent.latest())));
    match send(&calls, report, &request, &intent).await {
        Ok(expanded) => record_success(deps, step, &intent, expanded).await,
        Err(error) => Err(record_failure(deps, &call, &intent, error).await),
    }
}

fn volume_record(deps: &VolumeDeps, key: &NamespacedId) -> Result<VolumeRecord, ServerError> {
    let record = deps.store.record(key);
    let record = record.ok_or_else(|| ServerError::VolumeNotFound(key.clone()))?;
    Ok(VolumeRecord::clone(&record))
}

/// Records the intent with its controller, unless it is on record already.
async fn record_intent(
    deps: &VolumeDeps,
    request: &ExpandVolume,
    record: VolumeRecord,
    (bound, calls): (&ControllerCall, &PermittedCalls),
) -> Result<NamedIntent, ServerError> {
    let intent = VolumeIntent::Expand;
    let fingerprint =
        deps.sealer.request_fingerprint(record.key(), facts(request), &request.secrets);
    let prior = Prior::of(&record, intent);
    if is_named(deps, &record, (intent, &fingerprint), calls) {
        return Ok(NamedIntent::found(deps, record, (intent, fingerprint), prior));
    }
    let (key, instance) = (record.key(), calls.preferred().cloned());
    let named = deps.store.intent_request(&record, (intent, instance.as_ref()), &fingerprint);
    let event = EventKind::VolumeExpandIntended {
        key: key.clone(),
        to: request.capacity,
        instance: instance.clone(),
        request: Some(named),
    };
    let expected = (unchanged(&record), instance);
    NamedIntent::record(deps, (key, bound, (intent, fingerprint)), expected, event, prior).await
}

fn expansion_request(
    deps: &VolumeDeps,
    record: &VolumeRecord,
    step: &ExpansionStep,
) -> ExpandVolume {
    ExpandVolume {
        external_id: record.provider_id(),
        capacity: step.capacity,
        capability: capability_in_use(deps, record),
        mount_options: Default::default(),
        secrets: step.secrets.clone(),
    }
}

/// Returns what an expansion sends besides its secrets, as its fingerprint has it.
fn facts(request: &ExpandVolume) -> [(String, String); 3] {
    let ExpandVolume { external_id, capacity, capability, mount_options: _, secrets: _ } = request;
    let CapacityRange { min, max } = capacity;
    let capability = capability.map(|capability| capability.to_string());
    [
        ("external ID".to_owned(), external_id.to_string()),
        ("capacity".to_owned(), format!("min {}, max {}", min.get(), max.get())),
        ("capability".to_owned(), capability.unwrap_or_default()),
    ]
}

async fn send(
    calls: &PermittedCalls,
    report: impl Fn(ForwardError) + Send + Sync,
    request: &ExpandVolume,
    intent: &NamedIntent,
) -> Result<ExpandedVolume, ForwardError> {
    let rpc = Rpc::ControllerExpandVolume;
    let answer = calls.change((rpc, intent), report, |controller| {
        let request = request.clone();
        async move { controller.expand_volume(request).await }
    });
    answer.await
}

/// The modes in force, if the volume is claimed.
fn capability_in_use(deps: &VolumeDeps, record: &VolumeRecord) -> Option<Capability> {
    let remote = record.remote_volume()?;
    deps.store.read(|state| state.claims(&remote)?.claims.modes)
}

async fn record_success(
    deps: &VolumeDeps,
    step: &ExpansionStep,
    intent: &NamedIntent,
    expanded: ExpandedVolume,
) -> Result<(), ServerError> {
    let key = step.key.clone();
    let event = EventKind::VolumeExpanded {
        key: key.clone(),
        // Some plugins do not report the size. Success means at least the requested one.
        capacity: expanded.capacity.max(step.capacity.min),
        node_expansion_required: expanded.node_expansion_required,
    };
    let index = deps.store.commit(unchanged(&intent.latest()), event).await?;
    info!(volume.id = %key.id, volume.namespace = %key.namespace, index,
        node_expansion_required = expanded.node_expansion_required, "volume expanded");
    Ok(())
}

async fn record_failure(
    deps: &VolumeDeps,
    call: &CallDescription,
    intent: &NamedIntent,
    error: ForwardError,
) -> ServerError {
    let record = &intent.latest();
    let key = record.key();
    let without_effect = call.failed(error.clone(), ResidualState::None).into();
    let prior = intent.prior();
    let is_certain = certainly_had_no_effect(&error, prior);
    if is_certain || is_permanently_refused(&without_effect) && prior.have_ended() {
        let may_have_changed = !is_certain && !intent.went_to_one_program();
        let event = EventKind::VolumeExpandAbandoned { key: key.clone(), may_have_changed };
        match deps.store.commit(unchanged(record), event).await {
            Ok(_) => return without_effect,
            Err(error) => {
                warn!(volume.id = %key.id, volume.namespace = %key.namespace, error = error.detail(),
                    "the intent to expand the volume stays on record");
            }
        }
    }
    call.failed(error, residual(deps, record)).into()
}

/// The state that a failure leaves: the pending expansion, if one is on record.
fn residual(deps: &VolumeDeps, record: &VolumeRecord) -> ResidualState {
    match record.expanding {
        None => ResidualState::None,
        Some(_) => deps.pending(record),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::{AccessMode, AttachmentMode, Bytes};

    /// A fingerprint is on record, and the next version compares it with its own.
    #[test]
    fn the_texts_of_a_fingerprint_are_those_of_every_version() {
        let capability = Capability {
            access_mode: AccessMode::SingleNodeWriter,
            attachment_mode: AttachmentMode::FileSystem,
        };
        let bytes = |bytes| Bytes::new(bytes).unwrap();
        let request = |capability| ExpandVolume {
            external_id: "vol-1".into(),
            capacity: CapacityRange { min: bytes(1024), max: bytes(2048) },
            capability,
            mount_options: Default::default(),
            secrets: Default::default(),
        };
        let texts = |capability| facts(&request(capability)).map(|(_, text)| text);
        let in_use = ["vol-1", "min 1024, max 2048", "single-node-writer, file-system"];
        assert_eq!(texts(Some(capability)), in_use);
        assert_eq!(texts(None), ["vol-1", "min 1024, max 2048", ""]);
    }
}
