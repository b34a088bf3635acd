//! The file system type and the mount flags of a volume.

use serde::{Deserialize, Serialize};

/// File system type and mount flags.
///
/// No mount options differ from empty ones: Nomad stores them differently, and refuses a change from
/// one to the other while the volume is in use (W19). Flags may contain passwords (CIFS, GlusterFS),
/// so `Debug` hides them.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountOptions {
    /// The file system type; empty if the plugin chooses.
    pub fs_type: String,
    /// Flags for mount(8).
    pub mount_flags: Vec<String>,
}

impl MountOptions {
    /// The text that Nomad returns instead of flags.
    pub const REDACTED: &'static str = "[REDACTED]";

    /// Returns whether the flags come from a server that hides them, so their values are unknown.
    pub fn are_redacted(&self) -> bool {
        self.mount_flags.iter().any(|flag| flag == Self::REDACTED)
    }

    /// Returns whether neither type nor flags are given.
    pub fn is_empty(&self) -> bool {
        self.fs_type.is_empty() && self.mount_flags.is_empty()
    }

    /// Returns whether type and flags are the same. Nomad ignores the order of flags and duplicates.
    pub fn is_equivalent_to(&self, other: &Self) -> bool {
        let sorted = |flags: &[String]| {
            let mut flags: Vec<_> = flags.to_vec();
            flags.sort();
            flags.dedup();
            flags
        };
        self.fs_type == other.fs_type && sorted(&self.mount_flags) == sorted(&other.mount_flags)
    }

    /// Returns the options without flags that a server hides: the placeholder is never sent back.
    #[must_use]
    pub fn without_redacted_flags(self) -> Self {
        if self.are_redacted() { Self { mount_flags: vec![], ..self } } else { self }
    }

    /// Returns a copy with all flags replaced by one `[REDACTED]`.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let flags =
            if self.mount_flags.is_empty() { vec![] } else { vec![Self::REDACTED.to_owned()] };
        Self { fs_type: self.fs_type.clone(), mount_flags: flags }
    }
}

impl std::fmt::Debug for MountOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MountOptions")
            .field("fs_type", &self.fs_type)
            .field("mount_flags", &format_args!("{} hidden", self.mount_flags.len()))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(flags: &[&str]) -> MountOptions {
        MountOptions {
            fs_type: "ext4".into(),
            mount_flags: flags.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn flags_are_compared_as_sets() {
        assert!(options(&["noatime", "ro"]).is_equivalent_to(&options(&["ro", "noatime", "ro"])));
        assert!(!options(&["ro"]).is_equivalent_to(&options(&["rw"])));
    }

    #[test]
    fn flags_are_never_in_debug_output() {
        assert!(!format!("{:?}", options(&["password=hunter2"])).contains("hunter2"));
    }
}
