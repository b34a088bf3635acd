//! Which entry of a plan may begin next: pure, without calls.
//!
//! A source is done before its copy ([`PlannedVolume::depends_on`]); one that did not succeed holds back
//! everything that needs it, and nothing else. No plugin is asked for more than [`PER_PLUGIN`]
//! volumes at once, so that one provider's thousand volumes do not keep the others waiting, and a
//! controller that works off one call after the other is not buried. Within that the order is the
//! plan's.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::PluginId;
use crate::plan::{Plan, PlannedVolume};

/// The most volumes of one plugin that are worked on at once.
pub(super) const PER_PLUGIN: usize = 16;

/// What is waiting, what may begin, and what is under way.
pub(super) struct Schedule {
    entries: Vec<Entry>,
    lanes: BTreeMap<Option<PluginId>, Lane>,
}

/// The entries of one plugin, or of none.
#[derive(Default)]
struct Lane {
    ready: BTreeSet<usize>,
    running: usize,
}

struct Entry {
    plugin: Option<PluginId>,
    /// How many of those that it needs have not ended.
    waits_for: usize,
    needed_by: Vec<usize>,
    /// One of those that it needs did not succeed.
    missing: Option<usize>,
}

/// An entry whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// Its position in the plan.
    pub(super) position: usize,
    /// Another that it needs, and that did not succeed.
    pub(super) missing: Option<usize>,
}

impl Schedule {
    /// All entries of a plan, none of them begun.
    pub(super) fn new(plan: &Plan) -> Self {
        let mut entries: Vec<Entry> = plan.volumes.iter().map(entry).collect();
        for (position, planned) in plan.volumes.iter().enumerate() {
            for source in &planned.depends_on {
                if let Some(source) = entries.get_mut(*source) {
                    source.needed_by.push(position);
                }
            }
        }
        Self::of(entries)
    }

    fn of(entries: Vec<Entry>) -> Self {
        let mut schedule = Self {
            entries,
            lanes: BTreeMap::new(),
        };
        for position in 0..schedule.entries.len() {
            if schedule.entries[position].waits_for == 0 {
                schedule.lane(position).ready.insert(position);
            }
        }
        schedule
    }

    fn lane(&mut self, position: usize) -> &mut Lane {
        let plugin = self.entries[position].plugin.clone();
        self.lanes.entry(plugin).or_default()
    }

    /// The next entry that may begin; `None` if one that is under way has to end first, or all have
    /// had their turn.
    pub(super) fn next(&mut self) -> Option<Turn> {
        let first = |(plugin, lane): (&Option<PluginId>, &Lane)| {
            let has_room = plugin.is_none() || lane.running < PER_PLUGIN;
            lane.ready.first().copied().filter(|_| has_room)
        };
        let position = self.lanes.iter().filter_map(first).min()?;
        let lane = self.lane(position);
        lane.ready.remove(&position);
        lane.running += 1;
        let missing = self.entries[position].missing;
        Some(Turn { position, missing })
    }

    /// An entry has ended.
    pub(super) fn ended(&mut self, position: usize, succeeded: bool) {
        let lane = self.lane(position);
        lane.running = lane.running.saturating_sub(1);
        for later in std::mem::take(&mut self.entries[position].needed_by) {
            let entry = &mut self.entries[later];
            entry.waits_for = entry.waits_for.saturating_sub(1);
            if !succeeded {
                entry.missing.get_or_insert(position);
            }
            if entry.waits_for == 0 {
                self.lane(later).ready.insert(later);
            }
        }
    }
}

fn entry(planned: &PlannedVolume) -> Entry {
    Entry {
        plugin: plugin(planned).cloned(),
        waits_for: planned.depends_on.len(),
        needed_by: vec![],
        missing: None,
    }
}

/// Whose provider has something to do for it.
fn plugin(planned: &PlannedVolume) -> Option<&PluginId> {
    let sent = planned.request().map(|request| &request.plugin_id);
    let stakes = planned.impact.as_ref();
    let lost = stakes.and_then(|stakes| stakes.loss.as_ref());
    sent.or_else(|| lost.map(|lost| &lost.plugin_id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Namespace, NamespacedId, VolumeId};
    use crate::plan::{Action, VolumeVersion};

    /// An entry per list of what it needs.
    fn plan(needs: &[&[usize]]) -> Plan {
        let entry = |(at, needs): (usize, &&[usize])| PlannedVolume {
            key: NamespacedId::new(Namespace::default(), VolumeId::new(format!("v{at}"))),
            spec: None,
            action: Action::Deregister,
            expected_version: VolumeVersion::At(1),
            impact: None,
            depends_on: needs.to_vec(),
            warnings: vec![],
        };
        Plan {
            volumes: needs.iter().enumerate().map(entry).collect(),
            remarks: vec![],
        }
    }

    fn turns(schedule: &mut Schedule) -> Vec<(usize, Option<usize>)> {
        std::iter::from_fn(|| schedule.next())
            .map(|turn| (turn.position, turn.missing))
            .collect()
    }

    #[test]
    fn a_copy_waits_for_its_source_and_nothing_else_does() {
        let mut schedule = Schedule::new(&plan(&[&[2], &[], &[], &[0, 1]]));
        assert_eq!(turns(&mut schedule), [(1, None), (2, None)]);
        schedule.ended(1, true);
        assert_eq!(turns(&mut schedule), []);
        schedule.ended(2, true);
        assert_eq!(turns(&mut schedule), [(0, None)]);
        schedule.ended(0, true);
        assert_eq!(turns(&mut schedule), [(3, None)]);
    }

    #[test]
    fn what_needs_one_that_did_not_succeed_is_told_and_so_is_what_needs_that() {
        let mut schedule = Schedule::new(&plan(&[&[], &[0], &[1], &[]]));
        assert_eq!(turns(&mut schedule), [(0, None), (3, None)]);
        schedule.ended(0, false);
        assert_eq!(turns(&mut schedule), [(1, Some(0))]);
        schedule.ended(1, false);
        assert_eq!(turns(&mut schedule), [(2, Some(1))]);
    }

    #[test]
    fn one_plugin_is_not_asked_for_everything_at_once() {
        let entry = |plugin: &str| Entry {
            plugin: Some(PluginId::new(plugin)),
            waits_for: 0,
            needed_by: vec![],
            missing: None,
        };
        let mut entries: Vec<Entry> = (0..PER_PLUGIN + 2).map(|_| entry("busy")).collect();
        entries.push(entry("idle"));
        let last = entries.len() - 1;
        let mut schedule = Schedule::of(entries);
        let first = turns(&mut schedule);
        let positions: Vec<_> = first.iter().map(|(position, _)| *position).collect();
        let expected: Vec<_> = (0..PER_PLUGIN).chain([last]).collect();
        assert_eq!(positions, expected, "in the plan's order");
        schedule.ended(3, true);
        assert_eq!(turns(&mut schedule), [(PER_PLUGIN, None)]);
    }
}
