//! What has to be done before what: a source is made before its copy, and removed after it.
//!
//! A `clone_id` is the provider's ID of a volume. Of a volume that is only about to be created this
//! ID is not known, except with providers that take the name for it; so a source is known by its
//! external ID, its ID or its name. An edge too many costs a moment, one too few an error.

use super::action::{Action, Planned};
use super::inputs::Observed;
use super::risk::LastSnapshot;
use crate::model::{ExternalId, PluginId, WantedRequest};

/// Fills in `depends_on`. An edge that would close a cycle is left out: no order satisfies it, and
/// each of its entries can still be tried.
pub(super) fn order(volumes: &mut [Planned], observed: &Observed) {
    let edges: Vec<(usize, usize)> = volumes
        .iter()
        .enumerate()
        .flat_map(|(at, planned)| edges(at, planned, volumes, observed))
        .collect();
    for (later, earlier) in edges {
        if later != earlier && !reaches(volumes, earlier, later) {
            let list = &mut volumes[later].depends_on;
            if !list.contains(&earlier) {
                list.push(earlier);
            }
        }
    }
    for planned in volumes {
        planned.depends_on.sort_unstable();
    }
}

/// Pairs of an entry and one that has to be done before it, of which `at` is the copy.
fn edges(
    at: usize,
    copy: &Planned,
    volumes: &[Planned],
    observed: &Observed,
) -> Vec<(usize, usize)> {
    let Some(request) = copy.request().filter(|_| fills(&copy.action)) else {
        return vec![];
    };
    if request.clone_id.is_none() && request.snapshot_id.is_none() {
        return vec![];
    }
    let sources = volumes.iter().enumerate();
    sources
        .filter_map(|(source, planned)| {
            if takes_source(planned, request, observed) {
                Some((source, at))
            } else if makes_source(planned, request) {
                Some((at, source))
            } else {
                None
            }
        })
        .collect()
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

fn makes_source(planned: &Planned, copy: &WantedRequest) -> bool {
    let Some(spec) = &planned.spec else {
        return false;
    };
    let source = &spec.request;
    let names = [
        source.external_id.as_ref().map(ExternalId::as_str),
        Some(source.id.as_str()),
        source.name.as_deref(),
    ];
    copy.clone_id.as_deref().is_some_and(|clone_id| {
        same_plugin(&source.plugin_id, copy) && names.contains(&Some(clone_id))
    })
}

/// Whether an entry takes away what the copy is made from.
fn takes_source(planned: &Planned, copy: &WantedRequest, observed: &Observed) -> bool {
    let takes = match planned.action {
        Action::Deregister | Action::DeleteData | Action::Replace(_) => true,
        Action::Unchanged
        | Action::Create(_)
        | Action::Register(_)
        | Action::Update(_)
        | Action::Expand(_)
        | Action::Waits(_)
        | Action::Blocked(_) => false,
    };
    let Some(volume) = observed.volumes.get(&planned.key).filter(|_| takes) else {
        return false;
    };
    let is_source = copy.clone_id.as_deref() == Some(volume.remote_id().as_str());
    let snapshot = match observed.snapshots.get(&planned.key) {
        Some(LastSnapshot::Taken { id, .. }) => Some(id.as_str()),
        Some(LastSnapshot::Unknown | LastSnapshot::None) | None => None,
    };
    let is_snapshots = snapshot.is_some() && snapshot == copy.snapshot_id.as_deref();
    same_plugin(&volume.plugin_id, copy) && (is_source || is_snapshots)
}

fn same_plugin(plugin: &PluginId, copy: &WantedRequest) -> bool {
    *plugin == copy.plugin_id
}

/// Whether `from` depends on `to`, however indirectly.
fn reaches(volumes: &[Planned], from: usize, to: usize) -> bool {
    let mut seen = vec![false; volumes.len()];
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        if at == to {
            return true;
        }
        if !std::mem::replace(&mut seen[at], true) {
            open.extend(&volumes[at].depends_on);
        }
    }
    false
}
