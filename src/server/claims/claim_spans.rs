//! The spans of the requests that asked for claims, so that the log lines of the steps of a claim carry the ID of its
//! request.
//!
//! A request ends before its claim, so its span is kept while the claim exists, or until another request asks for its
//! release. It is only for logs: an agent that starts again knows none, and the steps then have their volume alone.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::Span;

use crate::cell::StateCell;
use nomad_csi_claims::claim::{ClaimKey, Step, affects};
use nomad_csi_claims::state::State;
use nomad_csi_model::RemoteVolume;

/// Spans of claims that are gone are looked for when there are this many.
const FIRST_SEARCH: usize = 256;

/// The spans of claims. Clones share their state.
#[derive(Clone, Default)]
pub(super) struct ClaimSpans(Arc<Mutex<KeptSpans>>);

#[derive(Default)]
struct KeptSpans {
    of_claims: HashMap<(RemoteVolume, ClaimKey), Span>,
    /// How many claims had spans after the last search for those that are gone.
    after_search: usize,
}

impl ClaimSpans {
    /// Keeps the current span for a claim that exists, if there is a span.
    pub(super) fn keep(&self, cell: &StateCell, volume: &RemoteVolume, key: &ClaimKey) {
        let span = Span::current();
        if span.id().is_none() {
            return;
        }
        let claims: Vec<_> = {
            let mut kept = self.0.lock();
            kept.of_claims.insert((volume.clone(), key.clone()), span);
            if kept.of_claims.len() < FIRST_SEARCH.max(2 * kept.after_search) {
                return;
            }
            kept.of_claims.keys().cloned().collect()
        };
        // Not under the lock, which readers of the state take.
        let exists = |state: &State, (volume, key): &(RemoteVolume, ClaimKey)| {
            state.claims(volume).is_some_and(|record| record.claims.claims.contains_key(key))
        };
        let gone: Vec<_> =
            cell.read(|state| claims.into_iter().filter(|claim| !exists(state, claim)).collect());
        let mut kept = self.0.lock();
        for claim in gone {
            kept.of_claims.remove(&claim);
        }
        kept.after_search = kept.of_claims.len();
    }

    /// Returns the span of a step: in that of the first claim that it is for, by its key.
    pub(super) fn step_span(&self, state: &State, volume: &RemoteVolume, step: &Step) -> Span {
        // The parent is open as long as this lock is held.
        let kept = self.0.lock();
        // An agent whose claims are all those of jobs keeps no spans: there is no parent to look for.
        let record = state.claims(volume).filter(|_| !kept.of_claims.is_empty());
        let claims = record.into_iter().flat_map(|record| record.claims.claims.iter());
        let keys = claims.filter(|(key, claim)| affects(step, key, claim)).map(|(key, _)| key);
        let parent = keys.min().and_then(|key| kept.of_claims.get(&(volume.clone(), key.clone())));
        let parent = parent.and_then(Span::id);
        tracing::error_span!(
            parent: parent,
            "step",
            plugin.id = %volume.plugin_id,
            volume.external_id = %volume.external_id,
            csi.rpc = step.name()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeAgent;
    use nomad_csi_claims::claim::samples;
    use nomad_csi_testing::PluginSettings;

    #[tokio::test]
    async fn the_spans_of_claims_that_are_gone_are_forgotten() {
        let _logging = tracing::subscriber::set_default(tracing_subscriber::registry());
        let agent = FakeAgent::start(PluginSettings::default()).await.unwrap();
        let volume =
            RemoteVolume { plugin_id: FakeAgent::PLUGIN.into(), external_id: "fake-1".into() };
        let spans = ClaimSpans::default();
        let request = tracing::info_span!("request");
        let _in_request = request.enter();
        for claim in 0..10 * FIRST_SEARCH {
            let key = samples::key(&format!("a{claim}"));
            spans.keep(&agent.services.cell, &volume, &key);
            assert!(spans.0.lock().of_claims.len() <= FIRST_SEARCH);
        }
    }
}
