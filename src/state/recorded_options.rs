//! Mount options as they are kept: the flags only sealed.
//!
//! Flags may hold passwords (CIFS, GlusterFS), and the journal is copied for backups. So they are
//! sealed as secrets are, and whoever has no key sees only whether there are any.

use serde::{Deserialize, Serialize};

use crate::model::{MountOptions, SealedSecrets};

/// How a volume's file system is made and mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedMountOptions {
    /// The type of file system, empty if the plugin chooses.
    pub fs_type: String,
    /// Flags for mount(8).
    pub mount_flags: RecordedFlags,
}

/// Flags; written down, sealed ones are a text and others a list.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RecordedFlags {
    /// Empty if there are none.
    Sealed(SealedSecrets),
    /// As the first versions of the journal had them, until the volume's options change.
    Clear(Vec<String>),
}

impl Default for RecordedFlags {
    fn default() -> Self {
        Self::Sealed(SealedSecrets::default())
    }
}

impl std::fmt::Debug for RecordedFlags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sealed(sealed) => sealed.fmt(f),
            Self::Clear(flags) => write!(f, "{} hidden", flags.len()),
        }
    }
}

impl RecordedMountOptions {
    /// What is sealed, if anything is.
    pub fn sealed(&self) -> Option<&SealedSecrets> {
        match &self.mount_flags {
            RecordedFlags::Sealed(sealed) if !sealed.is_empty() => Some(sealed),
            RecordedFlags::Sealed(_) | RecordedFlags::Clear(_) => None,
        }
    }

    /// What everyone may see: flags as one `[REDACTED]`, if there are any.
    pub fn shown(&self) -> MountOptions {
        let is_empty = match &self.mount_flags {
            RecordedFlags::Sealed(sealed) => sealed.is_empty(),
            RecordedFlags::Clear(flags) => flags.is_empty(),
        };
        let flags = (!is_empty).then(|| MountOptions::REDACTED.to_owned());
        MountOptions {
            fs_type: self.fs_type.clone(),
            mount_flags: flags.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(flags: RecordedFlags) -> RecordedMountOptions {
        RecordedMountOptions {
            fs_type: "cifs".into(),
            mount_flags: flags,
        }
    }

    #[test]
    fn both_forms_are_read_back_and_neither_shows_a_flag() {
        let sealed = SealedSecrets::new(vec![1, 0xab]);
        let clear = vec!["password=hunter2".to_owned()];
        for (flags, written) in [
            (RecordedFlags::Sealed(sealed), r#""01ab""#),
            (RecordedFlags::Clear(clear), r#"["password=hunter2"]"#),
        ] {
            let options = options(flags);
            let text = serde_json::to_string(&options).unwrap();
            assert_eq!(
                text,
                format!(r#"{{"fs_type":"cifs","mount_flags":{written}}}"#)
            );
            let read: RecordedMountOptions = serde_json::from_str(&text).unwrap();
            assert_eq!(read, options);
            assert_eq!(options.shown().mount_flags, [MountOptions::REDACTED]);
            assert!(!format!("{options:?}").contains("hunter2"));
        }
        for none in [RecordedFlags::default(), RecordedFlags::Clear(vec![])] {
            assert!(options(none).shown().mount_flags.is_empty());
        }
    }
}
