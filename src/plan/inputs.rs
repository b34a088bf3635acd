//! The inputs of a plan.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::deny::DenyRule;
use super::ledger::{
    DataIdentity, IntentStep, LedgerSet, Ownership, RecordedData, StoredValue, changed_data,
};
use super::plugin_snapshots::PluginSnapshots;
use super::policy::Policies;
use super::provider_list::ProviderList;
use super::risk::LastSnapshot;
use super::rules::MergeRules;
use super::volume_version::VolumeVersion;
use nomad_csi_model::{
    Bytes, HiddenField, Namespace, NamespacedId, Plugin, PluginId, Secrets, Volume, VolumeId,
    VolumeSummary,
};
use nomad_csi_spec::{Purpose, VolumeSpec};

/// The inputs of a plan.
#[derive(Debug)]
pub struct PlanInputs<'a> {
    /// The specifications, in the order of the files.
    pub desired: Vec<VolumeSpec>,
    /// The purpose of the specifications: to be created, registered or both.
    pub purpose: Purpose,
    /// The state of the server.
    pub observed: &'a ObservedState,
    /// How the server merges an update into a volume.
    pub rules: MergeRules,
    /// The volumes that the set owns, from its ledger; `None` if there is no set.
    pub owned: Option<&'a OwnedSet>,
    /// The options of the command line.
    pub options: &'a PlanOptions,
}

/// The state of the server, as far as a plan needs it.
#[derive(Clone, Debug, Default)]
pub struct ObservedState {
    /// The specified, owned and requested volumes that exist and were read.
    pub volumes: BTreeMap<NamespacedId, Volume>,
    /// Volumes that exist and were not read, because a plan of their files leaves them unchanged.
    pub unread: BTreeMap<NamespacedId, SkippedVolume>,
    /// The plugins of those volumes.
    pub plugins: BTreeMap<PluginId, PluginState>,
    /// What files say of plugins. It counts for those that the token cannot read.
    pub plugin_snapshots: PluginSnapshots,
    /// IDs of all plugins, for suggestions; empty if the token cannot list them.
    pub plugin_ids: Vec<PluginId>,
    /// Names of all namespaces; `None` if the token cannot list them or no list was requested.
    pub namespaces: Option<BTreeSet<Namespace>>,
    /// All volumes in all visible namespaces, to find volumes with the same external ID. Filled only
    /// if the plan deletes data, or may register data that the server knows.
    pub registered: Vec<VolumeSummary>,
    /// The lists of the providers, for the plugins whose provider was asked.
    pub provided: BTreeMap<PluginId, ProviderList>,
    /// The snapshots that providers list, by their IDs, for the plugins from whose snapshots the plan
    /// restores volumes. A list that could not be read is not included.
    pub provided_snapshots: BTreeMap<PluginId, BTreeMap<String, Bytes>>,
    /// The last snapshot of each volume whose data the plan may delete.
    pub snapshots: BTreeMap<NamespacedId, LastSnapshot>,
}

/// A volume that exists and was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedVolume {
    /// The index of the last change of its specification.
    pub spec_index: u64,
    /// Its data.
    pub data: DataIdentity,
}

impl ObservedState {
    /// Returns whether the volume exists on the server.
    pub fn has(&self, key: &NamespacedId) -> bool {
        self.volumes.contains_key(key) || self.unread.contains_key(key)
    }

    /// Returns the data of a volume; `None` if the volume does not exist.
    pub(super) fn data_of(&self, key: &NamespacedId) -> Option<DataIdentity> {
        let read = self.volumes.get(key).map(DataIdentity::of);
        read.or_else(|| Some(self.unread.get(key)?.data.clone()))
    }

    /// Returns the version of a volume.
    pub(super) fn version_of(&self, key: &NamespacedId) -> VolumeVersion {
        match self.unread.get(key) {
            Some(unread) => VolumeVersion::At(unread.spec_index),
            None => VolumeVersion::of(self.volumes.get(key)),
        }
    }
}

/// A plugin as the server reports it.
#[derive(Clone, Debug)]
pub enum PluginState {
    /// Its record.
    Known(Box<Plugin>),
    /// The server has no plugin with this ID.
    Missing,
    /// The token cannot read the plugin.
    Unknown,
}

/// The ledger of a set, as far as a plan depends on it. It guards removals and the data of volumes, and
/// distinguishes hidden values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedSet {
    /// The set's name.
    pub set: String,
    /// The volumes that it owns.
    pub volumes: BTreeMap<NamespacedId, OwnedVolume>,
    /// Volumes of the files that it does not own yet, because the first write of each was interrupted.
    pub interrupted: BTreeMap<NamespacedId, OwnedVolume>,
}

impl OwnedSet {
    /// Compares a set's ledger with the files. `secrets` returns the values of a specification's
    /// secrets; `None` if they could not be resolved, so that nothing is known about them.
    pub fn of(
        set: &LedgerSet,
        desired: &[VolumeSpec],
        secrets: impl Fn(&VolumeSpec) -> Option<Secrets>,
    ) -> Self {
        let specs = desired.iter().map(|spec| {
            let request = &spec.request;
            ((&request.namespace, &request.id), spec)
        });
        let specs: HashMap<(&Namespace, &VolumeId), &VolumeSpec> = specs.collect();
        let spec_of = |key: &NamespacedId| specs.get(&(&key.namespace, &key.id)).copied();
        let entry = |key: &NamespacedId, ownership: &Ownership| {
            let spec = spec_of(key);
            let volume = OwnedVolume::of(set, key, ownership, spec, &secrets);
            (key.clone(), volume)
        };
        let unowned = set.intents().filter(|(key, intent)| {
            intent.step.writes_values() && spec_of(key).is_some() && set.ownership(key).is_none()
        });
        Self {
            set: set.name().to_string(),
            volumes: set.owned().map(|(key, owned)| entry(key, owned)).collect(),
            interrupted: unowned.map(|(key, _)| entry(key, &Ownership::default())).collect(),
        }
    }

    /// Returns what is recorded of the values that a volume was last given.
    pub(super) fn recorded_values(&self, volume: &NamespacedId) -> Option<&OwnedVolume> {
        let owned = self.volumes.get(volume);
        owned.or_else(|| self.interrupted.get(volume))
    }
}

/// `same` is whether the file's value equals the applied value; `None` if the file has none.
fn recorded_value(stored: StoredValue, same: Option<bool>) -> RecordedValue {
    match (stored, same) {
        (StoredValue::Unknown, _) => RecordedValue::Unknown,
        (StoredValue::Empty, _) => RecordedValue::Empty,
        (StoredValue::Given, Some(true)) => RecordedValue::MatchesFile,
        (StoredValue::Given, Some(false) | None) => RecordedValue::DiffersFromFile,
    }
}

/// One volume of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedVolume {
    /// True if the volume is protected from removal.
    pub protect: bool,
    /// The data of the volume.
    pub data: RecordedData,
    /// The step of the set that was interrupted, so that its outcome is unknown.
    pub open_step: Option<IntentStep>,
    /// The recorded secrets, compared with those of the file.
    pub secrets: RecordedValue,
    /// The recorded mount flags, compared with those of the file.
    pub mount_flags: RecordedValue,
}

impl OwnedVolume {
    /// Compares the entry of a volume with its file. `secrets` is that of [`OwnedSet::of`].
    pub(super) fn of(
        set: &LedgerSet,
        key: &NamespacedId,
        ownership: &Ownership,
        spec: Option<&VolumeSpec>,
        secrets: impl Fn(&VolumeSpec) -> Option<Secrets>,
    ) -> Self {
        let given = spec.filter(|spec| spec.request.secrets.is_some()).map(secrets);
        let flags = spec
            .and_then(|spec| spec.request.mount_options.as_ref())
            .map(|options| options.mount_flags.as_slice())
            .filter(|flags| !flags.is_empty());
        let intent = set.intent(key);
        let is_uncertain = intent.is_some_and(|intent| intent.step.writes_values());
        // An interrupted write may have reached the server with values that another file had, so the values
        // of this file are written again.
        let same = |same: Option<bool>| same.map(|same| same && !is_uncertain);
        let applied = set.applied_values(key, ownership);
        Self {
            protect: ownership.protect,
            data: ownership.data.clone(),
            open_step: intent.map(|intent| intent.step),
            secrets: match (applied.secrets(), given) {
                (_, Some(None)) => RecordedValue::Unknown,
                (_, Some(Some(_))) if is_uncertain => RecordedValue::DiffersFromFile,
                (stored, given) => {
                    let given = given.flatten().filter(|given| !given.is_empty());
                    let given = given.and_then(|given| applied.are_secrets(&given));
                    recorded_value(stored, given)
                }
            },
            mount_flags: {
                let given = flags.and_then(|flags| applied.are_mount_flags(flags));
                recorded_value(applied.mount_flags(), same(given))
            },
        }
    }

    /// Returns the recorded data, if the volume on the server has other data. An interrupted create of
    /// the set may have made that data.
    pub(super) fn changed_data(&self, existing: &Volume) -> Option<&DataIdentity> {
        changed_data(&self.data, self.open_step, existing)
    }
}

/// A hidden value as the set last wrote it, compared with the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordedValue {
    /// Unknown: the set does not own the volume, or the ledger has no record of the value.
    #[default]
    Unknown,
    /// The volume had no value.
    Empty,
    /// The volume had a value, equal to the file's.
    MatchesFile,
    /// The volume had a value, and the file has another value or none.
    DiffersFromFile,
}

/// The options of a plan. Each one is explicit; none is ever inferred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanOptions {
    /// Deregister volumes that the set owns and no file names.
    pub prune: bool,
    /// Volumes to replace.
    pub replace: BTreeSet<NamespacedId>,
    /// Take a snapshot before a replacement.
    pub snapshot_first: bool,
    /// Volumes whose data to delete.
    pub delete_data: BTreeSet<NamespacedId>,
    /// Hidden values that an update may clear.
    pub accept_loss: BTreeSet<(HiddenField, NamespacedId)>,
    /// Changes that are forbidden.
    pub deny: BTreeSet<DenyRule>,
    /// Policies, which forbid more. A saved plan does not hold them: those of the command that applies it count.
    pub policies: Policies,
    /// Files with what is known of plugins. A saved plan does not hold them either.
    pub plugin_snapshots: PluginSnapshots,
    /// Do not ask providers which volumes they have.
    pub no_provider: bool,
    /// Volumes that may register data that another volume has.
    pub share: BTreeSet<NamespacedId>,
    /// Volumes that another run of the same command declares, each with its directory. They are not removed.
    pub declared_elsewhere: Arc<BTreeMap<NamespacedId, String>>,
}
