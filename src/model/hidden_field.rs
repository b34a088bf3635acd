//! Fields whose values a server stores but does not show.

/// A field whose value a server does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HiddenField {
    /// The secrets for the provider.
    Secrets,
    /// Flags for mount(8), which may hold passwords.
    MountFlags,
}

impl HiddenField {
    /// All hidden fields.
    pub const ALL: [Self; 2] = [Self::Secrets, Self::MountFlags];

    /// Returns the name on the command line, such as `mount_flags`.
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
