//! Values that a server has and does not show: secrets, and mount flags where they are redacted.
//!
//! They are no difference by themselves, since nobody can compare them; but an update replaces them
//! by what it says, also by nothing (W20), so that leaving them out of a file loses them (`users` 10
//! and 11). The ledger remembers whether there were any, and a keyed hash of them.
//!
//! So a hidden value that the file does not give is unknown: no difference, but no write either,
//! until somebody gives it, says that there shall be none, or accepts the loss. What a server shows
//! in its place is never sent back to it.

use super::diff::{Change, Shown};
use super::inputs::Owned;
use super::rules::OmittedMap;
use crate::model::{MountOptions, Volume, WantedRequest};
use crate::spec::VolumeSpec;

/// A field whose value a server does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HiddenField {
    /// What the provider wants to see.
    Secrets,
    /// Flags for mount(8), which may hold passwords.
    MountFlags,
}

impl HiddenField {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Secrets, Self::MountFlags];

    /// The word that people type: `mount_flags`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Secrets => "secrets",
            Self::MountFlags => "mount_flags",
        }
    }
}

impl std::fmt::Display for HiddenField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

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
    None,
    Some,
}

impl HiddenValues {
    pub(super) fn of(spec: &VolumeSpec, existing: &Volume, owned: Option<&Owned>) -> Self {
        let entry = owned.and_then(|owned| owned.volumes.get(&spec.key()));
        let request = &spec.request;
        let secrets = match &request.secrets {
            None => Said::Nothing,
            Some(secrets) if secrets.is_empty() => Said::None,
            Some(_) => Said::Some,
        };
        let flags = match &request.mount_options {
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
    pub(super) fn marked(&self, mut volume: Volume) -> Volume {
        let differ = self.flags == Said::Some && self.flags_before == Remembered::Other;
        if let Some(options) = &mut volume.mount_options
            && self.flags_redacted
            && differ
        {
            options.mount_flags = vec!["other flags, which are hidden".to_owned()];
        }
        volume
    }

    /// The request as it is compared, and never sent: of flags that the file says nothing about, as
    /// the server shows them.
    pub(super) fn with_unsaid(&self, request: &WantedRequest) -> WantedRequest {
        let mut request = request.clone();
        if self.loses_flags() {
            let options = request.mount_options.get_or_insert_default();
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
            (Said::Nothing, _)
            | (Said::None | Said::Some, Remembered::Unknown | Remembered::AsGiven)
            | (Said::None, Remembered::Absent) => return None,
        };
        let field = "secrets";
        Some(Change { field, old, new })
    }

    /// What a write would lose for certain.
    pub(super) fn losses(&self, omitted_secrets: OmittedMap) -> Vec<HiddenField> {
        let mut losses = vec![];
        let had_secrets = self.secrets_before == Remembered::Other;
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
        self.omits_secrets(omitted_secrets) && self.secrets_before == Remembered::Unknown
    }

    fn omits_secrets(&self, omitted: OmittedMap) -> bool {
        self.secrets == Said::Nothing && omitted == OmittedMap::Wipe
    }

    fn loses_flags(&self) -> bool {
        self.flags_redacted && self.flags == Said::Nothing
    }
}

#[cfg(test)]
mod tests;
