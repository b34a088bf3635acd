//! The spans of the requests that asked for claims, so that the log lines of the steps of a claim carry the ID of its
//! request.
//!
//! A request ends before its claim, so its span is kept until the claim is released, or until another request asks for
//! the release. It is only for logs: an agent that starts again knows none, and the steps then have their volume alone.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::Span;

use nomad_csi_claims::claim::{ClaimKey, Step, affects};
use nomad_csi_claims::state::State;
use nomad_csi_model::RemoteVolume;

/// The most claims whose spans are kept.
const MAX_SPANS: usize = 1 << 16;

/// The spans of claims. Clones share their state.
#[derive(Clone, Default)]
pub(super) struct ClaimSpans(Arc<Mutex<HashMap<(RemoteVolume, ClaimKey), Span>>>);

impl ClaimSpans {
    /// Keeps the current span for a claim, if there is one.
    pub(super) fn keep(&self, volume: &RemoteVolume, key: &ClaimKey) {
        let (span, mut spans) = (Span::current(), self.0.lock());
        if span.id().is_some() && spans.len() < MAX_SPANS {
            spans.insert((volume.clone(), key.clone()), span);
        }
    }

    /// Forgets the span of a claim that is released.
    pub(super) fn forget(&self, volume: &RemoteVolume, key: &ClaimKey) {
        self.0.lock().remove(&(volume.clone(), key.clone()));
    }

    /// Returns the span of a step: in that of the first claim that it is for, by its key.
    pub(super) fn step_span(&self, state: &State, volume: &RemoteVolume, step: &Step) -> Span {
        let record = state.claims(volume);
        let claims = record.into_iter().flat_map(|record| record.claims.claims.iter());
        let keys = claims.filter(|(key, claim)| affects(step, key, claim)).map(|(key, _)| key);
        let spans = self.0.lock();
        let parent = keys.min().and_then(|key| spans.get(&(volume.clone(), key.clone())));
        let parent = parent.and_then(Span::id);
        tracing::info_span!(
            parent: parent,
            "step",
            plugin = %volume.plugin_id,
            external_id = %volume.external_id,
            step = step.name()
        )
    }
}
