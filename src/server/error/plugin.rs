//! A failed controller call: Nomad's text, the agent's message, and what stays on record.

use super::update_origin::UpdateOrigin;
use crate::forward_error::ForwardError;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{CapacityReport, ExternalId, NamespacedId, PluginId};
use nomad_csi_ports::{PluginError, Rpc, StatusCode};

/// A call to a controller, as its failure names it.
#[derive(Clone, Debug)]
pub struct CallDescription {
    /// The operation that sends it.
    pub operation: ControllerOperation,
    /// The object of the call.
    pub target: CallTarget,
    /// The object as Nomad's client names it in texts: the name for a create, the page token for a
    /// list, else the external ID.
    pub subject: String,
    /// The plugin.
    pub plugin: PluginId,
}

impl CallDescription {
    /// A call for a volume of the provider.
    pub(crate) fn of_volume(
        operation: ControllerOperation,
        key: NamespacedId,
        external_id: &ExternalId,
        plugin: &PluginId,
    ) -> Self {
        let (target, subject) = (CallTarget::Volume(key), external_id.to_string());
        Self { operation, target, subject, plugin: plugin.clone() }
    }

    /// Returns its failure.
    pub(crate) fn failed(
        &self,
        error: impl Into<ForwardError>,
        residual: ResidualState,
    ) -> PluginFailure {
        let capacity = CapacityReport::default();
        PluginFailure { call: self.clone(), error: error.into(), residual, capacity }
    }
}

/// A failed controller call.
#[derive(Clone, Debug)]
pub struct PluginFailure {
    /// The call.
    pub call: CallDescription,
    /// The error.
    pub error: ForwardError,
    /// The state that stays on record.
    pub residual: ResidualState,
    /// The capacity that the provider has left, if it refused a volume for its size and reports that.
    pub capacity: CapacityReport,
}

/// The object of a controller call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallTarget {
    /// A volume.
    Volume(NamespacedId),
    /// All volumes of the provider.
    Volumes,
    /// A snapshot.
    Snapshot {
        /// The source volume; `None` if unknown.
        volume: Option<NamespacedId>,
        /// The external ID of the source volume.
        source: String,
    },
    /// All snapshots of the provider.
    Snapshots,
}

/// The state that a failed controller call leaves on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResidualState {
    /// Nothing; the call had no effect.
    None,
    /// Nothing, although the call may have had an effect. The same request finds out.
    Unrecorded,
    /// The intent. The same request continues it.
    PendingIntent {
        /// The volume's name at the provider.
        provider_name: String,
    },
}

/// A kind of controller call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerOperation {
    /// CreateVolume.
    Create,
    /// DeleteVolume.
    Delete,
    /// ValidateVolumeCapabilities.
    Validate,
    /// ControllerExpandVolume for an update.
    Expand(UpdateOrigin),
    /// ControllerModifyVolume.
    Modify,
    /// ListVolumes.
    ListVolumes,
    /// CreateSnapshot.
    CreateSnapshot,
    /// DeleteSnapshot.
    DeleteSnapshot,
    /// ListSnapshots.
    ListSnapshots,
}

impl ControllerOperation {
    /// The verb for messages.
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Create | Self::CreateSnapshot => "create",
            Self::Delete | Self::DeleteSnapshot => "delete",
            Self::Validate => "validate",
            Self::Expand(_) => "expand",
            Self::Modify => "modify",
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
            Self::Modify => Rpc::ControllerModifyVolume,
            Self::ListVolumes => Rpc::ListVolumes,
            Self::CreateSnapshot => Rpc::CreateSnapshot,
            Self::DeleteSnapshot => Rpc::DeleteSnapshot,
            Self::ListSnapshots => Rpc::ListSnapshots,
        }
    }

    /// The prefixes of Nomad's server and of its client.
    const fn prefixes(self) -> (&'static str, &'static str) {
        match self {
            Self::Create => ("controller create volume: ", "CSI.ControllerCreateVolume: "),
            Self::Delete => ("controller delete volume: ", "CSI.ControllerDeleteVolume: "),
            Self::Validate => ("controller validate volume: ", "CSI.ControllerValidateVolume: "),
            Self::Expand(_) => ("controller expand volume: ", "CSI.ControllerExpandVolume: "),
            Self::Modify => ("controller modify volume: ", "CSI.ControllerModifyVolume: "),
            Self::ListVolumes => ("controller list volumes: ", "CSI.ControllerListVolumes: "),
            Self::CreateSnapshot => {
                ("controller create snapshot: ", "CSI.ControllerCreateSnapshot: ")
            }
            Self::DeleteSnapshot => {
                ("controller delete snapshot: ", "CSI.ControllerDeleteSnapshot: ")
            }
            Self::ListSnapshots => ("controller list snapshots: ", "CSI.ControllerListSnapshots: "),
        }
    }

    /// Returns what precedes these prefixes.
    fn context(self, subject: &str) -> String {
        match self {
            Self::Create
            | Self::Delete
            | Self::Validate
            | Self::Modify
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
        match self.residual {
            ResidualState::PendingIntent { .. } => return Code::VolumePending,
            ResidualState::Unrecorded => return self.unrecorded_code(),
            ResidualState::None => {}
        }
        match &self.error {
            ForwardError::NoController(_) | ForwardError::TimedOut { .. } => {
                Code::PluginUnreachable
            }
            ForwardError::Failed { error, .. } => self.call.operation.code(error.code),
        }
    }

    pub(super) fn text(&self) -> String {
        let (server, client) = self.call.operation.prefixes();
        let server = format!("{}{server}", self.call.operation.context(&self.call.subject));
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

    /// Formats the plugin's answer as Nomad's client does.
    fn plugin_text(&self, error: &PluginError) -> String {
        let status = format!("rpc error: code = {} desc = {}", error.code.as_str(), error.message);
        match self.translation(error.code) {
            Some(translation) => format!("{translation}: {status}"),
            None => status,
        }
    }

    pub(super) fn message(&self) -> String {
        let (plugin, verb, target) =
            (&self.call.plugin, self.call.operation.verb(), self.target_description());
        let failure = match &self.error {
            ForwardError::NoController(error) => {
                return format!("plugin `{plugin}` cannot {verb} {target}: {error}");
            }
            ForwardError::Failed { error, .. } => format!(
                "plugin `{plugin}` did not {verb} {target}: {} ({})",
                error.message,
                error.code.as_str()
            ),
            ForwardError::TimedOut { after, last, .. } => {
                let last = last.as_ref().map_or_else(String::new, |error| {
                    format!("; its last answer: {}", error.message)
                });
                format!(
                    "plugin `{plugin}` did not answer {} of {target} within {} s{last}",
                    self.call.operation.rpc(),
                    after.as_secs()
                )
            }
        };
        match (&self.residual, self.call.operation) {
            (ResidualState::None, _) => failure,
            (
                ResidualState::Unrecorded,
                ControllerOperation::ListVolumes | ControllerOperation::ListSnapshots,
            ) => failure,
            (ResidualState::Unrecorded | ResidualState::PendingIntent { .. }, _) => {
                format!("{failure}; the call may still have taken effect")
            }
        }
    }

    /// Returns what the provider has left, a sentence for each place.
    pub(super) fn notes(&self) -> Vec<String> {
        let plugin = &self.call.plugin;
        let places = self.capacity.places.iter().map(|(topology, capacity)| {
            let place = topology.as_ref().map(|topology| format!(" in {topology}"));
            let place = place.unwrap_or_default();
            format!("plugin `{plugin}` reports{place}: {capacity}")
        });
        places.collect()
    }

    pub(super) fn help(&self) -> Vec<String> {
        let remedy = self.code().advice();
        if let ForwardError::NoController(error) = &self.error
            && let Some(help) = error.help()
        {
            return match self.residual {
                ResidualState::PendingIntent { .. } => vec![remedy, help],
                ResidualState::None | ResidualState::Unrecorded => vec![help],
            };
        }
        match (&self.residual, self.call.operation) {
            (ResidualState::None | ResidualState::Unrecorded, _) => vec![remedy],
            (ResidualState::PendingIntent { provider_name }, ControllerOperation::Create) => vec![
                remedy,
                "the agent continues the creation by itself: `nomad-csi volume status` shows it, and `nomad-csi volume abandon` gives it up".to_owned(),
                format!(
                    "look for `{provider_name}` at the provider: that is the volume's name if it was created"
                ),
            ],
            (ResidualState::PendingIntent { .. }, ControllerOperation::Modify) => vec![
                remedy,
                "a change that did not end is sent before every other one, and `nomad-csi volume status` shows it; a change of all its parameters takes its place".to_owned(),
            ],
            (ResidualState::PendingIntent { .. }, _) => vec![remedy],
        }
    }

    /// A list has no effect; a snapshot may have been created or deleted.
    fn unrecorded_code(&self) -> Code {
        match (&self.error, self.call.operation) {
            (_, ControllerOperation::CreateSnapshot | ControllerOperation::DeleteSnapshot) => {
                Code::SnapshotPending
            }
            (ForwardError::Failed { error, .. }, operation) => operation.code(error.code),
            (ForwardError::NoController(_) | ForwardError::TimedOut { .. }, _) => {
                Code::PluginUnreachable
            }
        }
    }

    fn target_description(&self) -> String {
        match &self.call.target {
            CallTarget::Volume(volume) => format!("volume {}", volume.quoted()),
            CallTarget::Volumes => "the provider's volumes".to_owned(),
            CallTarget::Snapshot { volume, .. } => {
                let of = volume.as_ref().map(|volume| format!(" of volume {}", volume.quoted()));
                format!("snapshot `{}`{}", self.call.subject, of.unwrap_or_default())
            }
            CallTarget::Snapshots => "the provider's snapshots".to_owned(),
        }
    }

    fn translation(&self, code: StatusCode) -> Option<String> {
        let subject = &self.call.subject;
        match (&self.call.target, self.call.operation, code) {
            (
                CallTarget::Snapshot { source, .. },
                ControllerOperation::CreateSnapshot,
                StatusCode::AlreadyExists,
            ) => Some(format!(
                "snapshot \"{subject}\" already exists but is incompatible with volume ID \"{source}\""
            )),
            _ => self.call.operation.translation(code, subject),
        }
    }
}

impl ControllerOperation {
    fn code(self, code: StatusCode) -> Code {
        match (self, code) {
            (Self::Create, StatusCode::AlreadyExists) => Code::PluginConflict,
            (Self::Create, StatusCode::ResourceExhausted) => Code::PluginExhausted,
            (Self::Create, StatusCode::OutOfRange) => Code::PluginCapacity,
            (Self::Create, StatusCode::NotFound) => Code::PluginSourceNotFound,
            (Self::Delete, StatusCode::FailedPrecondition) => Code::VolumeInUse,
            (
                Self::Validate | Self::Expand(_) | Self::Modify | Self::CreateSnapshot,
                StatusCode::NotFound,
            ) => Code::PluginVolumeNotFound,
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
    use crate::forward_error::ForwardOutcome;
    use nomad_csi_model::{Namespace, VolumeId};
    use nomad_csi_ports::verdict_of;

    fn failed(operation: ControllerOperation, code: StatusCode) -> PluginFailure {
        let rpc = operation.rpc();
        PluginFailure {
            call: CallDescription {
                operation,
                target: CallTarget::Volume(NamespacedId::new(
                    Namespace::default(),
                    VolumeId::new("db"),
                )),
                subject: "vol-1".into(),
                plugin: PluginId::new("ebs0"),
            },
            error: ForwardError::Failed {
                error: PluginError {
                    rpc,
                    code,
                    verdict: verdict_of(rpc, code),
                    message: "the reason".into(),
                    delivery: nomad_csi_ports::Delivery::Answered,
                },
                outcome: ForwardOutcome::NoEffect,
            },
            residual: ResidualState::None,
            capacity: CapacityReport::default(),
        }
    }

    /// Nomad's clients match on these texts.
    #[test]
    fn failures_have_nomads_texts_and_their_own_codes() {
        use ControllerOperation::{Create, Delete, Validate};
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
            (Delete, StatusCode::Unimplemented, "", Code::PluginUnsupported),
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
            let status = format!("rpc error: code = {} desc = the reason", code.as_str());
            assert_eq!(failure.text(), format!("{server}{client}{translation}{status}"));
            assert_eq!(failure.code(), expected, "{operation:?} {code:?}");
            assert!(failure.message().contains("the reason"));
        }
    }

    /// W56: a volume that was refused for its size is reported with what is left, in each place that is known.
    #[test]
    fn a_refusal_for_size_names_what_the_provider_has_left() {
        let bytes = |gib: u64| nomad_csi_model::Bytes::new(gib << 30).unwrap();
        let zone = |name: &str| nomad_csi_model::Topology {
            segments: [("zone".to_owned(), name.to_owned())].into(),
        };
        let left = |available, maximum: Option<u64>| nomad_csi_model::Capacity {
            available: bytes(available),
            maximum_volume_size: maximum.map(bytes),
            minimum_volume_size: None,
        };
        let mut failure = failed(ControllerOperation::Create, StatusCode::ResourceExhausted);
        assert_eq!(failure.notes(), Vec::<String>::new());
        failure.capacity.places = vec![(None, left(5, Some(2)))];
        assert_eq!(
            failure.notes(),
            ["plugin `ebs0` reports: 5.0 GiB available, volumes of at most 2.0 GiB"]
        );
        failure.capacity.places =
            vec![(Some(zone("a")), left(5, None)), (Some(zone("b")), left(0, None))];
        failure.capacity.unknown = vec!["zone=c: no answer".to_owned()];
        assert_eq!(
            failure.notes(),
            [
                "plugin `ebs0` reports in zone=a: 5.0 GiB available",
                "plugin `ebs0` reports in zone=b: 0 B available",
            ]
        );
    }

    #[test]
    fn a_pending_creation_reports_the_name_at_the_provider() {
        let failure = PluginFailure {
            residual: ResidualState::PendingIntent { provider_name: "csi-db-1".into() },
            error: ForwardError::TimedOut {
                rpc: Rpc::CreateVolume,
                after: std::time::Duration::from_secs(120),
                last: None,
                outcome: ForwardOutcome::Unknown,
            },
            ..failed(ControllerOperation::Create, StatusCode::Unknown)
        };
        assert_eq!(failure.code(), Code::VolumePending);
        assert_eq!(
            failure.text(),
            "controller create volume: CSI.ControllerCreateVolume: rpc error: code = \
             DeadlineExceeded desc = no answer within 120 s"
        );
        assert_eq!(
            failure.message(),
            "plugin `ebs0` did not answer CreateVolume of volume `db` within 120 s; the call may still have \
             taken effect"
        );
        assert!(failure.help()[1].contains("volume abandon"));
        assert!(failure.help()[2].contains("csi-db-1"));
    }
}
