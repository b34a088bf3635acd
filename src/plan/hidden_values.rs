//! Values that a server stores and does not show: secrets, and mount flags where it redacts them.
//!
//! Hidden values cannot be compared, so they are never a difference by themselves. But an update
//! replaces them, and an update without them clears them (W20). The ledger records whether a volume
//! had any, with a keyed hash.
//!
//! Mount flags of a volume that the ledger knows without any are a difference, not a hidden value: no apply
//! gave them. A hidden value that the file omits or marks `unknown` blocks every update of the volume, until the
//! file sets it, sets it to empty, or the operator accepts the loss. The server's placeholder is never
//! sent back.

use std::borrow::Cow;

use super::diff::{Change, FieldValue};
use super::inputs::{OwnedVolume, RecordedValue};
use super::ledger::MOUNT_FLAGS;
use super::merge::SecretsChange;
use super::rules::OmittedMap;
use nomad_csi_model::{HiddenField, MountOptions, UnresolvedRequest, Volume};
use nomad_csi_spec::VolumeSpec;

/// The hidden values of one volume, in the file and in the ledger.
#[derive(Clone, Copy, Debug)]
pub(super) struct HiddenValues {
    secrets: FileValue,
    recorded_secrets: RecordedValue,
    /// True if the server stores flags and redacts them.
    flags_redacted: bool,
    flags: FileValue,
    recorded_flags: RecordedValue,
}

/// A hidden value in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileValue {
    Omitted,
    /// Marked `unknown`: omitted on purpose.
    Unknown,
    Empty,
    Given,
}

impl HiddenValues {
    pub(super) fn of(spec: &VolumeSpec, existing: &Volume, owned: Option<&OwnedVolume>) -> Self {
        let request = &spec.request;
        let unknown = |field| spec.unknown.contains(&field);
        // Flags that the file ignores are never a difference, and no update clears them unasked.
        let ignores_flags = spec.ignores(MOUNT_FLAGS);
        let flags = match &request.mount_options {
            Some(_) if unknown(HiddenField::MountFlags) => FileValue::Unknown,
            Some(options) if !options.mount_flags.is_empty() => FileValue::Given,
            Some(options) if options.is_empty() && !ignores_flags => FileValue::Empty,
            Some(_) | None => FileValue::Omitted,
        };
        let options = existing.mount_options.as_ref();
        Self {
            secrets: secrets_in_file(spec),
            recorded_secrets: owned.map(|owned| owned.secrets).unwrap_or_default(),
            flags_redacted: options.is_some_and(MountOptions::are_redacted),
            flags,
            recorded_flags: owned
                .filter(|_| !ignores_flags)
                .map(|owned| owned.mount_flags)
                .unwrap_or_default(),
        }
    }

    /// Returns the volume with flags that differ from the file's, if the ledger shows that they differ.
    pub(super) fn with_distinct_flags<'a>(&self, mut volume: Cow<'a, Volume>) -> Cow<'a, Volume> {
        let differ =
            self.flags == FileValue::Given && self.recorded_flags == RecordedValue::DiffersFromFile;
        if self.flags_redacted
            && differ
            && let Some(options) = &mut volume.to_mut().mount_options
        {
            options.mount_flags = vec!["other flags, which are hidden".to_owned()];
        }
        volume
    }

    /// Returns the request for comparison only, never to be sent: flags that the file omits are
    /// those that the server shows.
    pub(super) fn with_stored_flags<'a>(
        &self,
        mut request: Cow<'a, UnresolvedRequest>,
        shown: &Volume,
    ) -> Cow<'a, UnresolvedRequest> {
        let shows_flags = shown.mount_options.as_ref().is_some_and(MountOptions::are_redacted);
        if self.clears_flags() && shows_flags {
            let options = request.to_mut().mount_options.get_or_insert_default();
            options.mount_flags = vec![MountOptions::REDACTED.to_owned()];
        }
        request
    }

    /// Returns the change if the file's secrets differ from those that were last applied.
    pub(super) fn changed_secrets(&self) -> Option<Change> {
        secrets_change(self.secrets, self.recorded_secrets)
    }

    /// Returns the hidden values that an update certainly clears.
    pub(super) fn cleared_fields(&self, omitted_secrets: OmittedMap) -> Vec<HiddenField> {
        let mut cleared = vec![];
        let had_secrets = match self.recorded_secrets {
            RecordedValue::DiffersFromFile | RecordedValue::MatchesFile => true,
            RecordedValue::Unknown => self.secrets == FileValue::Unknown,
            RecordedValue::Empty => false,
        };
        if self.omits_secrets(omitted_secrets) && had_secrets {
            cleared.push(HiddenField::Secrets);
        }
        if self.clears_flags() {
            cleared.push(HiddenField::MountFlags);
        }
        cleared
    }

    /// Returns what an update does to the secrets. Clearing those of a volume that was applied without any does nothing.
    pub(super) fn effect_on_secrets(&self, change: SecretsChange) -> SecretsChange {
        match change {
            SecretsChange::Clear if self.recorded_secrets == RecordedValue::Empty => {
                SecretsChange::Keep
            }
            SecretsChange::Clear | SecretsChange::Keep | SecretsChange::Replace => change,
        }
    }

    /// Returns whether an update would clear the secrets if there are any, which is unknown.
    pub(super) fn may_clear_secrets(&self, omitted_secrets: OmittedMap) -> bool {
        let unknown =
            self.recorded_secrets == RecordedValue::Unknown && self.secrets == FileValue::Omitted;
        self.omits_secrets(omitted_secrets) && unknown
    }

    fn omits_secrets(&self, omitted: OmittedMap) -> bool {
        matches!(self.secrets, FileValue::Omitted | FileValue::Unknown)
            && omitted == OmittedMap::Clear
    }

    /// Returns whether an update clears flags that the file does not give. Flags of a volume that was applied
    /// without any came from elsewhere, and are a difference like any other.
    fn clears_flags(&self) -> bool {
        let is_given = match self.flags {
            FileValue::Unknown => false,
            FileValue::Omitted => self.recorded_flags == RecordedValue::Empty,
            FileValue::Empty | FileValue::Given => true,
        };
        self.flags_redacted && !is_given
    }
}

/// Returns whether a plan changes the secrets of a volume, whatever else the volume has.
pub(super) fn changes_secrets(spec: &VolumeSpec, owned: &OwnedVolume) -> bool {
    secrets_change(secrets_in_file(spec), owned.secrets).is_some()
}

fn secrets_in_file(spec: &VolumeSpec) -> FileValue {
    match &spec.request.secrets {
        None if spec.unknown.contains(&HiddenField::Secrets) => FileValue::Unknown,
        None => FileValue::Omitted,
        Some(secrets) if secrets.is_empty() => FileValue::Empty,
        Some(_) => FileValue::Given,
    }
}

fn secrets_change(file: FileValue, recorded: RecordedValue) -> Option<Change> {
    let (old, new) = match (file, recorded) {
        (FileValue::Given, RecordedValue::DiffersFromFile) => {
            (FieldValue::Hidden, FieldValue::Hidden)
        }
        (FileValue::Given, RecordedValue::Empty) => (FieldValue::Absent, FieldValue::Hidden),
        (FileValue::Empty, RecordedValue::DiffersFromFile) => {
            (FieldValue::Hidden, FieldValue::Absent)
        }
        (FileValue::Omitted | FileValue::Unknown, _)
        | (
            FileValue::Empty | FileValue::Given,
            RecordedValue::Unknown | RecordedValue::MatchesFile,
        )
        | (FileValue::Empty, RecordedValue::Empty) => return None,
    };
    let field = "secrets";
    Some(Change { field, old, new })
}

#[cfg(test)]
mod tests;
