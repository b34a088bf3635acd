use proptest::prelude::*;

use super::*;
use crate::claim::{ClaimEvent, SetupInputs, Step, StepAnswer, samples};
use crate::state::samples::{create_intended, definition, instance, key, registered, started};
use crate::state::{EarlierControllers, Event, EventKind, Overlay, apply, check, violations};
use nomad_csi_model::{AccessMode, CapacityRange, SealedSecrets};

const BOTH: [&str; 2] = ["p1", "p2"];
const NODES: [&str; 2] = ["n1", "n2"];

struct Story(State);

impl Story {
    /// A volume with two registrations, and a plugin with two instances.
    fn new() -> Self {
        let mut story = Self(State::default());
        story.change(started());
        for id in ["db", "same"] {
            story.change(registered(&key("default", id), "ext-1"));
        }
        for alloc in BOTH {
            story.observe(alloc, "1");
        }
        story
    }

    /// Records a healthy fingerprint of this version of the plugin.
    fn observe(&mut self, alloc: &str, version: &str) {
        self.observe_process(alloc, version, Some("run 1"));
    }

    fn observe_process(&mut self, alloc: &str, version: &str, process: Option<&str>) {
        let mut instance = instance(true);
        instance.process = process.map(ToOwned::to_owned);
        instance.alloc_id = AllocId::new(alloc);
        version.clone_into(&mut instance.provider_version);
        self.change(EventKind::PluginAllocObserved {
            plugin: self.volume().plugin_id,
            node: NodeId::new(NODES[0]),
            instance: Box::new(instance),
        });
    }

    fn went_to_one_program(&self, id: &str, intent: VolumeIntent) -> bool {
        let record = self.0.record(&key("default", id)).unwrap();
        went_to_one_program(&self.0, record, intent)
    }

    fn volume(&self) -> RemoteVolume {
        self.0.remote_volume(&key("default", "db")).unwrap()
    }

    fn change(&mut self, kind: EventKind) {
        let event = Event::new(1, kind);
        assert_eq!(check(&self.0, &event), Ok(()), "{event:?}");
        apply(&mut self.0, &event);
        assert_eq!(violations(&self.0), Vec::<String>::new(), "{event:?}");
    }

    fn intend(&mut self, id: &str, intent: VolumeIntent, instance: Option<&str>) {
        self.intend_with(id, intent, instance, Some("request 1"));
    }

    fn intend_with(
        &mut self,
        id: &str,
        intent: VolumeIntent,
        instance: Option<&str>,
        request: Option<&str>,
    ) {
        let (key, instance) = (key("default", id), instance.map(AllocId::new));
        let record = self.0.record(&key);
        let request = request.map(|request| match record {
            Some(record) => {
                let named = (intent, instance.as_ref());
                intent_request(&self.0, record, named, request.to_owned())
            }
            None => IntentRequest { fingerprint: request.to_owned(), has_new_instance: false },
        });
        self.change(match intent {
            VolumeIntent::Create => {
                let EventKind::VolumeCreateIntended { definition, secrets, earlier, .. } =
                    create_intended(&key)
                else {
                    panic!("another event")
                };
                EventKind::VolumeCreateIntended { definition, secrets, earlier, instance, request }
            }
            VolumeIntent::Delete => EventKind::VolumeDeleteIntended { key, instance, request },
            VolumeIntent::Expand => EventKind::VolumeExpandIntended {
                key,
                to: CapacityRange::default(),
                instance,
                request,
            },
            VolumeIntent::Modify => EventKind::VolumeModifyIntended {
                key,
                parameters: Default::default(),
                instance,
                request,
            },
        });
    }

    /// Starts an attach to a node.
    fn attach(&mut self, node: &str, instance: &str) {
        self.start_attach(node, instance, Some(Box::default()));
    }

    /// Starts an attach. Earlier versions did not record what it sends.
    fn start_attach(&mut self, node: &str, instance: &str, inputs: Option<Box<SetupInputs>>) {
        let alloc = AllocId::new(format!("of-{node}"));
        if self.0.claims_of(&alloc).next().is_none() {
            self.change(EventKind::AllocStarted { alloc, node: NodeId::new(node) });
            let mode = AccessMode::MultiNodeMultiWriter;
            let (key, claim) = samples::request(&format!("of-{node}"), node, mode).granted(0);
            let claim = Box::new(claim);
            self.claim(ClaimEvent::Granted { key, claim });
        }
        self.claim(ClaimEvent::StepStarted {
            step: Step::ControllerPublish(NodeId::new(node)),
            instance: AllocId::new(instance),
            inputs,
        });
    }

    /// Starts a detach from a node whose claim is released.
    fn detach(&mut self, node: &str, instance: &str) {
        let mode = AccessMode::MultiNodeMultiWriter;
        let (key, _) = samples::request(&format!("of-{node}"), node, mode).granted(0);
        self.claim(ClaimEvent::ReleaseRequested { key, reason: "it ended".to_owned() });
        self.claim(ClaimEvent::StepStarted {
            step: Step::ControllerUnpublish(NodeId::new(node)),
            instance: AllocId::new(instance),
            inputs: None,
        });
    }

    fn claim(&mut self, event: ClaimEvent) {
        let volume = self.volume();
        self.change(EventKind::Claim { volume, event: Box::new(event) });
    }

    fn end(&mut self, instance: &str) {
        let (plugin, alloc) = (self.volume().plugin_id, AllocId::new(instance));
        self.change(EventKind::PluginAllocGone { plugin, alloc });
    }

    /// Returns the instance that a call is on record for, and may run in.
    fn own(&self, effect: &ControllerEffect) -> Option<&str> {
        let call = ControllerCall::OfVolume { volume: self.volume(), effect: effect.clone() };
        own_instance(&self.0, &call).map(AllocId::as_str)
    }

    fn bound(&self, effect: ControllerEffect) -> Option<&str> {
        let call = ControllerCall::OfVolume { volume: self.volume(), effect };
        bound_controller(&self.0, &call).map(AllocId::as_str)
    }

    /// Returns the instances that may get the call, also as the writer of the journal decides it.
    fn callable(&self, effect: ControllerEffect) -> Vec<&str> {
        let call = ControllerCall::OfVolume { volume: self.volume(), effect };
        let may = |instance: &&str| {
            let instance = AllocId::new(*instance);
            let may = may_be_called(&self.0, &call, &instance);
            let mut overlay = Overlay::new(&self.0);
            let subjects = overlay.subjects_of_controller(&call).into_iter().collect();
            let decided: Result<_, ()> =
                overlay.attempt(subjects, |state| Ok(may_be_called(state, &call, &instance)));
            assert_eq!(decided, Ok(may), "{call:?}");
            may
        };
        BOTH.into_iter().filter(may).collect()
    }
}

fn intended(id: &str, intent: VolumeIntent) -> ControllerEffect {
    ControllerEffect::Intended(key("default", id), intent)
}

fn attached(node: &str) -> ControllerEffect {
    ControllerEffect::Attached(NodeId::new(node))
}

fn all_effects() -> Vec<ControllerEffect> {
    let mut all = vec![attached(NODES[0]), attached(NODES[1]), ControllerEffect::Unrecorded];
    for id in ["db", "same"] {
        all.extend(VolumeIntent::ALL[1..].iter().map(|intent| intended(id, *intent)));
    }
    all
}

#[test]
fn an_open_call_binds_every_call_of_its_volume_until_its_instance_is_gone() {
    let open: [fn(&mut Story); 4] = [
        |story| story.intend("db", VolumeIntent::Expand, Some("p1")),
        |story| story.intend("same", VolumeIntent::Modify, Some("p1")),
        |story| story.intend("db", VolumeIntent::Delete, Some("p1")),
        |story| story.attach(NODES[1], "p1"),
    ];
    for (at, open) in open.into_iter().enumerate() {
        let mut story = Story::new();
        for effect in all_effects() {
            assert_eq!(story.bound(effect.clone()), None);
            assert_eq!(story.callable(effect), BOTH);
        }
        open(&mut story);
        for effect in all_effects() {
            assert_eq!(story.bound(effect), Some("p1"), "{at}");
        }
        story.end("p1");
        for effect in all_effects() {
            assert_eq!(story.bound(effect.clone()), None, "{at}");
            assert_eq!(story.callable(effect), ["p2"], "{at}: one that is gone is not called");
        }
    }
}

/// What was asked of it before it was gone has ended, so that another instance may have got a call since.
#[test]
fn an_instance_that_comes_back_under_its_id_is_another_one() {
    type Opening = (ControllerEffect, fn(&mut Story));
    let open: [Opening; 4] = [
        (intended("db", VolumeIntent::Expand), |story| {
            story.intend("db", VolumeIntent::Expand, Some("p1"));
        }),
        (intended("same", VolumeIntent::Modify), |story| {
            story.intend("same", VolumeIntent::Modify, Some("p1"));
        }),
        (intended("db", VolumeIntent::Delete), |story| {
            story.intend("db", VolumeIntent::Delete, Some("p1"));
        }),
        (attached(NODES[1]), |story| story.attach(NODES[1], "p1")),
    ];
    for (own, open) in open {
        let mut story = Story::new();
        open(&mut story);
        story.end("p1");
        story.observe("p1", "1");
        for effect in all_effects() {
            assert_eq!(story.bound(effect.clone()), None, "{own:?}");
            assert_eq!(story.callable(effect), BOTH, "{own:?}");
        }
        story.intend("same", VolumeIntent::Expand, Some("p2"));
        let is_leaving = |effect: &_| *effect == intended("same", VolumeIntent::Expand);
        for effect in all_effects() {
            assert_eq!(story.bound(effect.clone()), Some("p2"), "{own:?}");
            let expected = if is_leaving(&effect) { &BOTH[..] } else { &BOTH[1..] };
            assert_eq!(story.callable(effect), expected, "{own:?}");
        }
    }
}

#[test]
fn an_intent_that_is_recorded_again_binds_the_instance_that_came_back() {
    let mut story = Story::new();
    let own = intended("db", VolumeIntent::Expand);
    story.intend("db", VolumeIntent::Expand, Some("p1"));
    story.end("p1");
    story.observe("p1", "1");
    story.intend("db", VolumeIntent::Expand, Some("p1"));
    assert_eq!(story.bound(own), Some("p1"));
    assert!(!story.went_to_one_program("db", VolumeIntent::Expand));
}

/// A refusal says what this program has done, and nothing of another one.
#[test]
fn an_intent_knows_whether_its_calls_went_to_the_program_that_runs_now() {
    for intent in VolumeIntent::ALL {
        let id = if intent == VolumeIntent::Create { "new" } else { "db" };
        let is_one = |change: fn(&mut Story)| {
            let mut story = Story::new();
            story.intend(id, intent, Some("p1"));
            change(&mut story);
            story.went_to_one_program(id, intent)
        };
        assert!(is_one(|_| {}), "{intent:?}");
        assert!(is_one(|story| story.observe("p1", "1")), "{intent:?}: the same program again");
        assert!(!is_one(|story| story.observe("p1", "2")), "{intent:?}: another version");
        let other = |story: &mut Story| story.observe_process("p1", "1", Some("run 2"));
        assert!(!is_one(other), "{intent:?}: another process of the same version");
        let unknown = |story: &mut Story| story.observe_process("p1", "1", None);
        assert!(!is_one(unknown), "{intent:?}: an unknown process");
        let repeat = |request: Option<&str>| {
            let mut story = Story::new();
            story.intend(id, intent, Some("p1"));
            story.intend_with(id, intent, Some("p1"), request);
            story.intend(id, intent, Some("p1"));
            story.went_to_one_program(id, intent)
        };
        assert!(repeat(Some("request 1")), "{intent:?}: the same request");
        assert!(!repeat(Some("request 2")), "{intent:?}: another request");
        assert!(!repeat(None), "{intent:?}: a request of an earlier version");
        assert!(!is_one(|story| story.end("p1")), "{intent:?}: none");
        assert!(!is_one(|story| story.change(started())), "{intent:?}: not probed yet");
        let restarted = |story: &mut Story| {
            story.change(started());
            story.observe("p1", "1");
        };
        assert!(is_one(restarted), "{intent:?}: the agent restarted");
        let mut story = Story::new();
        for instance in BOTH {
            story.intend(id, intent, Some(instance));
        }
        assert!(!story.went_to_one_program(id, intent), "{intent:?}: another instance");
        let mut story = Story::new();
        story.observe("p1", "2");
        story.intend(id, intent, None);
        assert!(!story.went_to_one_program(id, intent), "{intent:?}: an earlier version");
    }
}

#[test]
fn only_an_intent_that_binds_alone_may_move_to_another_instance() {
    let mut story = Story::new();
    story.intend("db", VolumeIntent::Expand, Some("p1"));
    for effect in all_effects() {
        let is_own = effect == intended("db", VolumeIntent::Expand);
        let expected = if is_own { &BOTH[..] } else { &BOTH[..1] };
        assert_eq!(story.callable(effect), expected);
    }
    story.attach(NODES[1], "p1");
    for effect in all_effects() {
        assert_eq!(story.callable(effect.clone()), ["p1"], "{effect:?}");
    }
}

/// Its instance may have got it from an earlier leader.
#[test]
fn an_attach_does_not_move_while_its_instance_is_on_record() {
    let mut story = Story::new();
    story.attach(NODES[1], "p1");
    for effect in all_effects() {
        assert_eq!(story.callable(effect.clone()), ["p1"], "{effect:?}");
    }
}

/// A record of an earlier version can have calls in two instances: each is repeated where it may run.
#[test]
fn a_call_is_bound_by_its_own_instance_first() {
    let mut story = Story::new();
    story.attach(NODES[1], "p1");
    story.intend("db", VolumeIntent::Expand, Some("p2"));
    story.intend("same", VolumeIntent::Modify, Some("p1"));
    for (effect, own) in [
        (attached(NODES[1]), "p1"),
        (intended("db", VolumeIntent::Expand), "p2"),
        (intended("same", VolumeIntent::Modify), "p1"),
    ] {
        assert_eq!(story.bound(effect), Some(own));
    }
}

/// Then it may have been named after the instance was found, so it binds.
#[test]
fn an_intent_that_does_not_say_when_it_was_recorded_binds_its_instance() {
    let mut story = Story::new();
    story.intend("db", VolumeIntent::Expand, Some("p1"));
    let mut record = VolumeRecord::clone(story.0.record(&key("default", "db")).unwrap());
    let controller = record.expanding_by.as_mut().unwrap();
    (controller.first_index, controller.last_index) = (0, 0);
    story.0.put_new(record);
    for effect in all_effects() {
        assert_eq!(story.bound(effect), Some("p1"));
    }
    assert!(!story.went_to_one_program("db", VolumeIntent::Expand));
}

#[test]
fn a_change_that_takes_the_place_of_another_one_is_not_the_first() {
    let mut story = Story::new();
    let modify = |story: &mut Story, value: &str| {
        story.change(EventKind::VolumeModifyIntended {
            key: key("default", "db"),
            parameters: [("iops".to_owned(), value.to_owned())].into(),
            instance: Some(AllocId::new("p1")),
            request: Some(IntentRequest {
                fingerprint: format!("with {value}"),
                has_new_instance: false,
            }),
        });
        story.went_to_one_program("db", VolumeIntent::Modify)
    };
    assert!(modify(&mut story, "1"));
    assert!(modify(&mut story, "1"), "the same again");
    assert!(!modify(&mut story, "2"));
    assert!(!modify(&mut story, "2"), "the first may still be in force");
}

#[test]
fn a_call_of_a_known_outcome_binds_nothing() {
    let mut story = Story::new();
    story.attach(NODES[1], "p1");
    story.claim(ClaimEvent::StepDone {
        step: Step::ControllerPublish(NodeId::new(NODES[1])),
        started: story.0.index(),
        answer: StepAnswer::default(),
    });
    for effect in all_effects() {
        assert_eq!(story.bound(effect), None, "it is attached");
    }
    let mut story = Story::new();
    let db = || key("default", "db");
    story.intend("db", VolumeIntent::Expand, Some("p1"));
    story.change(EventKind::VolumeExpandAbandoned { key: db(), may_have_changed: false });
    story.intend("db", VolumeIntent::Modify, Some("p1"));
    story.change(EventKind::VolumeModified { key: db() });
    story.intend("db", VolumeIntent::Delete, Some("p1"));
    story.change(EventKind::VolumeDeleteAbandoned { key: db() });
    for effect in all_effects() {
        assert_eq!(story.bound(effect), None);
    }
}

/// An earlier version recorded intents without the instance.
#[test]
fn an_intent_without_an_instance_binds_nothing() {
    let mut story = Story::new();
    story.intend("db", VolumeIntent::Expand, None);
    story.intend("db", VolumeIntent::Delete, None);
    for effect in all_effects() {
        assert_eq!(story.bound(effect), None);
    }
}

#[test]
fn a_creation_is_bound_by_its_own_intent_alone() {
    let mut story = Story::new();
    let plugin = story.volume().plugin_id;
    let call =
        |id: &str| ControllerCall::Create { plugin: plugin.clone(), key: key("default", id) };
    story.intend("new", VolumeIntent::Create, Some("p1"));
    story.intend("db", VolumeIntent::Expand, Some("p2"));
    let record = story.0.record(&key("default", "new")).unwrap();
    assert_eq!(ControllerCall::of_intent(record, VolumeIntent::Create), call("new"));
    assert_eq!(bound_controller(&story.0, &call("new")).map(AllocId::as_str), Some("p1"));
    assert_eq!(bound_controller(&story.0, &call("other")), None);
    story.end("p1");
    assert_eq!(bound_controller(&story.0, &call("new")), None);
}

#[test]
fn an_intent_knows_which_controllers_came_before() {
    use EarlierControllers::{Ended, None as No, Unknown};
    for intent in VolumeIntent::ALL {
        let id = if intent == VolumeIntent::Create { "new" } else { "db" };
        for (instances, expected) in [
            (&[Some("p1")][..], No),
            (&[Some("p1"), Some("p1")], No),
            (&[Some("p1"), Some("p2")], Ended),
            (&[Some("p1"), Some("p2"), Some("p2")], Ended),
            (&[None, Some("p1")], Unknown),
            (&[None, Some("p1"), Some("p2")], Unknown),
        ] {
            let mut story = Story::new();
            for instance in instances {
                story.intend(id, intent, *instance);
            }
            let record = story.0.record(&key("default", id)).unwrap();
            let controller = record.controller_of(intent).unwrap();
            assert_eq!(controller.earlier, expected, "{intent:?} {instances:?}");
            assert_eq!(Some(controller.instance.as_str()), *instances.last().unwrap());
        }
    }
}

/// Other data is not what the call was for.
#[test]
fn a_registration_of_other_data_is_not_bound_by_a_change_of_parameters() {
    let mut story = Story::new();
    story.intend("db", VolumeIntent::Modify, Some("p1"));
    let record = story.0.record(&key("default", "db")).unwrap();
    let mut provided = record.provided.clone();
    provided.external_id = Some("ext-2".into());
    story.change(EventKind::VolumeUpdated {
        definition: Box::new(definition(&key("default", "db"))),
        provided: Box::new(provided),
        secrets: SealedSecrets::default(),
    });
    assert_eq!(story.bound(intended("db", VolumeIntent::Expand)), None);
}

/// What a server does that follows the record, with what the instances really carry out.
struct Simulation {
    story: Story,
    /// The calls that were sent, and that no end of their instance or of their effect has ended.
    running: Vec<(ControllerEffect, &'static str)>,
}

impl Simulation {
    fn effects() -> [ControllerEffect; 5] {
        [
            intended("db", VolumeIntent::Expand),
            intended("db", VolumeIntent::Modify),
            intended("same", VolumeIntent::Expand),
            attached(NODES[0]),
            attached(NODES[1]),
        ]
    }

    /// Records the call unless it is on record for this instance, and sends it, as far as the record allows that.
    fn send(&mut self, effect: &ControllerEffect, instance: &'static str) {
        let was_sent_elsewhere =
            |(of, at): &(ControllerEffect, &str)| of == effect && *at != instance;
        if !self.story.callable(effect.clone()).contains(&instance)
            || self.running.iter().any(was_sent_elsewhere)
        {
            return;
        }
        if self.story.own(effect) != Some(instance) {
            match effect {
                ControllerEffect::Intended(key, intent) => {
                    self.story.intend(key.id.as_str(), *intent, Some(instance));
                }
                ControllerEffect::Attached(node) => self.story.attach(node.as_str(), instance),
                ControllerEffect::Unrecorded => {}
            }
        }
        self.running.push((effect.clone(), instance));
    }

    /// Records the end of a call.
    fn settle(&mut self, effect: &ControllerEffect) {
        let ended = match effect {
            ControllerEffect::Intended(key, intent) => {
                let record = self.story.0.record(key).unwrap();
                let key = key.clone();
                record.is_open(*intent).then_some(match intent {
                    VolumeIntent::Modify => {
                        EventKind::VolumeModifyAbandoned { key, may_have_changed: true }
                    }
                    VolumeIntent::Expand | VolumeIntent::Create | VolumeIntent::Delete => {
                        EventKind::VolumeExpandAbandoned { key, may_have_changed: true }
                    }
                })
            }
            ControllerEffect::Attached(node) => {
                let claims = self.story.0.claims(&self.story.volume());
                let attachment = claims.and_then(|record| record.claims.attachments.get(node));
                let open = attachment.filter(|attachment| attachment.state == Known::Maybe);
                let event = open.map(|attachment| ClaimEvent::StepDone {
                    step: Step::ControllerPublish(node.clone()),
                    started: attachment.call.index,
                    answer: StepAnswer::default(),
                });
                event.map(|event| EventKind::Claim {
                    volume: self.story.volume(),
                    event: Box::new(event),
                })
            }
            ControllerEffect::Unrecorded => None,
        };
        if let Some(event) = ended {
            self.story.change(event);
            self.running.retain(|(of, _)| of != effect);
        }
    }

    fn end(&mut self, instance: &'static str) {
        self.story.end(instance);
        self.running.retain(|(_, at)| *at != instance);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Rule 4 of the claims machine, whatever order instances end, return and are called in.
    #[test]
    fn only_one_instance_carries_out_calls_of_a_volume(
        inputs in prop::collection::vec((0_u8..8, 0_usize..5, 0_usize..2), 0..60),
    ) {
        let mut simulation = Simulation { story: Story::new(), running: vec![] };
        for (kind, effect, instance) in inputs {
            let (effect, instance) = (&Simulation::effects()[effect], BOTH[instance]);
            match kind {
                0 => simulation.end(instance),
                1 | 2 => simulation.story.observe(instance, "1"),
                3 => simulation.settle(effect),
                _ => simulation.send(effect, instance),
            }
            let at: std::collections::BTreeSet<_> =
                simulation.running.iter().map(|(_, at)| *at).collect();
            prop_assert!(at.len() <= 1, "{:?}", simulation.running);
        }
    }
}

/// An earlier version recorded that a plugin was gone behind its endpoint, whose process went on.
#[test]
fn an_attach_of_an_earlier_version_is_bound_to_every_instance_of_its_id() {
    let mut story = Story::new();
    story.start_attach(NODES[1], "p1", None);
    story.end("p1");
    story.observe("p1", "1");
    for effect in all_effects() {
        assert_eq!(story.bound(effect.clone()), Some("p1"), "{effect:?}");
        assert_eq!(story.callable(effect), ["p1"]);
    }
    // Repeated by this version, it is an attach like others.
    story.attach(NODES[1], "p1");
    story.end("p1");
    story.observe("p1", "1");
    for effect in all_effects() {
        assert_eq!(story.bound(effect), None);
    }
}

/// Its detach too: who started it is not on record.
#[test]
fn a_detach_of_an_earlier_version_is_bound_to_every_instance_of_its_id() {
    for (inputs, expected) in [(None, Some("p1")), (Some(Box::default()), None)] {
        let mut story = Story::new();
        story.start_attach(NODES[1], "p1", inputs);
        story.detach(NODES[1], "p1");
        story.end("p1");
        story.observe("p1", "1");
        for effect in all_effects() {
            assert_eq!(story.bound(effect.clone()), expected, "{effect:?}");
        }
    }
}

/// What an instance that is gone got says nothing about the request of the next one, also under the same ID.
#[test]
fn an_intent_knows_the_request_that_its_instance_got() {
    for intent in VolumeIntent::ALL {
        let id = if intent == VolumeIntent::Create { "new" } else { "db" };
        let controller = |story: &Story| {
            let record = story.0.record(&key("default", id)).unwrap();
            record.controller_of(intent).unwrap().clone()
        };
        let mut story = Story::new();
        story.intend(id, intent, Some("p1"));
        assert_eq!(controller(&story).request.as_deref(), Some("request 1"));
        story.intend_with(id, intent, Some("p1"), Some("request 2"));
        assert_eq!(controller(&story).request, None, "{intent:?}: it may run either");
        story.intend(id, intent, Some("p1"));
        assert_eq!(controller(&story).request, None, "{intent:?}: it may still run either");
        assert_eq!(controller(&story).earlier, EarlierControllers::None);
        story.end("p1");
        story.observe("p1", "1");
        story.intend(id, intent, Some("p1"));
        assert_eq!(controller(&story).request.as_deref(), Some("request 1"), "{intent:?}");
        assert_eq!(controller(&story).earlier, EarlierControllers::Ended, "{intent:?}");
        story.intend_with(id, intent, Some("p2"), Some("request 3"));
        assert_eq!(controller(&story).request.as_deref(), Some("request 3"), "{intent:?}");
    }
}
