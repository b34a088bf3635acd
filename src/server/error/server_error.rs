//! The errors of the server, with their codes, HTTP statuses, texts and messages.
//!
//! Where Nomad has a text, [`ServerError::text`] is exactly that text: Nomad's clients match on it.
//! The statuses are Nomad's too: 400 for malformed requests, 404 only for reads and paths, 500 for
//! everything else.

use std::time::Duration;

use http::StatusCode;

use super::acl::AclError;
use super::claim::ClaimError;
use super::job::JobError;
use super::multi_error::{first_ones, multi_error};
use super::namespace::NamespaceError;
use super::plugin::PluginFailure;
use super::request::RequestError;
use super::snapshot::SnapshotError;
use super::update_origin::UpdateOrigin;
use super::variable::VariableError;
use crate::candidates::{InstanceEnd, bound_help};
use crate::cell::CommitError;
use crate::keyed_locks::QueueFull;
use crate::sealer::SealError;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{AllocId, ExternalId, NamespacedId, PluginId, SecretOwner, VolumeId};
use nomad_csi_plan::Refusal;

/// The error of a request. The request had no effect, unless the variant documents one.
#[derive(Clone, Debug)]
pub enum ServerError {
    /// The request is malformed.
    Request(RequestError),
    /// A request about a claim or a node.
    Claim(ClaimError),
    /// The ACL refuses the request.
    Acl(AclError),
    /// The path does not exist.
    UnknownPath,
    /// The path is one of Nomad's that the agent does not have.
    NotOffered {
        /// 501, or 404 where clients go on after it.
        status: StatusCode,
        /// What the agent does not have, and what to use.
        sentence: &'static str,
    },
    /// The path exists, the resource below it does not.
    UnknownResource,
    /// The path does not support the method.
    InvalidMethod,
    /// The path names no volume.
    MissingVolumeId,
    /// A read of a volume that does not exist.
    NoVolumeToRead,
    /// A read of a plugin that does not exist.
    NoPluginToRead,
    /// The request is for another region.
    NoPathToRegion(String),
    /// A provider request to an unknown plugin.
    NoSuchPlugin(PluginId),
    /// The plugin does not support the operation.
    NotSupported {
        /// The plugin.
        plugin: PluginId,
        /// The operation.
        operation: UnsupportedOperation,
    },
    /// A detach of a volume that does not exist.
    NoSuchVolume(NamespacedId),
    /// A snapshot of a volume that does not exist.
    NoSuchSource(NamespacedId),
    /// A write without volumes.
    MissingDefinition,
    /// The volume is invalid.
    Invalid {
        /// The volume.
        volume: VolumeId,
        /// All problems, with Nomad's texts and in its order.
        problems: Vec<String>,
    },
    /// One of several volumes is invalid; none of them was written.
    InBatch {
        /// The invalid volume.
        volume: NamespacedId,
        /// Its error.
        error: Box<ServerError>,
    },
    /// Some of several independent volumes failed; the others were written.
    Multiple(Vec<ServerError>),
    /// A write names an unknown plugin.
    UnknownPlugin(PluginId),
    /// The plugin needs a controller and has no healthy one.
    NoHealthyController(PluginId),
    /// The plugin has no controller.
    PluginHasNoController(PluginId),
    /// The plugin cannot create volumes.
    CannotCreate(PluginId),
    /// The plugin cannot create volumes from that source.
    CannotCopy {
        /// The plugin.
        plugin: PluginId,
        /// The source.
        source: CopySource,
    },
    /// The existing volume does not permit the update.
    UpdateRefused {
        /// The volume.
        volume: NamespacedId,
        /// All refused changes.
        refusals: Vec<Refusal>,
        /// The request that it belongs to.
        origin: UpdateOrigin,
    },
    /// The update needs an expansion, which the plugin does not support.
    CannotExpand {
        /// The volume.
        volume: NamespacedId,
        /// The request that it belongs to.
        origin: UpdateOrigin,
    },
    /// A write to a volume that does not exist.
    VolumeNotFound(NamespacedId),
    /// Allocations claim the volume.
    VolumeInUse {
        /// The volume.
        volume: NamespacedId,
        /// The allocations.
        claiming_allocs: Vec<AllocId>,
    },
    /// A call for the volume may still take effect, and with the registration the agent would forget where.
    CallOpen {
        /// The volume.
        volume: NamespacedId,
        /// The plugin.
        plugin: PluginId,
        /// The instance that may carry it out.
        instance: AllocId,
        /// Who ends it.
        end: InstanceEnd,
    },
    /// Deletion of the volume has started.
    BeingDeleted(NamespacedId),
    /// The external volume is being deleted under another ID.
    SourceBeingDeleted {
        /// The volume to register.
        volume: NamespacedId,
        /// The external ID.
        external_id: ExternalId,
        /// The volume that is being deleted.
        other: NamespacedId,
    },
    /// Another volume is registered with the data of the volume, and the request does not allow that.
    SecondRegistration {
        /// The volume.
        volume: NamespacedId,
        /// The external ID.
        external_id: ExternalId,
        /// The other registrations.
        others: Vec<NamespacedId>,
    },
    /// Other registrations use the same external volume.
    Shared {
        /// The volume.
        volume: NamespacedId,
        /// The external ID.
        external_id: ExternalId,
        /// The other registrations.
        others: Vec<NamespacedId>,
    },
    /// A delete needs an unknown plugin.
    PluginNotFound(PluginId),
    /// A delete needs a plugin that has no controller.
    CannotDelete {
        /// The volume.
        volume: NamespacedId,
        /// Its plugin.
        plugin: PluginId,
    },
    /// A controller call failed.
    Plugin(Box<PluginFailure>),
    /// The queue of operations is full.
    QueueFull {
        /// The object that they wait for.
        name: String,
        /// The queue's error.
        error: QueueFull,
    },
    /// The operation was not admitted in time.
    QueueTimeout {
        /// The object that it waited for.
        name: String,
        /// The time that it waited.
        waited: Duration,
    },
    /// The volume's specification is not the one that the client read.
    SpecChanged {
        /// The volume.
        volume: NamespacedId,
        /// The index that the client expects; 0 for a volume that does not exist.
        expected: u64,
        /// The index of the last change of the specification; 0 if the volume does not exist.
        found: u64,
    },
    /// Some objects of a request were created, and others not.
    PartlyCreated {
        /// The objects that were created, a sentence each.
        created: Vec<String>,
        /// Why the others were not.
        failures: Vec<ServerError>,
    },
    /// The volume changed during every attempt to write it.
    RepeatedConflict(NamespacedId),
    /// The volume has no creation that could be given up.
    NoPendingCreation(NamespacedId),
    /// The creation was requested in too many ways, and each may have created the volume.
    TooManyCreateRequests {
        /// The volume.
        volume: NamespacedId,
        /// How many different requests were sent.
        requests: usize,
    },
    /// The change could not be recorded.
    Commit(CommitError),
    /// Stored secrets cannot be opened.
    Secrets {
        /// The owner of the secrets.
        owner: SecretOwner,
        /// The reason.
        error: SealError,
    },
    /// A snapshot request is invalid.
    Snapshot(SnapshotError),
    /// A request about a job or an allocation is refused.
    Job(JobError),
    /// A request about a namespace is refused.
    Namespace(NamespaceError),
    /// A variable request is invalid or refused.
    Variable(VariableError),
    /// The agent is stopping.
    Stopping,
    /// Another server may lead.
    NoLeader,
    /// This server does not lead, and cannot answer for the one that does.
    NoAnswerOfLeader(String),
    /// The leader did not answer a change that was forwarded to it.
    LeaderLost,
    /// A bug in the agent.
    Internal(String),
}

/// The source of a new volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopySource {
    /// `snapshot_id`.
    Snapshot,
    /// `clone_id`.
    Volume,
}

/// An operation that a plugin does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsupportedOperation {
    /// Listing volumes.
    ListVolumes,
    /// Listing snapshots.
    ListSnapshots,
    /// Creating a snapshot.
    CreateSnapshot,
    /// Deleting a snapshot.
    DeleteSnapshot,
    /// Changing mutable parameters.
    ModifyVolume,
}

impl From<RequestError> for ServerError {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

impl From<AclError> for ServerError {
    fn from(error: AclError) -> Self {
        Self::Acl(error)
    }
}

impl From<ClaimError> for ServerError {
    fn from(error: ClaimError) -> Self {
        Self::Claim(error)
    }
}

impl From<PluginFailure> for ServerError {
    fn from(failure: PluginFailure) -> Self {
        Self::Plugin(Box::new(failure))
    }
}

impl From<SnapshotError> for ServerError {
    fn from(error: SnapshotError) -> Self {
        Self::Snapshot(error)
    }
}

impl From<JobError> for ServerError {
    fn from(error: JobError) -> Self {
        Self::Job(error)
    }
}

impl From<NamespaceError> for ServerError {
    fn from(error: NamespaceError) -> Self {
        Self::Namespace(error)
    }
}

impl From<VariableError> for ServerError {
    fn from(error: VariableError) -> Self {
        Self::Variable(error)
    }
}

impl From<CommitError> for ServerError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Stopping => Self::Stopping,
            CommitError::Shared { volume, external_id, others } => {
                Self::SecondRegistration { volume, external_id, others }
            }
            CommitError::NoNamespace { user } => Self::Namespace(NamespaceError::Missing(*user)),
            error @ (CommitError::Conflict { .. }
            | CommitError::VariableConflict { .. }
            | CommitError::ClaimsConflict { .. }
            | CommitError::JobConflict { .. }
            | CommitError::NodeConflict { .. }
            | CommitError::InvalidEvent(_)
            | CommitError::LimitReached(_)
            | CommitError::Journal(_)) => Self::Commit(error),
        }
    }
}

impl std::fmt::Display for ServerError {
    /// Nomad's text.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text())
    }
}

impl std::error::Error for ServerError {}

impl ServerError {
    /// Returns the diagnostic code and the HTTP status.
    pub fn code_and_status(&self) -> (Code, StatusCode) {
        const OTHER: StatusCode = StatusCode::INTERNAL_SERVER_ERROR;
        const MISSING: StatusCode = StatusCode::NOT_FOUND;
        match self {
            Self::Request(error) => error.code_and_status(),
            Self::Variable(error) => error.code_and_status(),
            Self::Job(error) => error.code_and_status(),
            Self::Namespace(error) => error.code_and_status(),
            Self::Acl(error) => error.code_and_status(),
            Self::Snapshot(error) => error.code_and_status(),
            Self::Claim(error) => error.code_and_status(),
            Self::UnknownPath | Self::UnknownResource => (Code::ServerUnknownPath, MISSING),
            Self::NotOffered { status, .. } => (Code::ServerUnknownPath, *status),
            Self::InvalidMethod => (Code::ServerUnknownPath, StatusCode::METHOD_NOT_ALLOWED),
            Self::MissingVolumeId | Self::MissingDefinition => (Code::ApiBadRequest, OTHER),
            Self::NoVolumeToRead => (Code::VolumeNotFound, MISSING),
            Self::NoPluginToRead => (Code::PluginNotFound, MISSING),
            Self::NoPathToRegion(_) => (Code::ApiUnknownRegion, OTHER),
            Self::NoSuchPlugin(_) => (Code::PluginUnknown, OTHER),
            Self::NotSupported { .. } => (Code::PluginUnsupported, OTHER),
            Self::NoSuchVolume(_) | Self::NoSuchSource(_) => (Code::VolumeNotFound, OTHER),
            Self::Invalid { .. } => (Code::VolumeInvalid, OTHER),
            Self::InBatch { error, .. } => error.code_and_status(),
            Self::Multiple(errors) | Self::PartlyCreated { failures: errors, .. } => {
                errors.first().map_or((Code::Internal, OTHER), Self::code_and_status)
            }
            Self::UnknownPlugin(_) | Self::PluginNotFound(_) => (Code::PluginUnknown, OTHER),
            Self::NoHealthyController(_) => (Code::PluginUnhealthy, OTHER),
            Self::PluginHasNoController(_) | Self::CannotDelete { .. } => {
                (Code::PluginNoController, OTHER)
            }
            Self::CannotCreate(_) | Self::CannotCopy { .. } | Self::CannotExpand { .. } => {
                (Code::PluginUnsupported, OTHER)
            }
            Self::UpdateRefused { refusals, .. } => (refusal_code(refusals), OTHER),
            Self::VolumeNotFound(_) => (Code::VolumeNotFound, OTHER),
            Self::VolumeInUse { .. } => (Code::VolumeInUse, OTHER),
            Self::CallOpen { .. } => (Code::VolumePending, OTHER),
            Self::BeingDeleted(_) | Self::SourceBeingDeleted { .. } => {
                (Code::VolumeBeingDeleted, OTHER)
            }
            Self::Shared { .. } | Self::SecondRegistration { .. } => (Code::VolumeShared, OTHER),
            Self::Plugin(failure) => (failure.code(), OTHER),
            Self::NoPendingCreation(_) => (Code::VolumeNotFound, MISSING),
            Self::TooManyCreateRequests { .. } => (Code::VolumeCreating, OTHER),
            Self::QueueFull { .. } | Self::QueueTimeout { .. } | Self::RepeatedConflict(_) => {
                (Code::ServerBusy, OTHER)
            }
            Self::SpecChanged { .. } => (Code::PlanStale, StatusCode::CONFLICT),
            Self::Commit(error @ CommitError::LimitReached(_)) => {
                (commit_code(error), StatusCode::INSUFFICIENT_STORAGE)
            }
            Self::Commit(error) => (commit_code(error), OTHER),
            Self::Secrets { .. } => (Code::ServerSecrets, OTHER),
            Self::Stopping => (Code::ServerStopping, OTHER),
            Self::NoLeader | Self::NoAnswerOfLeader(_) => (Code::ApiNoLeader, OTHER),
            Self::LeaderLost => (Code::ApiOutcomeUnknown, OTHER),
            Self::Internal(_) => (Code::Internal, OTHER),
        }
    }

    /// Returns Nomad's exact text where Nomad has one, else the message.
    pub fn text(&self) -> String {
        match self {
            Self::Request(error) => error.text(),
            Self::Variable(error) => error.text(),
            Self::Job(error) => error.text(),
            Self::Namespace(error) => error.text(),
            Self::Acl(error) => error.text(),
            Self::Snapshot(error) => error.text(),
            Self::Claim(error) => error.text(),
            Self::UnknownPath | Self::NotOffered { .. } | Self::LeaderLost => self.message(),
            Self::UnknownResource => "resource not found".into(),
            Self::InvalidMethod => "Invalid method".into(),
            Self::MissingVolumeId => "missing volume ID".into(),
            Self::NoVolumeToRead => "volume not found".into(),
            Self::NoPluginToRead => "plugin not found".into(),
            Self::NoPathToRegion(_) => "No path to region".into(),
            Self::NoLeader | Self::NoAnswerOfLeader(_) => "No cluster leader".into(),
            Self::NoSuchPlugin(_) => "no such plugin".into(),
            Self::NotSupported { plugin, operation } => operation.text(plugin),
            Self::NoSuchVolume(_) => "no such volume".into(),
            Self::NoSuchSource(volume) => format!("no such volume \"{}\"", volume.id),
            Self::MissingDefinition => "missing volume definition".into(),
            Self::Invalid { problems, .. } => {
                format!("validation: {}", first_ones(problems.iter().cloned()).join(", "))
            }
            Self::InBatch { volume, error } => format!("volume \"{}\": {error}", volume.id),
            Self::Multiple(errors) => multi_error(errors.iter().map(Self::text)),
            Self::PartlyCreated { created, failures } => {
                let failed = multi_error(failures.iter().map(Self::text));
                format!("{failed}{}\n", created.join("\n"))
            }
            Self::UnknownPlugin(id) => format!("no CSI plugin named: {id} could be found"),
            Self::NoHealthyController(id) => {
                format!("no healthy controllers for CSI plugin: {id}")
            }
            Self::PluginHasNoController(_) => "plugin has no controller".into(),
            Self::CannotCreate(_) => "plugin does not support creating volumes".into(),
            Self::CannotCopy { source, .. } => {
                format!("plugin does not support creating volumes from {}", source.as_str())
            }
            Self::UpdateRefused { refusals, origin, .. } => {
                format!("{}{}", origin.prefix(), refusal_text(refusals))
            }
            Self::CannotExpand { origin, .. } => {
                format!("{}expand is not implemented by this controller plugin", origin.prefix())
            }
            Self::VolumeNotFound(volume) => format!("volume not found: {}", volume.id),
            Self::VolumeInUse { volume, .. } => format!("volume in use: {}", volume.id),
            Self::PluginNotFound(id) => format!("plugin not found: {id}"),
            Self::CannotDelete { volume, plugin } => {
                format!("plugin \"{plugin}\" for volume \"{}\" not found", volume.id)
            }
            Self::Plugin(failure) => failure.text(),
            Self::CallOpen { .. }
            | Self::BeingDeleted(_)
            | Self::SourceBeingDeleted { .. }
            | Self::Shared { .. }
            | Self::SecondRegistration { .. }
            | Self::QueueFull { .. }
            | Self::QueueTimeout { .. }
            | Self::RepeatedConflict(_)
            | Self::NoPendingCreation(_)
            | Self::TooManyCreateRequests { .. }
            | Self::SpecChanged { .. }
            | Self::Commit(_)
            | Self::Secrets { .. }
            | Self::Stopping
            | Self::Internal(_) => self.message(),
        }
    }

    /// Returns a message for people: what happened to which object, and why.
    #[expect(clippy::too_many_lines, reason = "one arm per error")]
    pub fn message(&self) -> String {
        match self {
            Self::Request(error) => error.message(),
            Self::Variable(error) => error.message(),
            Self::Job(error) => error.message(),
            Self::Namespace(error) => error.message(),
            Self::Acl(error) => error.message(),
            Self::Snapshot(error) => error.message(),
            Self::Claim(error) => error.message(),
            Self::UnknownPath => "the agent of nomad-csi does not have this endpoint".into(),
            Self::NotOffered { sentence, .. } => (*sentence).to_owned(),
            Self::NoPathToRegion(region) => format!("this agent is not in region `{region}`"),
            Self::NoSuchPlugin(id) => format!("plugin `{id}` does not exist"),
            Self::NotSupported { plugin, operation } => {
                format!("plugin `{plugin}` cannot {}", operation.as_str())
            }
            Self::Invalid { volume, problems } => {
                let problems = first_ones(problems.iter().cloned());
                format!("volume `{volume}` is not valid: {}", problems.join("; "))
            }
            Self::InBatch { error, .. } => {
                format!("{}; no volume was registered", error.message())
            }
            Self::Multiple(errors) | Self::PartlyCreated { failures: errors, .. } => {
                first_ones(errors.iter().map(Self::message)).join("; ")
            }
            Self::PluginHasNoController(id) => {
                format!("plugin `{id}` cannot create volumes: it has no controller")
            }
            Self::CannotCreate(id) => format!("plugin `{id}` cannot create volumes"),
            Self::CannotCopy { plugin, source } => {
                format!("plugin `{plugin}` cannot create volumes from {}", source.as_str())
            }
            Self::UpdateRefused { volume, refusals, .. } => {
                let reasons: Vec<_> = refusals.iter().map(|r| r.reason.as_str()).collect();
                format!("volume {} cannot be updated: {}", volume.quoted(), reasons.join("; "))
            }
            Self::CannotExpand { volume, .. } => {
                format!(
                    "volume {} cannot be expanded: its plugin does not support expansion",
                    volume.quoted()
                )
            }
            Self::VolumeNotFound(volume)
            | Self::NoSuchVolume(volume)
            | Self::NoSuchSource(volume) => {
                format!("volume {} does not exist", volume.quoted())
            }
            Self::VolumeInUse { volume, claiming_allocs } => {
                let claims = claiming_allocs.iter().map(|alloc| format!("allocation `{alloc}`"));
                let claims: Vec<_> = claims.collect();
                format!("volume {} is claimed by {}", volume.quoted(), claims.join(", "))
            }
            Self::CallOpen { volume, instance, .. } => format!(
                "volume {} was not deregistered: an earlier call for it may still take effect in plugin instance `{instance}`",
                volume.quoted()
            ),
            Self::BeingDeleted(volume) => {
                format!(
                    "volume {} is being deleted: its last deletion did not complete",
                    volume.quoted()
                )
            }
            Self::SourceBeingDeleted { volume, external_id, other } => format!(
                "volume {} cannot be registered: external volume `{external_id}` is being deleted as {}",
                volume.quoted(),
                other.quoted()
            ),
            Self::SecondRegistration { volume, external_id, others } => format!(
                "volume {} cannot be registered: external volume `{external_id}` is already registered as {}; if both \
                 are meant to use data that already exists, repeat the request with `?share=true`",
                volume.quoted(),
                joined(others)
            ),
            Self::Shared { volume, external_id, others } => format!(
                "volume {} cannot be deleted: external volume `{external_id}` is also registered as {}",
                volume.quoted(),
                joined(others)
            ),
            Self::CannotDelete { volume, plugin } => format!(
                "volume {} cannot be deleted: plugin `{plugin}` has no controller or cannot delete volumes",
                volume.quoted()
            ),
            Self::Plugin(failure) => failure.message(),
            Self::QueueFull { name, error } => format!("{error} for {name}"),
            Self::QueueTimeout { name, waited } => format!(
                "the operation was not started: other operations on {name} took longer than {} s",
                waited.as_secs()
            ),
            Self::SpecChanged { volume, expected, found } => {
                spec_changed(volume, *expected, *found)
            }
            Self::RepeatedConflict(volume) => {
                format!(
                    "the operation on volume {} was not carried out: the volume changed during every attempt",
                    volume.quoted()
                )
            }
            Self::NoPendingCreation(volume) => {
                format!("no creation of volume {} is pending", volume.quoted())
            }
            Self::TooManyCreateRequests { volume, requests } => format!(
                "the creation of volume {} was requested in {requests} ways, and each may have created it; no other one was sent",
                volume.quoted()
            ),
            Self::Commit(error) => match std::error::Error::source(error) {
                Some(reason) => format!("{error}: {reason}"),
                None => error.to_string(),
            },
            Self::Secrets { owner, error } => format!("{owner}: {error}"),
            Self::Stopping => "the agent is stopping".into(),
            Self::NoAnswerOfLeader(reason) => {
                format!("this server does not lead, and cannot answer for the one that does: {reason}")
            }
            Self::LeaderLost => "the leader did not answer a request that was forwarded to it: read what it was about before you repeat it".into(),
            Self::NoLeader => {
                "this server is not certain to lead: it waits for etcd, or another server leads"
                    .into()
            }
            Self::Internal(what) => format!("internal error: {what}"),
            Self::UnknownResource
            | Self::InvalidMethod
            | Self::MissingVolumeId
            | Self::NoVolumeToRead
            | Self::NoPluginToRead
            | Self::MissingDefinition
            | Self::UnknownPlugin(_)
            | Self::NoHealthyController(_)
            | Self::PluginNotFound(_) => self.text(),
        }
    }

    /// Returns what the reader needs to judge, a sentence each.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::Claim(error) => error.notes(),
            Self::Plugin(failure) => failure.notes(),
            Self::Namespace(error) => error.notes(),
            Self::PartlyCreated { created, failures } => {
                let notes = failures.iter().flat_map(Self::notes);
                created.iter().cloned().chain(notes).collect()
            }
            other => other.parts().iter().flat_map(Self::notes).collect(),
        }
    }

    /// Returns what to do, a sentence each.
    pub fn help(&self) -> Vec<String> {
        if let Self::Plugin(failure) = self {
            return failure.help();
        }
        if let Self::CallOpen { plugin, instance, end, .. } = self {
            let again = "repeat the operation that did not end, then deregister the volume; `--force` forgets the call";
            return vec![again.to_owned(), bound_help(plugin, instance, end)];
        }
        if let Self::Namespace(error) = self
            && let Some(help) = error.help()
        {
            return vec![help];
        }
        if let Self::Acl(error) = self {
            return error.help();
        }
        if let Self::Claim(error) = self {
            return error.help();
        }
        if let Self::Request(error) = self {
            return error.help();
        }
        if let Self::Job(error) = self
            && let Some(help) = error.help()
        {
            return vec![help];
        }
        let parts = self.parts();
        if parts.is_empty() {
            return vec![self.code_and_status().0.advice()];
        }
        let mut help: Vec<String> = parts.iter().flat_map(Self::help).collect();
        help.dedup();
        help
    }

    /// Returns the allocations that prevent the operation.
    pub fn claiming_allocs(&self) -> Vec<String> {
        if let Self::Claim(ClaimError::Denied { denied, .. }) = self {
            let holders = denied.holders.iter();
            return holders.map(|holder| holder.alloc.to_string()).collect();
        }
        if let Self::VolumeInUse { claiming_allocs, .. } = self {
            return claiming_allocs.iter().map(ToString::to_string).collect();
        }
        self.parts().iter().flat_map(Self::claiming_allocs).collect()
    }

    /// The errors that this one contains.
    fn parts(&self) -> &[Self] {
        if let Self::Multiple(errors) | Self::PartlyCreated { failures: errors, .. } = self {
            return errors;
        }
        if let Self::InBatch { error, .. } = self {
            return std::slice::from_ref(error);
        }
        &[]
    }

    /// Adds the volume to the error if the request has several volumes.
    #[must_use]
    pub fn in_batch(self, volume: &NamespacedId, batch_size: usize) -> Self {
        if batch_size < 2 {
            return self;
        }
        Self::InBatch { volume: volume.clone(), error: Box::new(self) }
    }
}

impl CopySource {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Snapshot => "a snapshot",
            Self::Volume => "a volume",
        }
    }
}

impl UnsupportedOperation {
    const fn as_str(self) -> &'static str {
        match self {
            Self::ListVolumes => "list the provider's volumes",
            Self::ListSnapshots => "list snapshots",
            Self::CreateSnapshot => "create snapshots",
            Self::DeleteSnapshot => "delete snapshots",
            Self::ModifyVolume => "modify volumes",
        }
    }

    fn text(self, plugin: &PluginId) -> String {
        match self {
            Self::ListVolumes => "unimplemented for this plugin".into(),
            Self::ListSnapshots => "plugin does not support listing snapshots".into(),
            Self::CreateSnapshot => format!("plugin \"{plugin}\" does not support snapshot"),
            Self::DeleteSnapshot => "plugin does not support snapshot".into(),
            Self::ModifyVolume => format!("plugin \"{plugin}\" does not support modifying volumes"),
        }
    }
}

/// Returns whether all refusals are about the size. Nomad prints such a refusal without a list.
fn is_about_size(refusals: &[Refusal]) -> bool {
    let mut fields = refusals.iter().map(|refusal| refusal.field);
    fields.all(|field| field.starts_with("capacity"))
}

fn refusal_code(refusals: &[Refusal]) -> Code {
    if is_about_size(refusals) { Code::VolumeCapacity } else { Code::VolumeImmutableField }
}

fn refusal_text(refusals: &[Refusal]) -> String {
    let texts = refusals.iter().map(|refusal| refusal.text.clone());
    if is_about_size(refusals) { texts.collect::<Vec<_>>().join(", ") } else { multi_error(texts) }
}

fn spec_changed(volume: &NamespacedId, expected: u64, found: u64) -> String {
    let volume = volume.quoted();
    match (expected, found) {
        (0, found) => format!("cas error: volume {volume} exists, at index {found}"),
        (expected, 0) => {
            format!(
                "cas error: volume {volume} does not exist; the request expects index {expected}"
            )
        }
        (expected, found) => format!(
            "cas error: the specification of volume {volume} changed: it is at index {found}, and the request expects index {expected}"
        ),
    }
}

fn commit_code(error: &CommitError) -> Code {
    match error {
        CommitError::Conflict { .. }
        | CommitError::VariableConflict { .. }
        | CommitError::ClaimsConflict { .. }
        | CommitError::JobConflict { .. }
        | CommitError::NodeConflict { .. }
        | CommitError::InvalidEvent(_) => Code::ServerBusy,
        CommitError::Journal(error) => error.kind.code(),
        CommitError::NoNamespace { .. } => Code::VolumeUnknownNamespace,
        CommitError::LimitReached(_) => Code::ServerLimit,
        CommitError::Shared { .. } => Code::VolumeShared,
        CommitError::Stopping => Code::ServerStopping,
    }
}

fn joined(volumes: &[NamespacedId]) -> String {
    let names: Vec<_> = volumes.iter().map(NamespacedId::quoted).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::{Namespace, VolumeId};

    #[test]
    fn errors_that_nomad_does_not_have_have_their_own_codes() {
        let volume = NamespacedId::new(Namespace::default(), VolumeId::new("db"));
        let (owner, error) = (SecretOwner::Volume(volume), SealError);
        for (error, code) in [
            (ServerError::UnknownPath, Code::ServerUnknownPath),
            (ServerError::Secrets { owner, error }, Code::ServerSecrets),
        ] {
            assert_eq!(error.code_and_status().0, code, "{error:?}");
        }
    }
}
