//! Values that a server has and does not show: secrets, and mount flags where they are redacted.
//!
//! They are no difference by themselves, since nobody can compare them; but an update replaces them
//! by what it says, also by nothing (W20), so that leaving them out of a file loses them (`users` 10
//! and 11). The ledger remembers whether there were any, and a keyed hash of them.
//!
//! So a hidden value that the file does not give, or that it says to be `unknown`, is unknown: no
//! difference, but no write either, until somebody gives it, says that there shall be none, or accepts the loss. What a server shows
//! in its place is never sent back to it.

use std::borrow::Cow;

use super::diff::{Change, Shown};
use super::inputs::Owned;
use super::rules::OmittedMap;
use crate::model::{HiddenField, MountOptions, Volume, WantedRequest};
use crate::spec::VolumeSpec;

/// What the ledger remembers of a hidden value that this set wrote last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Remembered {
    /// Nothing is known: the volume is not the set's, or the ledger is older than it.
    #[default]
    Unknown,
    /// There was none.
    Absent,
    /// There was one, and it is what the file gives.
    AsGiven,
    /// There was one, and the file gives another or none.
    Other,
}

/// The hidden values of one volume: what the file says of them, and what is remembered.
#[derive(Clone, Copy, Debug)]
pub(super) struct HiddenValues {
    secrets: Said,
    secrets_before: Remembered,
    /// Whether the server has flags and does not show them.
    flags_redacted: bool,
    flags: Said,
    flags_before: Remembered,
}

/// What a file says of a hidden value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    /// That nobody knows it: nothing, and that was meant.
    Unknown,
    None,
    Some,
}

impl HiddenValues {
    pub(super) fn of(spec: &VolumeSpec, existing: &Volume, owned: Option<&Owned>) -> Self {
        let entry = owned.and_then(|owned| owned.volumes.get(&spec.key()));
        let request = &spec.request;
        let unknown = |field| spec.unknown.contains(&field);
        let secrets = match &request.secrets {
            None if unknown(HiddenField::Secrets) => Said::Unknown,
            None => Said::Nothing,
            Some(secrets) if secrets.is_empty() => Said::None,
            Some(_) => Said::Some,
        };
        let flags = match &request.mount_options {
            Some(_) if unknown(HiddenField::MountFlags) => Said::Unknown,
            Some(options) if !options.mount_flags.is_empty() => Said::Some,
            Some(options) if options.is_empty() => Said::None,
            Some(_) | None => Said::Nothing,
        };
        let options = existing.mount_options.as_ref();
        Self {
            secrets,
            secrets_before: entry.map(|entry| entry.secrets).unwrap_or_default(),
            flags_redacted: options.is_some_and(MountOptions::are_redacted),
            flags,
            flags_before: entry.map(|entry| entry.mount_flags).unwrap_or_default(),
        }
    }

    /// The volume, with its flags told apart from the file's if the ledger knows that they differ.
    pub(super) fn marked<'a>(&self, mut volume: Cow<'a, Volume>) -> Cow<'a, Volume> {
        let differ = self.flags == Said::Some && self.flags_before == Remembered::Other;
        if self.flags_redacted
            && differ
            && let Some(options) = &mut volume.to_mut().mount_options
        {
            options.mount_flags = vec!["other flags, which are hidden".to_owned()];
        }
        volume
    }

    /// The request as it is compared, and never sent: of flags that the file says nothing about, as
    /// the server shows them.
    pub(super) fn with_unsaid<'a>(&self, request: &'a WantedRequest) -> Cow<'a, WantedRequest> {
        let mut request = Cow::Borrowed(request);
        if self.loses_flags() {
            let options = request.to_mut().mount_options.get_or_insert_default();
            options.mount_flags = vec![MountOptions::REDACTED.to_owned()];
        }
        request
    }

    /// Other secrets than those that were last applied.
    pub(super) fn changed_secrets(&self) -> Option<Change> {
        let (old, new) = match (self.secrets, self.secrets_before) {
            (Said::Some, Remembered::Other) => (Shown::Hidden, Shown::Hidden),
            (Said::Some, Remembered::Absent) => (Shown::Absent, Shown::Hidden),
            (Said::None, Remembered::Other) => (Shown::Hidden, Shown::Absent),
            (Said::Nothing | Said::Unknown, _)
            | (Said::None | Said::Some, Remembered::Unknown | Remembered::AsGiven)
            | (Said::None, Remembered::Absent) => return None,
        };
        let field = "secrets";
        Some(Change { field, old, new })
    }

    /// What a write would lose for certain.
    pub(super) fn losses(&self, omitted_secrets: OmittedMap) -> Vec<HiddenField> {
        let mut losses = vec![];
        let had_secrets = match self.secrets_before {
            Remembered::Other | Remembered::AsGiven => true,
            Remembered::Unknown => self.secrets == Said::Unknown,
            Remembered::Absent => false,
        };
        if self.omits_secrets(omitted_secrets) && had_secrets {
            losses.push(HiddenField::Secrets);
        }
        if self.loses_flags() {
            losses.push(HiddenField::MountFlags);
        }
        losses
    }

    /// Whether a write loses the secrets, if there are any: nobody knows.
    pub(super) fn may_lose_secrets(&self, omitted_secrets: OmittedMap) -> bool {
        let unknown = self.secrets_before == Remembered::Unknown && self.secrets == Said::Nothing;
        self.omits_secrets(omitted_secrets) && unknown
    }

    fn omits_secrets(&self, omitted: OmittedMap) -> bool {
        matches!(self.secrets, Said::Nothing | Said::Unknown) && omitted == OmittedMap::Wipe
    }

    fn loses_flags(&self) -> bool {
        self.flags_redacted && matches!(self.flags, Said::Nothing | Said::Unknown)
    }
}

#[cfg(test)]
mod tests;
