//! Which entry of a plan may begin next: pure, without calls.
//!
//! A source is done before its copy ([`Planned::depends_on`]); one that did not succeed holds back
//! everything that needs it, and nothing else. No plugin is asked for more than [`PER_PLUGIN`]
//! volumes at once, so that one provider's thousand volumes do not keep the others waiting, and a
//! controller that works off one call after the other is not buried. Within that the order is the
//! plan's.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::PluginId;
use crate::plan::{Plan, Planned};

/// The most volumes of one plugin that are worked on at once.
pub(super) const PER_PLUGIN: usize = 16;

/// What is waiting, what may begin, and what is under way.
pub(super) struct Schedule {
    entries: Vec<Entry>,
    ready: BTreeSet<usize>,
    running: BTreeMap<PluginId, usize>,
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
        let free = |(position, entry): (usize, &Entry)| (entry.waits_for == 0).then_some(position);
        let ready = entries.iter().enumerate().filter_map(free).collect();
        Self {
            entries,
            ready,
            running: BTreeMap::new(),
        }
    }

    /// The next entry that may begin; `None` if one that is under way has to end first, or all have
    /// had their turn.
    pub(super) fn next(&mut self) -> Option<Turn> {
        let has_room = |plugin: &Option<PluginId>| {
            let running = plugin.as_ref().and_then(|plugin| self.running.get(plugin));
            running.copied().unwrap_or_default() < PER_PLUGIN
        };
        let free = |position: &&usize| has_room(&self.entries[**position].plugin);
        let position = *self.ready.iter().find(free)?;
        self.ready.remove(&position);
        let entry = &self.entries[position];
        if let Some(plugin) = &entry.plugin {
            *self.running.entry(plugin.clone()).or_default() += 1;
        }
        let missing = entry.missing;
        Some(Turn { position, missing })
    }

    /// An entry has ended.
    pub(super) fn ended(&mut self, position: usize, succeeded: bool) {
        if let Some(plugin) = &self.entries[position].plugin
            && let Some(running) = self.running.get_mut(plugin)
        {
            *running = running.saturating_sub(1);
        }
        for later in std::mem::take(&mut self.entries[position].needed_by) {
            let entry = &mut self.entries[later];
            entry.waits_for = entry.waits_for.saturating_sub(1);
            if !succeeded {
                entry.missing.get_or_insert(position);
            }
            if entry.waits_for == 0 {
                self.ready.insert(later);
            }
        }
    }
}

fn entry(planned: &Planned) -> Entry {
    Entry {
        plugin: plugin(planned).cloned(),
        waits_for: planned.depends_on.len(),
        needed_by: vec![],
        missing: None,
    }
}

/// Whose provider has something to do for it.
fn plugin(planned: &Planned) -> Option<&PluginId> {
    let sent = planned.request().map(|request| &request.plugin_id);
    let stakes = planned.stakes.as_ref();
    let lost = stakes.and_then(|stakes| stakes.lost.as_ref());
    sent.or_else(|| lost.map(|lost| &lost.plugin_id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Namespace, NamespacedId, VolumeId};
    use crate::plan::{Action, Pin};

    /// An entry per list of what it needs.
    fn plan(needs: &[&[usize]]) -> Plan {
        let entry = |(at, needs): (usize, &&[usize])| Planned {
            key: NamespacedId::new(Namespace::default(), VolumeId::new(format!("v{at}"))),
            spec: None,
            action: Action::Deregister,
            pin: Pin::At(1),
            stakes: None,
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
        let mut entries: Vec<Entry> = (0..PER_PLUGIN + 2)
            .map(|_| Entry {
                plugin: Some(PluginId::new("busy")),
                waits_for: 0,
                needed_by: vec![],
                missing: None,
            })
            .collect();
        entries.push(Entry {
            plugin: Some(PluginId::new("idle")),
            waits_for: 0,
            needed_by: vec![],
            missing: None,
        });
        let last = entries.len() - 1;
        let mut schedule = Schedule {
            ready: (0..entries.len()).collect(),
            entries,
            running: BTreeMap::new(),
        };
        let first = turns(&mut schedule);
        assert_eq!(first.len(), PER_PLUGIN + 1);
        assert!(first.contains(&(last, None)));
        schedule.ended(3, true);
        assert_eq!(turns(&mut schedule), [(PER_PLUGIN, None)]);
    }
}
