//! The types of a plan.
//!
//! A plan has one entry per specification, in the order of the files. One entry per volume to remove
//! follows, for the volumes that no file names. An action carries the request that it sends;
//! a removal sends only the entry's key.

use super::claiming_alloc::ClaimingAlloc;
use super::diff::Change;
use super::ledger::DataIdentity;
use super::merge::{Expansion, SecretsChange};
use super::risk::Impact;
use super::volume_version::VolumeVersion;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Span};
use nomad_csi_model::{HiddenField, NamespacedId, UnresolvedRequest};
use nomad_csi_spec::VolumeSpec;

/// The change that a plan makes to one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// None: the volume is as the file wants it, or is already gone.
    Unchanged,
    /// Create it in the provider and register it.
    Create(Box<UnresolvedRequest>),
    /// Register a volume that the provider already has.
    Register(Box<UnresolvedRequest>),
    /// Register the data of an owned volume again, whose registration is gone or names other data.
    RegisterAgain(Box<RegisterAgain>),
    /// Create an owned volume again, empty: its registration is gone, and its data is not confirmed.
    Recreate(Box<Recreate>),
    /// Update its registration.
    Update(Box<Update>),
    /// Update its registration and have the provider expand it.
    Expand(Box<Update>),
    /// Remove and recreate it. Only `--replace` requests this.
    Replace(Box<Replace>),
    /// Remove its registration; the data stays with the provider. Sends only
    /// [`PlannedVolume::key`].
    Deregister,
    /// Delete its data in the provider and its registration. Only `--delete-data` requests this.
    /// Sends only [`PlannedVolume::key`].
    DeleteData,
    /// None until the claims of the volume are released.
    WaitingForClaims(ClaimWait),
    /// None: the server or the plugin would refuse, or the change would do harm. Holds all reasons.
    Blocked(Vec<Diagnostic>),
}

impl Action {
    /// Its name in JSON documents and saved plans.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Create(_) => "create",
            Self::Register(_) => "register",
            Self::RegisterAgain(_) => "register-again",
            Self::Recreate(_) => "recreate",
            Self::Update(_) => "update",
            Self::Expand(_) => "expand",
            Self::Replace(_) => "replace",
            Self::Deregister => "deregister",
            Self::DeleteData => "delete-data",
            Self::WaitingForClaims(_) => "wait",
            Self::Blocked(_) => "blocked",
            Self::Unchanged => "unchanged",
        }
    }

    /// Returns why it cannot be done, or not now; empty if it can.
    pub fn reasons(&self) -> &[Diagnostic] {
        match self {
            Self::Blocked(reasons) => reasons,
            Self::WaitingForClaims(wait) => &wait.reasons,
            Self::Unchanged
            | Self::Create(_)
            | Self::Register(_)
            | Self::RegisterAgain(_)
            | Self::Recreate(_)
            | Self::Update(_)
            | Self::Expand(_)
            | Self::Replace(_)
            | Self::Deregister
            | Self::DeleteData => &[],
        }
    }
}

impl Action {
    /// Returns whether the provider creates a volume, and fills it from its source.
    pub fn creates(&self) -> bool {
        match self {
            Self::Create(_) | Self::Recreate(_) | Self::Replace(_) => true,
            Self::Unchanged
            | Self::Register(_)
            | Self::RegisterAgain(_)
            | Self::Update(_)
            | Self::Expand(_)
            | Self::Deregister
            | Self::DeleteData
            | Self::WaitingForClaims(_)
            | Self::Blocked(_) => false,
        }
    }

    /// Returns whether the change deletes the data that the volume has now.
    pub fn destroys_data(&self) -> bool {
        match self {
            Self::DeleteData => true,
            Self::Replace(replace) => match replace.steps {
                ReplaceSteps::DeleteThenCreate => true,
                ReplaceSteps::DeregisterThenRegister => false,
            },
            Self::Unchanged
            | Self::Create(_)
            | Self::Register(_)
            | Self::RegisterAgain(_)
            | Self::Recreate(_)
            | Self::Update(_)
            | Self::Expand(_)
            | Self::Deregister
            | Self::WaitingForClaims(_)
            | Self::Blocked(_) => false,
        }
    }

    /// Returns the request that registers data which exists; `None` if the change registers none.
    pub fn registration(&self) -> Option<&UnresolvedRequest> {
        match self {
            Self::Register(request) => Some(request),
            Self::RegisterAgain(again) => Some(&again.request),
            Self::Replace(replace) => match replace.steps {
                ReplaceSteps::DeregisterThenRegister => Some(&replace.request),
                ReplaceSteps::DeleteThenCreate => None,
            },
            Self::Unchanged
            | Self::Create(_)
            | Self::Recreate(_)
            | Self::Update(_)
            | Self::Expand(_)
            | Self::Deregister
            | Self::DeleteData
            | Self::WaitingForClaims(_)
            | Self::Blocked(_) => None,
        }
    }

    /// Returns the request that creates a volume which the server does not have; `None` if the change creates none.
    pub fn creation(&self) -> Option<&UnresolvedRequest> {
        match self {
            Self::Create(request) => Some(request),
            Self::Recreate(recreate) => Some(&recreate.request),
            Self::Unchanged
            | Self::Register(_)
            | Self::RegisterAgain(_)
            | Self::Update(_)
            | Self::Expand(_)
            | Self::Replace(_)
            | Self::Deregister
            | Self::DeleteData
            | Self::WaitingForClaims(_)
            | Self::Blocked(_) => None,
        }
    }

    /// Returns whether the change removes the registration that the volume has now.
    pub fn removes(&self) -> bool {
        match self {
            Self::Replace(_) | Self::Deregister | Self::DeleteData => true,
            Self::RegisterAgain(again) => again.replaces.is_some(),
            Self::Unchanged
            | Self::Create(_)
            | Self::Register(_)
            | Self::Recreate(_)
            | Self::Update(_)
            | Self::Expand(_)
            | Self::WaitingForClaims(_)
            | Self::Blocked(_) => false,
        }
    }

    /// Returns whether a person must approve the change for this volume: no general approval covers it, and
    /// `reconcile` never makes it.
    pub fn requires_own_approval(&self) -> bool {
        match self {
            Self::Recreate(_) => true,
            Self::RegisterAgain(again) => again.replaces.is_some(),
            Self::Unchanged
            | Self::Create(_)
            | Self::Register(_)
            | Self::Update(_)
            | Self::Expand(_)
            | Self::Replace(_)
            | Self::Deregister
            | Self::DeleteData
            | Self::WaitingForClaims(_)
            | Self::Blocked(_) => false,
        }
    }

    /// Returns the update of a volume that stays; `None` if there is none.
    pub fn update(&self) -> Option<&Update> {
        match self {
            Self::Update(update) | Self::Expand(update) => Some(update),
            Self::Unchanged
            | Self::Create(_)
            | Self::Register(_)
            | Self::RegisterAgain(_)
            | Self::Recreate(_)
            | Self::Replace(_)
            | Self::Deregister
            | Self::DeleteData
            | Self::WaitingForClaims(_)
            | Self::Blocked(_) => None,
        }
    }
}

/// The update of a registered volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The request that is sent: the specification in the form that this server compares correctly.
    pub request: UnresolvedRequest,
    /// The fields that change; empty if the same request is sent again, or if only hidden values
    /// differ.
    pub changes: Vec<Change>,
    /// The effect on the stored secrets.
    pub secrets: SecretsChange,
    /// The effect on the size.
    pub expansion: Expansion,
    /// Fields that the file omits and that are sent with their stored values, because this server
    /// would clear them.
    pub resent_fields: Vec<&'static str>,
    /// Hidden values that the update clears. Each loss was accepted with `--accept-loss`.
    pub cleared_fields: Vec<HiddenField>,
}

/// The registration of data that an owned volume had before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterAgain {
    /// The request: the specification with the external ID and the context of the data.
    pub request: UnresolvedRequest,
    /// The other data whose registration has the volume's name now, and is removed first; `None` if
    /// the volume is not registered.
    pub replaces: Option<DataIdentity>,
}

/// The creation of an empty volume in the place of one whose data is not confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recreate {
    /// The request.
    pub request: UnresolvedRequest,
    /// The data that the volume had; `None` if it was never recorded.
    pub lost: Option<DataIdentity>,
    /// Why the data is not confirmed.
    pub why: UnconfirmedReason,
}

/// Why it is not certain that the data of a volume still exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnconfirmedReason {
    /// The set never recorded which data the volume has.
    NotRecorded,
    /// The provider does not list the data.
    NotListed,
    /// The plugin does not list volumes.
    Unlistable,
    /// The provider was not asked.
    NotAsked,
    /// The provider's list could not be read: why.
    ListFailed(String),
    /// The file names another plugin than the one that has the data.
    OtherPlugin,
}

impl std::fmt::Display for UnconfirmedReason {
    /// A sentence without a full stop.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotRecorded => f.write_str("the set never recorded which data the volume has"),
            Self::NotListed => f.write_str("the provider does not list the data"),
            Self::Unlistable => f.write_str("the plugin does not list the volumes of its provider"),
            Self::NotAsked => f.write_str("the provider was not asked (`--no-provider`)"),
            Self::ListFailed(why) => write!(f, "the provider's volumes are unknown: {why}"),
            Self::OtherPlugin => f.write_str("the file names another plugin"),
        }
    }
}

/// The replacement of a volume. The volume does not exist between the two steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replace {
    /// True if the provider takes a snapshot first. If the snapshot fails, nothing is removed.
    pub snapshot_first: bool,
    /// The two steps.
    pub steps: ReplaceSteps,
    /// The request of the second step.
    pub request: UnresolvedRequest,
}

/// The two steps of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaceSteps {
    /// Delete the data, then create an empty volume.
    DeleteThenCreate,
    /// Remove the registration, then register another volume of the provider. The data of both
    /// stays.
    DeregisterThenRegister,
}

/// The claims that a change waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimWait {
    /// Why the change cannot be made while the volume is claimed; never empty.
    pub reasons: Vec<Diagnostic>,
    /// The allocations that claim the volume; never empty.
    pub claims: Vec<ClaimingAlloc>,
}

/// One volume of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedVolume {
    /// The volume's name.
    pub key: NamespacedId,
    /// Its specification; `None` if no file names the volume, so that it is removed.
    pub spec: Option<VolumeSpec>,
    /// The change.
    pub action: Action,
    /// The version of the volume that the plan was made for.
    pub expected_version: VolumeVersion,
    /// The risk of the change; `None` if nothing changes.
    pub impact: Option<Impact>,
    /// The change of the protection that the set records; `None` if it stays.
    pub protection: Option<ProtectionChange>,
    /// Positions of the entries that must complete before this one: the source of a clone or of a
    /// restored snapshot is created first and removed last. Never a cycle.
    pub depends_on: Vec<usize>,
    /// Warnings about a change that will be made.
    pub warnings: Vec<Diagnostic>,
}

/// A change of the protection of an owned volume. It changes nothing on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtectionChange {
    /// The set protects the volume from removal from now on.
    Protect,
    /// The set no longer protects it.
    Unprotect,
}

impl ProtectionChange {
    /// Its name in JSON documents and saved plans: `protect`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Protect => "protect",
            Self::Unprotect => "unprotect",
        }
    }
}

impl PlannedVolume {
    /// Blocks the change of the volume.
    pub fn block(&mut self, reasons: Vec<Diagnostic>) {
        let explained = reasons.into_iter().map(|reason| match &self.spec {
            Some(spec) => spec.explain(reason),
            None => reason,
        });
        self.action = Action::Blocked(explained.collect());
        self.impact = None;
        self.protection = None;
    }

    /// Returns the name of the change: that of the action, or of the protection if only that changes.
    pub fn change_name(&self) -> &'static str {
        match (&self.action, self.protection) {
            (Action::Unchanged, Some(change)) => change.as_str(),
            (action, _) => action.as_str(),
        }
    }

    /// Returns whether the plan changes neither the volume nor what the set records of it.
    pub fn is_unchanged(&self) -> bool {
        self.action == Action::Unchanged && self.protection.is_none()
    }

    /// Returns the request that is sent; `None` for a removal or no change.
    pub fn request(&self) -> Option<&UnresolvedRequest> {
        match &self.action {
            Action::Create(request) | Action::Register(request) => Some(request),
            Action::Update(update) | Action::Expand(update) => Some(&update.request),
            Action::Replace(replace) => Some(&replace.request),
            Action::RegisterAgain(again) => Some(&again.request),
            Action::Recreate(recreate) => Some(&recreate.request),
            Action::Unchanged
            | Action::Deregister
            | Action::DeleteData
            | Action::WaitingForClaims(_)
            | Action::Blocked(_) => None,
        }
    }

    /// Returns whether the provider no longer has the data of the volume.
    fn is_without_data(&self) -> bool {
        self.warnings.iter().any(|warning| warning.code == Code::PlanDataGone)
    }

    /// Returns the source location of the specification, if there is one.
    pub fn span(&self) -> Option<Span> {
        self.spec.as_ref().map(|spec| spec.span)
    }
}

/// The number of volumes per action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the actions' own names")]
pub struct ActionCounts {
    pub create: usize,
    pub register: usize,
    pub register_again: usize,
    pub recreate: usize,
    pub update: usize,
    pub expand: usize,
    pub replace: usize,
    pub deregister: usize,
    pub delete_data: usize,
    pub waiting: usize,
    pub blocked: usize,
    pub protection: usize,
    pub without_data: usize,
    pub unchanged: usize,
}

impl ActionCounts {
    /// Returns how many volumes would be changed, on the server or in the set's record.
    pub fn changes(self) -> usize {
        let writes = self.create + self.register + self.update + self.expand;
        let again = self.register_again + self.recreate;
        writes + again + self.protection + self.replace + self.deregister + self.delete_data
    }

    /// Returns whether nothing differs from the files: nothing is to be changed, and no volume has lost its data.
    pub fn is_as_desired(self) -> bool {
        self.changes() + self.blocked_or_waiting() + self.without_data == 0
    }

    /// Returns how many volumes cannot be changed now.
    pub fn blocked_or_waiting(self) -> usize {
        self.waiting + self.blocked
    }
}

/// The plan of a run: the volumes of the files in their order, then volumes to remove, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// One entry per volume.
    pub volumes: Vec<PlannedVolume>,
    /// Warnings about the plan as a whole: what is unknown, and what the plan assumes.
    pub remarks: Vec<Diagnostic>,
    /// Volumes that the set owns, that no file declares, and that the plan leaves alone.
    pub undeclared: Vec<NamespacedId>,
}

impl Plan {
    /// Counts the volumes per action.
    pub fn counts(&self) -> ActionCounts {
        let mut counts = ActionCounts::default();
        for planned in &self.volumes {
            let count = match &planned.action {
                Action::Create(_) => &mut counts.create,
                Action::Register(_) => &mut counts.register,
                Action::RegisterAgain(_) => &mut counts.register_again,
                Action::Recreate(_) => &mut counts.recreate,
                Action::Update(_) => &mut counts.update,
                Action::Expand(_) => &mut counts.expand,
                Action::Replace(_) => &mut counts.replace,
                Action::Deregister => &mut counts.deregister,
                Action::DeleteData => &mut counts.delete_data,
                Action::WaitingForClaims(_) => &mut counts.waiting,
                Action::Blocked(_) => &mut counts.blocked,
                Action::Unchanged if planned.protection.is_some() => &mut counts.protection,
                Action::Unchanged if planned.is_without_data() => &mut counts.without_data,
                Action::Unchanged => &mut counts.unchanged,
            };
            *count += 1;
        }
        counts
    }
}
