//! Values that a server has and does not show: secrets, and mount flags where they are redacted.
//!
//! They are no difference by themselves, since nobody can compare them; but an update replaces them
//! by what it says, also by nothing (W20), so that leaving them out of a file loses them (`users` 10
//! and 11). The ledger remembers whether there were any, and a keyed hash of them.

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
