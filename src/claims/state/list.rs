//! Lists of volumes: filters, order, pages.
//!
//! All conditions of a filter apply, in one namespace and in all (W47: Nomad ignores some of them).
//! The order is namespace, then ID, by bytes, as in Nomad's List Volumes API. A list contains
//! pointers, so it is fast while other calls wait; JSON is built later.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::query::{claims_of_record, plugin_status};
use super::record::VolumeRecord;
use super::tables::State;
use super::view::{PluginStatus, VolumeView};
use nomad_csi_model::{Namespace, NamespacedId, NodeId, PluginId, VolumeId};

/// The conditions of a volume list. All of them apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeFilter {
    /// One namespace, or `*`.
    pub namespace: Namespace,
    /// Only volumes of these namespaces; `None` for any.
    pub among: Option<BTreeSet<Namespace>>,
    /// Only IDs with this prefix; empty for all.
    pub prefix: String,
    /// Only volumes of this plugin.
    pub plugin: Option<PluginId>,
    /// Only volumes with a claim on this node.
    pub node: Option<NodeId>,
}

/// The start of a page: this volume, or the next one if it no longer exists.
///
/// The text has Nomad's form `<namespace>.<id>`. A `.` or `%` in a namespace, which Nomad does not
/// allow there, is percent-encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeToken(NamespacedId);

/// The text is not a page token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a page token has the form `<namespace>.<name>` and comes from an earlier page of the list"
)]
pub struct InvalidToken;

impl VolumeToken {
    /// Returns the token of the page that starts with this volume.
    pub fn new(first: NamespacedId) -> Self {
        Self(first)
    }

    /// Parses the output of `Display`.
    ///
    /// # Errors
    /// Fails if the text contains no `.`.
    pub fn parse(text: &str) -> Result<Self, InvalidToken> {
        let (namespace, id) = split_token(text)?;
        Ok(Self(NamespacedId::new(namespace, VolumeId::new(id))))
    }
}

impl std::fmt::Display for VolumeToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&join_token(&self.0.namespace, self.0.id.as_str()))
    }
}

/// Returns `<namespace>.<name>`.
pub(super) fn join_token(namespace: &Namespace, name: &str) -> String {
    let namespace = namespace.as_str();
    let namespace = namespace.replace('%', "%25").replace('.', "%2E");
    format!("{namespace}.{name}")
}

/// Splits the output of [`join_token`].
pub(super) fn split_token(text: &str) -> Result<(Namespace, &str), InvalidToken> {
    let (namespace, name) = text.split_once('.').ok_or(InvalidToken)?;
    let namespace = namespace.replace("%2E", ".").replace("%25", "%");
    Ok((Namespace::new(namespace), name))
}

/// One page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumePage {
    /// The volumes, sorted by namespace and ID.
    pub volumes: Vec<VolumeView>,
    /// The start of the next page; `None` on the last page.
    pub next: Option<VolumeToken>,
}

/// Returns up to `limit` matching volumes from `start` on. Without `start` the list begins at the
/// first volume; a limit of 0 returns all.
pub fn volumes(
    state: &State,
    filter: &VolumeFilter,
    start: Option<&VolumeToken>,
    limit: usize,
) -> VolumePage {
    let mut statuses = Statuses::default();
    let mut page = VolumePage::default();
    for record in matching(state, filter, start) {
        if limit > 0 && page.volumes.len() == limit {
            page.next = Some(VolumeToken(record.key().clone()));
            break;
        }
        page.volumes.push(VolumeView {
            claims: claims_of_record(state, record),
            record: Arc::clone(record),
            plugin: statuses.of(state, &record.definition.plugin_id),
            placed: BTreeMap::new(),
        });
    }
    page
}

/// Iterates over the part of the table that can contain matches.
fn matching<'a>(
    state: &'a State,
    filter: &'a VolumeFilter,
    start: Option<&VolumeToken>,
) -> impl Iterator<Item = &'a Arc<VolumeRecord>> {
    let everywhere = filter.namespace.as_str() == Namespace::ALL;
    let first = (!everywhere)
        .then(|| NamespacedId::new(filter.namespace.clone(), VolumeId::new(&*filter.prefix)));
    let from = first.as_ref().max(start.map(|token| &token.0));
    state
        .volumes
        .range((from.map_or(Bound::Unbounded, Bound::Included), Bound::Unbounded))
        .map(|(_, record)| record)
        .take_while(move |record| everywhere || is_in_range(record.key(), filter))
        .filter(move |record| {
            record.is_visible()
                && filter.among.as_ref().is_none_or(|among| among.contains(&record.key().namespace))
                && record.key().id.as_str().starts_with(&filter.prefix)
                && filter
                    .plugin
                    .as_ref()
                    .is_none_or(|plugin| *plugin == record.definition.plugin_id)
                && filter.node.as_ref().is_none_or(|node| is_claimed_on(state, record, node))
        })
}

/// Returns whether an allocation on the node claims the volume through this registration.
fn is_claimed_on(state: &State, record: &VolumeRecord, node: &NodeId) -> bool {
    let claims = claims_of_record(state, record);
    claims.is_some_and(|claims| {
        let mut claims = claims.claims.through(record.key());
        claims.any(|(_, claim)| claim.node == *node)
    })
}

/// Returns whether the key can match: within a namespace, IDs with a prefix are consecutive.
fn is_in_range(key: &NamespacedId, filter: &VolumeFilter) -> bool {
    key.namespace == filter.namespace && key.id.as_str().starts_with(&filter.prefix)
}

/// Caches the status of each plugin during one list.
#[derive(Default)]
struct Statuses<'a>(BTreeMap<&'a PluginId, Arc<PluginStatus>>);

impl<'a> Statuses<'a> {
    fn of(&mut self, state: &State, id: &'a PluginId) -> Arc<PluginStatus> {
        let derive = || Arc::new(plugin_status(state, id).unwrap_or_default());
        Arc::clone(self.0.entry(id).or_insert_with(derive))
    }
}

#[cfg(test)]
mod tests;
