//! Volumes without a change cost nothing.

use super::super::*;
use nomad_csi_claims::claim::{ClaimEvent, samples};
use nomad_csi_claims::state::samples::{key, registered, started, state_of};
use nomad_csi_claims::state::{Event, EventKind, apply};
use nomad_csi_model::{AccessMode, ExternalId, PluginId};

fn remote(id: &str) -> RemoteVolume {
    RemoteVolume { plugin_id: PluginId::new("hostpath"), external_id: ExternalId::new(id) }
}

/// A claim on a volume by an allocation of its own.
fn granted(id: &str) -> [EventKind; 2] {
    let alloc = format!("alloc-of-{id}");
    let mut request = samples::request(&alloc, "n1", AccessMode::SingleNodeWriter);
    request.volume = key("default", id);
    let (key, claim) = request.granted(0);
    let started = EventKind::AllocStarted { alloc: key.alloc.clone(), node: claim.node.clone() };
    let claim = Box::new(claim);
    let event = Box::new(ClaimEvent::Granted { key, claim });
    let volume = remote(id);
    [started, EventKind::Claim { volume, event }]
}

/// A state with a thousand volumes, of which `v1`, `v2` and `v3` are claimed.
fn busy_state() -> State {
    let ids: Vec<_> = (0..1000).map(|number| format!("v{number}")).collect();
    let volumes = ids.iter().map(|id| registered(&key("default", id), id));
    let claims = ["v1", "v2", "v3"].into_iter().flat_map(granted);
    let state = state_of([started()].into_iter().chain(volumes).chain(claims));
    assert_eq!(state.all_claims().len(), 3);
    state
}

/// B47: a volume without claims is never looked at, and one with claims at rest once. Neither has a task
/// or a wake-up.
#[test]
fn an_idle_volume_is_not_looked_at() {
    let state = busy_state();
    let mut work = Work::default();
    let now = Instant::now();
    work.see_changes(&state);
    assert_eq!(work.changed, ["v1", "v2", "v3"].map(remote).into());
    assert!(work.due(&state, now).is_empty(), "the plugin is not there");
    work.see_changes(&state);
    assert!(work.changed.is_empty(), "nothing has changed since");
    assert!(work.tasks.is_empty());
    assert_eq!(work.backoff.earliest_after(now), None);
}

/// W33: a change of one volume's claims makes the driver look at that volume only.
#[test]
fn a_change_concerns_its_volume_only() {
    let mut state = busy_state();
    let mut work = Work::default();
    work.see_changes(&state);
    work.due(&state, Instant::now());
    let key = samples::request("alloc-of-v2", "n1", AccessMode::SingleNodeWriter).key;
    let reason = "it was released".to_owned();
    let event = Box::new(ClaimEvent::ReleaseRequested { key, reason });
    let volume = remote("v2");
    apply(&mut state, &Event::new(9, EventKind::Claim { volume, event }));
    work.see_changes(&state);
    assert_eq!(work.changed, [remote("v2")].into());
    let due = work.due(&state, Instant::now());
    assert!(
        matches!(&due[..], [Due::Step(volume, None, Step::Release(_))] if *volume == remote("v2"))
    );
}
