//! Everything that a plan is made from, as one value.

use std::collections::{BTreeMap, BTreeSet};

use super::deny::DenyRule;
use super::hidden::Remembered;
use super::ledger::{LedgerSet, StoredValue};
use super::risk::LastSnapshot;
use super::rules::MergeRules;
use crate::model::{
    HiddenField, Namespace, NamespacedId, Plugin, PluginId, Secrets, Volume, VolumeSummary,
};
use crate::spec::{Purpose, VolumeSpec};

/// Everything that a plan is made from.
#[derive(Debug)]
pub struct Inputs<'a> {
    /// What is wanted, in the order of the files.
    pub wanted: Vec<VolumeSpec>,
    /// Which rules hold for it.
    pub purpose: Purpose,
    /// What was found on the server.
    pub observed: &'a Observed,
    /// How that server merges an update into a volume.
    pub rules: MergeRules,
    /// What the ledger says of the set; `None` if there is none, so that nothing is owned.
    pub owned: Option<&'a Owned>,
    /// What was asked for besides, by name.
    pub requests: &'a Requests,
}

/// What was found on the server.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Volumes of the wanted, owned and requested names, as far as they exist.
    pub volumes: BTreeMap<NamespacedId, Volume>,
    /// Plugins of those volumes.
    pub plugins: BTreeMap<PluginId, PluginState>,
    /// IDs of all plugins, for "did you mean"; empty if they may not be listed.
    pub plugin_ids: Vec<PluginId>,
    /// Names of all namespaces; `None` if they may not be listed, or nobody asked.
    pub namespaces: Option<BTreeSet<Namespace>>,
    /// All volumes that can be seen, wherever they are: who else has the same external ID. Needed
    /// only if data is to be deleted.
    pub registered: Vec<VolumeSummary>,
    /// The last snapshot of a volume that is at risk; none of one that nobody asked about.
    pub snapshots: BTreeMap<NamespacedId, LastSnapshot>,
}

/// What is known of a plugin.
#[derive(Clone, Debug)]
pub enum PluginState {
    /// Its record.
    Known(Box<Plugin>),
    /// There is none of that ID.
    Missing,
    /// It may not be read.
    Unknown,
}

/// What the ledger says of a set, as far as a plan depends on it. It guards removal and tells hidden
/// values apart; losing it is safe (`users` 3, "Ledger").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owned {
    /// The set's name.
    pub set: String,
    /// Its volumes.
    pub volumes: BTreeMap<NamespacedId, OwnedVolume>,
}

impl Owned {
    /// What a set's ledger says, held against what the files give. `secrets` are the values of a
    /// specification's secrets, `None` if they could not be had: then nothing is known of them.
    pub fn of(
        set: &LedgerSet,
        wanted: &[VolumeSpec],
        secrets: impl Fn(&VolumeSpec) -> Option<Secrets>,
    ) -> Self {
        let specs: BTreeMap<_, _> = wanted.iter().map(|spec| (spec.key(), spec)).collect();
        let volumes = set.owned().map(|(key, ownership)| {
            let spec = specs.get(key).copied();
            let given = spec
                .filter(|spec| spec.request.secrets.is_some())
                .map(&secrets);
            let flags = spec
                .and_then(|spec| spec.request.mount_options.as_ref())
                .map(|options| options.mount_flags.as_slice())
                .filter(|flags| !flags.is_empty());
            let open = set.intent(key);
            let is_open = open.is_some_and(|intent| intent.step.writes_values());
            // A write that was begun and not ended may have arrived: what was applied before is not
            // what is there for certain.
            let same = |same: Option<bool>| same.map(|same| same && !is_open);
            let entry = OwnedVolume {
                protect: ownership.protect,
                secrets: match (set.secrets(key), given) {
                    (_, Some(None)) => Remembered::Unknown,
                    (stored, given) => {
                        let given = given.flatten().filter(|given| !given.is_empty());
                        let given = given.and_then(|given| set.same_secrets(key, &given));
                        remembered(stored, same(given))
                    }
                },
                mount_flags: {
                    let given = flags.and_then(|flags| set.same_mount_flags(key, flags));
                    remembered(set.mount_flags(key), same(given))
                },
            };
            (key.clone(), entry)
        });
        Self {
            set: set.name().to_string(),
            volumes: volumes.collect(),
        }
    }
}

/// `same` says whether what the file gives is what was applied; `None` if it gives nothing.
fn remembered(stored: StoredValue, same: Option<bool>) -> Remembered {
    match (stored, same) {
        (StoredValue::Unknown, _) => Remembered::Unknown,
        (StoredValue::Empty, _) => Remembered::Absent,
        (StoredValue::Given, Some(true)) => Remembered::AsGiven,
        (StoredValue::Given, Some(false) | None) => Remembered::Other,
    }
}

/// One volume of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedVolume {
    /// Whether it may not be removed.
    pub protect: bool,
    /// What is remembered of its secrets, beside those that the file gives.
    pub secrets: Remembered,
    /// What is remembered of its mount flags, beside those that the file gives.
    pub mount_flags: Remembered,
}

/// What somebody asked for by name: nothing of this is ever inferred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Deregister what the set owns and no file names.
    pub prune: bool,
    /// Volumes to remove and make anew.
    pub replace: BTreeSet<NamespacedId>,
    /// Whether a snapshot is taken before a replacement.
    pub snapshot_first: bool,
    /// Volumes whose data is to be deleted.
    pub delete_data: BTreeSet<NamespacedId>,
    /// Hidden values that may be lost.
    pub accept_loss: BTreeSet<(HiddenField, NamespacedId)>,
    /// What may not be done at all.
    pub deny: BTreeSet<DenyRule>,
}
