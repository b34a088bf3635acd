//! The request that an update belongs to.

/// The request that an update belongs to: Nomad's texts for the two differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateOrigin {
    /// A register.
    Register,
    /// A create of a volume that exists.
    Create,
}

impl UpdateOrigin {
    /// How Nomad's refusal of such a request begins.
    pub(super) const fn prefix(self) -> &'static str {
        match self {
            Self::Register => "unable to update volume: ",
            Self::Create => "",
        }
    }
}
