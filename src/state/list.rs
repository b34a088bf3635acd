//! Lists of volumes: filters, order, pages.
//!
//! All conditions of a filter hold together, in every namespace and in all of them (W47, B97). The
//! order is namespace, then ID, in byte order (`nomad-http-api` 2.9). A list gives pointers: reading
//! many volumes costs little while others wait, and documents are made of them afterwards.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::query::plugin_status;
use super::record::VolumeRecord;
use super::tables::State;
use super::view::{PluginStatus, VolumeView};
use crate::model::{Namespace, NamespacedId, PluginId, VolumeId};

/// Which volumes a list is to show. All conditions hold together (W47, B97).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeFilter {
    /// One namespace, or `*`.
    pub namespace: Namespace,
    /// Only IDs that start so; empty for all.
    pub prefix: String,
    /// Only volumes of this plugin.
    pub plugin: Option<PluginId>,
}

/// Where a page begins: the volume of that name, or the next one if it is gone.
///
/// Its text is Nomad's, `<namespace>.<id>` (`nomad-http-api` 2.9); a `.` or `%` in a namespace, which
/// Nomad does not allow there, is percent-encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeToken(NamespacedId);

/// A text is no page token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a page token is `<namespace>.<name>`, as an earlier page of the same list gave it")]
pub struct InvalidToken;

impl VolumeToken {
    /// Reads what [`VolumeToken`]'s `Display` wrote.
    ///
    /// # Errors
    /// If there is no `.` in it.
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

/// `<namespace>.<name>`.
pub(super) fn join_token(namespace: &Namespace, name: &str) -> String {
    let namespace = namespace.as_str();
    let namespace = namespace.replace('%', "%25").replace('.', "%2E");
    format!("{namespace}.{name}")
}

/// What [`join_token`] joined.
pub(super) fn split_token(text: &str) -> Result<(Namespace, &str), InvalidToken> {
    let (namespace, name) = text.split_once('.').ok_or(InvalidToken)?;
    let namespace = namespace.replace("%2E", ".").replace("%25", "%");
    Ok((Namespace::new(namespace), name))
}

/// One page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumePage {
    /// By namespace and ID, in byte order.
    pub volumes: Vec<VolumeView>,
    /// Where the next page begins; `None` if this is the last one.
    pub next: Option<VolumeToken>,
}

/// The volumes that match, from `start` on (of the first, if there is none), at most `limit` of
/// them (all, if it is 0).
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
            record: Arc::clone(record),
            plugin: statuses.of(state, &record.definition.plugin_id),
        });
    }
    page
}

/// Walks only the part of the table in which matches can lie.
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
        .range((
            from.map_or(Bound::Unbounded, Bound::Included),
            Bound::Unbounded,
        ))
        .map(|(_, record)| record)
        .take_while(move |record| everywhere || is_in_range(record.key(), filter))
        .filter(move |record| {
            record.is_visible()
                && record.key().id.as_str().starts_with(&filter.prefix)
                && filter
                    .plugin
                    .as_ref()
                    .is_none_or(|plugin| *plugin == record.definition.plugin_id)
        })
}

/// Within one namespace, IDs of one prefix stand together.
fn is_in_range(key: &NamespacedId, filter: &VolumeFilter) -> bool {
    key.namespace == filter.namespace && key.id.as_str().starts_with(&filter.prefix)
}

/// Each plugin's status, derived once per list.
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
