//! Leaders, the hosts that they call, and the sessions of those hosts.
//!
//! A leader that is deposed does not know it. It commits nothing more, but sends each call that it had on
//! record, and each sweep that was due, at any later moment, as often as it wants, to the sessions of hosts
//! that it had committed. The leader after it has the same record. A host that starts again knows no term.

use std::collections::{BTreeMap, BTreeSet};

use nomad_csi_claims::claim::{ClaimEvent, Effect, Known, StartedCall, Step};
use nomad_csi_model::NodeId;

use super::inputs::Input;
use super::rules::{Mutation, Rules};
use super::volume::Attempts;
use super::world::{Action, Call, Lock, Phase, World};
use super::{Next, Requests, arrive};

/// How often the leader changes.
const CHANGES: u8 = 2;

/// A controller of the plugin: its allocation, and the agent beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Instance(pub(super) u8);

impl Instance {
    /// Both controllers, of which a plugin may have only the first.
    pub(super) const BOTH: [Self; 2] = [Self(0), Self(1)];

    pub(super) fn other(self) -> Self {
        Self(1 - self.0)
    }
}

/// An agent that calls a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Host {
    Node(NodeId),
    Controller(Instance),
}

/// What a host knows a term for: everything, or by a mutation each effect alone.
type TermKey = (Host, Option<Effect>);

/// Who leads, who has led, and what hosts know of that.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Leaders {
    /// The term of the leader.
    pub(super) term: u8,
    /// What the leader of each earlier term may still send.
    deposed: BTreeMap<u8, BTreeSet<Call>>,
    /// The highest term that each host knows of.
    known: BTreeMap<TermKey, u8>,
    /// The hosts whose session is not committed.
    unconnected: BTreeSet<Host>,
    /// The nodes that rebooted, and whose session is not committed.
    rebooted: BTreeSet<NodeId>,
}

impl Default for Leaders {
    fn default() -> Self {
        Self {
            term: 1,
            deposed: BTreeMap::new(),
            known: BTreeMap::new(),
            unconnected: BTreeSet::new(),
            rebooted: BTreeSet::new(),
        }
    }
}

impl Leaders {
    /// Returns whether requests can reach the host: its session is committed.
    pub(super) fn can_address(&self, host: &Host, rules: &Rules) -> bool {
        rules.broken == Mutation::UncommittedSession || !self.unconnected.contains(host)
    }

    pub(super) fn is_unconnected(&self) -> bool {
        !self.unconnected.is_empty()
    }

    /// Returns whether the record does not know yet that the node rebooted.
    pub(super) fn is_rebooted(&self, node: &NodeId) -> bool {
        self.rebooted.contains(node)
    }

    /// Returns whether the host takes a request of this term (rule 11).
    pub(super) fn takes(&self, call: &Call, rules: &Rules) -> bool {
        let known = self.known.get(&term_key(call, rules)).copied();
        match rules.broken {
            Mutation::ObeyOldTerm => true,
            // The numbers of every leader begin at 1, so its first ones are low.
            Mutation::NumberAlone => known.is_none_or(|known| known == call.term),
            _ => known.is_none_or(|known| known <= call.term),
        }
    }

    /// The host learns a term. Returns whether it is a new one.
    fn hear(&mut self, key: TermKey, term: u8) -> bool {
        let known = self.known.entry(key).or_insert(term);
        let is_new = *known < term;
        *known = term.max(*known);
        is_new
    }

    /// Forgets who led before.
    pub(super) fn forget_deposed(&mut self) {
        self.deposed.clear();
    }

    /// The process of a controller is gone, and requests name it.
    pub(super) fn forget_instance(&mut self, instance: Instance) {
        let host = Host::Controller(instance);
        self.deposed.values_mut().for_each(|calls| calls.retain(|call| call.host() != host));
        self.deposed.retain(|_, calls| !calls.is_empty());
    }
}

fn term_key(call: &Call, rules: &Rules) -> TermKey {
    let effect = match rules.broken {
        Mutation::TermPerEffect => call.step().and_then(Step::effect),
        _ => None,
    };
    (call.host(), effect)
}

impl World {
    /// A request has reached its host, which knows its term from now on, also if it is refused.
    pub(super) fn hear_term(&mut self, call: &Call, rules: &Rules) {
        if rules.broken == Mutation::ListWithoutTerm && self.is_list_of_nothing(call) {
            return;
        }
        let key = term_key(call, rules);
        let host = key.0.clone();
        if self.leaders.hear(key, call.term) {
            // Its term comes before its number, so the numbers of earlier leaders say nothing.
            self.seen.retain(|lock, _| lock.host() != host);
        }
    }

    /// A sweep that finds nothing is a list of what is left behind, which has no order and takes no call lock.
    fn is_list_of_nothing(&self, call: &Call) -> bool {
        let is_sweep = matches!(call.action, Action::Step(Step::Sweep(_)));
        let lock = call.lock();
        let is_idle = self.calls.iter().all(|other| !other.runs() || other.lock() != lock);
        is_sweep && is_idle && self.left_behind(&call.node).is_none()
    }

    /// A node has reported to the leader, and knows its term from the answer to its registration.
    pub(super) fn hear_report(&mut self, node: &NodeId, rules: &Rules) {
        if rules.broken != Mutation::ReportWithoutTerm {
            let host = Host::Node(node.clone());
            let term = self.leaders.term;
            if self.leaders.hear((host.clone(), None), term) {
                self.seen.retain(|lock, _| lock.host() != host);
            }
        }
    }

    /// The agent of a host starts again: it knows no term and no order, and its calls have ended.
    pub(super) fn new_session(&mut self, host: &Host, rules: &Rules) {
        let obeys = rules.broken == Mutation::ObeyOldSession;
        self.calls.retain(|call| call.host() != *host || call.phase == Phase::HeldUp && obeys);
        self.seen.retain(|lock, _| lock.host() != *host);
        let leaders = &mut self.leaders;
        leaders.known.retain(|(key, _), _| key != host);
        if rules.broken != Mutation::UncommittedSession {
            leaders.deposed.values_mut().for_each(|calls| calls.retain(|c| c.host() != *host));
        }
    }

    /// Removes what a host would refuse for ever: it forgets a term only with its session, and requests to an
    /// earlier session are refused too.
    pub(super) fn forget_refused(&mut self, rules: &Rules) {
        let keeps = matches!(
            rules.broken,
            Mutation::ObeyOldTerm
                | Mutation::NumberAlone
                | Mutation::TermPerEffect
                | Mutation::UncommittedSession
        );
        let leaders = &mut self.leaders;
        if !keeps {
            let known = std::mem::take(&mut leaders.known);
            let is_refused = |call: &Call| {
                let known = known.get(&(call.host(), None));
                known.is_some_and(|known| *known > call.term)
            };
            leaders.deposed.values_mut().for_each(|calls| calls.retain(|c| !is_refused(c)));
            self.calls.retain(|call| call.phase != Phase::HeldUp || !is_refused(call));
        }
        leaders.deposed.retain(|_, calls| !calls.is_empty());
        // Of a call that runs only matters whether its answer counts.
        let term = leaders.term;
        for call in &mut self.calls {
            if call.runs() && call.term != term && rules.broken != Mutation::DeposedCommits {
                call.term = 0;
            }
        }
    }

    /// Another server leads. The deposed one may go on with what it had on record.
    fn depose(&mut self, rules: &Rules) {
        let open: BTreeSet<_> = self.open_calls(rules).into_iter().collect();
        let leaders = &mut self.leaders;
        if !open.is_empty() {
            leaders.deposed.insert(leaders.term, open);
        }
        leaders.term += 1;
        if rules.broken != Mutation::DeposedCommits {
            for call in &mut self.calls {
                if call.phase == Phase::Awaited {
                    call.phase = Phase::Abandoned;
                }
            }
        }
        let attempts = match rules.broken {
            Mutation::CountOwnAttempts => Attempts::None,
            _ => Attempts::Unknown,
        };
        for open in self.volume.open_mut() {
            open.attempts = attempts;
            if rules.broken == Mutation::UnnamedVolumeCall {
                open.instance = None;
            }
        }
    }

    /// What the leader has on record as started, and the sweeps that are due.
    fn open_calls(&self, rules: &Rules) -> Vec<Call> {
        let mut found = vec![];
        for action in self.due(rules) {
            let call = match &action {
                Action::Step(step) => self.call(step.clone(), rules),
                Action::Volume(step) => match self.volume.open(*step).and_then(|o| o.instance) {
                    Some(instance) => self.volume_call(*step, instance),
                    None => continue,
                },
            };
            let is_on_record = match &action {
                Action::Step(Step::Sweep(_)) | Action::Volume(_) => true,
                Action::Step(step) => self.is_started(step, &call),
            };
            let host = call.host();
            if call.lock().is_some() && is_on_record && self.leaders.can_address(&host, rules) {
                found.push(Call { phase: Phase::Abandoned, ..call });
            }
        }
        found
    }

    /// Returns whether this call is the last one for its effect, and has no recorded end.
    fn is_started(&self, step: &Step, call: &Call) -> bool {
        let is_open = match step {
            Step::NodeExpand(node) => {
                let expansion = self.record.expansion.as_ref();
                expansion.is_some_and(|expansion| !expansion.done.contains(node))
            }
            _ => step.effect().is_some_and(|effect| self.record.known(&effect) == Known::Maybe),
        };
        let recorded = self.record.call(step);
        // Another instance would get it only after another event.
        let is_same = |recorded: &StartedCall| {
            let named = call.instance_name();
            recorded.is_setup == step.is_setup() && recorded.instance.as_str() == named
        };
        is_open && recorded.is_some_and(is_same)
    }
}

/// What leaders, deposed leaders and the agents of hosts may do.
pub(super) fn leaders_go_on(next: &mut Next<'_>, requests: &Requests, rules: &Rules) {
    let from = next.from;
    if rules.inputs.has(Input::Leaders) && from.leaders.term <= CHANGES {
        next.on(
            || "another server leads".into(),
            |world| {
                world.depose(rules);
                Ok(())
            },
        );
    }
    for (term, calls) in &from.leaders.deposed {
        if from.calls.len() == rules.at_once {
            break;
        }
        for call in calls {
            next.on(
                || format!("deposed leader {term} sends {:?}", call.action),
                |world| {
                    let order = world.next_order();
                    arrive(world, Call { order, ..call.clone() }, rules).map(|_| ())
                },
            );
        }
    }
    if rules.inputs.has(Input::AgentRestarts) {
        let nodes: BTreeSet<_> = requests.values().map(|request| &request.node).collect();
        let nodes = nodes.into_iter().map(|node| Host::Node(node.clone()));
        let controllers = Instance::BOTH.into_iter().take(from.controllers());
        for host in nodes.chain(controllers.map(Host::Controller)) {
            next.on(
                || format!("the agent of {host:?} starts again"),
                |world| {
                    world.new_session(&host, rules);
                    world.leaders.unconnected.insert(host.clone());
                    Ok(())
                },
            );
        }
    }
    for host in &from.leaders.unconnected {
        next.on(
            || format!("the session of {host:?} is committed"),
            |world| {
                world.leaders.unconnected.remove(host);
                if let Host::Node(node) = host
                    && world.leaders.rebooted.remove(node)
                {
                    world.rebooted(node, rules);
                }
                Ok(())
            },
        );
    }
}

impl World {
    /// A node has rebooted. With several servers the record learns it with the node's session.
    pub(super) fn reboot(&mut self, node: &NodeId, rules: &Rules) {
        self.plugin
            .retain(|effect, place| place.0 != *node || matches!(effect, Effect::Attached(_)));
        self.tasks_left.retain(|(place, _)| place != node);
        let host = Host::Node(node.clone());
        self.new_session(&host, rules);
        if rules.inputs.has(Input::Leaders) {
            self.leaders.unconnected.insert(host);
            self.leaders.rebooted.insert(node.clone());
        } else {
            self.rebooted(node, rules);
        }
    }

    fn rebooted(&mut self, node: &NodeId, rules: &Rules) {
        if rules.broken != Mutation::TrustRebooted {
            self.commit(&ClaimEvent::NodeRebooted { node: node.clone() }, 0);
        }
    }
}

impl Lock {
    /// Returns the agent that has it.
    pub(super) fn host(&self) -> Host {
        match self {
            Self::Node(node) => Host::Node(node.clone()),
            Self::Controller(instance) | Self::Create(instance) => Host::Controller(*instance),
        }
    }
}
