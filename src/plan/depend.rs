//! What has to be done before what: a source is made before its copy, and removed after it.
//!
//! A `clone_id` is the provider's ID of a volume. Of a volume that is only about to be created this
//! ID is not known, except with providers that take the name for it; so a source is known by its
//! external ID, its ID or its name. An edge too many costs a moment, one too few an error.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::action::{Action, Planned};
use super::inputs::Observed;
use super::risk::LastSnapshot;
use crate::model::{ExternalId, PluginId, WantedRequest};

/// Fills in `depends_on`. An edge that would close a cycle is left out: no order satisfies it, and
/// each of its entries can still be tried.
pub(super) fn order(volumes: &mut [Planned], observed: &Observed) {
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

/// Pairs of an entry and one that has to be done before it: copy by copy, and of each its sources in
/// the plan's order.
fn edges(volumes: &[Planned], observed: &Observed) -> Vec<(usize, usize)> {
    let copies = || {
        let filled = volumes
            .iter()
            .enumerate()
            .filter(|(_, one)| fills(&one.action));
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
                Role::Taken => (source, copy),
                Role::Made => (copy, source),
            })
        })
        .collect()
}

/// What becomes of a source.
#[derive(Clone, Copy)]
enum Role {
    /// It is taken away: after the copy.
    Taken,
    /// It is made, or stays: before the copy.
    Made,
}

/// A name that a copy can have for its source, at a plugin.
type Name<'a> = (&'a PluginId, &'a str);

/// Entries by the names that copies have for them.
#[derive(Default)]
struct Sources<'a> {
    clones: HashMap<Name<'a>, Vec<(usize, Role)>>,
    snapshots: HashMap<Name<'a>, Vec<(usize, Role)>>,
}

impl<'a> Sources<'a> {
    fn of(volumes: &'a [Planned], observed: &'a Observed) -> Self {
        let mut sources = Self::default();
        for (at, planned) in volumes.iter().enumerate() {
            sources.taken(at, planned, observed);
            sources.made(at, planned);
        }
        sources
    }

    /// What an entry takes away.
    fn taken(&mut self, at: usize, planned: &Planned, observed: &'a Observed) {
        let volume = observed.volumes.get(&planned.key);
        let Some(volume) = volume.filter(|_| takes(&planned.action)) else {
            return;
        };
        let external = volume.external_id.as_ref();
        let remote = external.map_or(volume.id.as_str(), ExternalId::as_str);
        let name = (&volume.plugin_id, remote);
        self.clones.entry(name).or_default().push((at, Role::Taken));
        match observed.snapshots.get(&planned.key) {
            Some(LastSnapshot::Taken { id, .. }) => {
                let name = (&volume.plugin_id, id.as_str());
                let named = self.snapshots.entry(name).or_default();
                named.push((at, Role::Taken));
            }
            Some(LastSnapshot::Unknown | LastSnapshot::None) | None => {}
        }
    }

    /// What an entry makes, or leaves where it is.
    fn made(&mut self, at: usize, planned: &'a Planned) {
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
            named.push((at, Role::Made));
        }
    }

    /// The sources of a copy, each once; one that is taken away is not also one that is made.
    fn of_copy(&self, copy: &WantedRequest) -> BTreeMap<usize, Role> {
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
                Role::Taken => {
                    found.insert(source, role);
                }
                Role::Made => {
                    found.entry(source).or_insert(role);
                }
            }
        }
        found
    }
}

/// Whether the provider makes something, and so fills it from its source.
fn fills(action: &Action) -> bool {
    match action {
        Action::Create(_) | Action::Replace(_) => true,
        Action::Unchanged
        | Action::Register(_)
        | Action::Update(_)
        | Action::Expand(_)
        | Action::Deregister
        | Action::DeleteData
        | Action::Waits(_)
        | Action::Blocked(_) => false,
    }
}

/// Whether an entry takes away what there is.
fn takes(action: &Action) -> bool {
    match action {
        Action::Deregister | Action::DeleteData | Action::Replace(_) => true,
        Action::Unchanged
        | Action::Create(_)
        | Action::Register(_)
        | Action::Update(_)
        | Action::Expand(_)
        | Action::Waits(_)
        | Action::Blocked(_) => false,
    }
}

/// Whether `from` depends on `to`, however indirectly.
fn reaches(volumes: &[Planned], from: usize, to: usize) -> bool {
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
