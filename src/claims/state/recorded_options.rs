//! Stored mount options, whose flags are sealed.
//!
//! Flags may contain passwords (CIFS, GlusterFS), and backups contain the journal. Flags are
//! therefore encrypted like secrets. Without the key only their presence is visible.

use serde::{Deserialize, Serialize};

use nomad_csi_model::{MountOptions, SealedSecrets};

/// The file system type and the mount flags of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedMountOptions {
    /// The file system type; empty if the plugin chooses.
    pub fs_type: String,
    /// Flags for mount(8).
    pub mount_flags: RecordedFlags,
}

/// Mount flags. Serialised, sealed flags are a string and clear flags a list.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RecordedFlags {
    /// Sealed flags; empty if there are none.
    Sealed(SealedSecrets),
    /// Clear flags from the first journal versions, until the volume's options change.
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
    /// Returns the sealed flags, if there are any.
    pub fn sealed(&self) -> Option<&SealedSecrets> {
        match &self.mount_flags {
            RecordedFlags::Sealed(sealed) if !sealed.is_empty() => Some(sealed),
            RecordedFlags::Sealed(_) | RecordedFlags::Clear(_) => None,
        }
    }

    /// Returns the options for readers: all flags become one `[REDACTED]`.
    pub fn redacted(&self) -> MountOptions {
        let is_empty = match &self.mount_flags {
            RecordedFlags::Sealed(sealed) => sealed.is_empty(),
            RecordedFlags::Clear(flags) => flags.is_empty(),
        };
        let flags = (!is_empty).then(|| MountOptions::REDACTED.to_owned());
        MountOptions { fs_type: self.fs_type.clone(), mount_flags: flags.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(flags: RecordedFlags) -> RecordedMountOptions {
        RecordedMountOptions { fs_type: "cifs".into(), mount_flags: flags }
    }

    #[test]
    fn both_forms_round_trip_and_neither_shows_a_flag() {
        let sealed = SealedSecrets::new(vec![1, 0xab]);
        let clear = vec!["password=hunter2".to_owned()];
        for (flags, written) in [
            (RecordedFlags::Sealed(sealed), r#""01ab""#),
            (RecordedFlags::Clear(clear), r#"["password=hunter2"]"#),
        ] {
            let options = options(flags);
            let text = serde_json::to_string(&options).unwrap();
            assert_eq!(text, format!(r#"{{"fs_type":"cifs","mount_flags":{written}}}"#));
            let read: RecordedMountOptions = serde_json::from_str(&text).unwrap();
            assert_eq!(read, options);
            assert_eq!(options.redacted().mount_flags, [MountOptions::REDACTED]);
            assert!(!format!("{options:?}").contains("hunter2"));
        }
        for none in [RecordedFlags::default(), RecordedFlags::Clear(vec![])] {
            assert!(options(none).redacted().mount_flags.is_empty());
        }
    }
}
