//! [`NamedIntent`]: an intent on record, with the controller that gets its call.
//!
//! The record names the instance before the call is sent, so that every other call of the volume goes there too, and an agent
//! that starts again knows where the call may run (rule 4 of the claims machine). The call moves to another instance
//! only if nothing of it was sent, and after that is on record. Only the request that named the instance knows that:
//! one that finds the intent with its instance has no other one to call, and neither has one that has sent another call under
//! the intent.
//!
//! The record also has a fingerprint of the request, so that an answer to another one, such as with other secrets, ends nothing.

use async_trait::async_trait;
use parking_lot::Mutex;
use tracing::debug;

use super::call_effect::PriorCalls;
use super::deps::VolumeDeps;
use super::store::{VolumeStore, conflict, unchanged};
use crate::cell::Expected;
use crate::error::ServerError;
use crate::forward::{CallableInstances, PermittedCalls};
use nomad_csi_claims::state::{
    ControllerCall, EventKind, IntentRequest, VolumeIntent, VolumeRecord, instance_of_intent,
    went_to_one_program,
};
use nomad_csi_model::{AllocId, NamespacedId};

/// An intent on record.
pub(super) struct NamedIntent {
    store: VolumeStore,
    intent: VolumeIntent,
    /// The fingerprint of the request.
    request: String,
    record: Mutex<VolumeRecord>,
    prior: Prior,
}

impl NamedIntent {
    /// Records an intent with the instance that its call goes to and the fingerprint of its request. `event` has all of them;
    /// `prior` says whether the same call may have been sent before.
    ///
    /// # Errors
    /// If the volume changed, or another call binds it to another instance.
    pub(super) async fn record(
        deps: &VolumeDeps,
        (key, call, (intent, request)): (&NamespacedId, &ControllerCall, (VolumeIntent, String)),
        (expected, instance): (Expected, Option<AllocId>),
        event: EventKind,
        prior: Prior,
    ) -> Result<Self, ServerError> {
        let bound = instance.map(|instance| Expected::Controller(call.clone(), instance));
        let expected = [expected].into_iter().chain(bound).collect();
        deps.store.commit_all(expected, vec![event]).await?;
        let record = deps.store.record(key).ok_or_else(|| conflict(key))?;
        Ok(Self::found(deps, VolumeRecord::clone(&record), (intent, request), prior))
    }

    /// An intent that is on record with the instance that its call goes to.
    pub(super) fn found(
        deps: &VolumeDeps,
        record: VolumeRecord,
        (intent, request): (VolumeIntent, String),
        prior: Prior,
    ) -> Self {
        Self { store: deps.store.clone(), intent, request, record: Mutex::new(record), prior }
    }

    /// Returns the record as it is now.
    pub(super) fn latest(&self) -> VolumeRecord {
        self.record.lock().clone()
    }

    /// Returns what was sent before this request.
    pub(super) fn prior(&self) -> PriorCalls {
        match self.prior {
            Prior::None => PriorCalls::None,
            Prior::Possible | Prior::Sent => {
                PriorCalls::of(self.record.lock().controller_of(self.intent))
            }
        }
    }

    /// Returns whether everything that was sent went to the program that answers now.
    pub(super) fn went_to_one_program(&self) -> bool {
        let record = self.latest();
        self.store.read(|state| went_to_one_program(state, &record, self.intent))
    }

    /// Returns the instance that gets the call.
    fn instance(&self) -> Option<AllocId> {
        let record = self.record.lock();
        record.controller_of(self.intent).map(|controller| controller.instance.clone())
    }

    async fn move_to(&self, instance: &AllocId) -> bool {
        let record = self.latest();
        let key = record.key().clone();
        let call = ControllerCall::of_intent(&record, self.intent);
        let named = (self.intent, Some(instance));
        let request = self.store.intent_request(&record, named, &self.request);
        let call_at = (instance.clone(), request);
        let Some(event) = intent_again(&record, self.intent, call_at) else {
            return false;
        };
        let expected = vec![unchanged(&record), Expected::Controller(call, instance.clone())];
        if let Err(error) = self.store.commit_all(expected, vec![event]).await {
            debug!(volume.id = %key.id, volume.namespace = %key.namespace, alloc.id = %instance,
                error = error.detail(), "a call that was not sent does not move to another instance");
            return false;
        }
        let Some(moved) = self.store.record(&key) else {
            return false;
        };
        *self.record.lock() = VolumeRecord::clone(&moved);
        self.instance().as_ref() == Some(instance)
    }
}

#[async_trait]
impl CallableInstances for NamedIntent {
    async fn may_call(&self, instance: &AllocId) -> bool {
        let record = self.latest();
        let named = self.store.read(|state| instance_of_intent(state, &record, self.intent));
        match (named, self.prior) {
            (Some(named), _) if named == *instance => true,
            (Some(_) | None, Prior::None | Prior::Possible) => self.move_to(instance).await,
            (Some(_) | None, Prior::Sent) => false,
        }
    }
}

/// Whether a call may have been sent under an intent before this request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prior {
    /// The intent is of this request.
    None,
    /// The intent was on record before.
    Possible,
    /// This request has sent another call under the intent, so this one does not move to another instance.
    Sent,
}

impl Prior {
    /// Returns whether a call may have been sent under an intent of a record.
    pub(super) fn of(record: &VolumeRecord, intent: VolumeIntent) -> Self {
        if record.is_open(intent) { Self::Possible } else { Self::None }
    }
}

/// Returns whether an intent is on record for the instance that is called first, with the request that it gets.
pub(super) fn is_named(
    deps: &VolumeDeps,
    record: &VolumeRecord,
    (intent, request): (VolumeIntent, &str),
    calls: &PermittedCalls,
) -> bool {
    let named = deps.store.read(|state| instance_of_intent(state, record, intent));
    let sent = record.controller_of(intent).and_then(|controller| controller.request.as_deref());
    // Without one, it got several.
    let is_known = sent.is_none_or(|sent| sent == request);
    is_known && named.is_some() && named.as_ref() == calls.preferred()
}

/// Returns the controller of an intent on record and the request that it got, as an event names them again.
pub(super) fn named_call(
    record: &VolumeRecord,
    intent: VolumeIntent,
) -> Option<(AllocId, Option<IntentRequest>)> {
    let controller = record.controller_of(intent)?;
    let request = controller.request.clone();
    let again = |fingerprint| IntentRequest { fingerprint, has_new_instance: false };
    Some((controller.instance.clone(), request.map(again)))
}

/// Returns the intent of a record for an instance.
fn intent_again(
    record: &VolumeRecord,
    intent: VolumeIntent,
    (instance, request): (AllocId, IntentRequest),
) -> Option<EventKind> {
    let (key, instance, request) = (record.key().clone(), Some(instance), Some(request));
    Some(match intent {
        VolumeIntent::Create => EventKind::VolumeCreateIntended {
            definition: Box::new(record.definition.clone()),
            secrets: record.secrets.clone(),
            earlier: record.earlier_creates.clone(),
            instance,
            request,
        },
        VolumeIntent::Delete => EventKind::VolumeDeleteIntended { key, instance, request },
        VolumeIntent::Expand => {
            EventKind::VolumeExpandIntended { key, to: record.expanding?, instance, request }
        }
        VolumeIntent::Modify => {
            let parameters = record.modifying.clone()?;
            EventKind::VolumeModifyIntended { key, parameters, instance, request }
        }
    })
}
