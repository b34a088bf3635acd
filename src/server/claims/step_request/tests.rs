//! What a step sends is on record, and is sent again unchanged.

use super::*;
use crate::claims::follow_up::claim_event;
use crate::fake::FakeSealer;
use nomad_csi_claims::claim::{ClaimRequest, Known, samples};
use nomad_csi_claims::state::samples::{
    definition, instance, key, provided, registered, started, state_of,
};
use nomad_csi_claims::state::{Event, EventKind, apply, check};
use nomad_csi_model::AccessMode;

const NODE: &str = "node-1";

/// Two registrations of one external volume with contexts of their own, and a plugin that attaches.
struct Story {
    state: State,
    volume: RemoteVolume,
    sealer: VolumeSealer,
}

fn registration(id: &str) -> EventKind {
    let mut event = registered(&key("default", id), "ext-1");
    if let EventKind::VolumeRegistered { provided, secrets, .. } = &mut event {
        provided.context = [("registration".to_owned(), id.to_owned())].into();
        *secrets = sealed(id, "first");
    }
    event
}

fn sealed(id: &str, value: &str) -> SealedSecrets {
    let sealer = VolumeSealer::new(Arc::new(FakeSealer::default()));
    sealer.seal(&key("default", id), &Secrets::from_iter([("token", value)]))
}

impl Story {
    fn new(attaches_read_only: bool) -> Self {
        let state = state_of([started(), registration("db"), registration("wb")]);
        let volume = state.remote_volume(&key("default", "db")).unwrap();
        let mut story =
            Self { state, volume, sealer: VolumeSealer::new(Arc::new(FakeSealer::default())) };
        story.observe(attaches_read_only);
        story
    }

    fn observe(&mut self, attaches_read_only: bool) {
        let mut instance = instance(true);
        if let Some(controller) = &mut instance.controller {
            controller.capabilities.publish_unpublish_volume = true;
            controller.capabilities.publish_readonly = attaches_read_only;
        }
        if let Some(node) = &mut instance.node {
            node.capabilities.stage_unstage_volume = true;
        }
        self.change(EventKind::PluginAllocObserved {
            plugin: "hostpath".into(),
            node: NodeId::new(NODE),
            instance: Box::new(instance),
        });
    }

    fn change(&mut self, kind: EventKind) {
        let event = Event::new(1, kind);
        assert!(check(&self.state, &event).is_ok(), "{event:?}");
        apply(&mut self.state, &event);
    }

    fn claim(&mut self, registration: &str, alloc: &str, mode: AccessMode, read_only: bool) {
        self.change(EventKind::AllocStarted {
            alloc: AllocId::new(alloc),
            node: NodeId::new(NODE),
        });
        let request = ClaimRequest {
            volume: key("default", registration),
            read_only,
            external_node: None,
            ..samples::request(alloc, NODE, mode)
        };
        let (key, claim) = request.granted(1);
        let claim = Box::new(claim);
        self.change(claim_event(&self.volume, ClaimEvent::Granted { key, claim }));
    }

    fn start(&mut self, step: &Step, instance: &str) {
        let claims = &self.state.claims(&self.volume).unwrap().claims;
        let instance = AllocId::new(instance);
        let event = step_started(&self.state, &self.volume, claims, step, &instance);
        self.change(claim_event(&self.volume, event));
    }

    fn context(&self, step: &Step) -> StepContext {
        StepContext::read(&self.state, &self.volume, step).unwrap()
    }

    fn attach(&self) -> ControllerPublishRequest {
        let node = NodeId::new(NODE);
        let context = self.context(&Step::ControllerPublish(node.clone()));
        context.attach(&self.sealer, &node).unwrap().unwrap()
    }
}

fn attach() -> Step {
    Step::ControllerPublish(NodeId::new(NODE))
}

#[test]
fn a_repeated_attach_is_the_same_whatever_claims_and_registrations_did() {
    for attaches_read_only in [false, true] {
        for first in ["db", "wb"] {
            let mut story = Story::new(attaches_read_only);
            story.claim(first, "a5", AccessMode::MultiNodeMultiWriter, true);
            story.start(&attach(), "task-1");
            let sent = story.attach();
            let context = [("registration".to_owned(), first.to_owned())].into();
            assert_eq!(sent.volume_context, context);
            assert_eq!(sent.node.as_str(), NODE);
            assert!(!sent.read_only);
            for (registration, alloc) in [("wb", "a1"), ("db", "a9")] {
                story.claim(registration, alloc, AccessMode::MultiNodeMultiWriter, false);
                assert_eq!(story.attach(), sent);
            }
            // The plugin is replaced by one that attaches read-only, and the registration gets another context.
            story.observe(true);
            let mut provided = provided("ext-1");
            provided.context = [("registration".to_owned(), "changed".to_owned())].into();
            let changed = EventKind::VolumeUpdated {
                definition: Box::new(definition(&key("default", first))),
                provided: Box::new(provided),
                secrets: sealed(first, "second"),
            };
            story.change(changed);
            story.start(&attach(), "task-2");
            let again = story.attach();
            assert_eq!(again.secrets.expose().next(), Some(("token", "second")));
            let secrets = sent.secrets.clone();
            assert_eq!(ControllerPublishRequest { secrets, ..again }, sent);
        }
    }
}

/// Rule 18: a request says what it was decided for, and what is not due any more is not sent.
#[test]
fn a_request_says_what_it_was_decided_for() {
    let mut story = Story::new(false);
    story.claim("db", "a1", AccessMode::MultiNodeMultiWriter, false);
    let publish = Step::NodePublish(samples::key("a1"));
    let stage = Step::NodeStage(NodeId::new(NODE));
    assert!(story.context(&attach()).is_due(&attach()));
    assert!(!story.context(&publish).is_due(&publish));
    story.start(&attach(), "task-1");
    story.start(&stage, "task-1");
    let node = NodeId::new(NODE);
    let staged = story.context(&stage).stage(&story.sealer, &node).unwrap();
    assert!(staged.unwrap().attaches);
    let key = samples::key("a1");
    let sent = story.context(&publish).publish(&story.sealer, &key).unwrap();
    let sent = sent.unwrap();
    assert!(sent.attaches && sent.stages);
}

#[test]
fn a_mode_of_readers_is_attached_read_only_where_the_plugin_can() {
    for attaches_read_only in [false, true] {
        for mode in AccessMode::ALL {
            let mut story = Story::new(attaches_read_only);
            story.claim("db", "a1", mode, true);
            story.start(&attach(), "task-1");
            let expected = attaches_read_only && !mode.allows_writes();
            assert_eq!(story.attach().read_only, expected, "{mode}");
        }
    }
}

/// The claims of a registration that is gone are undone with what is left of it, or with the secrets of
/// another one.
#[test]
fn what_a_registration_made_is_undone_without_it() {
    for leaves_other in [false, true] {
        let mut story = Story::new(false);
        story.claim("wb", "a1", AccessMode::MultiNodeMultiWriter, true);
        story.start(&attach(), "task-1");
        if leaves_other {
            story.claim("db", "a2", AccessMode::MultiNodeMultiWriter, true);
        }
        let tombstone = nomad_csi_claims::claim::Tombstone {
            volume: key("default", "wb"),
            secrets: sealed("wb", "of the tombstone"),
            since: 1,
        };
        let orphaned = ClaimEvent::Orphaned {
            registration: Some(tombstone.volume.clone()),
            tombstone: Box::new(tombstone),
        };
        story.change(claim_event(&story.volume, orphaned));
        story.change(EventKind::VolumeDeregistered { key: key("default", "wb") });
        let node = NodeId::new(NODE);
        let detach = Step::ControllerUnpublish(node.clone());
        let request = story.context(&detach).detach(&story.sealer, &node);
        let secrets = request.unwrap().unwrap().secrets;
        assert_eq!(secrets.expose().next(), Some(("token", "of the tombstone")));
        let record = story.state.claims(&story.volume).unwrap();
        let held: Vec<_> = record.claims.claims.values().map(Claim::is_held).collect();
        assert_eq!(held, [vec![false], vec![true; usize::from(leaves_other)]].concat());
        assert_eq!(record.claims.attached(&node), Known::Maybe);
        // Its last claim is gone, and what it made is still used: the other registration undoes it.
        if leaves_other {
            let key = samples::key("a1");
            story.change(claim_event(&story.volume, ClaimEvent::Released { key }));
            let request = story.context(&detach).detach(&story.sealer, &node);
            let secrets = request.unwrap().unwrap().secrets;
            assert_eq!(secrets.expose().next(), Some(("token", "first")));
        }
    }
}
