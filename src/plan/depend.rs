//! The order of changes: a source is created before its copy and removed after it.
//!
//! A `clone_id` is the provider's ID of the source volume. That ID is unknown before the source is
//! created, so a source matches by its external ID, its ID or its name. A superfluous dependency
//! costs only time; a missing one causes an error.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::action::PlannedVolume;
use super::inputs::ObservedState;
use super::risk::LastSnapshot;
use nomad_csi_model::{ExternalId, PluginId, UnresolvedRequest};

/// Sets `depends_on` of every entry. An edge that would close a cycle is omitted: no order satisfies
/// it, and each of its entries can still be tried.
pub(super) fn set_dependencies(volumes: &mut [PlannedVolume], observed: &ObservedState) {
    let edges = edges(volumes, observed);
    let mut known = HashSet::with_capacity(edges.len());
    for (later, earlier) in edges {
        let is_new = later != earlier && known.insert((later, earlier));
        if is_new && !reaches(volumes, earlier, later) {
            volumes[later].depends_on.push(earlier);
        }
    }
    for planned in volumes {
        planned.depends_on.sort_unstable();
    }
}

/// Returns pairs of an entry and an entry that must complete before it, grouped by copy, with the
/// sources of a copy in the plan's order.
fn edges(volumes: &[PlannedVolume], observed: &ObservedState) -> Vec<(usize, usize)> {
    let copies = || {
        let filled = volumes.iter().enumerate().filter(|(_, one)| one.action.creates());
        let requests = filled.filter_map(|(at, one)| Some((at, one.request()?)));
        requests.filter(|(_, of)| of.clone_id.is_some() || of.snapshot_id.is_some())
    };
    if copies().next().is_none() {
        return vec![];
    }
    let sources = Sources::of(volumes, observed);
    copies()
        .flat_map(|(copy, request)| {
            let found = sources.of_copy(request);
            found.into_iter().map(move |(source, role)| match role {
                Role::Removed => (source, copy),
                Role::Present => (copy, source),
            })
        })
        .collect()
}

/// The state in which a copy needs its source.
#[derive(Clone, Copy)]
enum Role {
    /// The source is removed, after the copy.
    Removed,
    /// The source is created or stays, before the copy.
    Present,
}

/// A name of a source at a plugin.
type Name<'a> = (&'a PluginId, &'a str);

/// The entries by the names that copies use for them.
#[derive(Default)]
struct Sources<'a> {
    clones: HashMap<Name<'a>, Vec<(usize, Role)>>,
    snapshots: HashMap<Name<'a>, Vec<(usize, Role)>>,
}

impl<'a> Sources<'a> {
    fn of(volumes: &'a [PlannedVolume], observed: &'a ObservedState) -> Self {
        let mut sources = Self::default();
        for (at, planned) in volumes.iter().enumerate() {
            sources.add_removed(at, planned, observed);
            sources.add_present(at, planned);
        }
        sources
    }

    /// Adds the volume and the snapshot that an entry removes.
    fn add_removed(&mut self, at: usize, planned: &PlannedVolume, observed: &'a ObservedState) {
        let volume = observed.volumes.get(&planned.key);
        let Some(volume) = volume.filter(|_| planned.action.removes()) else {
            return;
        };
        let external = volume.external_id.as_ref();
        let remote = external.map_or(volume.id.as_str(), ExternalId::as_str);
        let name = (&volume.plugin_id, remote);
        self.clones.entry(name).or_default().push((at, Role::Removed));
        match observed.snapshots.get(&planned.key) {
            Some(LastSnapshot::Taken { id, .. }) => {
                let name = (&volume.plugin_id, id.as_str());
                let named = self.snapshots.entry(name).or_default();
                named.push((at, Role::Removed));
            }
            Some(LastSnapshot::Unknown | LastSnapshot::None) | None => {}
        }
    }

    /// Adds the volume that an entry creates or keeps.
    fn add_present(&mut self, at: usize, planned: &'a PlannedVolume) {
        let Some(spec) = &planned.spec else {
            return;
        };
        let source = &spec.request;
        let names = [
            source.external_id.as_ref().map(ExternalId::as_str),
            Some(source.id.as_str()),
            source.name.as_deref(),
        ];
        for name in names.into_iter().flatten() {
            let named = self.clones.entry((&source.plugin_id, name)).or_default();
            named.push((at, Role::Present));
        }
    }

    /// Returns the sources of a copy, each once. [`Role::Removed`] takes precedence.
    fn of_copy(&self, copy: &UnresolvedRequest) -> BTreeMap<usize, Role> {
        let plugin = &copy.plugin_id;
        let by = |index: &HashMap<Name<'a>, Vec<(usize, Role)>>, name: Option<&str>| {
            let found = name.and_then(|name| index.get(&(plugin, name)));
            found.cloned().unwrap_or_default()
        };
        let mut found = BTreeMap::new();
        let clones = by(&self.clones, copy.clone_id.as_deref());
        let snapshots = by(&self.snapshots, copy.snapshot_id.as_deref());
        for (source, role) in clones.into_iter().chain(snapshots) {
            match role {
                Role::Removed => {
                    found.insert(source, role);
                }
                Role::Present => {
                    found.entry(source).or_insert(role);
                }
            }
        }
        found
    }
}

/// Returns whether `from` depends on `to`, directly or indirectly.
fn reaches(volumes: &[PlannedVolume], from: usize, to: usize) -> bool {
    let mut seen = HashSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        if at == to {
            return true;
        }
        if seen.insert(at) {
            open.extend(&volumes[at].depends_on);
        }
    }
    false
}

#[cfg(test)]
mod tests;
