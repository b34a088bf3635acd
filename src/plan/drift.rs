//! Drift: what is otherwise on the server than this set left it (`users` 24).
//!
//! Drift is not what is pending. A file that was changed since the last apply is pending, and `plan`
//! shows it; a server on which somebody changed a volume has drifted. Telling the two apart takes the
//! ledger's hash per field: a field has drifted if the server's value has another hash than what was
//! applied. The value that was applied is known only if the file still says it.
//!
//! Without a ledger, or for a volume that was never applied with the set, the file takes the place of
//! what was applied: what differs is then told without a word on who changed it. What a server does
//! not show (secrets, flags that it redacts, what an old one leaves out) cannot be compared, and that
//! is told too. Nothing here is ever written anywhere, not even that all was well.

use std::collections::{BTreeMap, BTreeSet};

use super::diff::Shown;
use super::fields::{MOUNT_FLAGS, said, shown};
use super::ledger::{FieldHashes, Intent, LedgerKey, LedgerSet, Ownership, SeenEqual};
use super::rules::Unseen;
use crate::diagnostic::Span;
use crate::model::{HiddenField, NamespacedId, Secrets, Volume, WantedRequest};
use crate::spec::{Purpose, VolumeSpec, is_part_of};

/// Everything that drift is found from.
#[derive(Debug)]
pub struct DriftInputs<'a> {
    /// What the files want.
    pub wanted: &'a [VolumeSpec],
    /// What the ledger says of the set; `None` if there is none.
    pub set: Option<&'a LedgerSet>,
    /// What was found on the server, of the volumes of both.
    pub volumes: &'a BTreeMap<NamespacedId, Volume>,
    /// What this server does not show at all.
    pub unseen: Unseen,
    /// Fields that nobody wants to hear of, of any volume.
    pub ignore: &'a BTreeSet<String>,
}

/// One volume beside what was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeDrift {
    /// Its name.
    pub key: NamespacedId,
    /// Where a file wants it, if one does.
    pub span: Option<Span>,
    /// What it was held against.
    pub basis: Basis,
    /// How it is.
    pub state: DriftState,
    /// Its modify index now; `None` if it is not there.
    pub modify_index: Option<u64>,
    /// When it was last seen as it was applied.
    pub seen_equal: Option<SeenEqual>,
    /// Fields that the file says otherwise than they were last applied.
    pub pending: Vec<&'static str>,
    /// Fields that cannot be compared, because the server does not show them.
    pub hidden: Vec<&'static str>,
    /// Fields that have drifted, and nobody wants to hear of it.
    pub ignored: Vec<&'static str>,
    /// What was begun with it and not ended.
    pub unfinished: Option<Intent>,
}

impl VolumeDrift {
    /// Whether it is to be told.
    pub fn is_drift(&self) -> bool {
        matches!(self.state, DriftState::Changed(_) | DriftState::Gone)
    }
}

/// What a volume was held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// What was last applied, by the ledger.
    Applied,
    /// The file: what was applied is not known.
    File,
}

/// How a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriftState {
    /// As it was left, as far as it can be seen.
    Same,
    /// Otherwise, in these fields.
    Changed(Vec<FieldDrift>),
    /// It is not there.
    Gone,
    /// It is not there, and the set never applied it.
    NotYet,
    /// The set owns it, and neither the ledger nor a file says what it should be like.
    NotKnown,
}

impl DriftState {
    /// Its word: `changed`.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Changed(_) => "changed",
            Self::Gone => "gone",
            Self::NotYet => "not-applied-yet",
            Self::NotKnown => "not-known",
        }
    }
}

/// One field that is otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldDrift {
    /// Its key in a specification, dotted where it is nested.
    pub field: &'static str,
    /// What it was; `None` if only its hash is known.
    pub before: Option<Shown>,
    /// What it is.
    pub now: Shown,
    /// What the file says of it now.
    pub file: FileSays,
}

/// What a file says of a field that has drifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSays {
    /// What was applied: the next apply puts it back, where the server lets it.
    AsBefore,
    /// What the server has now: it was followed.
    AsNow,
    /// Something else again.
    Other,
    /// Nothing: nobody wants anything of it any more.
    Nothing,
}

/// Holds every volume of the files and of the set against what was left, by name.
pub fn drift(inputs: &DriftInputs<'_>) -> Vec<VolumeDrift> {
    let specs: BTreeMap<NamespacedId, &VolumeSpec> = inputs
        .wanted
        .iter()
        .map(|spec| (spec.key(), spec))
        .collect();
    let owned = inputs.set.into_iter().flat_map(LedgerSet::owned);
    let keys: BTreeSet<&NamespacedId> = specs.keys().chain(owned.map(|(key, _)| key)).collect();
    keys.into_iter()
        .map(|key| of_volume(key, specs.get(key).copied(), inputs))
        .collect()
}

fn of_volume(
    key: &NamespacedId,
    spec: Option<&VolumeSpec>,
    inputs: &DriftInputs<'_>,
) -> VolumeDrift {
    let owned = inputs.set.and_then(|set| set.ownership(key));
    let existing = inputs.volumes.get(key);
    let applied = owned.filter(|owned| !owned.applied.is_empty());
    let mut found = VolumeDrift {
        key: key.clone(),
        span: spec.map(|spec| spec.span),
        basis: applied.map_or(Basis::File, |_| Basis::Applied),
        state: DriftState::Same,
        modify_index: existing.map(|volume| volume.modify_index),
        seen_equal: owned.and_then(|owned| owned.seen_equal),
        pending: vec![],
        hidden: vec![],
        ignored: vec![],
        unfinished: inputs.set.and_then(|set| set.intent(key).cloned()),
    };
    let Some(existing) = existing else {
        let was_there = owned.is_some() || inputs.set.is_none();
        found.state = if was_there {
            DriftState::Gone
        } else {
            DriftState::NotYet
        };
        return found;
    };
    match Compared::of(spec, applied, inputs) {
        Some(compared) => compared.fill(&mut found, existing, spec, inputs),
        None => found.state = DriftState::NotKnown,
    }
    found
}

/// What a volume is held against.
struct Compared {
    key: LedgerKey,
    before: FieldHashes,
    file: Option<WantedRequest>,
    of_file: FieldHashes,
    unknown: BTreeSet<HiddenField>,
}

impl Compared {
    /// `None` if neither the ledger nor a file says anything.
    fn of(
        spec: Option<&VolumeSpec>,
        applied: Option<&Ownership>,
        inputs: &DriftInputs<'_>,
    ) -> Option<Self> {
        // Hashes that are only compared with each other can have any key.
        let key = inputs
            .set
            .map_or_else(|| LedgerKey::new([0; 32]), |set| set.key().clone());
        let file = spec.map(|spec| spec.request_for(Purpose::ByExternalId));
        let mut of_file = file
            .as_ref()
            .map(|request| key.of_wanted(request))
            .unwrap_or_default();
        let unknown = spec.map(|spec| spec.unknown.clone()).unwrap_or_default();
        if unknown.contains(&HiddenField::MountFlags) {
            of_file.remove(MOUNT_FLAGS);
        }
        let before = match (applied, &file) {
            (Some(owned), _) => owned.applied.clone(),
            (None, Some(_)) => of_file.clone(),
            (None, None) => return None,
        };
        Some(Self {
            key,
            before,
            file,
            of_file,
            unknown,
        })
    }

    fn fill(
        &self,
        found: &mut VolumeDrift,
        existing: &Volume,
        spec: Option<&VolumeSpec>,
        inputs: &DriftInputs<'_>,
    ) {
        let now = self.key.of_volume(existing);
        let unseen = inputs.unseen.fields();
        let mut changed = vec![];
        if self.has_secrets(&found.key) {
            found.hidden.push("secrets");
        }
        if self.unknown.contains(&HiddenField::MountFlags) && !self.before.contains_key(MOUNT_FLAGS)
        {
            found.hidden.push(MOUNT_FLAGS);
        }
        for (field, value) in shown(existing) {
            let Some(before) = self.before.get(field) else {
                continue;
            };
            let is_unseen = unseen.iter().any(|of| is_part_of(field, of));
            let is_ignored = spec.is_some_and(|spec| spec.ignores(field))
                || inputs.ignore.iter().any(|of| is_part_of(field, of));
            if is_unseen || !self.can_be_told(field, &now, existing) {
                found.hidden.push(field);
            } else if now.get(field) != Some(before) && is_ignored {
                found.ignored.push(field);
            } else if now.get(field) != Some(before) {
                changed.push(self.field(field, value, &now));
            }
            if self.of_file.get(field).is_some_and(|file| file != before) {
                found.pending.push(field);
            }
        }
        found.pending.extend(self.newly_said());
        if !changed.is_empty() {
            found.state = DriftState::Changed(changed);
        }
    }

    fn has_secrets(&self, volume: &NamespacedId) -> bool {
        let given = |file: &WantedRequest| file.secrets.is_some();
        let none = self.key.of_secrets(volume, &Secrets::default());
        self.before.get("secrets").is_some_and(|hash| *hash != none)
            || self.unknown.contains(&HiddenField::Secrets)
            || self.file.as_ref().is_some_and(given)
    }

    /// Redacted flags are some flags: that there were none before can be told, and nothing else.
    fn can_be_told(&self, field: &str, now: &FieldHashes, existing: &Volume) -> bool {
        let none = self.key.of_mount_flags(&existing.key(), &[]);
        now.contains_key(field) || self.before.get(field) == Some(&none)
    }

    /// What the file says, and what was never applied.
    fn newly_said(&self) -> Vec<&'static str> {
        let Some(file) = &self.file else {
            return vec![];
        };
        let said = said(file).into_iter().map(|(field, _)| field);
        said.filter(|field| self.of_file.contains_key(*field) && !self.before.contains_key(*field))
            .collect()
    }

    fn field(&self, field: &'static str, value: Shown, now: &FieldHashes) -> FieldDrift {
        let before = self.before.get(field);
        let file = match self.of_file.get(field) {
            None => FileSays::Nothing,
            file if file == before => FileSays::AsBefore,
            file if file == now.get(field) => FileSays::AsNow,
            Some(_) => FileSays::Other,
        };
        let told = self.file.iter().flat_map(said);
        let mut told = told.filter(|(of, _)| *of == field);
        FieldDrift {
            field,
            before: match file {
                FileSays::AsBefore => told.next().map(|(_, value)| value),
                FileSays::AsNow | FileSays::Other | FileSays::Nothing => None,
            },
            now: value,
            file,
        }
    }
}

#[cfg(test)]
mod tests;
