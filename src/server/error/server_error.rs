//! Why the server says no, and how it says so.
//!
//! One enum for everything that an operation or a request can fail with, and one place that gives
//! each its code, its HTTP status, Nomad's own text, and a sentence for people. Texts are those of
//! `nomad-http-api` 2.6, 3 and 9, exactly, where Nomad has one: its clients match on them. Statuses
//! are Nomad's too: 400 for what cannot be understood, 404 only on reads and paths, 500 for
//! everything else.

use std::time::Duration;

use http::StatusCode;

use super::plugin::PluginFailure;
use super::request::RequestError;
use super::snapshot::SnapshotError;
use super::variable::VariableError;
use crate::diagnostic::Code;
use crate::model::{AllocId, ExternalId, NamespacedId, PluginId, SecretOwner, VolumeId};
use crate::plan::Refusal;
use crate::ports::SealError;
use crate::server::cell::CommitError;
use crate::server::lanes::LaneFull;

/// Why something was not done. Nothing of it was done then, unless the variant says otherwise.
#[derive(Clone, Debug)]
pub enum ServerError {
    /// The request cannot be understood.
    Request(RequestError),
    /// Nothing is at that path.
    UnknownPath,
    /// Something is at that path, but not this.
    UnknownResource,
    /// Not with that method.
    InvalidMethod,
    /// The path names no volume.
    MissingVolumeId,
    /// A read of a volume that is not there.
    NoVolumeToRead,
    /// A read of a plugin that is not there.
    NoPluginToRead,
    /// A read of a namespace that is not there.
    NoNamespaceToRead,
    /// This server is another region's.
    NoPathToRegion(String),
    /// A request to the provider through a plugin that is not known.
    NoSuchPlugin(PluginId),
    /// The plugin does not do this.
    NotSupported {
        /// The plugin.
        plugin: PluginId,
        /// What.
        what: NotSupported,
    },
    /// A detach of a volume that is not there.
    NoSuchVolume(NamespacedId),
    /// A snapshot of a volume that is not there.
    NoSuchSource(NamespacedId),
    /// A write without volumes.
    MissingDefinition,
    /// What is asked for can never be.
    Invalid {
        /// The volume.
        volume: VolumeId,
        /// All that is wrong, in Nomad's words and order.
        problems: Vec<String>,
    },
    /// One of several volumes is at fault; none of them was written.
    InBatch {
        /// The one.
        volume: NamespacedId,
        /// Its fault.
        error: Box<ServerError>,
    },
    /// Several volumes failed, each for itself; the others were written.
    Several(Vec<ServerError>),
    /// No plugin of that ID is known.
    UnknownPlugin(PluginId),
    /// The plugin needs a controller and has none that is well.
    NoHealthyController(PluginId),
    /// The plugin has none.
    PluginHasNoController(PluginId),
    /// The plugin cannot create.
    CannotCreate(PluginId),
    /// The plugin cannot create from that.
    CannotCopy {
        /// The plugin.
        plugin: PluginId,
        /// From what.
        source: CopySource,
    },
    /// The update does not fit what there is.
    UpdateRefused {
        /// The volume.
        volume: NamespacedId,
        /// All reasons.
        refusals: Vec<Refusal>,
        /// Which request.
        on: UpdateRequest,
    },
    /// The volume would have to grow, and its plugin cannot do that.
    CannotExpand {
        /// The volume.
        volume: NamespacedId,
        /// Which request.
        on: UpdateRequest,
    },
    /// A write about a volume that is not there.
    VolumeNotFound(NamespacedId),
    /// Somebody uses it.
    VolumeInUse {
        /// The volume.
        volume: NamespacedId,
        /// Who.
        holders: Vec<AllocId>,
    },
    /// Its deletion was begun.
    BeingDeleted(NamespacedId),
    /// A volume of that external ID is being deleted under another name.
    SourceBeingDeleted {
        /// The one that is to be registered.
        volume: NamespacedId,
        /// The provider's ID.
        external_id: ExternalId,
        /// The one whose deletion was begun.
        other: NamespacedId,
    },
    /// Deleting it would take it from others (W13).
    Shared {
        /// The volume.
        volume: NamespacedId,
        /// The provider's ID.
        external_id: ExternalId,
        /// The others.
        others: Vec<NamespacedId>,
    },
    /// The plugin that a deletion needs is not known.
    PluginGone(PluginId),
    /// The plugin that a deletion needs has no controller.
    CannotDelete {
        /// The volume.
        volume: NamespacedId,
        /// Its plugin.
        plugin: PluginId,
    },
    /// A controller call failed.
    Plugin(Box<PluginFailure>),
    /// Too much is in line.
    LineFull {
        /// For what.
        what: String,
        /// How many.
        full: LaneFull,
    },
    /// The place in line came too late (W04).
    WaitedTooLong {
        /// For what.
        what: String,
        /// How long.
        waited: Duration,
    },
    /// The volume changed again and again under the request.
    KeepsChanging(NamespacedId),
    /// The change could not be recorded.
    Commit(CommitError),
    /// Stored secrets do not open.
    Secrets {
        /// Whose.
        owner: SecretOwner,
        /// Why.
        error: SealError,
    },
    /// A snapshot cannot be cut or deleted, whoever is asked.
    Snapshot(SnapshotError),
    /// A variable cannot be written, renewed or released.
    Variable(VariableError),
    /// The agent is stopping.
    Stopping,
    /// A defect of ours.
    Defect(String),
}

/// What a volume is to be filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopySource {
    /// `snapshot_id`.
    Snapshot,
    /// `clone_id`.
    Volume,
}

/// What a plugin does not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSupported {
    /// The provider's own list of volumes.
    ListVolumes,
    /// The provider's own list of snapshots.
    ListSnapshots,
    /// A new snapshot.
    CreateSnapshot,
    /// The end of a snapshot.
    DeleteSnapshot,
}

/// Which request an update came with: Nomad prefixes a register's refusal, and nests a create's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateRequest {
    /// Register.
    Register,
    /// Create of a volume that exists.
    Create,
}

impl From<RequestError> for ServerError {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

impl From<SnapshotError> for ServerError {
    fn from(error: SnapshotError) -> Self {
        Self::Snapshot(error)
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
            error @ (CommitError::Conflict { .. }
            | CommitError::VariableConflict { .. }
            | CommitError::Misfit(_)
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
    /// Its code and its HTTP status.
    pub fn class(&self) -> (Code, StatusCode) {
        const OTHER: StatusCode = StatusCode::INTERNAL_SERVER_ERROR;
        const MISSING: StatusCode = StatusCode::NOT_FOUND;
        match self {
            Self::Request(error) => error.class(),
            Self::Variable(error) => error.class(),
            Self::Snapshot(error) => error.class(),
            Self::UnknownPath | Self::UnknownResource => (Code::ServerUnknownPath, MISSING),
            Self::InvalidMethod => (Code::ServerUnknownPath, StatusCode::METHOD_NOT_ALLOWED),
            Self::MissingVolumeId | Self::MissingDefinition => (Code::ApiBadRequest, OTHER),
            Self::NoVolumeToRead => (Code::VolumeNotFound, MISSING),
            Self::NoPluginToRead => (Code::PluginNotFound, MISSING),
            Self::NoNamespaceToRead => (Code::VolumeUnknownNamespace, MISSING),
            Self::NoPathToRegion(_) => (Code::ApiUnknownRegion, OTHER),
            Self::NoSuchPlugin(_) => (Code::PluginUnknown, OTHER),
            Self::NotSupported { .. } => (Code::PluginUnsupported, OTHER),
            Self::NoSuchVolume(_) | Self::NoSuchSource(_) => (Code::VolumeNotFound, OTHER),
            Self::Invalid { .. } => (Code::VolumeInvalid, OTHER),
            Self::InBatch { error, .. } => error.class(),
            Self::Several(errors) => errors.first().map_or((Code::Internal, OTHER), Self::class),
            Self::UnknownPlugin(_) | Self::PluginGone(_) => (Code::PluginUnknown, OTHER),
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
            Self::BeingDeleted(_) | Self::SourceBeingDeleted { .. } => {
                (Code::VolumeBeingDeleted, OTHER)
            }
            Self::Shared { .. } => (Code::VolumeShared, OTHER),
            Self::Plugin(failure) => (failure.code(), OTHER),
            Self::LineFull { .. } | Self::WaitedTooLong { .. } | Self::KeepsChanging(_) => {
                (Code::ServerBusy, OTHER)
            }
            Self::Commit(error) => (commit_code(error), OTHER),
            Self::Secrets { .. } => (Code::ServerSecrets, OTHER),
            Self::Stopping => (Code::ServerStopping, OTHER),
            Self::Defect(_) => (Code::Internal, OTHER),
        }
    }

    /// Nomad's own words, where it has some.
    pub fn text(&self) -> String {
        match self {
            Self::Request(error) => error.text(),
            Self::Variable(error) => error.text(),
            Self::Snapshot(error) => error.text(),
            Self::UnknownPath => String::new(),
            Self::UnknownResource => "resource not found".into(),
            Self::InvalidMethod => "Invalid method".into(),
            Self::MissingVolumeId => "missing volume ID".into(),
            Self::NoVolumeToRead => "volume not found".into(),
            Self::NoPluginToRead => "plugin not found".into(),
            Self::NoNamespaceToRead => "Namespace not found".into(),
            Self::NoPathToRegion(_) => "No path to region".into(),
            Self::NoSuchPlugin(_) => "no such plugin".into(),
            Self::NotSupported { plugin, what } => what.text(plugin),
            Self::NoSuchVolume(_) => "no such volume".into(),
            Self::NoSuchSource(volume) => format!("no such volume \"{}\"", volume.id),
            Self::MissingDefinition => "missing volume definition".into(),
            Self::Invalid { problems, .. } => format!("validation: {}", problems.join(", ")),
            Self::InBatch { volume, error } => format!("volume \"{}\": {error}", volume.id),
            Self::Several(errors) => multi_error(errors.iter().map(Self::text)),
            Self::UnknownPlugin(id) => format!("no CSI plugin named: {id} could be found"),
            Self::NoHealthyController(id) => {
                format!("no healthy controllers for CSI plugin: {id}")
            }
            Self::PluginHasNoController(_) => "plugin has no controller".into(),
            Self::CannotCreate(_) => "plugin does not support creating volumes".into(),
            Self::CannotCopy { source, .. } => {
                format!(
                    "plugin does not support creating volumes from {}",
                    source.as_str()
                )
            }
            Self::UpdateRefused { refusals, on, .. } => {
                format!("{}{}", on.prefix(), refusal_text(refusals))
            }
            Self::CannotExpand { on, .. } => format!(
                "{}expand is not implemented by this controller plugin",
                on.prefix()
            ),
            Self::VolumeNotFound(volume) => format!("volume not found: {}", volume.id),
            Self::VolumeInUse { volume, .. } => format!("volume in use: {}", volume.id),
            Self::PluginGone(id) => format!("plugin not found: {id}"),
            Self::CannotDelete { volume, plugin } => {
                format!("plugin \"{plugin}\" for volume \"{}\" not found", volume.id)
            }
            Self::Plugin(failure) => failure.text(),
            Self::BeingDeleted(_)
            | Self::SourceBeingDeleted { .. }
            | Self::Shared { .. }
            | Self::LineFull { .. }
            | Self::WaitedTooLong { .. }
            | Self::KeepsChanging(_)
            | Self::Commit(_)
            | Self::Secrets { .. }
            | Self::Stopping
            | Self::Defect(_) => self.message(),
        }
    }

    /// One sentence for people, without a full stop: what happened to which object, and why.
    pub fn message(&self) -> String {
        match self {
            Self::Request(error) => error.text(),
            Self::Variable(error) => error.message(),
            Self::Snapshot(error) => error.message(),
            Self::UnknownPath => "there is nothing at this path".into(),
            Self::NoPathToRegion(region) => format!("this agent is not of region {region}"),
            Self::NoSuchPlugin(id) => format!("there is no plugin {id}"),
            Self::NotSupported { plugin, what } => {
                format!("plugin {plugin} cannot {}", what.as_str())
            }
            Self::Invalid { volume, problems } => {
                format!("volume {volume} is not valid: {}", problems.join("; "))
            }
            Self::InBatch { error, .. } => {
                format!("{}, so none of the volumes was registered", error.message())
            }
            Self::Several(errors) => {
                let messages: Vec<_> = errors.iter().map(Self::message).collect();
                messages.join("; ")
            }
            Self::PluginHasNoController(id) => {
                format!("plugin {id} has no controller, so it cannot create volumes")
            }
            Self::CannotCreate(id) => format!("plugin {id} cannot create volumes"),
            Self::CannotCopy { plugin, source } => {
                format!(
                    "plugin {plugin} cannot create volumes from {}",
                    source.as_str()
                )
            }
            Self::UpdateRefused {
                volume, refusals, ..
            } => {
                let reasons: Vec<_> = refusals.iter().map(|r| r.reason.as_str()).collect();
                format!("volume {volume} cannot be updated: {}", reasons.join("; "))
            }
            Self::CannotExpand { volume, .. } => format!(
                "volume {volume} is smaller than it is to be, and its plugin cannot expand volumes"
            ),
            Self::VolumeNotFound(volume)
            | Self::NoSuchVolume(volume)
            | Self::NoSuchSource(volume) => {
                format!("volume {volume} does not exist")
            }
            Self::VolumeInUse { volume, holders } => {
                format!("volume {volume} is claimed by {}", joined(holders))
            }
            Self::BeingDeleted(volume) => {
                format!("volume {volume} is being deleted: the last deletion did not end")
            }
            Self::SourceBeingDeleted {
                volume,
                external_id,
                other,
            } => format!(
                "volume {volume} cannot be registered: the provider's volume {external_id} is being deleted as {other}"
            ),
            Self::Shared {
                volume,
                external_id,
                others,
            } => format!(
                "volume {volume} is not deleted: the provider's volume {external_id} is also registered as {}",
                joined(others)
            ),
            Self::CannotDelete { volume, plugin } => format!(
                "volume {volume} cannot be deleted, because plugin {plugin} has no controller or cannot delete volumes"
            ),
            Self::Plugin(failure) => failure.message(),
            Self::LineFull { what, full } => format!("{full} for {what}"),
            Self::WaitedTooLong { what, waited } => format!(
                "nothing was begun: other work on {what} took longer than {} s",
                waited.as_secs()
            ),
            Self::KeepsChanging(volume) => {
                format!("volume {volume} changed again and again while it was to be updated")
            }
            Self::Commit(error) => match std::error::Error::source(error) {
                Some(reason) => format!("{error}: {reason}"),
                None => error.to_string(),
            },
            Self::Secrets { owner, error } => format!("{owner}: {error}"),
            Self::Stopping => "the agent is stopping".into(),
            Self::Defect(what) => format!("the agent failed inside: {what}"),
            Self::UnknownResource
            | Self::InvalidMethod
            | Self::MissingVolumeId
            | Self::NoVolumeToRead
            | Self::NoPluginToRead
            | Self::NoNamespaceToRead
            | Self::MissingDefinition
            | Self::UnknownPlugin(_)
            | Self::NoHealthyController(_)
            | Self::PluginGone(_) => self.text(),
        }
    }

    /// What to do, a sentence each.
    pub fn help(&self) -> Vec<String> {
        if let Self::Plugin(failure) = self {
            return failure.help();
        }
        let parts = self.parts();
        if parts.is_empty() {
            return vec![self.class().0.remedy().to_owned()];
        }
        let mut help: Vec<String> = parts.iter().flat_map(Self::help).collect();
        help.dedup();
        help
    }

    /// Who stands in the way, if allocations do.
    pub fn holders(&self) -> Vec<String> {
        if let Self::VolumeInUse { holders, .. } = self {
            return holders.iter().map(ToString::to_string).collect();
        }
        self.parts().iter().flat_map(Self::holders).collect()
    }

    /// The errors that this one is made of, if it is.
    fn parts(&self) -> &[Self] {
        if let Self::Several(errors) = self {
            return errors;
        }
        if let Self::InBatch { error, .. } = self {
            return std::slice::from_ref(error);
        }
        &[]
    }

    /// That, of one volume among several: names it, if there are others.
    #[must_use]
    pub fn of(self, volume: &NamespacedId, among: usize) -> Self {
        if among < 2 {
            return self;
        }
        Self::InBatch {
            volume: volume.clone(),
            error: Box::new(self),
        }
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

impl NotSupported {
    const fn as_str(self) -> &'static str {
        match self {
            Self::ListVolumes => "list the provider's volumes",
            Self::ListSnapshots => "list snapshots",
            Self::CreateSnapshot => "create snapshots",
            Self::DeleteSnapshot => "delete snapshots",
        }
    }

    fn text(self, plugin: &PluginId) -> String {
        match self {
            Self::ListVolumes => "unimplemented for this plugin".into(),
            Self::ListSnapshots => "plugin does not support listing snapshots".into(),
            Self::CreateSnapshot => format!("plugin \"{plugin}\" does not support snapshot"),
            Self::DeleteSnapshot => "plugin does not support snapshot".into(),
        }
    }
}

impl UpdateRequest {
    pub(super) const fn prefix(self) -> &'static str {
        match self {
            Self::Register => "unable to update volume: ",
            Self::Create => "",
        }
    }
}

/// Whether it is about the size: those refusals come alone, and Nomad does not list them.
fn is_about_size(refusals: &[Refusal]) -> bool {
    let mut fields = refusals.iter().map(|refusal| refusal.field);
    fields.all(|field| field.starts_with("capacity"))
}

fn refusal_code(refusals: &[Refusal]) -> Code {
    if is_about_size(refusals) {
        Code::VolumeCapacity
    } else {
        Code::VolumeImmutableField
    }
}

fn refusal_text(refusals: &[Refusal]) -> String {
    let texts = refusals.iter().map(|refusal| refusal.text.clone());
    if is_about_size(refusals) {
        texts.collect::<Vec<_>>().join(", ")
    } else {
        multi_error(texts)
    }
}

fn commit_code(error: &CommitError) -> Code {
    match error {
        CommitError::Conflict { .. }
        | CommitError::VariableConflict { .. }
        | CommitError::Misfit(_) => Code::ServerBusy,
        CommitError::Journal(error) => error.kind.code(),
        CommitError::Stopping => Code::ServerStopping,
    }
}

fn joined<T: ToString>(things: &[T]) -> String {
    let texts: Vec<_> = things.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

/// Several errors in one text, as Nomad prints them (`nomad-http-api` 2.6).
pub(super) fn multi_error(texts: impl IntoIterator<Item = String>) -> String {
    let points: Vec<_> = texts.into_iter().map(|text| format!("* {text}")).collect();
    let count = match points.len() {
        1 => "1 error".to_owned(),
        many => format!("{many} errors"),
    };
    format!("{count} occurred:\n\t{}\n\n", points.join("\n\t"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Namespace, VolumeId};

    #[test]
    fn what_is_the_servers_own_has_a_code_of_its_own() {
        let volume = NamespacedId::new(Namespace::default(), VolumeId::new("db"));
        let (owner, error) = (SecretOwner::Volume(volume), SealError);
        for (error, code) in [
            (ServerError::UnknownPath, Code::ServerUnknownPath),
            (ServerError::Secrets { owner, error }, Code::ServerSecrets),
        ] {
            assert_eq!(error.class().0, code, "{error:?}");
        }
    }
}
