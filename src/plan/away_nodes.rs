//! Nodes that are away or have just returned, and what a server may have forgotten of them.
//!
//! A server forgets an allocation some time after it has ended for the server: Nomad after four hours, or on request. It
//! takes the allocations of a node that is away for ended, also while their tasks write. From then on nothing names them,
//! and the claim of such an allocation went before. So a volume that existed when the node went away, and has changed
//! since, may still be written there. One that did not change had no claim there; one that was made later neither. Indexes
//! tell the order: Nomad records no time of a volume.
//!
//! After its return the client stops what the server has forgotten, two allocations at a time, and each takes as long as the
//! `kill_timeout` of its tasks. Nothing shows when that is done, so the node counts as away for eleven minutes after its
//! return, which is enough for most. Nomad keeps the ten newest events of a node. It records every loss of contact, but no
//! return from `disconnected`; then the last change of the node's record counts. Only what the server records has the
//! server's time: a client sends events late, with its own. A node that was purged, also by Nomad itself a day after it went,
//! counts as gone, also after it has registered again.

use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{ClientNode, Volume, ago, one_line, until};

use super::claim_drops::CUTS_OFF;

const MINUTE: i64 = 60_000_000_000;
/// How long a node counts as away after its return, in nanoseconds: ten minutes for its client, and one for clocks that
/// differ.
const STOPPING: i64 = 11 * MINUTE;
/// The number of events that Nomad keeps of a node.
const MOST_EVENTS: usize = 10;

/// A change of a node's presence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeChange {
    /// The server lost contact.
    Missed,
    /// It has contacted the server again.
    Returned,
    /// Something that says nothing about the contact.
    Other,
}

/// An event of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeEvent {
    /// The index.
    pub index: u64,
    /// The server's time, in nanoseconds since the epoch; `None` if unknown.
    pub time: Option<i64>,
    /// The event.
    pub change: NodeChange,
}

impl NodeEvent {
    fn is_over(&self, now: i64) -> bool {
        self.time.is_some_and(|time| is_over(time, now))
    }
}

/// The record of a server about a node's presence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeHistory {
    /// The newest events, oldest first.
    pub events: Vec<NodeEvent>,
    /// When the record of the node last changed, in nanoseconds since the epoch; `None` if unknown.
    pub changed: Option<i64>,
}

/// Since when a node is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// For so long that its client has stopped what the server has forgotten.
    Settled,
    /// Since this time, in nanoseconds since the epoch.
    Returned(i64),
    /// It may have just returned.
    Unknown,
}

impl NodeHistory {
    /// Returns whether the record has not changed for so long that the node has not just returned.
    pub fn is_settled(&self, now: i64) -> bool {
        self.changed.is_some_and(|changed| is_over(changed, now))
    }

    /// Returns since when a node that is ready is so.
    pub fn presence(&self, now: i64) -> Presence {
        if self.is_settled(now) {
            return Presence::Settled;
        }
        let mut newest_first = self.events.iter().rev();
        let contact = newest_first.find(|event| event.change != NodeChange::Other);
        match contact {
            Some(event) if event.change == NodeChange::Returned => match event.time {
                Some(time) if is_over(time, now) => Presence::Settled,
                Some(time) => Presence::Returned(time),
                None => Presence::Unknown,
            },
            Some(_) => Presence::Unknown,
            None if self.reaches_back_to(now) => Presence::Settled,
            None => Presence::Unknown,
        }
    }

    /// Returns the index of the last loss of contact; `None` if unknown.
    pub fn missed(&self) -> Option<u64> {
        let mut newest_first = self.events.iter().rev();
        let missed = newest_first.find(|event| event.change == NodeChange::Missed)?;
        Some(missed.index).filter(|index| *index > 0)
    }

    /// Returns the index from which on the node was away, or back for so short a time that its client may not have stopped
    /// everything; `None` if the events do not tell.
    pub fn away_since(&self) -> Option<u64> {
        let mut since = None;
        let mut missed: Option<NodeEvent> = None;
        for event in self.events.iter().rev() {
            match (event.change, missed.and_then(|missed| missed.time)) {
                (NodeChange::Missed, _) => {
                    since = Some(event.index).filter(|index| *index > 0);
                    missed = Some(*event);
                }
                (_, Some(missed))
                    if event.change == NodeChange::Returned && event.is_over(missed) =>
                {
                    return since;
                }
                (NodeChange::Returned | NodeChange::Other, _) => {}
            }
        }
        since.filter(|_| self.events.len() < MOST_EVENTS)
    }

    /// Returns whether the server never lost contact since the registration.
    pub fn was_never_missed(&self) -> bool {
        let says_nothing = |event: &NodeEvent| event.change == NodeChange::Other;
        self.events.len() < MOST_EVENTS && self.events.iter().all(says_nothing)
    }

    /// Returns whether no event since the end of the time that a client needs was dropped.
    fn reaches_back_to(&self, now: i64) -> bool {
        self.events.len() < MOST_EVENTS || self.events.iter().any(|event| event.is_over(now))
    }
}

/// Returns whether the client of a node that returned at one time has stopped everything at another.
fn is_over(returned: i64, now: i64) -> bool {
    now.saturating_sub(returned) >= STOPPING
}

/// A node that is away or has just returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwayNode {
    /// The node.
    pub node: ClientNode,
    /// The index from which on it was away; `None` if unknown.
    pub since: Option<u64>,
    /// The index of the last loss of contact; `None` if unknown.
    pub missed: Option<u64>,
    /// When a node that is back returned, in nanoseconds since the epoch; `None` if unknown.
    pub returned: Option<i64>,
}

impl AwayNode {
    /// Returns whether an allocation that the server has forgotten may write to the volume on the node. The index of the
    /// volume is that of its registration.
    pub fn may_use(&self, volume: &Volume) -> bool {
        // Going and returning are changes of the node's record, so neither is later than the last one.
        let gone = self.missed.unwrap_or(self.node.modify_index);
        let was_there = gone == 0 || volume.create_index <= gone;
        let has_changed = self.since.is_none_or(|since| volume.modify_index >= since);
        was_there && has_changed
    }

    /// The error for data that is deleted although tasks may write to it on the node. The full ID of the node approves it.
    pub fn problem(&self, what: &str, now: i64) -> Diagnostic {
        let (id, name) = (one_line(self.node.id.as_str()), one_line(&self.node.name));
        let is_back = self.node.is_ready();
        let state = match (is_back, self.returned) {
            (false, _) => format!("is {}", one_line(&self.node.status)),
            (true, Some(returned)) => format!("returned {}", ago(returned, now)),
            (true, None) => "may have just returned".to_owned(),
        };
        let message = format!(
            "cannot {what}: approval is required, because tasks on node `{name}`, which {state}, may still write to it"
        );
        let problem = Diagnostic::error(Code::CliApprovalNeeded, message)
            .note(FORGETS)
            .note("`--yes` does not approve that");
        let wait = match (is_back, self.returned) {
            (false, _) => "start the node again, and wait 11 minutes, or longer if many tasks or long kill timeouts are there: its client stops what the server has forgotten, two allocations at a time".to_owned(),
            (true, Some(returned)) => format!(
                "run the command again {}: by then most clients have stopped what the server has forgotten, two allocations at a time; {LOOK}",
                until(returned.saturating_add(STOPPING), now)
            ),
            (true, None) => format!(
                "run the command again when the record of the node has not changed for 11 minutes: by then most clients have stopped what the server has forgotten; {LOOK}"
            ),
        };
        let condition = match is_back {
            false => "its machine is off or cut off from its storage",
            true => "no task runs there that the server does not know",
        };
        problem.help(wait).help(format!("if {condition}, add `--approve {CUTS_OFF}:{id}`"))
    }
}

/// The help for what only a person can check.
const LOOK: &str =
    "if tasks there have a `kill_timeout` of minutes, look for their processes first";

/// Why a node that is away matters.
const FORGETS: &str = "the server forgets the allocations of a node that is away, and then nothing shows which volumes their tasks use";

/// The error for data that is deleted while the nodes could not be read.
pub fn unread_nodes_problem(what: &str, why: &str) -> Diagnostic {
    let message = format!("cannot {what}: it is not known which nodes are away");
    Diagnostic::error(Code::VolumeInUse, message)
        .note(format!("the nodes could not be read: {}", one_line(why)))
        .note(FORGETS)
        .help("use a token with `node { policy = \"read\" }`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::existing;
    use nomad_csi_model::NodeId;

    const DOWN: u64 = 500;

    fn away(since: Option<u64>) -> AwayNode {
        AwayNode {
            node: ClientNode {
                id: NodeId::new("n1"),
                name: "worker-1".to_owned(),
                status: "down".to_owned(),
                is_fenced: false,
                has_returned: false,
                description: String::new(),
                modify_index: 0,
            },
            since,
            missed: since,
            returned: None,
        }
    }

    fn volume(create_index: u64, modify_index: u64) -> Volume {
        Volume { create_index, modify_index, ..existing() }
    }

    #[test]
    fn a_volume_that_changed_since_the_node_went_away_may_be_used_there() {
        for (since, created, modified, expected) in [
            (Some(DOWN), 1, DOWN + 1, true),
            (Some(DOWN), 1, DOWN, true),
            (Some(DOWN), 1, DOWN - 1, false),
            (Some(DOWN), DOWN, DOWN, true),
            (Some(DOWN), DOWN + 1, DOWN + 9, false),
            (None, 1, 1, true),
            (None, DOWN, DOWN + 9, true),
        ] {
            let found = away(since).may_use(&volume(created, modified));
            assert_eq!(found, expected, "{since:?} {created} {modified}");
        }
        // It was away before: a claim of then may be gone, and what was made in between may be claimed there.
        let twice = AwayNode { since: Some(DOWN - 200), ..away(Some(DOWN)) };
        assert!(twice.may_use(&volume(DOWN - 100, DOWN - 100)));
        assert!(!twice.may_use(&volume(1, DOWN - 201)));
        assert!(!twice.may_use(&volume(DOWN + 1, DOWN + 1)));
        // Its events do not tell when it went.
        let mut unknown = away(None);
        unknown.node.modify_index = DOWN;
        assert!(unknown.may_use(&volume(DOWN, DOWN + 9)));
        assert!(!unknown.may_use(&volume(DOWN + 1, DOWN + 9)));
    }

    const NOW: i64 = 1_000 * MINUTE;

    type Happened = (u64, Option<i64>, NodeChange);

    /// The history of a node whose record changed some minutes ago, with events at these indexes and minutes ago.
    fn history(changed: i64, events: &[Happened]) -> NodeHistory {
        let events = events.iter();
        NodeHistory {
            events: events
                .map(|(index, ago, change)| NodeEvent {
                    index: *index,
                    time: ago.map(|ago| NOW - ago * MINUTE),
                    change: *change,
                })
                .collect(),
            changed: Some(NOW - changed * MINUTE),
        }
    }

    /// A client's events, of which the time is unknown, and the server's.
    fn full(own: usize, of_server: &[Happened]) -> Vec<Happened> {
        let own = (0..own as u64).map(|index| (index + 1, None, NodeChange::Other));
        let events: Vec<_> = own.chain(of_server.iter().copied()).collect();
        assert_eq!(events.len(), MOST_EVENTS);
        events
    }

    #[test]
    fn a_node_counts_as_away_for_a_while_after_its_return() {
        use NodeChange::{Missed, Other, Returned};
        use Presence::{Settled, Unknown};
        let since = |ago| Presence::Returned(NOW - ago * MINUTE);
        let gone = [(1, Some(900), Other), (5, Some(60), Missed)];
        let back = |ago| [gone[0], gone[1], (6, Some(ago), Returned)];
        for (name, history, expected) in [
            ("it has just returned", history(1, &back(1)), since(1)),
            ("its client had time", history(11, &back(11)), Settled),
            ("it was drained since", history(1, &back(12)), Settled),
            ("just before that", history(1, &back(10)), since(10)),
            ("no event says when it returned", history(3, &gone), Unknown),
            ("that was long ago", history(30, &gone), Settled),
            (
                "it returned twice",
                history(
                    2,
                    &[
                        gone[1],
                        (6, Some(30), Returned),
                        (7, Some(20), Missed),
                        (8, Some(2), Returned),
                    ],
                ),
                since(2),
            ),
            (
                "it went again, and no event says when it returned",
                history(2, &[gone[1], (6, Some(30), Returned), (7, Some(20), Missed)]),
                Unknown,
            ),
            ("it was never missed, and restarted", history(1, &[gone[0]]), Settled),
            ("it is new", history(1, &[(1, Some(1), Other)]), Settled),
        ] {
            assert_eq!(history.presence(NOW), expected, "{name}");
        }
    }

    #[test]
    fn a_return_is_seen_although_events_were_dropped() {
        use NodeChange::{Missed, Other, Returned};
        use Presence::{Settled, Unknown};
        let since = |ago| Presence::Returned(NOW - ago * MINUTE);
        for (name, history, expected) in [
            (
                "the loss of contact was dropped for what its client sent late",
                history(1, &full(9, &[(20, Some(1), Returned)])),
                since(1),
            ),
            (
                "what the client sent since its return dropped that too",
                history(3, &full(10, &[])),
                Unknown,
            ),
            (
                "it was drained while it was away",
                history(
                    1,
                    &full(
                        0,
                        &[
                            (20, Some(200), Other),
                            (21, Some(200), Other),
                            (22, Some(200), Other),
                            (23, Some(200), Other),
                            (24, Some(200), Other),
                            (25, Some(200), Other),
                            (26, Some(200), Other),
                            (27, Some(200), Other),
                            (28, Some(200), Other),
                            (29, Some(1), Returned),
                        ],
                    ),
                ),
                since(1),
            ),
            (
                "the server's events since then are all there",
                history(
                    1,
                    &full(
                        5,
                        &[
                            (20, Some(200), Other),
                            (21, Some(2), Other),
                            (22, Some(2), Other),
                            (23, Some(2), Other),
                            (24, Some(1), Other),
                        ],
                    ),
                ),
                Settled,
            ),
            (
                "a clock that is ahead",
                history(-5, &[(5, Some(60), Missed), (6, Some(-5), Returned)]),
                since(-5),
            ),
            (
                "its server shows no time",
                NodeHistory {
                    changed: None,
                    ..history(0, &[(5, None, Missed), (6, None, Returned)])
                },
                Unknown,
            ),
        ] {
            assert_eq!(history.presence(NOW), expected, "{name}");
        }
    }

    #[test]
    fn two_absences_with_a_short_return_between_are_one() {
        use NodeChange::{Missed, Other, Returned};
        let last = (500, Some(60), Missed);
        let ten = |of_server: &[Happened]| full(MOST_EVENTS - of_server.len(), of_server);
        for (name, events, expected) in [
            ("one", vec![(1, Some(900), Other), last], Some(500)),
            (
                "after a long presence",
                vec![(100, Some(300), Missed), (400, Some(80), Returned), last],
                Some(500),
            ),
            (
                "after a short one",
                vec![(100, Some(300), Missed), (499, Some(61), Returned), last],
                Some(100),
            ),
            (
                "of a node that is back",
                vec![
                    (100, Some(300), Missed),
                    (499, Some(61), Returned),
                    last,
                    (501, Some(2), Returned),
                ],
                Some(100),
            ),
            (
                "an operator drained it while it was away",
                vec![
                    (100, Some(300), Missed),
                    (300, Some(200), Other),
                    (499, Some(61), Returned),
                    last,
                ],
                Some(100),
            ),
            (
                "a return whose time is unknown",
                vec![(100, Some(300), Missed), (400, None, Returned), last],
                Some(100),
            ),
            ("it was never missed", vec![(1, Some(900), Other)], None),
            ("an older one may be dropped", ten(&[(30, Some(80), Other), last]), None),
            ("none that matters is dropped", ten(&[(30, Some(80), Returned), last]), Some(500)),
            ("no index", vec![(0, Some(60), Missed)], None),
        ] {
            assert_eq!(history(0, &events).away_since(), expected, "{name}");
        }
        assert_eq!(history(0, &[(100, None, Missed), last]).missed(), Some(500));
        assert_eq!(history(0, &[(1, Some(900), Other)]).missed(), None);
        assert!(history(0, &[(1, Some(900), Other)]).was_never_missed());
        assert!(!history(0, &[last]).was_never_missed());
        assert!(!history(0, &ten(&[])).was_never_missed());
    }
}
