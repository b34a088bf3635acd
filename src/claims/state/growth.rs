//! Which events let the state grow because a client wants it, and which must always be recorded.
//!
//! Limits and a full disk refuse growth alone. What a plugin has done, what has ended and what is released is recorded as
//! long as a byte is free, so growth is named here and everything else is not refused.

use super::acl_record::AclEvent;
use super::event::{Event, EventKind, Subject};
use super::job_record::{AllocEvent, JobEvent};
use super::namespace_record::NamespaceEvent;
use super::variable::VariableEvent;
use crate::claim::ClaimEvent;

impl EventKind {
    /// Returns the object that the event adds or makes longer; `None` if it must not be refused.
    pub fn growth(&self) -> Option<Subject> {
        match self {
            Self::VolumeCreateIntended { definition, .. }
            | Self::VolumeRegistered { definition, .. } => {
                Some(Subject::Volume(definition.key.clone()))
            }
            Self::Variable { key, event } => match event {
                VariableEvent::Written { .. } | VariableEvent::LockAcquired { .. } => {
                    Some(Subject::Variable(key.clone()))
                }
                VariableEvent::LockRenewed { .. }
                | VariableEvent::LockReleased { .. }
                | VariableEvent::LockExpired { .. }
                | VariableEvent::Deleted => None,
            },
            Self::Namespace { name, event } => match event {
                NamespaceEvent::Written { .. } => Some(Subject::Namespace(name.clone())),
                NamespaceEvent::Deleted => None,
            },
            Self::Acl { key, event } => match event {
                AclEvent::Written { .. } => Some(Subject::Acl(key.clone())),
                AclEvent::Deleted => None,
            },
            Self::Job { job, event } => match **event {
                JobEvent::Registered { .. } => Some(Subject::Job(job.clone())),
                JobEvent::Stopped { .. }
                | JobEvent::Evaluated { .. }
                | JobEvent::Launched { .. }
                | JobEvent::Forgotten => None,
            },
            Self::PlacedAlloc { alloc, event } => match **event {
                AllocEvent::Placed { runs_plugin: false, .. } => {
                    Some(Subject::Alloc(alloc.clone()))
                }
                // Without its plugin nothing is given back.
                AllocEvent::Placed { runs_plugin: true, .. }
                | AllocEvent::StopRequested { .. }
                | AllocEvent::CutOff { .. }
                | AllocEvent::Reported { .. } => None,
            },
            Self::AllocStarted { alloc, .. } => Some(Subject::Alloc(alloc.clone())),
            Self::Claim { volume, event } => match **event {
                ClaimEvent::Granted { .. } => Some(Subject::Claims(volume.clone())),
                _ => None,
            },
            Self::AgentStarted { .. }
            | Self::LeaderStarted { .. }
            | Self::KeyRotationStarted
            | Self::NodeRegistered { .. }
            | Self::PluginInstanceObserved { .. }
            | Self::PluginInstanceGone { .. }
            | Self::PluginAllocObserved { .. }
            | Self::PluginAllocGone { .. }
            | Self::AllocEnded { .. }
            | Self::AllocForgotten { .. }
            | Self::NodeBooted { .. }
            | Self::NodeConnected { .. }
            | Self::NodeDisconnected { .. }
            | Self::NodeDown { .. }
            | Self::NodeLost { .. }
            | Self::NodeReturned { .. }
            | Self::NodeSwept { .. }
            | Self::VolumeUpdated { .. }
            | Self::VolumeCreated { .. }
            | Self::VolumeCreateAbandoned { .. }
            | Self::VolumeDeleteIntended { .. }
            | Self::VolumeDeleteAbandoned { .. }
            | Self::VolumeDeleted { .. }
            | Self::VolumeDeregistered { .. }
            | Self::VolumeExpandIntended { .. }
            | Self::VolumeExpanded { .. }
            | Self::VolumeExpandAbandoned { .. }
            | Self::VolumeModifyIntended { .. }
            | Self::VolumeModified { .. }
            | Self::VolumeModifyAbandoned { .. } => None,
        }
    }

    /// Returns whether what the state has of the object stays beside what the event adds.
    pub fn keeps_earlier(&self) -> bool {
        matches!(self, Self::Job { event, .. }
            if matches!(**event, JobEvent::Registered { earlier: 1.., .. }))
    }

    /// Returns the object that the event removes, if limits count its table.
    pub fn removal(&self) -> Option<Subject> {
        match self {
            Self::AllocForgotten { alloc } => Some(Subject::Alloc(alloc.clone())),
            _ => None,
        }
    }

    /// Returns whether the event makes an allocation give back what it has.
    fn is_release(&self) -> bool {
        matches!(self, Self::PlacedAlloc { event, .. }
            if matches!(**event, AllocEvent::StopRequested { .. } | AllocEvent::CutOff { .. }))
    }
}

/// Returns whether events that are recorded together can be refused: they grow the state, and release nothing.
pub fn is_growth(events: &[Event]) -> bool {
    let mut kinds = events.iter().map(|event| &event.kind);
    kinds.clone().any(|kind| kind.growth().is_some()) && !kinds.any(EventKind::is_release)
}
