//! Who may call a plugin next. Pure.
//!
//! A plugin has one queue for all calls, each of a class. A call gets its permit if its class and the whole queue
//! have a free one. A call that releases something, a delete or a detach, comes before all others, and the queue keeps
//! one permit for it, so slow creates do not delay a delete. Other calls run in the order of their arrival; one whose
//! class is full lets others pass. Attaches and detaches have a class limit of their own: neither a snapshot nor a
//! delete delays them.

use std::collections::VecDeque;

use nomad_csi_ports::CallLoad;

/// Calls with a common limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallClass {
    /// Creates and validations.
    Create,
    /// Expansions and new snapshots.
    Change,
    /// Deletes of volumes and snapshots; shares the limit of changes.
    Release,
    /// Attaches of volumes to nodes.
    Attach,
    /// Detaches of volumes from nodes; shares the limit of attaches.
    Detach,
    /// Lists.
    List,
}

impl CallClass {
    /// All classes.
    pub(super) const ALL: [Self; 6] =
        [Self::Create, Self::Change, Self::Release, Self::Attach, Self::Detach, Self::List];

    /// Returns the name in metrics.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Change => "change",
            Self::Release => "release",
            Self::Attach => "attach",
            Self::Detach => "detach",
            Self::List => "list",
        }
    }

    /// Returns whether the call comes before those that are no release.
    const fn is_release(self) -> bool {
        match self {
            Self::Release | Self::Detach => true,
            Self::Create | Self::Change | Self::Attach | Self::List => false,
        }
    }

    /// Returns whether the calls share a limit.
    fn shares_limit_with(self, other: Self) -> bool {
        match self {
            Self::Change | Self::Release => matches!(other, Self::Change | Self::Release),
            Self::Attach | Self::Detach => matches!(other, Self::Attach | Self::Detach),
            Self::Create | Self::List => self == other,
        }
    }
}

/// How many calls a plugin gets at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginConcurrency {
    /// Calls of all classes.
    pub total: u16,
    /// Creates and validations.
    pub creates: u16,
    /// Expansions, new snapshots and deletes. Drivers rely on 1.
    pub changes: u16,
    /// Attaches and detaches.
    pub attaches: u16,
    /// Lists.
    pub lists: u16,
}

impl Default for PluginConcurrency {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl PluginConcurrency {
    /// The concurrency without configuration.
    /// Attaches have that of external-attacher, and no class is limited by the total.
    pub const DEFAULT: Self = Self { total: 32, creates: 16, changes: 1, attaches: 10, lists: 4 };

    /// Returns the limit of the class.
    fn of(&self, class: CallClass) -> usize {
        let limit = match class {
            CallClass::Create => self.creates,
            CallClass::Change | CallClass::Release => self.changes,
            CallClass::Attach | CallClass::Detach => self.attaches,
            CallClass::List => self.lists,
        };
        usize::from(limit.max(1))
    }
}

/// The running and waiting calls of one plugin.
#[derive(Debug, Default)]
pub(super) struct PluginCallQueue {
    running: Vec<CallClass>,
    /// First come, first served within the classes.
    waiting: VecDeque<(u64, CallClass)>,
}

impl PluginCallQueue {
    /// Adds a call at the end of the queue.
    pub(super) fn join(&mut self, ticket: u64, class: CallClass) {
        self.waiting.push_back((ticket, class));
    }

    /// Removes a call, whether it waits or runs.
    pub(super) fn leave(&mut self, ticket: u64, class: CallClass) {
        let waiting = self.waiting.iter().position(|(other, _)| *other == ticket);
        if let Some(at) = waiting {
            self.waiting.remove(at);
        } else if let Some(at) = self.running.iter().position(|running| *running == class) {
            self.running.swap_remove(at);
        }
    }

    /// Starts every call that its class and the queue have room for. Returns their tickets.
    pub(super) fn admit(&mut self, concurrency: &PluginConcurrency) -> Vec<u64> {
        let mut admitted = vec![];
        while let Some(at) = self.next(concurrency)
            && let Some((ticket, class)) = self.waiting.remove(at)
        {
            self.running.push(class);
            admitted.push(ticket);
        }
        admitted
    }

    /// Returns how many calls of the class run and wait.
    pub(super) fn load(&self, class: CallClass) -> CallLoad {
        let waiting = self.waiting.iter().filter(|(_, other)| *other == class);
        CallLoad {
            running: self.running.iter().filter(|other| **other == class).count(),
            waiting: waiting.count(),
        }
    }

    /// Returns whether the call waits.
    pub(super) fn is_waiting(&self, ticket: u64) -> bool {
        self.waiting.iter().any(|(other, _)| *other == ticket)
    }

    /// Returns whether no call runs or waits.
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    fn next(&self, concurrency: &PluginConcurrency) -> Option<usize> {
        let first = |is_release: bool| {
            self.waiting.iter().position(|(_, class)| {
                class.is_release() == is_release && self.has_slot(*class, concurrency)
            })
        };
        first(true).or_else(|| first(false))
    }

    fn has_slot(&self, class: CallClass, concurrency: &PluginConcurrency) -> bool {
        let total = match class.is_release() {
            true => concurrency.total,
            false => concurrency.total.saturating_sub(1),
        };
        let running = self.running.iter();
        let of_class = running.filter(|other| class.shares_limit_with(**other));
        let of_class = of_class.count();
        of_class < concurrency.of(class) && self.running.len() < usize::from(total.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::CallClass::{Attach, Change, Create, Detach, List, Release};
    use super::*;

    const CONCURRENCY: PluginConcurrency =
        PluginConcurrency { total: 4, creates: 2, changes: 1, attaches: 2, lists: 1 };

    fn queue(classes: &[CallClass]) -> PluginCallQueue {
        let mut queue = PluginCallQueue::default();
        for (ticket, class) in (1..).zip(classes) {
            queue.join(ticket, *class);
        }
        queue
    }

    /// W30: calls of one class run in the order of their arrival, as many as its limit.
    #[test]
    fn calls_of_one_class_are_served_in_order() {
        let mut queue = queue(&[Create; 5]);
        assert_eq!(queue.admit(&CONCURRENCY), [1, 2]);
        queue.leave(2, Create);
        assert_eq!(queue.admit(&CONCURRENCY), [3]);
        queue.leave(4, Create);
        queue.leave(1, Create);
        assert_eq!(queue.admit(&CONCURRENCY), [5], "call 4 left while it waited");
    }

    /// W30: a delete overtakes what waits before it, but not another delete.
    #[test]
    fn releases_overtake_other_calls_in_the_order_of_their_arrival() {
        let mut queue = queue(&[Change]);
        assert_eq!(queue.admit(&CONCURRENCY), [1]);
        for (ticket, class) in (2..).zip([Change, Create, Release, Release]) {
            queue.join(ticket, class);
        }
        assert_eq!(queue.admit(&CONCURRENCY), [3]);
        queue.leave(1, Change);
        assert_eq!(queue.admit(&CONCURRENCY), [4]);
        queue.leave(4, Release);
        assert_eq!(queue.admit(&CONCURRENCY), [5]);
        queue.leave(5, Release);
        assert_eq!(queue.admit(&CONCURRENCY), [2]);
    }

    /// W30: however many other calls run, a release still has a slot.
    #[test]
    fn the_queue_keeps_a_permit_for_a_release() {
        let concurrency = PluginConcurrency { creates: 16, ..CONCURRENCY };
        let mut queue = queue(&[Create, Create, Create, Create, List, Release]);
        assert_eq!(queue.admit(&concurrency), [6, 1, 2]);
        queue.leave(6, Release);
        assert_eq!(queue.admit(&concurrency), [3]);
        let load = |running, waiting| CallLoad { running, waiting };
        assert_eq!(queue.load(Create), load(3, 1));
        assert_eq!((queue.load(List), queue.load(Release)), (load(0, 1), load(0, 0)));
        assert!(queue.is_waiting(4) && !queue.is_waiting(3));
    }

    /// W30: attaches and detaches share a limit of their own, and a detach comes first.
    #[test]
    fn attaches_wait_for_no_other_class() {
        let concurrency = PluginConcurrency { total: 6, ..CONCURRENCY };
        let mut queue = queue(&[Change, Release, Attach, Attach, Attach, Detach]);
        assert_eq!(queue.admit(&concurrency), [2, 6, 3]);
        queue.leave(3, Attach);
        assert_eq!(queue.admit(&concurrency), [4], "one detach and one attach run");
        queue.leave(2, Release);
        assert_eq!(queue.admit(&concurrency), [1]);
        queue.leave(6, Detach);
        assert_eq!(queue.admit(&concurrency), [5]);
    }

    #[test]
    fn a_class_that_is_full_lets_others_pass() {
        let mut queue = queue(&[Create, Create, Create, List]);
        assert_eq!(queue.admit(&CONCURRENCY), [1, 2, 4]);
        for (ticket, class) in [(1, Create), (2, Create), (4, List), (3, Create)] {
            queue.leave(ticket, class);
        }
        assert!(queue.is_empty());
    }

    /// A limit of one serves every class.
    #[test]
    fn the_smallest_queue_serves_one_call_after_another() {
        let concurrency =
            PluginConcurrency { total: 1, creates: 1, changes: 1, attaches: 1, lists: 1 };
        let mut queue = queue(&[List, Create, Release]);
        assert_eq!(queue.admit(&concurrency), [3]);
        queue.leave(3, Release);
        assert_eq!(queue.admit(&concurrency), [1]);
        queue.leave(1, List);
        assert_eq!(queue.admit(&concurrency), [2]);
    }
}
