//! Model check of the claims machine: the real `next_steps`, `admit` and events run against a strict
//! plugin in every reachable state, as they are or broken on purpose.
//!
//! One volume under one or two registrations, up to three allocations on two nodes, plugins with and
//! without attachment and staging, also ones that gain or lose them, or whose instances differ. A claim
//! arrives at any moment, and again: while held, while in release, after it is gone. Allocations stop,
//! registrations are removed by force and made again, mounts vanish, and nodes reboot, are lost, return and
//! are lost again, in any order. A call is started, takes effect or not, and ends, each at any later moment,
//! beside the calls of other call locks.
//! The server may stop waiting at any moment. A request may be held up and arrive later, or never. A
//! crash of a host or plugin is a call whose reply is lost; a journal that refuses the end of a step too,
//! and one that refuses its start is a step that is not sent.
//!
//! Checked: no obligation of CSI is broken when a call starts or takes effect, and no target is taken
//! from running tasks; a writer never gets a read-only attachment, and a repeated call has the arguments
//! of the first; `Yes` and `No` in the record are true, except on a lost node until it is swept; all that
//! exists has a claim to undo it; in whatever order steps run they come to rest, and each can start; two
//! nodes never can write a volume that is for one, nor two allocations one for a single writer; two claims
//! are ever published together exactly if their mode allows it and their nodes differ or their usages
//! agree.
//!
//! Several servers: the leader changes up to twice, at any moment. The deposed one goes on with each call that it had
//! on record, as often as it wants; what it hears is not recorded. Hosts start again at any moment, and forget
//! the term. Two controllers of one plugin have a host each. The volume itself is created under its provider's
//! name, expanded and deleted by its external ID, with the controller in the intent. Checked besides: two controllers never
//! work on one volume or one creation, and what the record says of the volume is true.
//!
//! What can happen is a set of inputs (`inputs`). Those of one machine are explored all at once, and all
//! inputs two at a time, in layouts that have what they need; the product of all is not explored.
//!
//! States are distinguished by 128-bit fingerprints, and an error names its way by making it once more. The
//! suite explores the layouts that are small enough for one call at a time and the small pairs of inputs, and
//! finds each breakage in the smallest layout or pair that has it; the long form has all layouts, up to three
//! calls, and all pairs.
//!
//! Not modelled: two volumes; a controller in another process that gains attach and was not observed since;
//! a fence that does not hold; work that goes on in the storage system after the plugin's process is gone; a
//! controller's host that is lost; calls that never end; a restore of the journal from a backup.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash as _, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use nomad_csi_claims::claim::{
    Admission, Claim, ClaimEvent, ClaimKey, ClaimRequest, Effect, Facts, Intent, Known,
    PluginSteps, Step, Tombstone, is_new_problem, samples,
};
use nomad_csi_model::{AccessMode, NamespacedId, NodeId, SealedSecrets, VolumeId};

mod inputs;
mod leaders;
mod rules;
mod volume;
mod world;

use inputs::{Input, ONE_MACHINE, Pair};
use leaders::{Host, leaders_go_on};
use rules::{Busy, MUTATIONS, Mutation, Rules, THE_RULES};
use volume::{controllers_change, volume_call_is_refused, volume_goes_on};
use world::{Action, Call, Lock, Phase, Requests, World, check, forbidden, hear, take_effect};

/// An allocation's request: allocation, node, usage, read-only, registration.
type Row = (&'static str, &'static str, &'static str, bool, &'static str);

/// Which allocations claim the volume where, its access mode, how many calls may be under way at once,
/// and what the plugin's capabilities do.
struct Layout {
    name: &'static str,
    mode: AccessMode,
    at_once: usize,
    instances: Instances,
    /// The plugins with which the usual suite explores it, one call at a time if not otherwise said.
    in_suite: &'static [PluginSteps],
    requests: &'static [Row],
}

/// How the instances of the plugin differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instances {
    Same,
    /// That on node 2 stages if the others do not, and the other way round.
    Differ,
    /// They gain and lose capabilities.
    Change,
}

const MANY_WRITERS: AccessMode = AccessMode::MultiNodeMultiWriter;

const LAYOUTS: &[Layout] = &[
    Layout {
        name: "writer and reader on node 1",
        mode: MANY_WRITERS,
        at_once: 3,
        instances: Instances::Same,
        in_suite: &PLUGINS,
        requests: &[("a1", "n1", "x", false, "db"), ("a2", "n1", "x", true, "db")],
    },
    Layout {
        name: "a writer on node 1",
        mode: AccessMode::SingleNodeWriter,
        at_once: 3,
        instances: Instances::Same,
        in_suite: &[ATTACHES, STAGES],
        requests: &[("a1", "n1", "x", false, "db")],
    },
    Layout {
        name: "a writer on node 1, plugin that changes",
        mode: AccessMode::SingleNodeWriter,
        at_once: 2,
        instances: Instances::Change,
        in_suite: &[NEITHER],
        requests: &[("a1", "n1", "x", false, "db")],
    },
    Layout {
        name: "writers on node 1 and 2, where one instance stages",
        mode: MANY_WRITERS,
        at_once: 1,
        instances: Instances::Differ,
        in_suite: &[NEITHER],
        requests: &[("a1", "n1", "x", false, "db"), ("a2", "n2", "x", false, "db")],
    },
    Layout {
        name: "writer, reader and another usage on node 1",
        mode: MANY_WRITERS,
        at_once: 2,
        instances: Instances::Same,
        in_suite: &[ATTACHES, NEITHER],
        requests: &[
            ("a1", "n1", "x", false, "db"),
            ("a2", "n1", "x", true, "db"),
            ("a3", "n1", "y", false, "db"),
        ],
    },
    Layout {
        name: "a writer on node 1 or one on 2",
        mode: AccessMode::SingleNodeWriter,
        at_once: 2,
        instances: Instances::Same,
        in_suite: &[ATTACHES, NEITHER],
        requests: &[("a1", "n1", "x", false, "db"), ("a2", "n2", "x", false, "db")],
    },
    Layout {
        name: "a writer and a reader of two registrations on node 1",
        mode: AccessMode::MultiNodeSingleWriter,
        at_once: 2,
        instances: Instances::Same,
        in_suite: &[NEITHER],
        requests: &[("a1", "n1", "x", false, "db"), ("a2", "n1", "x", true, "wb")],
    },
    Layout {
        name: "a writer on node 1 or one of another registration on 2",
        mode: AccessMode::SingleNodeWriter,
        at_once: 1,
        instances: Instances::Same,
        in_suite: &[NEITHER],
        requests: &[("a1", "n1", "x", false, "db"), ("a2", "n2", "x", false, "wb")],
    },
    Layout {
        name: "writer and reader on node 1, plugin that changes",
        mode: MANY_WRITERS,
        at_once: 1,
        instances: Instances::Change,
        in_suite: &[],
        requests: &[("a1", "n1", "x", false, "db"), ("a2", "n1", "x", true, "db")],
    },
    Layout {
        name: "two readers of a volume for readers on node 1",
        mode: AccessMode::MultiNodeReaderOnly,
        at_once: 1,
        instances: Instances::Same,
        in_suite: &[ATTACHES],
        requests: &[("a1", "n1", "x", true, "db"), ("a2", "n1", "x", true, "db")],
    },
    Layout {
        name: "a writer on node 1, another usage on 2",
        mode: MANY_WRITERS,
        at_once: 2,
        instances: Instances::Same,
        in_suite: &[NEITHER],
        requests: &[("a1", "n1", "x", false, "db"), ("a2", "n2", "y", false, "db")],
    },
    Layout {
        name: "two usages on node 1, one of them on 2",
        mode: MANY_WRITERS,
        at_once: 1,
        instances: Instances::Same,
        in_suite: &[],
        requests: &[
            ("a1", "n1", "x", false, "db"),
            ("a2", "n1", "y", false, "db"),
            ("a3", "n2", "y", true, "db"),
        ],
    },
    Layout {
        name: "writer and reader on node 1, writer on 2",
        mode: MANY_WRITERS,
        at_once: 1,
        instances: Instances::Same,
        in_suite: &[],
        requests: &[
            ("a1", "n1", "x", false, "db"),
            ("a2", "n1", "x", true, "db"),
            ("a3", "n2", "x", false, "db"),
        ],
    },
    Layout {
        name: "writers of two registrations on node 1 and 2, a reader beside each",
        mode: AccessMode::MultiNodeSingleWriter,
        at_once: 1,
        instances: Instances::Same,
        in_suite: &[],
        requests: &[
            ("a1", "n1", "x", false, "db"),
            ("a2", "n1", "x", true, "wb"),
            ("a3", "n2", "x", false, "wb"),
        ],
    },
    Layout {
        name: "two registrations on node 1, plugin that changes",
        mode: AccessMode::MultiNodeSingleWriter,
        at_once: 1,
        instances: Instances::Change,
        in_suite: &[],
        requests: &[("a1", "n1", "x", false, "db"), ("a2", "n1", "x", true, "wb")],
    },
    Layout {
        name: "two writers on node 1 of which one can write",
        mode: AccessMode::MultiNodeSingleWriter,
        at_once: 2,
        instances: Instances::Same,
        in_suite: &[],
        requests: &[("a1", "n1", "x", false, "db"), ("a2", "n1", "x", false, "db")],
    },
];

const ATTACHES: PluginSteps = PluginSteps { attach: true, stage: false };

const NEITHER: PluginSteps = PluginSteps { attach: false, stage: false };

const STAGES: PluginSteps = PluginSteps { attach: false, stage: true };

const BOTH: PluginSteps = PluginSteps { attach: true, stage: true };

const PLUGINS: [PluginSteps; 4] = [NEITHER, ATTACHES, STAGES, BOTH];

impl Layout {
    /// The plugins with which it is explored. One that changes becomes each of them.
    fn plugins(&self) -> &'static [PluginSteps] {
        match self.instances {
            Instances::Same | Instances::Differ => &PLUGINS,
            Instances::Change => &[NEITHER],
        }
    }

    fn requests(&self) -> Requests {
        let rows = self.requests.iter();
        rows.map(|(alloc, node, usage, read_only, registration)| {
            let mut request = samples::request(alloc, node, self.mode);
            request.usage.fs_type = (*usage).to_owned();
            request.read_only = *read_only;
            request.volume.id = VolumeId::new(*registration);
            (request.key.clone(), request)
        })
        .collect()
    }
}

/// A request reaches the host of its call lock, or the plugin. Returns whether it is carried out.
fn arrive(world: &mut World, call: Call, rules: &Rules) -> Result<bool, String> {
    let Some(lock) = call.lock() else {
        return Ok(false);
    };
    if !world.leaders.takes(&call, rules) {
        return Ok(false);
    }
    world.hear_term(&call, rules);
    let is_accepted = rules.host_accepts(world, &call, &lock);
    let seen = world.seen.entry(lock).or_insert(0);
    *seen = call.order.max(*seen);
    if !is_accepted {
        return Ok(false);
    }
    let problem = forbidden(world, &call, call.phase == Phase::Awaited);
    if !problem.is_empty() {
        return Err(format!("{:?} {problem}", call.action));
    }
    world.calls.push(call);
    Ok(true)
}

/// Collects what can happen next.
struct Next<'a> {
    from: &'a World,
    rules: &'a Rules,
    found: Vec<Result<World, String>>,
    /// What each of them is; only given on the way to an error, because names take most of the time.
    names: Option<Vec<String>>,
}

impl<'a> Next<'a> {
    /// Everything that can happen next.
    fn new(from: &'a World, requests: &Requests, rules: &'a Rules, is_named: bool) -> Self {
        let mut next = Self { from, rules, found: vec![], names: is_named.then(Vec::new) };
        successors(&mut next, requests, rules);
        next
    }

    fn on(
        &mut self,
        event: impl FnOnce() -> String,
        change: impl FnOnce(&mut World) -> Result<(), String>,
    ) {
        let mut next = self.from.clone();
        let changed = change(&mut next);
        next.forget_refused(self.rules);
        next.forget_numbers();
        self.found.push(changed.map(|()| next));
        if let Some(names) = &mut self.names {
            names.push(event());
        }
    }
}

fn successors(next: &mut Next<'_>, requests: &Requests, rules: &Rules) {
    let world = next.from;
    for request in requests.values() {
        claims_and_stops(next, request, rules);
    }
    let inputs = rules.inputs;
    let registrations: BTreeSet<_> = requests.values().map(|request| &request.volume).collect();
    if registrations.len() > 1 && inputs.has(Input::Registrations) {
        for registration in registrations {
            registration_goes(next, registration, rules);
        }
    }
    if world.instances == Instances::Change && inputs.has(Input::PluginChanges) {
        plugin_changes(next);
    }
    let nodes: BTreeSet<_> = requests.values().map(|request| &request.node).collect();
    for node in nodes {
        if inputs.has(Input::Losses) {
            losses(next, node, rules);
        }
        if inputs.has(Input::Reboots) {
            next.on(
                || format!("{node} reboots"),
                |world| {
                    world.reboot(node, rules);
                    Ok(())
                },
            );
        }
    }
    for (node, key) in &world.tasks_left {
        next.on(
            || format!("the tasks of {} on {node} end", key.alloc),
            |world| {
                world.tasks_left.remove(&(node.clone(), key.clone()));
                Ok(())
            },
        );
    }
    if inputs.has(Input::Vanishing) {
        vanishing_mounts(next, rules);
    }
    if inputs.has_two_controllers() {
        controllers_change(next);
    }
    if inputs.has(Input::VolumeCalls) {
        volume_goes_on(next, requests, rules);
    }
    leaders_go_on(next, requests, rules);
    for position in 0..world.calls.len() {
        call_goes_on(next, position, rules);
    }
    if rules.is_patient && rules.restarts {
        next.on(
            || "the server restarts".into(),
            |world| {
                for call in &mut world.calls {
                    if call.phase == Phase::Awaited {
                        call.phase = Phase::Abandoned;
                    }
                }
                Ok(())
            },
        );
    }
    for action in world.due(rules) {
        if let Action::Step(step) = action {
            step_starts(next, &step, rules);
        }
    }
}

fn claims_and_stops(next: &mut Next<'_>, request: &ClaimRequest, rules: &Rules) {
    let key = &request.key;
    let alloc = &key.alloc;
    let requested = || ClaimEvent::ReleaseRequested { key: key.clone(), reason: String::new() };
    if next.from.running.contains(key) {
        next.on(
            || format!("{alloc} stops"),
            |world| {
                world.running.remove(key);
                world.commit(&requested(), 0);
                Ok(())
            },
        );
        if rules.inputs.has(Input::CutOffs) && next.from.record.claims.contains_key(key) {
            cut_off(next, key, rules);
        }
        // An operator may release it only by cutting its tasks off, which ends them here.
        if rules.broken == Mutation::ReleaseRunning {
            next.on(
                || format!("an operator releases {alloc}"),
                |world| {
                    world.commit(&requested(), 0);
                    Ok(())
                },
            );
        }
    }
    if next.from.cut.contains(key) && !next.from.running.contains(key) {
        next.on(
            || format!("the node reports the end of {alloc}"),
            |world| {
                world.cut.remove(key);
                world.commit(&requested(), 0);
                Ok(())
            },
        );
    }
    if rules.inputs.has(Input::AccessChanges) {
        access_changes(next, request, rules);
    }
    let capabilities = samples::all_capabilities();
    let is_registered = !next.from.gone.contains(&request.volume);
    let admission = rules.admit(next.from, request, &capabilities);
    if is_registered && admission == Some(Admission::Granted) {
        next.on(
            || format!("{alloc} claims"),
            |world| {
                let is_full = |(_, claim): (&ClaimKey, &Claim)| claim.exhausted_since().is_some();
                if world.record.on(&request.node).any(is_full) {
                    return Err(format!("{alloc} gets a claim on a node without room"));
                }
                let mut request = request.clone();
                if !world.steps().attach {
                    request.external_node = None;
                }
                let (key, claim) = request.granted(0);
                world.record.claims.remove(&key);
                world.running.insert(key.clone());
                let claim = Box::new(claim);
                world.commit(&ClaimEvent::Granted { key, claim }, 0);
                Ok(())
            },
        );
    }
}

/// An operator cuts off the tasks of a claim: they are killed, and then their node reports it (rule 20).
fn cut_off(next: &mut Next<'_>, key: &ClaimKey, rules: &Rules) {
    let alloc = &key.alloc;
    if !next.from.cut.contains(key) {
        next.on(
            || format!("an operator cuts {alloc} off"),
            |world| {
                world.cut.insert(key.clone());
                if rules.broken == Mutation::ReleaseUnkilled {
                    let key = key.clone();
                    let reason = String::new();
                    world.commit(&ClaimEvent::ReleaseRequested { key, reason }, 0);
                }
                Ok(())
            },
        );
        return;
    }
    next.on(
        || format!("the tasks of {alloc} are killed"),
        |world| {
            world.running.remove(key);
            Ok(())
        },
    );
}

/// An allocation that has its claim asks to read instead of write, or to write instead of read (rule 21).
fn access_changes(next: &mut Next<'_>, request: &ClaimRequest, rules: &Rules) {
    let Some(claim) = next.from.record.claims.get(&request.key) else { return };
    let (key, read_only) = (&request.key, !claim.read_only);
    let request = ClaimRequest { read_only, ..request.clone() };
    let capabilities = samples::all_capabilities();
    let admission = rules.admit(next.from, &request, &capabilities);
    let is_forced = rules.broken == Mutation::ChangePublished && claim.is_held();
    if admission != Some(Admission::Changed) && !is_forced {
        return;
    }
    next.on(
        || format!("{} asks for read-only {read_only}", key.alloc),
        |world| {
            let event = ClaimEvent::AccessChanged { key: key.clone(), read_only };
            world.commit(&event, 0);
            if is_forced && let Some(claim) = world.record.claims.get_mut(key) {
                claim.read_only = read_only;
            }
            Ok(())
        },
    );
}

/// A registration is removed by force while claims through it are left, and made again.
fn registration_goes(next: &mut Next<'_>, registration: &NamespacedId, rules: &Rules) {
    let name = &registration.id;
    if next.from.gone.contains(registration) {
        next.on(
            || format!("{name} is registered again"),
            |world| {
                world.gone.remove(registration);
                Ok(())
            },
        );
        return;
    }
    let claims = || next.from.record.through(registration);
    let runs = claims().any(|(key, _)| next.from.running.contains(key));
    if claims().next().is_none() || runs && rules.broken != Mutation::OrphanRunning {
        return;
    }
    next.on(
        || format!("{name} is deregistered by force"),
        |world| {
            let is_own = rules.broken != Mutation::OrphanAll;
            world.gone.insert(registration.clone());
            let tombstone = Tombstone {
                volume: registration.clone(),
                secrets: SealedSecrets::default(),
                since: 0,
            };
            let orphaned = ClaimEvent::Orphaned {
                tombstone: Box::new(tombstone),
                registration: is_own.then(|| registration.clone()),
            };
            world.commit(&orphaned, 0);
            Ok(())
        },
    );
}

/// A plugin that is started again may report other steps; what it attached, staged and published stays.
fn plugin_changes(next: &mut Next<'_>) {
    let now = next.from.steps();
    for (what, plugin) in [
        ("attach", PluginSteps { attach: !now.attach, ..now }),
        ("stage", PluginSteps { stage: !now.stage, ..now }),
    ] {
        // It changes only with its process, and the calls of that one end with it.
        next.on(
            || format!("the plugin gains or loses {what}"),
            |world| {
                world.facts.plugin = Some(plugin);
                world.calls.retain(|call| call.phase == Phase::HeldUp);
                Ok(())
            },
        );
    }
}

fn losses(next: &mut Next<'_>, node: &NodeId, rules: &Rules) {
    let facts = &next.from.facts;
    let (is_lost, has_returned) = (facts.lost.contains(node), facts.returned.contains(node));
    if !is_lost || has_returned {
        next.on(
            || format!("{node} is lost"),
            |world| {
                world.facts.lost.insert(node.clone());
                world.facts.returned.remove(node);
                Ok(())
            },
        );
    } else {
        next.on(
            || format!("{node} is back"),
            |world| {
                if rules.broken == Mutation::ReturnUnswept {
                    world.facts.lost.remove(node);
                } else {
                    world.facts.returned.insert(node.clone());
                }
                Ok(())
            },
        );
    }
}

/// A target or a staging loses its mount, while no call for it is under way, and the node notices.
fn vanishing_mounts(next: &mut Next<'_>, rules: &Rules) {
    let from = next.from;
    for (effect, (node, ..)) in &from.plugin {
        let (targets, staging) = match effect {
            Effect::Published(key) => (BTreeSet::from([key.clone()]), false),
            Effect::Staged(_) => (BTreeSet::new(), true),
            Effect::Attached(_) => continue,
        };
        let lock = Some(Lock::Node(node.clone()));
        let is_called = from.calls.iter().any(|call| call.lock() == lock);
        // Only a node that is connected reports it.
        if is_called || !from.leaders.can_address(&Host::Node(node.clone()), rules) {
            continue;
        }
        next.on(
            || format!("the mount of {effect:?} vanishes"),
            |world| {
                world.plugin.remove(effect);
                world.hear_report(node, rules);
                if rules.broken != Mutation::TrustVanished {
                    let event = ClaimEvent::MountsLost {
                        node: node.clone(),
                        targets,
                        staging,
                        reason: String::new(),
                    };
                    world.commit(&event, 0);
                }
                Ok(())
            },
        );
    }
}

fn call_goes_on(next: &mut Next<'_>, position: usize, rules: &Rules) {
    let call = next.from.calls[position].clone();
    let step = &call.action;
    if call.phase == Phase::HeldUp {
        next.on(
            || format!("{step:?} arrives late"),
            |world| {
                let call = world.calls.remove(position);
                let phase = Phase::Abandoned;
                arrive(world, Call { phase, ..call }, rules).map(|_| ())
            },
        );
        next.on(
            || format!("{step:?} never arrives"),
            |world| {
                world.calls.remove(position);
                Ok(())
            },
        );
        return;
    }
    let late = if call.phase == Phase::Awaited { "" } else { "late " };
    if !call.is_effective {
        next.on(
            || format!("{late}{step:?} takes effect"),
            |world| {
                world.calls[position].is_effective = true;
                take_effect(world, &call)
            },
        );
    }
    next.on(
        || format!("{late}{step:?} loses its reply"),
        |world| {
            world.calls.remove(position);
            Ok(())
        },
    );
    let is_of_leader = call.term == next.from.leaders.term;
    if call.phase == Phase::Awaited && !call.is_effective && is_of_leader {
        call_is_refused(next, position, &call, rules);
    }
    let is_heard = match call.phase {
        // The journal refuses what a deposed leader hears.
        _ if !is_of_leader && rules.broken != Mutation::DeposedCommits => false,
        Phase::Awaited => true,
        // A late answer still counts if its step is open and no later request of the call lock was sent.
        Phase::Abandoned => rules.busy == Busy::Host && !next.from.has_later_request(&call),
        Phase::Unknown | Phase::HeldUp => false,
    };
    if is_heard && call.is_effective {
        next.on(
            || format!("{late}{step:?} done"),
            |world| {
                world.calls.remove(position);
                hear(world, &call, rules);
                Ok(())
            },
        );
    }
    if call.phase == Phase::Awaited && rules.at_once > 1 && !rules.is_patient {
        next.on(
            || format!("{step:?} times out"),
            |world| {
                world.calls[position].phase = Phase::Abandoned;
                Ok(())
            },
        );
    }
    if rules.broken == Mutation::ForgetfulHost && call.phase != Phase::Unknown {
        next.on(
            || format!("the host of {step:?} restarts"),
            |world| {
                world.calls[position].phase = Phase::Unknown;
                Ok(())
            },
        );
    }
}

/// The plugin refuses a call that has no effect yet.
fn call_is_refused(next: &mut Next<'_>, position: usize, call: &Call, rules: &Rules) {
    let step = match &call.action {
        Action::Volume(step) => return volume_call_is_refused(next, position, *step),
        Action::Step(step @ (Step::NodeStage(_) | Step::NodePublish(_))) => step,
        Action::Step(_) => return,
    };
    if !rules.inputs.has(Input::NoRoom) {
        return;
    }
    next.on(
        || format!("the node has no room for {step:?}"),
        |world| {
            world.calls.remove(position);
            let error = "no room";
            if is_new_problem(&world.record, step, error) {
                let event = ClaimEvent::StepFailed {
                    step: step.clone(),
                    error: error.to_owned(),
                    help: None,
                    exhausted: true,
                };
                world.commit(&event, 0);
            }
            Ok(())
        },
    );
}

fn step_starts(next: &mut Next<'_>, step: &Step, rules: &Rules) {
    let world = next.from;
    let call = world.call(step.clone(), rules);
    let Some(lock) = call.lock() else {
        next.on(
            || format!("{step:?}"),
            |world| {
                let problem = forbidden(world, &call, true);
                if !problem.is_empty() {
                    return Err(format!("{step:?} {problem}"));
                }
                hear(world, &call, rules);
                Ok(())
            },
        );
        return;
    };
    if !world.leaders.can_address(&lock.host(), rules) {
        return;
    }
    let is_awaited = |other: &Call| {
        let is_same = match (&lock, other.lock()) {
            (Lock::Controller(_), Some(Lock::Controller(_))) => other.step().is_some(),
            (lock, other) => other.as_ref() == Some(lock),
        };
        is_same && other.phase == Phase::Awaited
    };
    if world.calls.iter().any(is_awaited) || world.calls.len() == rules.at_once {
        return;
    }
    next.on(
        || format!("{step:?}"),
        |world| {
            let mut call = call.clone();
            if world.begin(&mut call, rules) {
                arrive(world, call, rules)?;
            }
            Ok(())
        },
    );
    if rules.broken == Mutation::SendRefused {
        next.on(
            || format!("the journal refuses the start of {step:?}"),
            |world| {
                let mut call = call.clone();
                let record = world.record.clone();
                world.begin(&mut call, rules);
                world.record = record;
                arrive(world, call, rules).map(|_| ())
            },
        );
    }
    if rules.inputs.has(Input::HeldUp) && rules.at_once > 1 {
        next.on(
            || format!("{step:?} is held up"),
            |world| {
                let mut call = call.clone();
                if world.begin(&mut call, rules) {
                    call.phase = Phase::HeldUp;
                    world.calls.push(call);
                }
                Ok(())
            },
        );
    }
}

/// A 128-bit hash, mixed once for each word written.
#[derive(Default)]
struct Fingerprint(u128);

impl Fingerprint {
    fn mix(&mut self, word: u64) {
        let mixed = self.0.rotate_left(59) ^ u128::from(word);
        self.0 = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    }
}

impl Hasher for Fingerprint {
    fn finish(&self) -> u64 {
        u64::try_from(self.0 >> 64).unwrap_or_default()
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some((word, others)) = rest.split_first_chunk() {
            self.mix(u64::from_le_bytes(*word));
            rest = others;
        }
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(word));
    }

    fn write_u8(&mut self, byte: u8) {
        self.mix(u64::from(byte));
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }
}

type Found<T> = HashMap<u128, T, BuildHasherDefault<Fingerprint>>;

/// Distinguishes states by what differs between them in a layout.
fn fingerprint(world: &World) -> u128 {
    let mut hasher = Fingerprint(1);
    let record = &world.record;
    for (key, claim) in &record.claims {
        (&key.alloc, claim.intent, claim.published, claim.read_only).hash(&mut hasher);
        let problem = claim.problem.as_ref().filter(|problem| problem.exhausted);
        problem.map(|problem| &problem.step).hash(&mut hasher);
        claim.external_node.is_some().hash(&mut hasher);
        claim.call.as_ref().map(|c| (c.index, c.is_setup)).hash(&mut hasher);
    }
    for (node, staging) in &record.stagings {
        (node, &staging.usage.fs_type, staging.state).hash(&mut hasher);
        (staging.call.index, staging.call.is_setup).hash(&mut hasher);
    }
    0xff_u8.hash(&mut hasher);
    for (node, attachment) in &record.attachments {
        (node, attachment.state).hash(&mut hasher);
        (attachment.call.index, attachment.call.is_setup).hash(&mut hasher);
        let made_for = attachment.made_for.as_ref();
        made_for.map(|made_for| (&made_for.usage.fs_type, made_for.read_only)).hash(&mut hasher);
        if world.controllers() > 1 && attachment.state == Known::Maybe {
            attachment.call.instance.hash(&mut hasher);
        }
    }
    if let Some(expansion) = &record.expansion {
        expansion.done.hash(&mut hasher);
        expansion.calls.keys().for_each(|node| node.hash(&mut hasher));
        0xfe_u8.hash(&mut hasher);
    }
    for gone in &record.tombstones {
        gone.volume.hash(&mut hasher);
    }
    (&world.running, &world.gone).hash(&mut hasher);
    (&world.facts, &world.plugin, &world.calls, &world.seen).hash(&mut hasher);
    (&world.leaders, &world.volume, world.preferred).hash(&mut hasher);
    (&world.cut, &world.tasks_left).hash(&mut hasher);
    hasher.0
}

/// Tries every order in which steps can run until they rest, if nothing else happens; returns the
/// longest.
fn way_to_rest(
    world: &World,
    rules: &Rules,
    ways: &mut Found<Option<usize>>,
) -> Result<usize, String> {
    let here = fingerprint(world);
    if let Some(way) = ways.get(&here) {
        return way.ok_or_else(|| "back in an earlier state: may never rest".into());
    }
    ways.insert(here, None);
    let due = world.due(rules);
    let mut claims = world.record.claims.values();
    let is_settled = claims.all(|c| c.intent == Intent::Hold && c.published == Known::Yes);
    let waits = |node| rules.inputs.has(Input::Outlasting) && world.has_tasks_on(node);
    if due.is_empty() && !(is_settled && world.facts.returned.iter().all(waits)) {
        return Err("at rest with something left to do".into());
    }
    let mut longest = 0;
    for action in due {
        let mut next = world.clone();
        let mut call = match &action {
            Action::Step(step) => next.call(step.clone(), rules),
            Action::Volume(step) => {
                let open = next.volume.open(*step).and_then(|open| open.instance);
                let instance = open.unwrap_or_else(|| next.volume_instance(*step, rules));
                next.volume_call(*step, instance)
            }
        };
        let problem = forbidden(&next, &call, true);
        if !problem.is_empty() {
            return Err(format!("{action:?} {problem}"));
        }
        if call.lock().is_some() {
            if !next.begin(&mut call, rules) {
                return Err(format!("{action:?} is due and cannot start"));
            }
            if !next.leaders.takes(&call, rules) {
                return Err(format!("{action:?} is due, and its host refuses it for ever"));
            }
        }
        take_effect(&mut next, &call)?;
        hear(&mut next, &call, rules);
        next.forget_refused(rules);
        next.forget_numbers();
        let way = way_to_rest(&next, rules, ways).map_err(|e| format!("{action:?}, {e}"))?;
        longest = longest.max(1 + way);
    }
    ways.insert(here, Some(longest));
    Ok(longest)
}

type Pairs = BTreeSet<(ClaimKey, ClaimKey)>;

/// Pairs of claims of which each can be published while the other is.
fn compatible_pairs(requests: &Requests, mode: AccessMode) -> Pairs {
    let mut pairs = Pairs::new();
    for (x, first) in requests {
        for (y, second) in requests.range(x.clone()..).skip(1) {
            let fits_node = first.node != second.node || first.usage == second.usage;
            let fits_mode = match mode {
                AccessMode::SingleNodeReaderOnly | AccessMode::SingleNodeWriter => false,
                AccessMode::MultiNodeSingleWriter => first.read_only || second.read_only,
                AccessMode::MultiNodeReaderOnly | AccessMode::MultiNodeMultiWriter => true,
            };
            if fits_node && fits_mode {
                pairs.insert((x.clone(), y.clone()));
            }
        }
    }
    pairs
}

fn published_pairs(world: &World) -> Pairs {
    let claims = world.record.claims.iter();
    let published: Vec<_> = claims.filter(|(_, c)| c.published == Known::Yes).collect();
    let mut pairs = Pairs::new();
    for (at, (x, _)) in published.iter().enumerate() {
        for (y, _) in &published[at + 1..] {
            pairs.insert(((*x).clone(), (*y).clone()));
        }
    }
    pairs
}

/// What an exploration has seen.
#[derive(Clone, Copy, Debug, Default)]
struct Explored {
    states: usize,
    edges: usize,
    longest: usize,
}

/// Where each state came from, so that an error can name the way there: the position of the state before
/// it, and which of its successors it is.
struct Trail<'a> {
    start: World,
    steps: Vec<(usize, usize)>,
    requests: &'a Requests,
    rules: &'a Rules,
}

impl Trail<'_> {
    /// Names the events that lead to a state, and then to one of its successors.
    fn tell(&self, mut at: usize, last: Option<usize>, error: &str) -> String {
        let mut taken: Vec<_> = last.into_iter().collect();
        while at != 0 {
            let (from, taken_there) = self.steps[at];
            taken.push(taken_there);
            at = from;
        }
        let mut world = self.start.clone();
        let mut way = String::new();
        for position in taken.into_iter().rev() {
            let next = Next::new(&world, self.requests, self.rules, true);
            way += &next.names.unwrap_or_default()[position];
            way += ", ";
            if let Ok(after) = &next.found[position] {
                world = after.clone();
            }
        }
        way + "| " + error
    }
}

/// Checks every reachable state.
fn explore(start: World, requests: &Requests, rules: &Rules) -> Result<Explored, String> {
    let mode = start.mode;
    let mut seen = Found::from_iter([(fingerprint(&start), ())]);
    let mut trail = Trail { start: start.clone(), steps: vec![(0, 0)], requests, rules };
    let mut queue = VecDeque::from([(start, 0_usize)]);
    let mut explored = Explored::default();
    let mut ways = Found::default();
    let mut together = Pairs::new();
    while let Some((world, here)) = queue.pop_front() {
        check(&world, requests, rules).map_err(|e| trail.tell(here, None, &e))?;
        if world.calls.is_empty() && !world.leaders.is_unconnected() {
            let mut alone = world.clone();
            alone.leaders.forget_deposed();
            let way = way_to_rest(&alone, rules, &mut ways);
            let way = way.map_err(|e| trail.tell(here, None, &e))?;
            explored.longest = explored.longest.max(way);
        }
        together.append(&mut published_pairs(&world));
        let next = Next::new(&world, requests, rules, false);
        for (position, next) in next.found.into_iter().enumerate() {
            explored.edges += 1;
            let next = next.map_err(|e| trail.tell(here, Some(position), &e))?;
            if seen.insert(fingerprint(&next), ()).is_none() {
                trail.steps.push((here, position));
                queue.push_back((next, trail.steps.len() - 1));
            }
        }
    }
    explored.states = seen.len();
    let expected = compatible_pairs(requests, mode);
    // Claims that read instead are more often compatible.
    let is_expected = match rules.inputs.has(Input::AccessChanges) {
        true => expected.is_subset(&together),
        false => together == expected,
    };
    if !is_expected {
        return Err(format!("ever published together are {together:?}, should be {expected:?}"));
    }
    Ok(explored)
}

/// Explores one layout with one plugin.
fn explore_layout(
    rules: Rules,
    layout: &Layout,
    plugin: PluginSteps,
    most_calls: usize,
) -> Result<Explored, String> {
    let differs =
        (layout.instances == Instances::Differ).then(|| (NodeId::new("n2"), !plugin.stage));
    let at_once = layout.at_once.min(most_calls);
    let rules = Rules { at_once, ..rules };
    let start = World {
        facts: Facts {
            plugin: Some(plugin),
            stages: differs.into_iter().collect(),
            ..Facts::default()
        },
        ..World::new(layout.mode, layout.instances, &rules)
    };
    explore(start, &layout.requests(), &rules)
        .map_err(|e| format!("{plugin:?}; {}: {e}", layout.name))
}

/// Explores the plugins times the layouts, up to the first error.
fn run(rules: Rules, layouts: &[Layout], most_calls: usize) -> Result<Explored, String> {
    let mut all = Explored::default();
    for layout in layouts {
        for plugin in layout.plugins() {
            let found = explore_layout(rules, layout, *plugin, most_calls)?;
            all.states += found.states;
            all.edges += found.edges;
            all.longest = all.longest.max(found.longest);
        }
    }
    Ok(all)
}

/// Does the jobs on all processors.
fn on_all_processors<T: Sync>(jobs: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(job);
                }
            });
        }
    });
}

/// Shows a result of a long exploration.
#[expect(clippy::print_stdout, reason = "long explorations are run by hand")]
fn report(line: &str) {
    println!("{line}");
}

/// Explores a pair of inputs in its first cases.
fn explore_pair(rules: Rules, pair: Pair, cases: usize) -> Result<Explored, String> {
    let rules = Rules { inputs: pair.inputs(), ..rules };
    let mut all = Explored::default();
    for (layout, plugin) in pair.cases().into_iter().take(cases) {
        let found = explore_layout(rules, layout, plugin, pair.calls_at_once(layout))
            .map_err(|e| format!("{} and {}: {e}", pair.0.name(), pair.1.name()))?;
        all.states += found.states;
        all.edges += found.edges;
        all.longest = all.longest.max(found.longest);
    }
    Ok(all)
}

/// Returns the most memory that this process has had, in MiB.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines().filter_map(|line| line.strip_prefix("VmHWM:"));
    let kib = lines.next().and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map_or_else(|| "unknown".to_owned(), |kib| format!("{} MiB", kib / 1024))
}

/// The rules hold in every pair of inputs. It prints the table of pairs.
#[test]
#[ignore = "takes minutes: cargo test --release --test suite pairs_of_inputs -- --ignored"]
fn pairs_of_inputs_break_nothing() {
    let mut states = 0;
    for pair in Pair::all() {
        let begun = Instant::now();
        let found = explore_pair(THE_RULES, pair, usize::MAX).unwrap();
        states += found.states;
        let Pair(one, other) = pair;
        let (time, memory) = (begun.elapsed().as_millis(), peak_memory());
        report(&format!("{one:?}, {other:?}: {found:?}, {time} ms, peak so far {memory}"));
    }
    report(&format!("{states} states"));
    assert!(states > 1_000_000, "{states}");
}

/// How many of its cases, which begin with a single claim, the usual suite explores of a pair that is large.
const LARGE_PAIRS: &[(Pair, usize)] = &[
    (Pair(Input::Leaders, Input::HeldUp), 4),
    (Pair(Input::Leaders, Input::Losses), 3),
    (Pair(Input::Leaders, Input::Outlasting), 3),
    (Pair(Input::Leaders, Input::Registrations), 1),
    (Pair(Input::Leaders, Input::PluginChanges), 0),
    (Pair(Input::Leaders, Input::VolumeCalls), 1),
    (Pair(Input::Outlasting, Input::PluginChanges), 0),
    (Pair(Input::Controllers, Input::VolumeCalls), 1),
];

/// Returns how many cases of a pair the usual suite explores: most of those with several leaders, one of the
/// others, and none of what its layouts of one machine have all at once.
fn cases_in_suite(pair: Pair) -> usize {
    let mut large = LARGE_PAIRS.iter();
    let Pair(one, other) = pair;
    match large.find(|(one, _)| *one == pair) {
        Some((_, cases)) => *cases,
        None if pair.has(Input::Leaders) => usize::MAX,
        None if pair.has(Input::VolumeCalls) => 0,
        None if ONE_MACHINE.has(one) && ONE_MACHINE.has(other) => 0,
        None => 1,
    }
}

/// The rules hold in every pair of inputs, as far as it is small. The test before this one explores all of it.
#[test]
fn small_pairs_of_inputs_break_nothing() {
    let states = AtomicUsize::new(0);
    on_all_processors(&Pair::all(), |pair| {
        let explored = explore_pair(THE_RULES, *pair, cases_in_suite(*pair)).unwrap();
        report(&format!("{pair:?}: {explored:?}"));
        states.fetch_add(explored.states, Ordering::Relaxed);
    });
    let states = states.into_inner();
    assert!(states > 100_000, "{states}");
}

/// The pair of inputs that finds each breakage of a rule that no layout of one machine finds.
const FOUND_IN_PAIR: &[(Pair, &[Mutation])] = &[
    (
        Pair(Input::Leaders, Input::Losses),
        &[Mutation::ObeyOldTerm, Mutation::TermPerEffect, Mutation::ListWithoutTerm],
    ),
    (Pair(Input::Leaders, Input::Vanishing), &[Mutation::ReportWithoutTerm]),
    (
        Pair(Input::Leaders, Input::AgentRestarts),
        &[Mutation::UncommittedSession, Mutation::DeposedCommits, Mutation::NumberAlone],
    ),
    (
        Pair(Input::Leaders, Input::VolumeCalls),
        &[Mutation::UnnamedVolumeCall, Mutation::CountOwnAttempts, Mutation::BoundPerEffect],
    ),
    (Pair(Input::Leaders, Input::Controllers), &[Mutation::IgnoreInstance]),
    (
        Pair(Input::AgentRestarts, Input::VolumeCalls),
        &[Mutation::DeleteClaimed, Mutation::ClaimDeleting],
    ),
    (Pair(Input::Outlasting, Input::CutOffs), &[Mutation::SweepRunning, Mutation::ReleaseUnkilled]),
    (
        Pair(Input::AccessChanges, Input::NoRoom),
        &[Mutation::ChangePublished, Mutation::GrantExhausted],
    ),
];

/// Returns the pair of inputs in which a breakage is found.
fn pair_of(broken: Mutation) -> Option<Pair> {
    let mut found = FOUND_IN_PAIR.iter();
    found.find(|(_, found)| found.contains(&broken)).map(|(pair, _)| *pair)
}

/// Without one of the rules of several machines, or of what those of one machine did not vary, something breaks.
#[test]
fn breakages_are_found_in_pairs_of_inputs() {
    for (pair, mutations) in FOUND_IN_PAIR {
        for broken in *mutations {
            let found = explore_pair(Rules { broken: *broken, ..THE_RULES }, *pair, usize::MAX);
            report(&format!("{broken:?}: {found:?}"));
            assert!(found.is_err(), "{broken:?} is not found in {pair:?}");
        }
    }
}

/// How many calls may be under way at once in the usual suite: requests that are held up need two, which is
/// much for more than one claim.
fn calls_in_suite(layout: &Layout) -> usize {
    match (layout.requests.len(), layout.instances) {
        (1, Instances::Same) => 2,
        _ => 1,
    }
}

/// The rules hold in every state of the layouts that are small enough, in which every input occurs. The next
/// test explores all of them with up to three calls.
#[test]
fn nothing_breaks_in_the_small_layouts() {
    let mut states = 0;
    for layout in LAYOUTS {
        for plugin in layout.in_suite {
            let explored = explore_layout(THE_RULES, layout, *plugin, calls_in_suite(layout));
            let explored = explored.unwrap();
            report(&format!("{}, {plugin:?}: {explored:?}", layout.name));
            states += explored.states;
        }
    }
    assert!(states > 30_000, "{states}");
}

/// The small layout that finds each breakage; the first one finds those that are not named.
const FOUND_IN: &[(&str, &[Mutation])] = &[
    (
        "a writer on node 1",
        &[
            Mutation::SweepUnderway,
            Mutation::NobodyBusy,
            Mutation::OtherInstance,
            Mutation::ForgetfulHost,
            Mutation::ObeyOvertaken,
            Mutation::ObeyOldSession,
        ],
    ),
    (
        "a writer on node 1, plugin that changes",
        &[
            Mutation::NodeIdAtGrant,
            Mutation::DropWithoutAttach,
            Mutation::ObeyOldAttach,
            Mutation::ObeyUnattached,
            Mutation::ObeyOldStage,
        ],
    ),
    ("writers on node 1 and 2, where one instance stages", &[Mutation::NewestDecides]),
    (
        "writer, reader and another usage on node 1",
        &[Mutation::IgnoreClaims, Mutation::IgnoreReleasing],
    ),
    ("a writer on node 1 or one on 2", &[Mutation::IgnoreElsewhere, Mutation::UnfenceFirst]),
    (
        "a writer and a reader of two registrations on node 1",
        &[Mutation::OrphanAll, Mutation::OrphanRunning, Mutation::IgnoreOrphaned],
    ),
    ("a writer on node 1, another usage on 2", &[Mutation::UsagePerVolume]),
];

/// Breakages that need a request that is held up while the plugin changes.
const FOUND_WITH_TWO_CALLS: [Mutation; 3] =
    [Mutation::ObeyOldAttach, Mutation::ObeyUnattached, Mutation::ObeyOldStage];

fn small_layout_of(broken: Mutation) -> &'static Layout {
    let mut named = FOUND_IN.iter();
    let named = named.find(|(_, found)| found.contains(&broken));
    let name = named.map_or(LAYOUTS[0].name, |(name, _)| *name);
    let mut layouts = LAYOUTS.iter();
    layouts.find(|layout| layout.name == name).unwrap()
}

/// Each breakage is found in its small layout.
#[test]
fn breakages_are_found_in_the_small_layouts() {
    for (broken, what) in MUTATIONS.iter().filter(|(broken, _)| pair_of(*broken).is_none()) {
        let rules = Rules { broken: *broken, ..THE_RULES };
        let layout = small_layout_of(*broken);
        let mut plugins = layout.in_suite.iter();
        let most = match FOUND_WITH_TWO_CALLS.contains(broken) {
            true => 2,
            false => calls_in_suite(layout),
        };
        let found = plugins.find_map(|plugin| explore_layout(rules, layout, *plugin, most).err());
        assert!(found.is_some(), "{broken:?} ({what}) is not found in {}", layout.name);
    }
}

#[test]
#[ignore = "takes minutes: cargo test --release --test suite claims_model -- --ignored"]
fn nothing_breaks_in_any_state() {
    let states = AtomicUsize::new(0);
    let cases: Vec<_> = LAYOUTS
        .iter()
        .flat_map(|layout| layout.plugins().iter().map(move |plugin| (layout, plugin)))
        .collect();
    on_all_processors(&cases, |(layout, plugin)| {
        let explored = explore_layout(THE_RULES, layout, **plugin, 3).unwrap();
        report(&format!("{}, {plugin:?}: {explored:?}", layout.name));
        states.fetch_add(explored.states, Ordering::Relaxed);
    });
    let states = states.into_inner();
    report(&format!("{states} states"));
    assert!(states > 1_000_000, "{states}");
}

/// Every breakage of a rule is found.
#[test]
#[ignore = "takes minutes: cargo test --release --test suite claims_model -- --ignored"]
fn every_breakage_is_found() {
    let missed = Mutex::new(vec![]);
    on_all_processors(MUTATIONS, |(broken, what)| {
        let rules = Rules { broken: *broken, ..THE_RULES };
        // The small layout is enough, and few calls at once are quick; a breakage that it misses is looked for in all.
        let small = small_layout_of(*broken);
        let layouts = [std::slice::from_ref(small), LAYOUTS].into_iter();
        let mut tries = layouts.flat_map(|layouts| (1..=3).map(move |most| (layouts, most)));
        let error = match pair_of(*broken) {
            Some(pair) => explore_pair(rules, pair, usize::MAX).err(),
            None => tries.find_map(|(layouts, most)| run(rules, layouts, most).err()),
        };
        let found = error.as_deref().unwrap_or("NOT found");
        report(&format!("{broken:?} ({what}): {found}"));
        if error.is_none() {
            missed.lock().unwrap().push(*broken);
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "{missed:?}");
}

/// Other ways to deal with late calls, and whether they are safe. The program's own is what all other tests explore.
#[test]
#[ignore = "takes minutes: cargo test --release --test suite claims_model -- --ignored"]
fn other_policies_are_as_safe_as_expected() {
    let inputs = ONE_MACHINE.without(&[Input::HeldUp, Input::Losses, Input::Reboots]);
    let free = Rules { busy: Busy::Unchecked, inputs, ..THE_RULES };
    let losing = |rules: Rules| Rules {
        inputs: rules.inputs.with(Input::Losses).with(Input::Reboots),
        ..rules
    };
    let patient = Rules { is_patient: true, restarts: false, ..free };
    let restarted = Rules { restarts: true, ..patient };
    let aborting = Rules { busy: Busy::Plugin, ..free };
    for (policy, is_safe, rules) in [
        ("retry and undo at any time", false, free),
        ("the server waits for the end of a call", true, patient),
        ("the same, and nodes are lost", false, losing(patient)),
        ("the same, and the server restarts", false, restarted),
        (
            "a restart, and a plugin that answers ABORTED",
            true,
            Rules { busy: Busy::Plugin, ..restarted },
        ),
        ("any time, and a plugin that answers ABORTED", true, aborting),
        (
            "ABORTED, and several controller instances",
            false,
            Rules { busy: Busy::OneInstance, ..free },
        ),
        (
            "ABORTED, and requests are held up",
            false,
            Rules { inputs: inputs.with(Input::HeldUp), ..aborting },
        ),
        ("ABORTED, and nodes are lost", false, losing(aborting)),
    ] {
        let found = run(rules, LAYOUTS, 3);
        report(&format!("{policy}: {found:?}"));
        assert_eq!(found.is_ok(), is_safe, "{policy}: {found:?}");
    }
}
