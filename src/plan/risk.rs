//! The impact of a change: its risk, what is lost, and how to recover.
//!
//! The three risks are coarse on purpose. A pipeline allows reversible changes and nothing else; an
//! operator who allows more names the volume. "Reversible" means that another run restores the
//! previous state, and that the change interrupts no allocation.

use nomad_csi_model::{Bytes, ExternalId, PluginId, Volume};

/// The risk of a change, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Risk {
    /// The change can be undone and interrupts no allocation.
    Reversible,
    /// The change can be undone, but allocations that use the volume must stop or cannot start.
    NeedsDowntime,
    /// The change can be undone, and no job reaches the data until it is.
    LosesAccess,
    /// The change destroys data.
    DestroysData,
}

impl Risk {
    /// All risks, in ascending order.
    pub const ALL: [Self; 4] =
        [Self::Reversible, Self::NeedsDowntime, Self::LosesAccess, Self::DestroysData];

    /// Its name on the command line: `destroys-data`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reversible => "reversible",
            Self::NeedsDowntime => "needs-downtime",
            Self::LosesAccess => "loses-access",
            Self::DestroysData => "destroys-data",
        }
    }
}

impl std::fmt::Display for Risk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The impact of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impact {
    /// The risk.
    pub risk: Risk,
    /// The data or registration that is lost; `None` if there is none.
    pub loss: Option<DataLoss>,
    /// How to recover.
    pub recovery: Recovery,
}

/// The data or registration that a removal loses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataLoss {
    /// True if the data is destroyed, or out of reach; otherwise only the registration is removed.
    pub destroys_data: bool,
    /// The size of the volume; zero if it is unknown.
    pub capacity: Bytes,
    /// The volume's plugin.
    pub plugin_id: PluginId,
    /// The volume's ID at the provider; `None` if it was never recorded.
    pub external_id: Option<ExternalId>,
    /// The last snapshot of the volume.
    pub last_snapshot: LastSnapshot,
}

impl DataLoss {
    /// The loss of a volume with its data, or of its registration only.
    pub fn of(volume: &Volume, destroys_data: bool, last_snapshot: LastSnapshot) -> Self {
        Self {
            destroys_data,
            capacity: volume.capacity,
            plugin_id: volume.plugin_id.clone(),
            external_id: Some(volume.remote_id()),
            last_snapshot,
        }
    }
}

/// The last snapshot of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LastSnapshot {
    /// Unknown: the server or the plugin cannot list snapshots, or no list was requested.
    #[default]
    Unknown,
    /// The volume has no snapshot.
    None,
    /// The volume has a snapshot.
    Taken {
        /// The provider's ID of the snapshot.
        id: String,
        /// When it was taken, in nanoseconds since the epoch; zero if unknown.
        at: i64,
    },
}

/// How to recover from a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Delete the volume: it is new and empty.
    Delete,
    /// Deregister the volume: the registration is new.
    Deregister,
    /// Apply the previous specification.
    ReapplyPrevious,
    /// Not possible: a volume never shrinks. An expansion loses nothing.
    StaysLarger,
    /// Register the volume again with this external ID. Servers do not reveal stored secrets, so the
    /// operator must provide them.
    RegisterAgain(ExternalId),
    /// Create a volume from this snapshot.
    RestoreSnapshot(String),
    /// Create a volume from the snapshot that the change takes first.
    RestoreOwnSnapshot,
    /// Not possible.
    Impossible,
}

impl std::fmt::Display for Recovery {
    /// A clause without a full stop that reads well after "to undo:".
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Delete => f.write_str("delete the new volume"),
            Self::Deregister => f.write_str("deregister the volume; its data stays"),
            Self::ReapplyPrevious => f.write_str("apply the previous specification"),
            Self::StaysLarger => {
                f.write_str("not possible, a volume never shrinks; nothing is lost")
            }
            Self::RegisterAgain(id) => write!(
                f,
                "register the volume again with external_id {:?} and its secrets",
                id.as_str()
            ),
            Self::RestoreSnapshot(id) => write!(f, "create a volume from snapshot {id:?}"),
            Self::RestoreOwnSnapshot => {
                f.write_str("create a volume from the snapshot that is taken first")
            }
            Self::Impossible => f.write_str("not possible"),
        }
    }
}
