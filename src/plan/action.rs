//! What a plan consists of.
//!
//! A plan has one entry per specification, in the order of the files, and after them one per volume
//! that is to go although no file names it. What is sent is in the action itself, so that there is
//! nothing to send for an entry that changes nothing.

use super::diff::Change;
use super::holder::Holder;
use super::merge::{Expansion, SecretsChange};
use super::pin::Pin;
use super::risk::Stakes;
use crate::diagnostic::{Diagnostic, Span};
use crate::model::{HiddenField, NamespacedId, WantedRequest};
use crate::spec::VolumeSpec;

/// What is to be done with one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is as wanted; or it shall be gone, and is.
    Unchanged,
    /// Create it in the provider and register it.
    Create(Box<WantedRequest>),
    /// Register what the provider has.
    Register(Box<WantedRequest>),
    /// Change its registration.
    Update(Box<Update>),
    /// The same, and the provider makes it larger.
    Expand(Box<Update>),
    /// Remove it and make it anew, because somebody asked for that by name.
    Replace(Box<Replace>),
    /// Remove its registration; the data stays with the provider.
    Deregister,
    /// Delete its data in the provider and its registration, because somebody asked for that by name.
    DeleteData,
    /// It could be done if it were not in use.
    Waits(Wait),
    /// A server or a plugin would refuse, or it would do harm; all reasons.
    Blocked(Vec<Diagnostic>),
}

impl Action {
    /// The word for it, in documents and saved plans.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Create(_) => "create",
            Self::Register(_) => "register",
            Self::Update(_) => "update",
            Self::Expand(_) => "expand",
            Self::Replace(_) => "replace",
            Self::Deregister => "deregister",
            Self::DeleteData => "delete-data",
            Self::Waits(_) => "waits",
            Self::Blocked(_) => "blocked",
            Self::Unchanged => "unchanged",
        }
    }

    /// Why it cannot be done, or not now; empty if it can.
    pub fn reasons(&self) -> &[Diagnostic] {
        match self {
            Self::Blocked(reasons) => reasons,
            Self::Waits(wait) => &wait.reasons,
            Self::Unchanged
            | Self::Create(_)
            | Self::Register(_)
            | Self::Update(_)
            | Self::Expand(_)
            | Self::Replace(_)
            | Self::Deregister
            | Self::DeleteData => &[],
        }
    }
}

impl Action {
    /// What is changed of a volume that stays; `None` if nothing is.
    pub fn update(&self) -> Option<&Update> {
        match self {
            Self::Update(update) | Self::Expand(update) => Some(update),
            Self::Unchanged
            | Self::Create(_)
            | Self::Register(_)
            | Self::Replace(_)
            | Self::Deregister
            | Self::DeleteData
            | Self::Waits(_)
            | Self::Blocked(_) => None,
        }
    }
}

/// What an update does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// What is sent: the specification in the shape that this server compares without surprise.
    pub request: WantedRequest,
    /// Fields that change; empty if the same is sent again because someone asked for that, or if only
    /// hidden values differ.
    pub changes: Vec<Change>,
    /// What becomes of the stored secrets.
    pub secrets: SecretsChange,
    /// What becomes of the size.
    pub expansion: Expansion,
    /// Fields that the file does not give and that are sent as they are stored, because this server
    /// would lose them otherwise.
    pub sent_again: Vec<&'static str>,
    /// Hidden values that are lost with it, each with somebody's consent.
    pub losses: Vec<HiddenField>,
}

/// A volume is removed, then made anew. Between the two steps there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replace {
    /// Whether the provider takes a snapshot before anything else; without one nothing is removed.
    pub snapshot_first: bool,
    /// The two steps.
    pub steps: ReplaceSteps,
    /// What the second step sends.
    pub request: WantedRequest,
}

/// The two steps of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaceSteps {
    /// The data is deleted, then the provider makes an empty volume.
    DeleteThenCreate,
    /// The registration is removed, then another volume of the provider is registered; the data of
    /// both stays.
    DeregisterThenRegister,
}

/// Who has to stop before something can be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// What cannot be done while they run, in the server's words; never empty.
    pub reasons: Vec<Diagnostic>,
    /// Who uses the volume; never empty.
    pub holders: Vec<Holder>,
}

/// One volume of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Which volume.
    pub key: NamespacedId,
    /// What is wanted, as it was written; `None` if no file names it, so that it shall go.
    pub spec: Option<VolumeSpec>,
    /// What is to be done.
    pub action: Action,
    /// What that relies on.
    pub pin: Pin,
    /// What is at stake; `None` if nothing is done.
    pub stakes: Option<Stakes>,
    /// Positions of the entries of this plan that have to be done before this one: sources of a
    /// clone or of a restored snapshot first, removals of a source last. There are no cycles.
    pub depends_on: Vec<usize>,
    /// What will surprise, although it will be done.
    pub warnings: Vec<Diagnostic>,
}

impl Planned {
    /// What is sent; `None` if nothing is, or only a removal.
    pub fn request(&self) -> Option<&WantedRequest> {
        match &self.action {
            Action::Create(request) | Action::Register(request) => Some(request),
            Action::Update(update) | Action::Expand(update) => Some(&update.request),
            Action::Replace(replace) => Some(&replace.request),
            Action::Unchanged
            | Action::Deregister
            | Action::DeleteData
            | Action::Waits(_)
            | Action::Blocked(_) => None,
        }
    }

    /// Where the specification stands, if there is one.
    pub fn span(&self) -> Option<Span> {
        self.spec.as_ref().map(|spec| spec.span)
    }
}

/// How many volumes meet which fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the actions' own names")]
pub struct Counts {
    pub create: usize,
    pub register: usize,
    pub update: usize,
    pub expand: usize,
    pub replace: usize,
    pub deregister: usize,
    pub delete_data: usize,
    pub waits: usize,
    pub blocked: usize,
    pub unchanged: usize,
}

impl Counts {
    /// How many volumes would be changed.
    pub fn changes(self) -> usize {
        let makes = self.create + self.register + self.update + self.expand;
        makes + self.replace + self.deregister + self.delete_data
    }

    /// How many cannot be brought to where they are wanted now.
    pub fn stuck(self) -> usize {
        self.waits + self.blocked
    }
}

/// All volumes of a run: those of the files in their order, then those that shall go, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// One entry per volume.
    pub volumes: Vec<Planned>,
    /// What is to be said of the plan as a whole: what could not be known, and what was assumed.
    pub remarks: Vec<Diagnostic>,
}

impl Plan {
    /// How many volumes meet which fate.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for planned in &self.volumes {
            let count = match &planned.action {
                Action::Create(_) => &mut counts.create,
                Action::Register(_) => &mut counts.register,
                Action::Update(_) => &mut counts.update,
                Action::Expand(_) => &mut counts.expand,
                Action::Replace(_) => &mut counts.replace,
                Action::Deregister => &mut counts.deregister,
                Action::DeleteData => &mut counts.delete_data,
                Action::Waits(_) => &mut counts.waits,
                Action::Blocked(_) => &mut counts.blocked,
                Action::Unchanged => &mut counts.unchanged,
            };
            *count += 1;
        }
        counts
    }
}
