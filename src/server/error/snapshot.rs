//! Snapshot requests that are refused before the plugin is called.

use http::StatusCode;

use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{NamespacedId, PluginId};

/// Why a snapshot request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// The request contains `null` instead of a snapshot.
    Nil,
    /// The name is missing.
    MissingName,
    /// CSI does not allow the name.
    Name(&'static str),
    /// A delete without a snapshot ID.
    MissingId,
    /// The plugin is unknown.
    UnknownPlugin(PluginId),
    /// The request names another plugin than the volume's. Its provider does not know the volume.
    OtherPlugin {
        /// The volume.
        volume: NamespacedId,
        /// The volume's plugin.
        provider: PluginId,
        /// The plugin that the request names.
        named: PluginId,
    },
}

impl SnapshotError {
    pub(super) fn code_and_status(&self) -> (Code, StatusCode) {
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

    /// The message for people.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Nil => self.text(),
            Self::MissingName => "the snapshot has no name".into(),
            Self::Name(problem) => format!("the name of the snapshot is invalid: {problem}"),
            Self::MissingId => "the request has no snapshot ID".into(),
            Self::UnknownPlugin(id) => format!("plugin `{id}` does not exist"),
            Self::OtherPlugin { volume, provider, named } => {
                format!("volume `{volume}` belongs to plugin `{provider}`, not to plugin `{named}`")
            }
        }
    }
}
