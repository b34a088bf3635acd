//! A controller call that failed: Nomad's words for it (`csi-orchestration` 5.1, 7.3), ours, and what
//! is recorded of it.

use super::server_error::UpdateRequest;
use crate::diagnostic::Code;
use crate::model::{NamespacedId, PluginId};
use crate::ports::{PluginError, Rpc, StatusCode};
use crate::server::forward::ForwardError;

/// A controller call that failed, and what it was for.
#[derive(Clone, Debug)]
pub struct PluginFailure {
    /// The call.
    pub operation: Operation,
    /// About what.
    pub object: Object,
    /// What the plugin's side calls it in its texts: its name on create, else its external ID; of a
    /// list, the token of the page.
    pub subject: String,
    /// Whom it was sent to.
    pub plugin: PluginId,
    /// What happened.
    pub error: ForwardError,
    /// What is recorded of it.
    pub aftermath: Aftermath,
}

/// What a controller call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// A volume.
    Volume(NamespacedId),
    /// All volumes of the provider.
    Volumes,
    /// A snapshot.
    Snapshot {
        /// The volume that it is to be cut from; `None` if that is not known.
        volume: Option<NamespacedId>,
        /// What the provider calls that volume.
        source: String,
    },
    /// All snapshots of the provider.
    Snapshots,
}

/// What a failed controller call leaves in the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aftermath {
    /// Nothing: the state is as it was before.
    Nothing,
    /// Nothing, although it may have happened: the same request finds out.
    Unrecorded,
    /// The intent; the same request goes on with it.
    Intent {
        /// What the provider calls the volume, or would call it.
        provider_name: String,
    },
}

/// Which controller call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// CreateVolume.
    Create,
    /// DeleteVolume.
    Delete,
    /// ValidateVolumeCapabilities.
    Validate,
    /// ControllerExpandVolume, for that request.
    Expand(UpdateRequest),
    /// ListVolumes.
    ListVolumes,
    /// CreateSnapshot.
    CreateSnapshot,
    /// DeleteSnapshot.
    DeleteSnapshot,
    /// ListSnapshots.
    ListSnapshots,
}

impl Operation {
    /// As people say it: `create`.
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Create | Self::CreateSnapshot => "create",
            Self::Delete | Self::DeleteSnapshot => "delete",
            Self::Validate => "validate",
            Self::Expand(_) => "expand",
            Self::ListVolumes | Self::ListSnapshots => "list",
        }
    }

    /// The RPC.
    pub const fn rpc(self) -> Rpc {
        match self {
            Self::Create => Rpc::CreateVolume,
            Self::Delete => Rpc::DeleteVolume,
            Self::Validate => Rpc::ValidateVolumeCapabilities,
            Self::Expand(_) => Rpc::ControllerExpandVolume,
            Self::ListVolumes => Rpc::ListVolumes,
            Self::CreateSnapshot => Rpc::CreateSnapshot,
            Self::DeleteSnapshot => Rpc::DeleteSnapshot,
            Self::ListSnapshots => Rpc::ListSnapshots,
        }
    }

    /// How Nomad's texts begin (`csi-orchestration` 5.1, B103).
    const fn prefixes(self) -> (&'static str, &'static str) {
        match self {
            Self::Create => ("controller create volume: ", "CSI.ControllerCreateVolume: "),
            Self::Delete => ("controller delete volume: ", "CSI.ControllerDeleteVolume: "),
            Self::Validate => (
                "controller validate volume: ",
                "CSI.ControllerValidateVolume: ",
            ),
            Self::Expand(_) => ("controller expand volume: ", "CSI.ControllerExpandVolume: "),
            Self::ListVolumes => ("controller list volumes: ", "CSI.ControllerListVolumes: "),
            Self::CreateSnapshot => (
                "controller create snapshot: ",
                "CSI.ControllerCreateSnapshot: ",
            ),
            Self::DeleteSnapshot => (
                "controller delete snapshot: ",
                "CSI.ControllerDeleteSnapshot: ",
            ),
            Self::ListSnapshots => (
                "controller list snapshots: ",
                "CSI.ControllerListSnapshots: ",
            ),
        }
    }

    /// What stands before all that.
    fn context(self, subject: &str) -> String {
        match self {
            Self::Create
            | Self::Delete
            | Self::Validate
            | Self::ListVolumes
            | Self::ListSnapshots => String::new(),
            Self::Expand(on) => format!("{}unable to expand volume: ", on.prefix()),
            Self::CreateSnapshot => "could not create snapshot: ".to_owned(),
            Self::DeleteSnapshot => format!("could not delete \"{subject}\": "),
        }
    }
}

impl PluginFailure {
    pub(super) fn code(&self) -> Code {
        match self.aftermath {
            Aftermath::Intent { .. } => return Code::VolumePending,
            Aftermath::Unrecorded => return self.unrecorded_code(),
            Aftermath::Nothing => {}
        }
        match &self.error {
            ForwardError::NoController(_) | ForwardError::TimedOut { .. } => {
                Code::PluginUnreachable
            }
            ForwardError::Failed { error, .. } => self.operation.code(error.code),
        }
    }

    pub(super) fn text(&self) -> String {
        let (server, client) = self.operation.prefixes();
        let server = format!("{}{server}", self.operation.context(&self.subject));
        match &self.error {
            ForwardError::NoController(error) => format!("{server}{error}"),
            ForwardError::Failed { error, .. } => {
                format!("{server}{client}{}", self.plugin_text(error))
            }
            ForwardError::TimedOut { after, last, .. } => {
                let last = last.as_ref().map_or_else(String::new, |error| {
                    format!("; last: {}", self.plugin_text(error))
                });
                format!(
                    "{server}{client}rpc error: code = DeadlineExceeded desc = no answer within {} s{last}",
                    after.as_secs()
                )
            }
        }
    }

    /// As Nomad's client side words the plugin's answer (`csi-orchestration` 7.3).
    fn plugin_text(&self, error: &PluginError) -> String {
        let status = format!(
            "rpc error: code = {} desc = {}",
            error.code.as_str(),
            error.message
        );
        match self.translation(error.code) {
            Some(translation) => format!("{translation}: {status}"),
            None => status,
        }
    }

    pub(super) fn message(&self) -> String {
        let (plugin, verb, object) = (&self.plugin, self.operation.verb(), self.described());
        let what = match &self.error {
            ForwardError::NoController(error) => {
                return format!("plugin {plugin} cannot {verb} {object}: {error}");
            }
            ForwardError::Failed { error, .. } => format!(
                "plugin {plugin} did not {verb} {object}: {} ({})",
                error.message,
                error.code.as_str()
            ),
            ForwardError::TimedOut { after, last, .. } => {
                let last = last.as_ref().map_or_else(String::new, |error| {
                    format!("; its last answer was: {}", error.message)
                });
                format!(
                    "plugin {plugin} gave no answer to {} of {object} within {} s{last}",
                    self.operation.rpc(),
                    after.as_secs()
                )
            }
        };
        match (&self.aftermath, self.operation) {
            (Aftermath::Nothing, _) => what,
            (Aftermath::Unrecorded, Operation::ListVolumes | Operation::ListSnapshots) => what,
            (Aftermath::Unrecorded | Aftermath::Intent { .. }, _) => {
                format!("{what}; it may have happened or not")
            }
        }
    }

    pub(super) fn help(&self) -> Vec<String> {
        let remedy = self.code().remedy().to_owned();
        match (&self.aftermath, self.operation) {
            (Aftermath::Nothing | Aftermath::Unrecorded, _) => vec![remedy],
            (Aftermath::Intent { provider_name }, Operation::Create) => vec![
                remedy,
                format!(
                    "The provider knows the volume, if it has it, by the name {provider_name}."
                ),
            ],
            (Aftermath::Intent { .. }, _) => vec![remedy],
        }
    }

    /// A list changes nothing; of a snapshot nobody knows.
    fn unrecorded_code(&self) -> Code {
        match (&self.error, self.operation) {
            (_, Operation::CreateSnapshot | Operation::DeleteSnapshot) => Code::SnapshotPending,
            (ForwardError::Failed { error, .. }, operation) => operation.code(error.code),
            (ForwardError::NoController(_) | ForwardError::TimedOut { .. }, _) => {
                Code::PluginUnreachable
            }
        }
    }

    fn described(&self) -> String {
        match &self.object {
            Object::Volume(volume) => format!("volume {volume}"),
            Object::Volumes => "the provider's volumes".to_owned(),
            Object::Snapshot { volume, .. } => {
                let of = volume.as_ref().map(|volume| format!(" of volume {volume}"));
                format!("snapshot {}{}", self.subject, of.unwrap_or_default())
            }
            Object::Snapshots => "the provider's snapshots".to_owned(),
        }
    }

    fn translation(&self, code: StatusCode) -> Option<String> {
        let subject = &self.subject;
        match (&self.object, self.operation, code) {
            (
                Object::Snapshot { source, .. },
                Operation::CreateSnapshot,
                StatusCode::AlreadyExists,
            ) => Some(format!(
                "snapshot \"{subject}\" already exists but is incompatible with volume ID \"{source}\""
            )),
            _ => self.operation.translation(code, subject),
        }
    }
}

impl Operation {
    fn code(self, code: StatusCode) -> Code {
        match (self, code) {
            (Self::Create, StatusCode::AlreadyExists) => Code::PluginConflict,
            (Self::Create, StatusCode::ResourceExhausted) => Code::PluginExhausted,
            (Self::Create, StatusCode::OutOfRange) => Code::PluginCapacity,
            (Self::Create, StatusCode::NotFound) => Code::PluginSourceNotFound,
            (Self::Delete, StatusCode::FailedPrecondition) => Code::VolumeInUse,
            (Self::Validate | Self::Expand(_) | Self::CreateSnapshot, StatusCode::NotFound) => {
                Code::PluginVolumeNotFound
            }
            (Self::Validate | Self::Expand(_), StatusCode::InvalidArgument) => {
                Code::PluginCapability
            }
            (Self::Expand(_), StatusCode::OutOfRange) => Code::PluginCapacity,
            (Self::Expand(_), StatusCode::FailedPrecondition) => Code::VolumeInUse,
            (Self::CreateSnapshot, StatusCode::AlreadyExists) => Code::SnapshotConflict,
            (Self::CreateSnapshot, StatusCode::ResourceExhausted) => Code::PluginExhausted,
            (Self::DeleteSnapshot, StatusCode::FailedPrecondition) => Code::SnapshotInUse,
            (Self::ListVolumes | Self::ListSnapshots, StatusCode::Aborted) => Code::ApiBadRequest,
            (_, StatusCode::Internal) => Code::PluginInternal,
            (_, StatusCode::Unimplemented) => Code::PluginUnsupported,
            (_, StatusCode::Unavailable) => Code::PluginUnreachable,
            _ => Code::PluginRefused,
        }
    }

    fn translation(self, code: StatusCode, subject: &str) -> Option<String> {
        Some(match (self, code) {
            (_, StatusCode::Internal) => "controller plugin returned an internal error, check the plugin allocation logs for more information".to_owned(),
            (Self::Create, StatusCode::AlreadyExists) => {
                format!("volume \"{subject}\" already exists but is incompatible with these parameters")
            }
            (Self::Create, StatusCode::ResourceExhausted) => {
                format!("unable to provision \"{subject}\" in accessible_topology")
            }
            (Self::Create | Self::Expand(_), StatusCode::OutOfRange) => {
                format!("unsupported capacity_range for volume \"{subject}\"")
            }
            (Self::Create, StatusCode::NotFound) => {
                format!("volume \"{subject}\" content source does not exist")
            }
            (Self::Delete, StatusCode::FailedPrecondition) => {
                format!("volume \"{subject}\" is in use")
            }
            (Self::Validate | Self::Expand(_), StatusCode::NotFound) => {
                format!("volume \"{subject}\" could not be found")
            }
            (Self::Expand(_), StatusCode::InvalidArgument) => {
                format!("requested capabilities not compatible with volume \"{subject}\"")
            }
            (Self::Expand(_), StatusCode::FailedPrecondition) => {
                format!("volume \"{subject}\" cannot be expanded online")
            }
            (Self::Expand(_), _) if code != StatusCode::OutOfRange => {
                "controller plugin returned an error".to_owned()
            }
            (Self::CreateSnapshot, StatusCode::Aborted) => {
                format!("snapshot \"{subject}\" is already pending")
            }
            (Self::CreateSnapshot, StatusCode::ResourceExhausted) => {
                "storage provider does not have enough space for this snapshot".to_owned()
            }
            (Self::DeleteSnapshot, StatusCode::FailedPrecondition) => {
                format!("snapshot \"{subject}\" could not be deleted because it is in use")
            }
            (Self::DeleteSnapshot, StatusCode::Aborted) => {
                format!("snapshot \"{subject}\" has a pending operation")
            }
            (Self::ListVolumes | Self::ListSnapshots, StatusCode::Aborted) => {
                format!("invalid starting token \"{subject}\"")
            }
            (Self::Validate, StatusCode::InvalidArgument) => {
                "volume capability validation failed".to_owned()
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Namespace, VolumeId};
    use crate::ports::verdict_of;
    use crate::server::forward::Outcome;

    fn failed(operation: Operation, code: StatusCode) -> PluginFailure {
        let rpc = operation.rpc();
        PluginFailure {
            operation,
            object: Object::Volume(NamespacedId::new(Namespace::default(), VolumeId::new("db"))),
            subject: "vol-1".into(),
            plugin: PluginId::new("ebs0"),
            error: ForwardError::Failed {
                error: PluginError {
                    rpc,
                    code,
                    verdict: verdict_of(rpc, code),
                    message: "its words".into(),
                },
                outcome: Outcome::Nothing,
            },
            aftermath: Aftermath::Nothing,
        }
    }

    /// `csi-orchestration` 7.3, `nomad-http-api` 9: the words that clients know, and our code.
    #[test]
    fn answers_are_worded_as_nomad_words_them() {
        use Operation::{Create, Delete, Validate};
        const INTERNAL: &str = "controller plugin returned an internal error, check the plugin \
                                allocation logs for more information: ";
        for (operation, code, translation, expected) in [
            (
                Create,
                StatusCode::AlreadyExists,
                "volume \"vol-1\" already exists but is incompatible with these parameters: ",
                Code::PluginConflict,
            ),
            (
                Create,
                StatusCode::ResourceExhausted,
                "unable to provision \"vol-1\" in accessible_topology: ",
                Code::PluginExhausted,
            ),
            (
                Create,
                StatusCode::OutOfRange,
                "unsupported capacity_range for volume \"vol-1\": ",
                Code::PluginCapacity,
            ),
            (Create, StatusCode::InvalidArgument, "", Code::PluginRefused),
            (Create, StatusCode::Internal, INTERNAL, Code::PluginInternal),
            (
                Delete,
                StatusCode::FailedPrecondition,
                "volume \"vol-1\" is in use: ",
                Code::VolumeInUse,
            ),
            (
                Delete,
                StatusCode::Unimplemented,
                "",
                Code::PluginUnsupported,
            ),
            (
                Validate,
                StatusCode::NotFound,
                "volume \"vol-1\" could not be found: ",
                Code::PluginVolumeNotFound,
            ),
            (
                Validate,
                StatusCode::InvalidArgument,
                "volume capability validation failed: ",
                Code::PluginCapability,
            ),
        ] {
            let failure = failed(operation, code);
            let (server, client) = operation.prefixes();
            let status = format!("rpc error: code = {} desc = its words", code.as_str());
            assert_eq!(
                failure.text(),
                format!("{server}{client}{translation}{status}")
            );
            assert_eq!(failure.code(), expected, "{operation:?} {code:?}");
            assert!(failure.message().contains("its words"));
        }
    }

    /// What stays on record is said, with the name by which the provider knows the volume.
    #[test]
    fn an_open_creation_says_how_to_go_on_and_where_to_look() {
        let failure = PluginFailure {
            aftermath: Aftermath::Intent {
                provider_name: "csi-db-1".into(),
            },
            error: ForwardError::TimedOut {
                rpc: Rpc::CreateVolume,
                after: std::time::Duration::from_secs(120),
                last: None,
                outcome: Outcome::Unknown,
            },
            ..failed(Operation::Create, StatusCode::Unknown)
        };
        assert_eq!(failure.code(), Code::VolumePending);
        assert_eq!(
            failure.text(),
            "controller create volume: CSI.ControllerCreateVolume: rpc error: code = \
             DeadlineExceeded desc = no answer within 120 s"
        );
        assert_eq!(
            failure.message(),
            "plugin ebs0 gave no answer to CreateVolume of volume db within 120 s; it may have \
             happened or not"
        );
        assert!(failure.help()[1].contains("csi-db-1"));
    }
}
