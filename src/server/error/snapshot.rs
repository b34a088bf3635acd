//! Why a snapshot is not cut or deleted (`nomad-http-api` 3.10), as far as no plugin was asked.

use http::StatusCode;

use crate::diagnostic::Code;
use crate::model::{NamespacedId, PluginId};

/// Why nothing was done with a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// A request holds a `null` in place of a snapshot.
    Nil,
    /// It would have no name.
    MissingName,
    /// Its name is one that CSI has no room for, or no sense.
    Name(&'static str),
    /// A deletion that names none.
    MissingId,
    /// No plugin of that ID is known.
    UnknownPlugin(PluginId),
    /// The request names another plugin than the volume's: its provider would be asked for an ID that
    /// is not its own.
    OtherPlugin {
        /// The volume.
        volume: NamespacedId,
        /// Who provides it.
        provider: PluginId,
        /// Who was named.
        named: PluginId,
    },
}

impl SnapshotError {
    pub(super) fn class(&self) -> (Code, StatusCode) {
        let code = match self {
            Self::Nil => Code::ApiBadRequest,
            Self::MissingName | Self::Name(_) | Self::MissingId => Code::SnapshotInvalid,
            Self::UnknownPlugin(_) | Self::OtherPlugin { .. } => Code::PluginUnknown,
        };
        (code, StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub(super) fn text(&self) -> String {
        const CREATE: &str =
            "could not create snapshot: controller create snapshot: CSI.ControllerCreateSnapshot: ";
        match self {
            Self::Nil => "snapshot cannot be nil".into(),
            Self::MissingName => format!("{CREATE}missing Name"),
            Self::Name(problem) => format!("{CREATE}invalid Name: {problem}"),
            Self::MissingId => {
                "could not delete \"\": controller delete snapshot: CSI.ControllerDeleteSnapshot: \
                 missing SnapshotID"
                    .into()
            }
            Self::UnknownPlugin(id) => format!("no such plugin \"{id}\""),
            Self::OtherPlugin { .. } => self.message(),
        }
    }

    /// One sentence for people.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Nil => self.text(),
            Self::MissingName => "a snapshot needs a name".into(),
            Self::Name(problem) => format!("the snapshot's name cannot be used: {problem}"),
            Self::MissingId => "the request names no snapshot".into(),
            Self::UnknownPlugin(id) => format!("there is no plugin {id}"),
            Self::OtherPlugin {
                volume,
                provider,
                named,
            } => format!("volume {volume} is of plugin {provider}, not of plugin {named}"),
        }
    }
}
