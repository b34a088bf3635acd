//! What a plan consists of.

use super::diff::Change;
use super::merge::{Expansion, SecretsChange};
use super::pin::Pin;
use crate::diagnostic::Diagnostic;
use crate::model::VolumeRequest;
use crate::spec::VolumeSpec;

/// What is to be done with one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Create it in the provider and register it.
    Create,
    /// Register what the provider has.
    Register,
    /// Change its registration.
    Update(Update),
    /// It is as wanted.
    Unchanged,
    /// A server or a plugin would refuse; all reasons.
    Blocked(Vec<Diagnostic>),
}

/// What an update does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// Fields that change; empty if the same is sent again because someone asked for that.
    pub changes: Vec<Change>,
    /// What becomes of the stored secrets.
    pub secrets: SecretsChange,
    /// What becomes of the size.
    pub expansion: Expansion,
}

/// One volume of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What is wanted, as it was written.
    pub spec: VolumeSpec,
    /// What is sent: the specification in the shape that this server compares without surprise.
    pub request: VolumeRequest,
    /// What is to be done.
    pub action: Action,
    /// What that relies on.
    pub pin: Pin,
    /// What will surprise, although it will be done.
    pub warnings: Vec<Diagnostic>,
}

/// How many volumes meet which fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the actions' own names")]
pub struct Counts {
    pub create: usize,
    pub register: usize,
    pub update: usize,
    pub unchanged: usize,
    pub blocked: usize,
}

impl Counts {
    /// How many volumes would be changed.
    pub fn changes(self) -> usize {
        self.create + self.register + self.update
    }
}

/// All volumes of a run, in the order of their specifications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// One entry per specification.
    pub volumes: Vec<Planned>,
}

impl Plan {
    /// How many volumes meet which fate.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for planned in &self.volumes {
            match &planned.action {
                Action::Create => counts.create += 1,
                Action::Register => counts.register += 1,
                Action::Update(_) => counts.update += 1,
                Action::Unchanged => counts.unchanged += 1,
                Action::Blocked(_) => counts.blocked += 1,
            }
        }
        counts
    }
}
