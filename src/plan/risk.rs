//! What is at stake when something is done: how bad it can be, what is lost, how it is undone.
//!
//! The three grades are coarse on purpose (`users` 3.4): a pipeline allows the first and nothing
//! else, and whoever allows more says of which volume. "Reversible" means that another run of the
//! same kind brings back what was there, and that nobody is interrupted meanwhile.

use crate::model::{Bytes, ExternalId, PluginId, Volume};

/// How bad it can be; the worse is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Risk {
    /// It can be undone, and nobody is interrupted.
    Reversible,
    /// It can be undone, but whoever uses the volume has to be stopped, or cannot be started
    /// meanwhile.
    NeedsDowntime,
    /// Data is gone afterwards.
    DestroysData,
}

impl Risk {
    /// All of them, the least first.
    pub const ALL: [Self; 3] = [Self::Reversible, Self::NeedsDowntime, Self::DestroysData];

    /// The word that people type: `destroys-data`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reversible => "reversible",
            Self::NeedsDowntime => "needs-downtime",
            Self::DestroysData => "destroys-data",
        }
    }
}

impl std::fmt::Display for Risk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is at stake with one action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stakes {
    /// How bad it can be.
    pub risk: Risk,
    /// What is lost, if anything is.
    pub lost: Option<Loss>,
    /// How it is undone.
    pub undo: Undo,
}

/// What is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Whether the data goes, or only a registration.
    pub data: bool,
    /// How large the volume is; zero if that is not known.
    pub capacity: Bytes,
    /// Who provides it.
    pub plugin_id: PluginId,
    /// What the provider calls it.
    pub external_id: ExternalId,
    /// The last copy that the provider has of it.
    pub last_snapshot: LastSnapshot,
}

impl Loss {
    /// Of a volume with all that is in it, or of its registration alone.
    pub fn of(volume: &Volume, data: bool, last_snapshot: LastSnapshot) -> Self {
        Self {
            data,
            capacity: volume.capacity,
            plugin_id: volume.plugin_id.clone(),
            external_id: volume.remote_id(),
            last_snapshot,
        }
    }
}

/// The last snapshot of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LastSnapshot {
    /// The server or the plugin cannot list snapshots, or nobody asked.
    #[default]
    Unknown,
    /// There is none.
    None,
    /// There is one.
    Taken {
        /// The provider's ID of it.
        id: String,
        /// When it was taken, nanoseconds since the epoch; zero if that is not known.
        at: i64,
    },
}

/// How an action is undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undo {
    /// The volume is new and empty: delete it.
    Delete,
    /// The registration is new: remove it.
    Deregister,
    /// Write the old values back.
    WriteBack,
    /// Sizes stay: a volume never shrinks, and nothing is lost by being larger.
    StaysLarger,
    /// Register it again under the provider's ID; a server gives its stored secrets to nobody, so
    /// they have to be given again.
    RegisterAgain(ExternalId),
    /// Restore a copy.
    Restore(String),
    /// Not at all.
    Impossible,
}

impl std::fmt::Display for Undo {
    /// One sentence without a full stop, that can stand after "to undo:".
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Delete => f.write_str("delete the volume, which is new"),
            Self::Deregister => f.write_str("deregister it; the data stays"),
            Self::WriteBack => f.write_str("apply the old specification again"),
            Self::StaysLarger => {
                f.write_str("not possible, a volume never shrinks; nothing is lost")
            }
            Self::RegisterAgain(id) => write!(
                f,
                "register it again with external_id {:?} and its secrets, if it has any",
                id.as_str()
            ),
            Self::Restore(id) => write!(f, "create a volume from snapshot {id:?}"),
            Self::Impossible => f.write_str("not possible"),
        }
    }
}
