//! How a volume's file system is made and mounted.

use serde::{Deserialize, Serialize};

/// File system type and mount flags.
///
/// Absent (`Option::None` where one is held) differs from empty: Nomad stores them differently and
/// refuses an update from one to the other while the volume is in use (W19). Flags may hold
/// passwords (CIFS, GlusterFS), so `Debug` hides them and nothing shows them unasked.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountOptions {
    /// The type of file system, empty if the plugin chooses.
    pub fs_type: String,
    /// Flags for mount(8).
    pub mount_flags: Vec<String>,
}

impl MountOptions {
    /// What Nomad's server answers in place of flags.
    pub const REDACTED: &'static str = "[REDACTED]";

    /// Whether these came from a server that hides flags: there are some, and nobody can say which.
    pub fn are_redacted(&self) -> bool {
        self.mount_flags.iter().any(|flag| flag == Self::REDACTED)
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.fs_type.is_empty() && self.mount_flags.is_empty()
    }

    /// Whether both say the same; the order of flags does not matter (Nomad compares them as sets).
    pub fn same_as(&self, other: &Self) -> bool {
        let sorted = |flags: &[String]| {
            let mut flags: Vec<_> = flags.to_vec();
            flags.sort();
            flags.dedup();
            flags
        };
        self.fs_type == other.fs_type && sorted(&self.mount_flags) == sorted(&other.mount_flags)
    }

    /// A copy that may be shown: flags are replaced by one `[REDACTED]`.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let flags = if self.mount_flags.is_empty() {
            vec![]
        } else {
            vec![Self::REDACTED.to_owned()]
        };
        Self {
            fs_type: self.fs_type.clone(),
            mount_flags: flags,
        }
    }
}

impl std::fmt::Debug for MountOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MountOptions")
            .field("fs_type", &self.fs_type)
            .field(
                "mount_flags",
                &format_args!("{} hidden", self.mount_flags.len()),
            )
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
        assert!(options(&["noatime", "ro"]).same_as(&options(&["ro", "noatime", "ro"])));
        assert!(!options(&["ro"]).same_as(&options(&["rw"])));
    }

    #[test]
    fn flags_are_never_in_debug_output() {
        assert!(!format!("{:?}", options(&["password=hunter2"])).contains("hunter2"));
    }
}
