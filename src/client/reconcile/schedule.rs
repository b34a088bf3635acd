//! The order in which the entries of a plan start. Makes no calls.
//!
//! A source ends before its copy starts ([`PlannedVolume::depends_on`]). A failure stops the entries
//! that depend on it, and no others. At most [`PER_PLUGIN`] volumes of one plugin are worked on at the
//! same time, so one plugin does not delay the others. Otherwise the order is that of the record, then
//! the plan's.

use std::collections::{BTreeMap, BTreeSet};

use nomad_csi_model::{NamespacedId, PluginId};
use nomad_csi_plan::{Plan, PlannedVolume};

/// The largest number of volumes of one plugin that are worked on at the same time.
pub(super) const PER_PLUGIN: usize = 16;

/// Entries that wait, are ready, or run.
pub(super) struct Schedule {
    entries: Vec<Entry>,
    queues: BTreeMap<Option<PluginId>, PluginQueue>,
}

/// The queue of one plugin, or of entries without a plugin.
#[derive(Default)]
struct PluginQueue {
    /// By the order of the record, then by position.
    ready: BTreeSet<(u64, usize)>,
    running: usize,
}

struct Entry {
    plugin: Option<PluginId>,
    /// The order of the record.
    order: u64,
    /// The number of dependencies that have not ended.
    pending_dependencies: usize,
    dependents: Vec<usize>,
    /// A dependency that failed.
    failed_dependency: Option<usize>,
}

/// An entry that can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadyEntry {
    /// Its position in the plan.
    pub(super) position: usize,
    /// A dependency that failed.
    pub(super) failed_dependency: Option<usize>,
}

impl Schedule {
    /// Schedules all entries of a plan, in the order of the record.
    pub(super) fn new(plan: &Plan, order: impl Fn(&NamespacedId) -> u64) -> Self {
        let entries = plan.volumes.iter();
        let mut entries: Vec<Entry> = entries.map(|planned| entry(planned, &order)).collect();
        for (position, planned) in plan.volumes.iter().enumerate() {
            for source in &planned.depends_on {
                if let Some(source) = entries.get_mut(*source) {
                    source.dependents.push(position);
                }
            }
        }
        Self::of(entries)
    }

    fn of(entries: Vec<Entry>) -> Self {
        let mut schedule = Self { entries, queues: BTreeMap::new() };
        for position in 0..schedule.entries.len() {
            if schedule.entries[position].pending_dependencies == 0 {
                schedule.make_ready(position);
            }
        }
        schedule
    }

    fn queue(&mut self, position: usize) -> &mut PluginQueue {
        let plugin = self.entries[position].plugin.clone();
        self.queues.entry(plugin).or_default()
    }

    fn make_ready(&mut self, position: usize) {
        let order = self.entries[position].order;
        self.queue(position).ready.insert((order, position));
    }

    /// Returns the next entry that can start. `None` if a running entry must end first, or none is left.
    pub(super) fn next(&mut self) -> Option<ReadyEntry> {
        let first = |(plugin, queue): (&Option<PluginId>, &PluginQueue)| {
            let has_room = plugin.is_none() || queue.running < PER_PLUGIN;
            queue.ready.first().copied().filter(|_| has_room)
        };
        let (order, position) = self.queues.iter().filter_map(first).min()?;
        let queue = self.queue(position);
        queue.ready.remove(&(order, position));
        queue.running += 1;
        let failed_dependency = self.entries[position].failed_dependency;
        Some(ReadyEntry { position, failed_dependency })
    }

    /// Marks an entry as ended.
    pub(super) fn finish(&mut self, position: usize, succeeded: bool) {
        let queue = self.queue(position);
        queue.running = queue.running.saturating_sub(1);
        for later in std::mem::take(&mut self.entries[position].dependents) {
            let entry = &mut self.entries[later];
            entry.pending_dependencies = entry.pending_dependencies.saturating_sub(1);
            if !succeeded {
                entry.failed_dependency.get_or_insert(position);
            }
            if entry.pending_dependencies == 0 {
                self.make_ready(later);
            }
        }
    }
}

fn entry(planned: &PlannedVolume, order: impl Fn(&NamespacedId) -> u64) -> Entry {
    Entry {
        plugin: plugin(planned).cloned(),
        order: order(&planned.key),
        pending_dependencies: planned.depends_on.len(),
        dependents: vec![],
        failed_dependency: None,
    }
}

/// Returns the plugin whose provider works on the entry.
fn plugin(planned: &PlannedVolume) -> Option<&PluginId> {
    let sent = planned.request().map(|request| &request.plugin_id);
    let impact = planned.impact.as_ref();
    let lost = impact.and_then(|impact| impact.loss.as_ref());
    sent.or_else(|| lost.map(|lost| &lost.plugin_id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::{Namespace, VolumeId};
    use nomad_csi_plan::{Action, VolumeVersion};

    /// Makes an entry for each list of dependencies.
    fn plan(needs: &[&[usize]]) -> Plan {
        let entry = |(at, needs): (usize, &&[usize])| PlannedVolume {
            key: NamespacedId::new(Namespace::default(), VolumeId::new(format!("v{at}"))),
            spec: None,
            action: Action::Deregister,
            expected_version: VolumeVersion::At(1),
            impact: None,
            protection: None,
            depends_on: needs.to_vec(),
            warnings: vec![],
        };
        Plan {
            volumes: needs.iter().enumerate().map(entry).collect(),
            remarks: vec![],
            undeclared: vec![],
        }
    }

    fn ready(schedule: &mut Schedule) -> Vec<(usize, Option<usize>)> {
        std::iter::from_fn(|| schedule.next())
            .map(|entry| (entry.position, entry.failed_dependency))
            .collect()
    }

    #[test]
    fn a_copy_waits_for_its_source_and_nothing_else_does() {
        let mut schedule = Schedule::new(&plan(&[&[2], &[], &[], &[0, 1]]), |_| 0);
        assert_eq!(ready(&mut schedule), [(1, None), (2, None)]);
        schedule.finish(1, true);
        assert_eq!(ready(&mut schedule), []);
        schedule.finish(2, true);
        assert_eq!(ready(&mut schedule), [(0, None)]);
        schedule.finish(0, true);
        assert_eq!(ready(&mut schedule), [(3, None)]);
    }

    #[test]
    fn failures_propagate_to_dependents() {
        let mut schedule = Schedule::new(&plan(&[&[], &[0], &[1], &[]]), |_| 0);
        assert_eq!(ready(&mut schedule), [(0, None), (3, None)]);
        schedule.finish(0, false);
        assert_eq!(ready(&mut schedule), [(1, Some(0))]);
        schedule.finish(1, false);
        assert_eq!(ready(&mut schedule), [(2, Some(1))]);
    }

    #[test]
    fn concurrent_volumes_of_one_plugin_are_limited() {
        let entry = |plugin: &str| Entry {
            plugin: Some(PluginId::new(plugin)),
            order: 0,
            pending_dependencies: 0,
            dependents: vec![],
            failed_dependency: None,
        };
        let mut entries: Vec<Entry> = (0..PER_PLUGIN + 2).map(|_| entry("busy")).collect();
        entries.push(entry("idle"));
        let last = entries.len() - 1;
        let mut schedule = Schedule::of(entries);
        let first = ready(&mut schedule);
        let positions: Vec<_> = first.iter().map(|(position, _)| *position).collect();
        let expected: Vec<_> = (0..PER_PLUGIN).chain([last]).collect();
        assert_eq!(positions, expected, "in the plan's order");
        schedule.finish(3, true);
        assert_eq!(ready(&mut schedule), [(PER_PLUGIN, None)]);
    }

    #[test]
    fn the_order_of_the_record_comes_first_but_no_entry_before_its_source() {
        let last_first = |key: &NamespacedId| u64::from(b'9' - key.id.as_str().as_bytes()[1]);
        let mut schedule = Schedule::new(&plan(&[&[], &[], &[0]]), last_first);
        assert_eq!(ready(&mut schedule), [(1, None), (0, None)]);
        schedule.finish(0, true);
        assert_eq!(ready(&mut schedule), [(2, None)]);
    }
}
