//! A controller call that failed: Nomad's words for it (`csi-orchestration` 5.1, 7.3), ours, and what
//! is recorded of it.

use crate::diagnostic::Code;
use crate::model::{NamespacedId, PluginId};
use crate::ports::{PluginError, Rpc, StatusCode};
use crate::server::forward::ForwardError;

/// A controller call that failed, and what it was for.
#[derive(Clone, Debug)]
pub struct PluginFailure {
    /// The call.
    pub operation: Operation,
    /// For which volume.
    pub volume: NamespacedId,
    /// What the plugin's side calls it in its texts: its name on create, else its external ID.
    pub subject: String,
    /// Whom it was sent to.
    pub plugin: PluginId,
    /// What happened.
    pub error: ForwardError,
    /// What is recorded of it.
    pub aftermath: Aftermath,
}

/// What a failed controller call leaves in the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aftermath {
    /// Nothing: the state is as it was before.
    Nothing,
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
}

impl Operation {
    /// As people say it: `create`.
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Validate => "validate",
        }
    }

    /// The RPC.
    pub const fn rpc(self) -> Rpc {
        match self {
            Self::Create => Rpc::CreateVolume,
            Self::Delete => Rpc::DeleteVolume,
            Self::Validate => Rpc::ValidateVolumeCapabilities,
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
        }
    }
}

impl PluginFailure {
    pub(super) fn code(&self) -> Code {
        if matches!(self.aftermath, Aftermath::Intent { .. }) {
            return Code::VolumePending;
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
        match self.operation.translation(error.code, &self.subject) {
            Some(translation) => format!("{translation}: {status}"),
            None => status,
        }
    }

    pub(super) fn message(&self) -> String {
        let (plugin, verb, volume) = (&self.plugin, self.operation.verb(), &self.volume);
        let what = match &self.error {
            ForwardError::NoController(error) => {
                return format!("plugin {plugin} cannot {verb} volume {volume}: {error}");
            }
            ForwardError::Failed { error, .. } => format!(
                "plugin {plugin} did not {verb} volume {volume}: {} ({})",
                error.message,
                error.code.as_str()
            ),
            ForwardError::TimedOut { after, last, .. } => {
                let last = last.as_ref().map_or_else(String::new, |error| {
                    format!("; its last answer was: {}", error.message)
                });
                format!(
                    "plugin {plugin} gave no answer to {} of volume {volume} within {} s{last}",
                    self.operation.rpc(),
                    after.as_secs()
                )
            }
        };
        match (&self.aftermath, self.operation) {
            (Aftermath::Nothing, _) => what,
            (Aftermath::Intent { .. }, _) => format!("{what}; it may have happened or not"),
        }
    }

    pub(super) fn help(&self) -> Vec<String> {
        let remedy = self.code().remedy().to_owned();
        match (&self.aftermath, self.operation) {
            (Aftermath::Nothing, _) => vec![remedy],
            (Aftermath::Intent { provider_name }, Operation::Create) => vec![
                remedy,
                format!(
                    "The provider knows the volume, if it has it, by the name {provider_name}."
                ),
            ],
            (Aftermath::Intent { .. }, Operation::Delete | Operation::Validate) => vec![remedy],
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
            (Self::Validate, StatusCode::NotFound) => Code::PluginVolumeNotFound,
            (Self::Validate, StatusCode::InvalidArgument) => Code::PluginCapability,
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
            (Self::Create, StatusCode::OutOfRange) => {
                format!("unsupported capacity_range for volume \"{subject}\"")
            }
            (Self::Create, StatusCode::NotFound) => {
                format!("volume \"{subject}\" content source does not exist")
            }
            (Self::Delete, StatusCode::FailedPrecondition) => {
                format!("volume \"{subject}\" is in use")
            }
            (Self::Validate, StatusCode::NotFound) => {
                format!("volume \"{subject}\" could not be found")
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
            volume: NamespacedId::new(Namespace::default(), VolumeId::new("db")),
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
