//! The sequential specification of claims, and a check that a recorded history is one of its.
//!
//! A history is linearizable if every operation can take effect at one point between its call and its
//! answer, such that each answer is the specification's (Wing and Gong; remembering visited states as
//! Lowe does). The specification is written from the tables 3.2 and 3.3 of admission, and shares no code
//! with `claim::admit`.

use std::collections::{BTreeMap, HashSet};

use nomad_csi_model::AccessMode;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Claim { alloc: String, hold: Hold },
    Release { alloc: String },
}

/// How an allocation uses a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hold {
    pub(crate) node: usize,
    pub(crate) mode: AccessMode,
    pub(crate) read_only: bool,
}

/// A call with its answer, between two points in time.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) call: Call,
    /// True if the claim was granted, or was there to be released.
    pub(crate) is_done: bool,
    pub(crate) called: u64,
    pub(crate) answered: u64,
    /// Where the search tries it first among the others. It decides nothing.
    pub(crate) guess: u64,
}

/// One volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Specification {
    holds: BTreeMap<String, Hold>,
    /// The mode of the first claim, until the last one is gone (B14).
    mode: Option<AccessMode>,
}

impl Specification {
    /// Returns the answer and the next state.
    fn answer(&self, call: &Call) -> (bool, Self) {
        let mut next = self.clone();
        let is_done = match call {
            Call::Claim { alloc, hold } => match self.holds.get(alloc) {
                Some(own) => own == hold,
                None if self.admits(*hold) => {
                    next.holds.insert(alloc.clone(), *hold);
                    next.mode = Some(self.mode.unwrap_or(hold.mode));
                    true
                }
                None => false,
            },
            Call::Release { alloc } => {
                let was_there = next.holds.remove(alloc).is_some();
                if next.holds.is_empty() {
                    next.mode = None;
                }
                was_there
            }
        };
        (is_done, next)
    }

    /// The requested mode and the one in force must both have room, and a node has one mode.
    fn admits(&self, desired: Hold) -> bool {
        let has_room = |mode| self.holds.values().all(|held| fit(mode, *held, desired));
        let can_write = |mode| desired.read_only || mode != AccessMode::MultiNodeReaderOnly;
        let modes = [Some(desired.mode), self.mode];
        let mut modes = modes.into_iter().flatten();
        let is_same_on_node = |held: &Hold| held.node != desired.node || held.mode == desired.mode;
        modes.all(|mode| has_room(mode) && can_write(mode))
            && self.holds.values().all(is_same_on_node)
    }
}

/// Table 3.3: whether a mode allows two claims beside each other.
fn fit(mode: AccessMode, held: Hold, desired: Hold) -> bool {
    match mode {
        AccessMode::SingleNodeReaderOnly | AccessMode::SingleNodeWriter => false,
        AccessMode::MultiNodeSingleWriter => held.read_only || desired.read_only,
        AccessMode::MultiNodeReaderOnly | AccessMode::MultiNodeMultiWriter => true,
    }
}

/// A state of the search: the operations that have taken effect, and what they led to.
type Visited = (Vec<bool>, Specification);

/// Returns whether a history of one volume is linearizable. The guessed order is the first one that is tried: from another, a
/// search among 64 clients may not end.
pub(crate) fn is_linearizable(history: &[Operation]) -> bool {
    let mut history = history.to_vec();
    history.sort_by_key(|operation| operation.guess);
    let history = &*history;
    let mut visited: HashSet<Visited> = HashSet::new();
    let mut open = vec![(vec![false; history.len()], Specification::default())];
    while let Some((mut done, state)) = open.pop() {
        take_effectless(history, &mut done, &state);
        if !visited.insert((done.clone(), state.clone())) {
            continue;
        }
        let next: Vec<_> = next_operations(history, &done).collect();
        if next.is_empty() {
            return true;
        }
        for at in next.into_iter().rev() {
            let (is_done, next) = state.answer(&history[at].call);
            if is_done == history[at].is_done {
                let mut done = done.clone();
                done[at] = true;
                open.push((done, next));
            }
        }
    }
    false
}

/// Lets all operations take effect that change nothing and have the right answer. That rules out no
/// order of the others.
fn take_effectless(history: &[Operation], done: &mut [bool], state: &Specification) {
    loop {
        let mut next = next_operations(history, done);
        let effectless = next.find(|at| {
            let (is_done, after) = state.answer(&history[*at].call);
            is_done == history[*at].is_done && after == *state
        });
        match effectless {
            Some(at) => done[at] = true,
            None => return,
        }
    }
}

/// Returns the operations that were called before any other one was answered.
fn next_operations<'a>(
    history: &'a [Operation],
    done: &[bool],
) -> impl Iterator<Item = usize> + use<'a> {
    let open: Vec<usize> = (0..history.len()).filter(|at| !done[*at]).collect();
    let first_answer = open.iter().map(|at| history[*at].answered).min();
    let is_next = move |at: &usize| Some(history[*at].called) < first_answer;
    open.into_iter().filter(is_next)
}

fn operation(call: Call, is_done: bool, called: u64, answered: u64) -> Operation {
    Operation { call, is_done, called, answered, guess: answered }
}

fn write(alloc: &str, node: usize) -> Call {
    write_as(alloc, node, AccessMode::SingleNodeWriter)
}

fn write_as(alloc: &str, node: usize, mode: AccessMode) -> Call {
    let alloc = alloc.to_owned();
    let hold = Hold { node, mode, read_only: false };
    Call::Claim { alloc, hold }
}

fn release(alloc: &str) -> Call {
    let alloc = alloc.to_owned();
    Call::Release { alloc }
}

#[test]
fn histories_with_an_order_are_accepted() {
    let one_after_another = [
        operation(write("a", 1), true, 1, 2),
        operation(write("a", 1), true, 3, 4),
        operation(write("b", 1), false, 5, 6),
        operation(release("a"), true, 7, 8),
        operation(release("a"), false, 9, 10),
        operation(write("b", 2), true, 11, 12),
    ];
    assert!(is_linearizable(&one_after_another));
    let denied_or_granted_during_a_release = [
        operation(write("a", 1), true, 1, 2),
        operation(release("a"), true, 3, 10),
        operation(write("b", 1), false, 4, 5),
        operation(write("c", 1), true, 6, 7),
    ];
    assert!(is_linearizable(&denied_or_granted_during_a_release));
    let second_call_takes_effect_first =
        [operation(write("a", 1), false, 1, 4), operation(write("b", 1), true, 2, 3)];
    assert!(is_linearizable(&second_call_takes_effect_first));
    let shared = AccessMode::MultiNodeMultiWriter;
    let two_writers_of_a_shared_volume = [
        operation(write_as("a", 1, shared), true, 1, 2),
        operation(write_as("b", 2, shared), true, 3, 4),
    ];
    assert!(is_linearizable(&two_writers_of_a_shared_volume));
}

#[test]
fn histories_without_an_order_are_refused() {
    let two_writers = [
        operation(write("a", 1), true, 1, 10),
        operation(write("b", 2), true, 2, 9),
        operation(release("a"), true, 11, 12),
    ];
    assert!(!is_linearizable(&two_writers));
    let lost_release = [
        operation(write("a", 1), true, 1, 2),
        operation(release("a"), true, 3, 4),
        operation(write("b", 1), false, 5, 6),
    ];
    assert!(!is_linearizable(&lost_release));
    let lost_claim = [operation(write("a", 1), true, 1, 2), operation(release("a"), false, 3, 4)];
    assert!(!is_linearizable(&lost_claim));
    let denied_without_a_reason =
        [operation(write("a", 1), false, 1, 2), operation(write("b", 1), true, 3, 4)];
    assert!(!is_linearizable(&denied_without_a_reason));
    let two_modes_on_one_node = [
        operation(write_as("a", 1, AccessMode::MultiNodeMultiWriter), true, 1, 2),
        operation(write_as("b", 1, AccessMode::MultiNodeSingleWriter), true, 3, 4),
    ];
    assert!(!is_linearizable(&two_modes_on_one_node));
}
