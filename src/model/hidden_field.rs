//! Fields whose values a server has and does not show.

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
