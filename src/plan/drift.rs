//! Drift: changes on the server since the set was last applied.
//!
//! A change in a file since the last apply is pending, not drift. The ledger's hash of each field
//! separates the two: a field has drifted if the hash of the server's value differs from the hash of
//! the applied value. The applied value itself is known only if the file still has it. What a plan of
//! the unchanged file would change has drifted too, so drift and plan agree.
//!
//! Without a ledger entry the file is the baseline, so the difference may come from either side.
//! Fields that the server does not show cannot be compared, and the result lists them. Checking for
//! drift writes nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::diff::{FieldValue, request_fields, volume_fields};
use super::inputs::{OwnedSet, OwnedVolume};
use super::ledger::{DataIdentity, FieldHashes, LedgerKey, LedgerSet, MOUNT_FLAGS, Ownership};
use super::provider_list::{Evidence, ProviderList, evidence};
use super::rules::MergeRules;
use super::update::fields_unlike_file;
use super::volume_drift::{Baseline, DriftState, FieldDrift, FileState, VolumeDrift};
use nomad_csi_model::{
    ExternalId, HiddenField, MountOptions, NamespacedId, PluginId, Secrets, UnresolvedRequest,
    Volume,
};
use nomad_csi_spec::{Purpose, VolumeSpec, is_part_of};

/// The inputs of a drift check.
#[derive(Debug)]
pub struct DriftInputs<'a> {
    /// The specifications.
    pub desired: &'a [VolumeSpec],
    /// The set's ledger; `None` if there is no set.
    pub set: Option<&'a LedgerSet>,
    /// The specified and owned volumes that exist on the server.
    pub volumes: &'a BTreeMap<NamespacedId, Volume>,
    /// How the server merges updates, and which fields it does not show.
    pub rules: MergeRules,
    /// The volume lists of the providers that were asked.
    pub provided: &'a BTreeMap<PluginId, ProviderList>,
    /// Fields to ignore, in every volume.
    pub ignore: &'a BTreeSet<String>,
}

/// Compares every volume of the files and of the set with its baseline, by name.
pub fn detect_drift(inputs: &DriftInputs<'_>) -> Vec<VolumeDrift> {
    let specs: BTreeMap<NamespacedId, &VolumeSpec> =
        inputs.desired.iter().map(|spec| (spec.key(), spec)).collect();
    // Drift does not look up secrets, which no server shows.
    let recorded = inputs.set.map(|set| OwnedSet::of(set, inputs.desired, |_| None));
    let owned = inputs.set.into_iter().flat_map(LedgerSet::owned);
    let keys: BTreeSet<&NamespacedId> = specs.keys().chain(owned.map(|(key, _)| key)).collect();
    keys.into_iter()
        .map(|key| drift_of(key, specs.get(key).copied(), recorded.as_ref(), inputs))
        .collect()
}

fn drift_of(
    key: &NamespacedId,
    spec: Option<&VolumeSpec>,
    recorded: Option<&OwnedSet>,
    inputs: &DriftInputs<'_>,
) -> VolumeDrift {
    let owned = inputs.set.and_then(|set| set.ownership(key));
    let existing = inputs.volumes.get(key);
    let applied = owned.filter(|owned| !owned.applied.is_empty());
    let mut found = VolumeDrift {
        key: key.clone(),
        span: spec.map(|spec| spec.span),
        baseline: applied.map_or(Baseline::File, |_| Baseline::Applied),
        state: DriftState::Unchanged,
        spec_index: existing.map(|volume| volume.spec_index),
        last_verified: owned.and_then(|owned| owned.last_verified),
        pending: vec![],
        not_comparable: vec![],
        ignored: vec![],
        interrupted_step: inputs.set.and_then(|set| set.intent(key).cloned()),
    };
    let Some(existing) = existing else {
        let was_applied = owned.is_some() || inputs.set.is_none();
        found.state = if was_applied { DriftState::Gone } else { DriftState::NotApplied };
        return found;
    };
    let comparison = Comparison::of(spec, applied, inputs);
    let owned = recorded.and_then(|recorded| recorded.volumes.get(key));
    // These values are known, so they come before the fields whose hash is known. A plan reverses an exchange of data
    // whatever the file ignores.
    let exchanged = exchanged_data(owned, existing, spec);
    let mut changed = vec![];
    if let Some(comparison) = &comparison {
        let unlike = spec.map(|spec| fields_unlike_file(spec, existing, recorded, inputs.rules));
        changed.extend(comparison.hashed(&mut found, existing, inputs));
        changed.extend(comparison.unlike_file(&mut found, existing, &unlike.unwrap_or_default()));
    }
    let is_known = comparison.is_some();
    found.set_changed(exchanged, changed, spec, inputs.ignore, is_known);
    match evidence(inputs.provided, &DataIdentity::of(existing)) {
        Evidence::NotListed => found.set_data_gone(),
        Evidence::Listed(_) | Evidence::Unknown(_) => {}
    }
    found
}

impl VolumeDrift {
    /// Sets the state from exchanged data and the changed fields, without those that are ignored. A plan leaves ignored
    /// fields as the server has them, so their changes in the file are not pending either.
    fn set_changed(
        &mut self,
        exchanged: Vec<FieldDrift>,
        changed: Vec<FieldDrift>,
        spec: Option<&VolumeSpec>,
        ignore: &BTreeSet<String>,
        is_known: bool,
    ) {
        let ignores = |field: &str| {
            spec.is_some_and(|spec| spec.ignores(field))
                || ignore.iter().any(|of| is_part_of(field, of))
        };
        self.pending.retain(|field| !ignores(field));
        let mut fields = exchanged;
        for drift in changed {
            let field = drift.field;
            let is_ignored = ignores(field);
            if is_ignored && !self.ignored.contains(&field) {
                self.ignored.push(field);
            }
            if !is_ignored && !fields.iter().any(|one| one.field == field) {
                fields.push(drift);
            }
        }
        self.state = match (fields.is_empty(), is_known) {
            (false, _) => DriftState::Changed(fields),
            (true, true) => DriftState::Unchanged,
            (true, false) => DriftState::Unknown,
        };
    }
}

impl VolumeDrift {
    /// Sets the state of a volume whose provider no longer lists its data.
    fn set_data_gone(&mut self) {
        let fields = match std::mem::replace(&mut self.state, DriftState::Unchanged) {
            DriftState::Changed(fields) | DriftState::DataGone(fields) => fields,
            DriftState::Unchanged
            | DriftState::Gone
            | DriftState::NotApplied
            | DriftState::Unknown => vec![],
        };
        self.state = DriftState::DataGone(fields);
    }
}

/// Returns the parts of the data's name that differ from the set's record.
fn exchanged_data(
    recorded: Option<&OwnedVolume>,
    existing: &Volume,
    spec: Option<&VolumeSpec>,
) -> Vec<FieldDrift> {
    let Some(before) = recorded.and_then(|recorded| recorded.changed_data(existing)) else {
        return vec![];
    };
    let now = DataIdentity::of(existing);
    let file = spec.map(|spec| &spec.request);
    let file_id = file.and_then(|file| file.external_id.as_ref());
    let fields = [
        (
            "plugin_id",
            before.plugin_id.as_str(),
            now.plugin_id.as_str(),
            file.map(|file| file.plugin_id.as_str()),
        ),
        (
            "external_id",
            before.external_id.as_str(),
            now.external_id.as_str(),
            file_id.map(ExternalId::as_str),
        ),
    ];
    let changed = fields.into_iter().filter(|(_, before, now, _)| before != now);
    let drift = changed.map(|(field, before, now, file)| FieldDrift {
        field,
        before: Some(FieldValue::Text(before.to_owned())),
        now: FieldValue::Text(now.to_owned()),
        file: match file {
            None => FileState::Omitted,
            Some(file) if file == before => FileState::MatchesBefore,
            Some(file) if file == now => FileState::MatchesNow,
            Some(_) => FileState::Differs,
        },
    });
    drift.collect()
}

/// Fields that stay as they are if the file gives an empty value or none.
const KEPT_IF_EMPTY: [&str; 6] =
    ["name", "external_id", "snapshot_id", "clone_id", "parameters", "context"];

/// Returns the name by which a plan reports a difference in the size.
fn capacity_of(field: &str) -> &str {
    match field {
        "capacity_min" | "capacity_max" => "capacity",
        field => field,
    }
}

/// The baseline and the file of one volume.
struct Comparison {
    key: LedgerKey,
    before: FieldHashes,
    file: Option<UnresolvedRequest>,
    of_file: FieldHashes,
    unknown: BTreeSet<HiddenField>,
}

impl Comparison {
    /// Returns `None` if neither the ledger nor a file has a baseline.
    fn of(
        spec: Option<&VolumeSpec>,
        applied: Option<&Ownership>,
        inputs: &DriftInputs<'_>,
    ) -> Option<Self> {
        // Any key will do for hashes that are only compared with each other.
        let key = inputs.set.map_or_else(|| LedgerKey::new([0; 32]), |set| set.key().clone());
        let file = spec.map(|spec| spec.request_for(Purpose::ByExternalId));
        let mut of_file = file.as_ref().map(|request| key.of_desired(request)).unwrap_or_default();
        let unknown = spec.map(|spec| spec.unknown.clone()).unwrap_or_default();
        if unknown.contains(&HiddenField::MountFlags) {
            of_file.remove(MOUNT_FLAGS);
        }
        let before = match (applied, &file) {
            (Some(owned), _) => owned.applied.clone(),
            (None, Some(_)) => of_file.clone(),
            (None, None) => return None,
        };
        Some(Self { key, before, file, of_file, unknown })
    }

    /// Returns the fields whose value on the server has another hash than the applied value.
    fn hashed(
        &self,
        found: &mut VolumeDrift,
        existing: &Volume,
        inputs: &DriftInputs<'_>,
    ) -> Vec<FieldDrift> {
        let now = self.key.of_volume(existing);
        let unreported = inputs.rules.unreported.fields();
        let mut changed = vec![];
        if self.has_secrets(&found.key) {
            found.not_comparable.push("secrets");
        }
        let marked_unknown = self.unknown.contains(&HiddenField::MountFlags);
        if !self.before.contains_key(MOUNT_FLAGS) && (marked_unknown || self.hides_flags(existing))
        {
            found.not_comparable.push(MOUNT_FLAGS);
        }
        for (field, value) in volume_fields(existing) {
            let Some(before) = self.before.get(field) else {
                continue;
            };
            let is_unreported = unreported.iter().any(|of| is_part_of(field, of));
            if is_unreported || !self.is_comparable(field, &now, existing) {
                found.not_comparable.push(field);
            } else if now.get(field) != Some(before) && !self.keeps_stored(field, existing) {
                changed.push(self.field(field, value, &now));
            }
            if self.of_file.get(field).is_some_and(|file| file != before) {
                found.pending.push(field);
            }
        }
        let mut newly_specified = self.newly_specified();
        newly_specified.retain(|field| !found.not_comparable.contains(field));
        found.pending.extend(newly_specified);
        changed
    }

    /// Returns the fields that a plan of the file would change although the file is as it was applied.
    /// Changes of the file are pending.
    fn unlike_file(
        &self,
        found: &mut VolumeDrift,
        existing: &Volume,
        unlike: &[&'static str],
    ) -> Vec<FieldDrift> {
        if unlike.is_empty() {
            return vec![];
        }
        let empty = self.key.of_empty(existing);
        let now = self.key.of_volume(existing);
        let mut changed = vec![];
        for (field, value) in volume_fields(existing) {
            if !unlike.iter().any(|of| is_part_of(field, of) || *of == capacity_of(field)) {
                continue;
            }
            let none = empty.get(field);
            let before = self.before.get(field).or(none);
            let file = self.of_file.get(field).or(none);
            if file != before {
                if !found.pending.contains(&field) {
                    found.pending.push(field);
                }
            } else if now.get(field) != before && !found.not_comparable.contains(&field) {
                changed.push(self.field(field, value, &now));
            }
        }
        changed
    }

    /// Returns whether the applied value is empty and means that the stored value stays, as in a plan.
    fn keeps_stored(&self, field: &str, existing: &Volume) -> bool {
        let is_empty = self.key.of_empty(existing).get(field) == self.before.get(field);
        is_empty && KEPT_IF_EMPTY.contains(&field)
    }

    /// Returns whether the server hides which flags the volume has, and the file gives some.
    fn hides_flags(&self, existing: &Volume) -> bool {
        let options = existing.mount_options.as_ref();
        let are_redacted = options.is_some_and(MountOptions::are_redacted);
        let none = self.key.of_mount_flags(&existing.key(), &[]);
        let in_file = self.of_file.get(MOUNT_FLAGS);
        are_redacted && in_file.is_some_and(|file| *file != none)
    }

    fn has_secrets(&self, volume: &NamespacedId) -> bool {
        let given = |file: &UnresolvedRequest| file.secrets.is_some();
        let none = self.key.of_secrets(volume, &Secrets::default());
        self.before.get("secrets").is_some_and(|hash| *hash != none)
            || self.unknown.contains(&HiddenField::Secrets)
            || self.file.as_ref().is_some_and(given)
    }

    /// Returns whether a field can be compared. Redacted flags compare only with a baseline of no flags.
    fn is_comparable(&self, field: &str, now: &FieldHashes, existing: &Volume) -> bool {
        let none = self.key.of_mount_flags(&existing.key(), &[]);
        now.contains_key(field) || self.before.get(field) == Some(&none)
    }

    /// Returns the fields that the file specifies and that were never applied.
    fn newly_specified(&self) -> Vec<&'static str> {
        let Some(file) = &self.file else {
            return vec![];
        };
        let fields = request_fields(file).map(|(field, _)| field);
        fields
            .filter(|field| self.of_file.contains_key(*field) && !self.before.contains_key(*field))
            .collect()
    }

    fn field(&self, field: &'static str, value: FieldValue, now: &FieldHashes) -> FieldDrift {
        let before = self.before.get(field);
        let file = match self.of_file.get(field) {
            None => FileState::Omitted,
            file if file == before => FileState::MatchesBefore,
            file if file == now.get(field) => FileState::MatchesNow,
            Some(_) => FileState::Differs,
        };
        let values = self.file.iter().flat_map(request_fields);
        let mut values = values.filter(|(of, _)| *of == field);
        FieldDrift {
            field,
            before: match file {
                FileState::MatchesBefore => values.next().map(|(_, value)| value),
                FileState::Omitted if before.is_none() => Some(FieldValue::Absent),
                FileState::MatchesNow | FileState::Differs | FileState::Omitted => None,
            },
            now: value,
            file,
        }
    }
}

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod tests;
