//! Which controller a volume is bound to (rule 4 of the claims machine).
//!
//! The instance that got a call may carry it out until the outcome is on record, or the instance is gone. Until then
//! every other controller call of the volume goes to the same instance: through each registration of the external
//! volume, and whatever the calls are for. A creation has no external volume yet: it is bound by its own intent
//! alone.
//!
//! An instance that is not on record is gone: its process has exited. One that was gone and is found again, as behind the
//! same endpoint, has the old ID and is another instance: only what was recorded since then may run in it. A call for an attachment
//! that an earlier version made may run in every instance of its ID, because such a version recorded that a plugin behind an
//! endpoint was gone while its process went on.
//!
//! An answer says something about a call only if the same program got the same request. A program is one process of an
//! instance, with its version: another process under the same name may be another installation, or another build of the version. A
//! process that is started again still gets the calls of its instance; only its refusals prove less.

use super::plugin_record::PluginAlloc;
use super::record::{EarlierControllers, IntentRequest, VolumeIntent, VolumeRecord};
use super::tables::State;
use crate::claim::Known;
use nomad_csi_model::{AllocId, NamespacedId, NodeId, PluginId, RemoteVolume};

/// A controller call, as far as the choice of its controller depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControllerCall {
    /// CreateVolume.
    Create {
        /// The plugin.
        plugin: PluginId,
        /// The volume.
        key: NamespacedId,
    },
    /// A call for an external volume.
    OfVolume {
        /// The external volume.
        volume: RemoteVolume,
        /// Where the record has its outcome.
        effect: ControllerEffect,
    },
}

/// Where the record has the outcome of a call for an external volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControllerEffect {
    /// In the attachment to this node.
    Attached(NodeId),
    /// In an intent of this registration.
    Intended(NamespacedId, VolumeIntent),
    /// Nowhere: the call changes nothing of the volume.
    Unrecorded,
}

impl ControllerCall {
    /// The call of an intent of a volume.
    pub fn of_intent(record: &VolumeRecord, intent: VolumeIntent) -> Self {
        let (plugin, key) = (record.definition.plugin_id.clone(), record.key().clone());
        match record.remote_volume() {
            Some(volume) if intent != VolumeIntent::Create => {
                Self::OfVolume { volume, effect: ControllerEffect::Intended(key, intent) }
            }
            Some(_) | None => Self::Create { plugin, key },
        }
    }

    /// Returns the plugin.
    pub fn plugin(&self) -> &PluginId {
        match self {
            Self::Create { plugin, .. } => plugin,
            Self::OfVolume { volume, .. } => &volume.plugin_id,
        }
    }
}

/// Returns the instance that a call must go to: the one that may carry out this call already, else one that may carry
/// out another call of the volume. `None` if every instance may be called.
pub fn bound_controller<'a>(state: &'a State, call: &ControllerCall) -> Option<&'a AllocId> {
    own_instance(state, call).or_else(|| instance_of_others(state, call))
}

/// Returns whether a call may go to this instance. The call of an intent may also leave the instance that its own
/// intent names: who records that knows that nothing was sent.
pub fn may_be_called(state: &State, call: &ControllerCall, instance: &AllocId) -> bool {
    if alloc_on_record(state, call.plugin(), instance).is_none() {
        return false;
    }
    let may_leave = match call {
        ControllerCall::Create { .. } => true,
        ControllerCall::OfVolume { effect, .. } => match effect {
            ControllerEffect::Intended(..) => true,
            ControllerEffect::Attached(_) | ControllerEffect::Unrecorded => false,
        },
    };
    match own_instance(state, call) {
        Some(own) if own == instance => true,
        Some(_) if !may_leave => false,
        Some(_) | None => instance_of_others(state, call).is_none_or(|bound| bound == instance),
    }
}

/// Returns the instance that may still carry out the call of an intent.
pub fn instance_of_intent(
    state: &State,
    record: &VolumeRecord,
    intent: VolumeIntent,
) -> Option<AllocId> {
    let controller = record.controller_of(intent)?;
    let (plugin, named) =
        (&record.definition.plugin_id, (&controller.instance, controller.last_index));
    may_run(state, plugin, named).then(|| controller.instance.clone())
}

/// Returns whether every call of an intent sent the same request to the program that its instance runs now. The instance keeps
/// its ID when its program is replaced.
pub fn went_to_one_program(state: &State, record: &VolumeRecord, intent: VolumeIntent) -> bool {
    let Some(controller) = record.controller_of(intent) else {
        return false;
    };
    let alloc = alloc_on_record(state, &record.definition.plugin_id, &controller.instance);
    // The next program is not found yet while the instance is not healthy.
    let runs_since = alloc.filter(|alloc| alloc.instance.health.healthy);
    let is_same =
        |alloc: &PluginAlloc| alloc.program_index.max(alloc.create_index) <= controller.first_index;
    controller.earlier == EarlierControllers::None
        && controller.request.is_some()
        && runs_since.is_some_and(is_same)
}

/// Returns a request of the call of an intent, as an event names it for this instance.
pub fn intent_request(
    state: &State,
    record: &VolumeRecord,
    (intent, instance): (VolumeIntent, Option<&AllocId>),
    fingerprint: String,
) -> IntentRequest {
    let named = record.controller_of(intent).map(|controller| &controller.instance);
    let has_new_instance =
        named.is_some() && named == instance && instance_of_intent(state, record, intent).is_none();
    IntentRequest { fingerprint, has_new_instance }
}

/// Returns the instance that may carry out this call already.
fn own_instance<'a>(state: &'a State, call: &ControllerCall) -> Option<&'a AllocId> {
    match call {
        ControllerCall::Create { plugin, key } => {
            let record = state.volumes.get(key)?;
            let controller = record.controller_of(VolumeIntent::Create)?;
            let named = (&controller.instance, controller.last_index);
            may_run(state, plugin, named).then_some(named.0)
        }
        ControllerCall::OfVolume { volume, effect } => {
            let mut open = open_effects(state, volume).into_iter();
            open.find(|(of, _)| of == effect).map(|(_, instance)| instance)
        }
    }
}

/// Returns an instance that may carry out another call of the volume.
fn instance_of_others<'a>(state: &'a State, call: &ControllerCall) -> Option<&'a AllocId> {
    let ControllerCall::OfVolume { volume, effect } = call else {
        return None;
    };
    let mut open = open_effects(state, volume).into_iter();
    open.find(|(of, _)| of != effect).map(|(_, instance)| instance)
}

/// Returns the calls of an external volume whose outcome is not on record, with the instances that may carry them out.
fn open_effects<'a>(
    state: &'a State,
    volume: &RemoteVolume,
) -> Vec<(ControllerEffect, &'a AllocId)> {
    let attachments = state.claims.get(volume).into_iter();
    let attachments = attachments.flat_map(|record| &record.claims.attachments);
    let attaching = attachments.filter(|(_, attachment)| attachment.state == Known::Maybe);
    let attaching = attaching.map(|(node, attachment)| {
        let call = &attachment.call;
        // Without what it is made for, an earlier version made it.
        let is_earlier = attachment.made_for.is_none();
        let index = if is_earlier { 0 } else { call.index };
        (ControllerEffect::Attached(node.clone()), (&call.instance, index))
    });
    let intended = state.registrations(volume).flat_map(|record| {
        let open = VolumeIntent::ALL.into_iter().filter_map(|intent| {
            let controller = record.controller_of(intent)?;
            let effect = ControllerEffect::Intended(record.key().clone(), intent);
            Some((effect, (&controller.instance, controller.last_index)))
        });
        open.collect::<Vec<_>>()
    });
    let open = attaching.chain(intended);
    let open = open.filter(|(_, named)| may_run(state, &volume.plugin_id, *named));
    open.map(|(effect, (instance, _))| (effect, instance)).collect()
}

/// Returns whether a call may still run in the instance that the event at this index named.
pub fn may_run(state: &State, plugin: &PluginId, (instance, index): (&AllocId, u64)) -> bool {
    let alloc = alloc_on_record(state, plugin, instance);
    // Without an index it is not known when the instance was named, or an earlier version named it.
    alloc.is_some_and(|alloc| index == 0 || alloc.create_index <= index)
}

fn alloc_on_record<'a>(
    state: &'a State,
    plugin: &PluginId,
    instance: &AllocId,
) -> Option<&'a PluginAlloc> {
    state.plugins.get(plugin)?.allocs.get(instance)
}

#[cfg(test)]
mod tests;
