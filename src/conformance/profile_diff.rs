//! What an upgrade of a plugin takes away: two results of `plugin probe -o json`, compared. Pure.
//!
//! A loss is something that the old plugin reported and the new one does not. A loss is breaking if
//! volumes that exist can no longer be used or removed as before. Everything else that is lost can only
//! not be done any more. What is new, and a new version, takes nothing away.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// A result of `plugin probe -o json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ProbeDocument {
    /// The version of the format.
    pub version: u32,
    /// The plugin's name.
    pub name: String,
    /// The plugin's version.
    pub vendor_version: String,
    /// True if the plugin is ready; the error if it did not answer.
    pub ready: Answer<bool>,
    /// The plugin's services.
    pub services: Answer<BTreeSet<String>>,
    /// The kinds of volume expansion.
    pub volume_expansion: BTreeSet<String>,
    /// The capabilities of the controller; `null` without one.
    pub controller_capabilities: Option<Answer<BTreeSet<String>>>,
    /// The capabilities of the group controller; `null` without one.
    pub group_controller_capabilities: Option<Answer<BTreeSet<String>>>,
    /// The capabilities of the node; `null` without one.
    pub node_capabilities: Option<Answer<BTreeSet<String>>>,
    /// The node; `null` if the plugin does not describe it.
    pub node: Option<Answer<NodeDocument>>,
}

/// An answer of the plugin, or its error.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Answer<T> {
    /// The call failed.
    Failed {
        /// The error.
        error: String,
    },
    /// The answer.
    Value(T),
}

impl<T: Default> Default for Answer<T> {
    fn default() -> Self {
        Self::Value(T::default())
    }
}

impl<T> Answer<T> {
    const fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Failed { .. } => None,
        }
    }
}

/// The response to NodeGetInfo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct NodeDocument {
    /// The provider's ID of the node.
    pub node_id: String,
    /// 0 for no limit.
    pub max_volumes_per_node: i64,
    /// The topology of the node.
    pub accessible_topology: Option<BTreeMap<String, String>>,
}

/// The differences of two results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProfileDiff {
    /// The losses, breaking ones first.
    pub lost: Vec<Loss>,
    /// The new features, by name.
    pub gained: Vec<String>,
}

/// Something that the new plugin does not have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Loss {
    /// How bad it is; the worst sorts first.
    pub kind: LossKind,
    /// The capability or the value that is lost.
    pub what: String,
    /// The consequence for users.
    pub consequence: String,
}

/// How bad a loss is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossKind {
    /// Volumes that exist cannot be used or removed as before.
    Breaking,
    /// Something cannot be done any more.
    Feature,
}

impl ProfileDiff {
    /// Returns whether a volume that exists is affected.
    pub fn is_breaking(&self) -> bool {
        self.lost.iter().any(|loss| loss.kind == LossKind::Breaking)
    }
}

/// Compares two results.
pub fn compare_profiles(old: &ProbeDocument, new: &ProbeDocument) -> ProfileDiff {
    let mut diff = ProfileDiff::default();
    identity(&mut diff, old, new);
    node(&mut diff, old, new);
    let no_kinds = BTreeSet::new();
    let lists = [
        ("service", old.services.value(), new.services.value()),
        ("volume expansion", Some(&old.volume_expansion), Some(&new.volume_expansion)),
        (
            "controller capability",
            capabilities(&old.controller_capabilities),
            capabilities(&new.controller_capabilities),
        ),
        (
            "group controller capability",
            capabilities(&old.group_controller_capabilities),
            capabilities(&new.group_controller_capabilities),
        ),
        (
            "node capability",
            capabilities(&old.node_capabilities),
            capabilities(&new.node_capabilities),
        ),
    ];
    for (what, old, new) in lists {
        let (old, new) = (old.unwrap_or(&no_kinds), new.unwrap_or(&no_kinds));
        for name in old.difference(new) {
            let (kind, consequence) = consequence(what, name);
            diff.lose(kind, format!("{what} {name}"), consequence);
        }
        let gained = new.difference(old).map(|name| format!("{what} {name}"));
        diff.gained.extend(gained);
    }
    diff.lost.sort();
    diff
}

fn capabilities(answer: &Option<Answer<BTreeSet<String>>>) -> Option<&BTreeSet<String>> {
    answer.as_ref()?.value()
}

impl ProfileDiff {
    fn lose(&mut self, kind: LossKind, what: String, consequence: impl Into<String>) {
        self.lost.push(Loss { kind, what, consequence: consequence.into() });
    }
}

fn identity(diff: &mut ProfileDiff, old: &ProbeDocument, new: &ProbeDocument) {
    if old.name != new.name {
        let what = format!("the name `{}`; it is `{}`", old.name, new.name);
        let consequence = "the volumes of the old plugin belong to another plugin";
        diff.lose(LossKind::Breaking, what, consequence);
    }
    if old.ready == Answer::Value(true) && new.ready != Answer::Value(true) {
        let consequence = "the plugin does not serve volumes until it is ready";
        diff.lose(LossKind::Breaking, "readiness".to_owned(), consequence);
    }
}

fn node(diff: &mut ProfileDiff, old: &ProbeDocument, new: &ProbeDocument) {
    let Some(before) = old.node.as_ref().and_then(Answer::value) else {
        return;
    };
    let Some(after) = new.node.as_ref().and_then(Answer::value) else {
        let consequence = "volumes cannot be attached to the node or placed by topology";
        let what = "the description of the node (NodeGetInfo)".to_owned();
        return diff.lose(LossKind::Breaking, what, consequence);
    };
    if before.node_id != after.node_id {
        let what = format!("the node ID `{}`; it is `{}`", before.node_id, after.node_id);
        let consequence = "attached volumes are attached to a node of the old ID";
        diff.lose(LossKind::Breaking, what, consequence);
    }
    let limit = |max: i64| if max == 0 { i64::MAX } else { max };
    if limit(after.max_volumes_per_node) < limit(before.max_volumes_per_node) {
        let shown = |max: i64| match max {
            0 => "no limit".to_owned(),
            max => max.to_string(),
        };
        let (before, after) = (before.max_volumes_per_node, after.max_volumes_per_node);
        let what = format!("volumes per node: {}, and now {after}", shown(before));
        diff.lose(LossKind::Feature, what, "fewer volumes fit on a node");
    }
    let places = |node: &NodeDocument| node.accessible_topology.clone().unwrap_or_default();
    let now = places(after);
    for (key, value) in places(before) {
        if now.get(&key) != Some(&value) {
            let what = format!("topology {key}={value} of the node");
            let consequence = "volumes of this topology cannot be used on the node";
            diff.lose(LossKind::Breaking, what, consequence);
        }
    }
}

/// Returns how bad the loss of a capability is, and what follows.
fn consequence(list: &str, name: &str) -> (LossKind, &'static str) {
    use LossKind::{Breaking, Feature};
    match (list, name) {
        ("service", "CONTROLLER_SERVICE") => {
            (Breaking, "volumes cannot be created, deleted or attached")
        }
        ("service", "VOLUME_ACCESSIBILITY_CONSTRAINTS") => {
            (Breaking, "volumes are placed without their topology")
        }
        ("controller capability", "CREATE_DELETE_VOLUME") => {
            (Breaking, "volumes cannot be created or deleted")
        }
        ("controller capability", "PUBLISH_UNPUBLISH_VOLUME") => {
            (Breaking, "attached volumes are not detached")
        }
        ("controller capability", "CREATE_DELETE_SNAPSHOT") => {
            (Breaking, "snapshots cannot be created, deleted or restored")
        }
        ("group controller capability", _) | ("service", "GROUP_CONTROLLER_SERVICE") => {
            (Breaking, "group snapshots cannot be created or deleted")
        }
        ("node capability", "STAGE_UNSTAGE_VOLUME") => {
            (Breaking, "staged volumes are not unstaged")
        }
        (_, "PUBLISH_READONLY") => (Feature, "volumes are not attached read-only"),
        (_, "EXPAND_VOLUME" | "ONLINE" | "OFFLINE") => {
            (Feature, "volumes cannot be expanded as before")
        }
        (_, "CLONE_VOLUME") => (Feature, "volumes cannot be cloned"),
        (_, "MODIFY_VOLUME") => (Feature, "volumes cannot be modified"),
        (_, "LIST_VOLUMES" | "GET_VOLUME") => (Feature, "the provider's volumes cannot be listed"),
        (_, "LIST_SNAPSHOTS" | "GET_SNAPSHOT") => (Feature, "snapshots cannot be listed"),
        (_, "GET_VOLUME_STATS") => (Feature, "the use of volumes is unknown"),
        (_, "VOLUME_CONDITION" | "GET_VOLUME_HEALTH" | "LIST_VOLUME_HEALTH") => {
            (Feature, "the health of volumes is unknown")
        }
        _ => (Feature, "what needs it is not possible any more"),
    }
}

#[cfg(test)]
mod tests;
