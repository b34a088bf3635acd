//! Events in words, for people who ask what happened to a volume.
//!
//! Sealed secrets and values from the outside that may be secret, such as a publish context, are left
//! out.

use std::collections::{BTreeMap, BTreeSet};

use super::acl_record::{AclEvent, AclKey};
use super::event::EventKind;
use super::job_record::{AllocEvent, JobEvent};
use super::namespace_record::NamespaceEvent;
use super::record::ProviderFacts;
use super::variable::VariableEvent;
use crate::claim::{Claim, ClaimEvent, ClaimKey, Step};
use nomad_csi_model::{AllocId, Bytes, CapacityRange, JobKey, Namespace, NodeId, one_line};

/// Returns what happened, as a sentence without a full stop.
pub fn event_text(kind: &EventKind) -> String {
    match kind {
        EventKind::AgentStarted { .. } => "the agent started".to_owned(),
        EventKind::LeaderStarted { .. } => "the server leads".to_owned(),
        EventKind::KeyRotationStarted => "a rotation of the key began".to_owned(),
        EventKind::NodeRegistered { node } => format!("node `{}` registered", node.id),
        EventKind::PluginInstanceGone { plugin, node } => {
            format!("plugin `{plugin}` ended on node `{node}`")
        }
        EventKind::PluginInstanceObserved { plugin, node, .. }
        | EventKind::PluginAllocObserved { plugin, node, .. } => {
            format!("plugin `{plugin}` was observed on node `{node}`")
        }
        EventKind::PluginAllocGone { plugin, alloc } => {
            format!("allocation `{alloc}` of plugin `{plugin}` ended")
        }
        EventKind::AllocStarted { alloc, node } => {
            format!("allocation `{alloc}` started on node `{node}`")
        }
        EventKind::AllocEnded { alloc } => format!("allocation `{alloc}` ended"),
        EventKind::AllocForgotten { alloc } => format!("allocation `{alloc}` was forgotten"),
        EventKind::NodeBooted { node, .. } => format!("node `{node}` booted"),
        EventKind::NodeConnected { node, .. } => format!("node `{node}` connected"),
        EventKind::NodeDisconnected { node } => format!("node `{node}` is not connected any more"),
        EventKind::NodeDown { node } => format!("node `{node}` is down: its claims stay"),
        EventKind::NodeLost { node, reason } => format!("node `{node}` was lost: {reason}"),
        EventKind::NodeReturned { node } => {
            format!("node `{node}` returned and is swept before it is used again")
        }
        EventKind::NodeSwept { node } => format!("node `{node}` was swept and is used again"),
        EventKind::Claim { event, .. } => claim_text(event),
        EventKind::Job { job, event } => job_text(job, event),
        EventKind::PlacedAlloc { alloc, event } => alloc_text(alloc, event),
        EventKind::Namespace { name, event } => namespace_text(name, event),
        EventKind::Acl { key, event } => acl_text(key, event),
        EventKind::Variable { key, event } => variable_text(key.path.as_str(), event),
        EventKind::VolumeCreateIntended { .. }
        | EventKind::VolumeCreated { .. }
        | EventKind::VolumeCreateAbandoned { .. }
        | EventKind::VolumeRegistered { .. }
        | EventKind::VolumeUpdated { .. }
        | EventKind::VolumeDeleteIntended { .. }
        | EventKind::VolumeDeleteAbandoned { .. }
        | EventKind::VolumeDeleted { .. }
        | EventKind::VolumeDeregistered { .. }
        | EventKind::VolumeExpandIntended { .. }
        | EventKind::VolumeExpanded { .. }
        | EventKind::VolumeExpandAbandoned { .. }
        | EventKind::VolumeModifyIntended { .. }
        | EventKind::VolumeModified { .. }
        | EventKind::VolumeModifyAbandoned { .. } => volume_text(kind),
    }
}

fn volume_text(kind: &EventKind) -> String {
    match kind {
        EventKind::VolumeCreateIntended { definition, earlier, .. } => {
            let earlier = match earlier.len() {
                0 => String::new(),
                1 => "; an earlier request may have created the volume".to_owned(),
                count => format!("; {count} earlier requests may have created the volume"),
            };
            format!(
                "creation began with plugin `{}`{}{earlier}",
                definition.plugin_id,
                size_text(&definition.capacity)
            )
        }
        EventKind::VolumeCreated { provided, .. } => format!("created{}", provided_text(provided)),
        EventKind::VolumeCreateAbandoned { may_remain, .. } => match may_remain {
            Some(name) => {
                format!("the creation was given up; the provider may have a volume named `{name}`")
            }
            None => "the creation ended without a volume at the provider".to_owned(),
        },
        EventKind::VolumeRegistered { definition, provided, .. } => {
            format!("registered with plugin `{}`{}", definition.plugin_id, provided_text(provided))
        }
        EventKind::VolumeUpdated { .. } => "the registration was updated".to_owned(),
        EventKind::VolumeDeleteIntended { .. } => "deletion began".to_owned(),
        EventKind::VolumeDeleteAbandoned { .. } => {
            "the deletion ended, and the volume still exists at the provider".to_owned()
        }
        EventKind::VolumeDeleted { .. } => "deleted at the provider, with its data".to_owned(),
        EventKind::VolumeDeregistered { .. } => {
            "deregistered; the provider keeps the data".to_owned()
        }
        EventKind::VolumeExpandIntended { to, .. } => {
            format!("expansion began{}", size_text(to))
        }
        EventKind::VolumeExpanded { capacity, node_expansion_required, .. } => {
            let nodes = match node_expansion_required {
                true => "; nodes that use it expand it too",
                false => "",
            };
            format!("expanded to {capacity}{nodes}")
        }
        EventKind::VolumeExpandAbandoned { may_have_changed, .. } => match may_have_changed {
            false => "the expansion ended without a change at the provider".to_owned(),
            true => "the expansion ended; the volume may be larger at the provider".to_owned(),
        },
        EventKind::VolumeModifyIntended { parameters, .. } => {
            format!("change of mutable parameters began: {}", parameters_text(parameters))
        }
        EventKind::VolumeModified { .. } => "the mutable parameters were changed".to_owned(),
        EventKind::VolumeModifyAbandoned { may_have_changed, .. } => match may_have_changed {
            false => "the change of mutable parameters ended without a change at the provider",
            true => {
                "the change of mutable parameters ended; it is not known which of them are in force"
            }
        }
        .to_owned(),
        other => other.name().to_owned(),
    }
}

fn parameters_text(parameters: &BTreeMap<String, String>) -> String {
    let pairs = parameters.iter().map(|(key, value)| format!("{key}={value}"));
    one_line(&pairs.collect::<Vec<_>>().join(", "))
}

fn size_text(size: &CapacityRange) -> String {
    match (size.min, size.max) {
        (Bytes::ZERO, Bytes::ZERO) => String::new(),
        (min, Bytes::ZERO) => format!(", at least {min}"),
        (Bytes::ZERO, max) => format!(", at most {max}"),
        (min, max) => format!(", {min} to {max}"),
    }
}

fn provided_text(provided: &ProviderFacts) -> String {
    let id = provided.external_id.as_ref();
    let id = id.map(|id| format!(" as `{id}`")).unwrap_or_default();
    let size = match provided.capacity {
        Bytes::ZERO => String::new(),
        capacity => format!(", {capacity}"),
    };
    format!("{id}{size}")
}

fn claim_text(event: &ClaimEvent) -> String {
    match event {
        ClaimEvent::Granted { key, claim } => granted_text(key, claim),
        ClaimEvent::ReleaseRequested { key, reason } => {
            format!("release of the claim of {}: {reason}", claimer(key))
        }
        ClaimEvent::StepStarted { step, instance, .. } => {
            format!("{} started, by plugin allocation `{instance}`", step_text(step))
        }
        ClaimEvent::StepDone { step, answer, .. } => match &answer.target {
            Some(target) => format!("{} done, at `{}`", step_text(step), target.display()),
            None => format!("{} done", step_text(step)),
        },
        ClaimEvent::StepFailed { step, error, .. } => {
            format!("{} failed and is repeated: {error}", step_text(step))
        }
        ClaimEvent::AccessChanged { key, read_only } => {
            let access = if *read_only { "reads" } else { "writes" };
            format!("{} {access} from now on", claimer(key))
        }
        ClaimEvent::NodeAssumedGone { node } => {
            format!("what lost node `{node}` has of the volume is given up")
        }
        ClaimEvent::NodeRebooted { node } => {
            format!("node `{node}` rebooted: what is mounted there is in doubt")
        }
        ClaimEvent::MountsLost { node, targets, staging, reason } => {
            lost_text(node, targets, *staging, reason)
        }
        ClaimEvent::Released { key } => format!("the claim of {} is gone", claimer(key)),
        ClaimEvent::ExpansionRequired { to } => {
            format!("nodes that use the volume expand it to {to}")
        }
        ClaimEvent::Orphaned { registration, .. } => match registration {
            Some(registration) => format!(
                "registration {} removed by force; the claims through it are released in the background",
                registration.quoted()
            ),
            None => "deregistered by force; its claims are released in the background".to_owned(),
        },
    }
}

fn lost_text(node: &NodeId, targets: &BTreeSet<ClaimKey>, staging: bool, reason: &str) -> String {
    let staging = staging.then(|| "the staging".to_owned());
    let targets = targets.iter().map(|key| format!("the target of {}", claimer(key)));
    let lost: Vec<_> = staging.into_iter().chain(targets).collect();
    let lost = lost.join(", ");
    format!("the mount of {lost} on node `{node}` is gone, and is made again: {reason}")
}

fn granted_text(key: &ClaimKey, claim: &Claim) -> String {
    let access = if claim.read_only { "reading" } else { "writing" };
    format!(
        "claimed for {access} by {} on node `{}`, {}",
        claimer(key),
        claim.node,
        claim.usage.capability.access_mode
    )
}

fn claimer(key: &ClaimKey) -> String {
    format!("allocation `{}` (`{}`)", key.alloc, key.alias)
}

/// The step with what it is for.
fn step_text(step: &Step) -> String {
    let on = |node: &NodeId| format!("{} for node `{node}`", step.name());
    match step {
        Step::NodePublish(key) | Step::NodeUnpublish(key) | Step::Release(key) => {
            format!("{} for {}", step.name(), claimer(key))
        }
        Step::ControllerPublish(node)
        | Step::NodeStage(node)
        | Step::NodeExpand(node)
        | Step::NodeUnstage(node)
        | Step::ControllerUnpublish(node)
        | Step::AssumeNodeGone(node)
        | Step::Sweep(node) => on(node),
    }
}

fn job_text(job: &JobKey, event: &JobEvent) -> String {
    let job = job.quoted();
    match event {
        JobEvent::Registered { .. } => format!("job {job} was registered"),
        JobEvent::Stopped { purges: false } => format!("job {job} was stopped"),
        JobEvent::Stopped { purges: true } => format!("job {job} was purged"),
        JobEvent::Evaluated { .. } => format!("job {job} was evaluated"),
        JobEvent::Launched { .. } => format!("a launch of job {job} was decided"),
        JobEvent::Forgotten => format!("purged job {job} was forgotten"),
    }
}

fn alloc_text(alloc: &AllocId, event: &AllocEvent) -> String {
    match event {
        AllocEvent::Placed { job, node, group, index, .. } => format!(
            "allocation `{alloc}` of job {} was placed on node `{node}` for `{group}[{index}]`",
            job.quoted()
        ),
        AllocEvent::StopRequested { reason } => {
            format!("allocation `{alloc}` must stop: {reason}")
        }
        AllocEvent::CutOff { alias } => {
            format!("an operator cut allocation `{alloc}` off from its volume `{alias}`")
        }
        AllocEvent::Reported { report } => {
            let status = report.status.as_str();
            match report.description.as_str() {
                "" => format!("allocation `{alloc}` is {status}"),
                why => format!("allocation `{alloc}` is {status}: {why}"),
            }
        }
    }
}

fn namespace_text(name: &Namespace, event: &NamespaceEvent) -> String {
    match event {
        NamespaceEvent::Written { .. } => format!("namespace `{name}` was written"),
        NamespaceEvent::Deleted => format!("namespace `{name}` was deleted"),
    }
}

fn acl_text(key: &AclKey, event: &AclEvent) -> String {
    let done = match event {
        AclEvent::Written { .. } => "was written",
        AclEvent::Deleted => "was deleted",
    };
    match key {
        AclKey::Bootstrap => "the first token of the ACL was made".to_owned(),
        AclKey::Policy(name) => format!("ACL policy `{name}` {done}"),
        AclKey::Token(accessor) => format!("ACL token `{accessor}` {done}"),
    }
}

fn variable_text(path: &str, event: &VariableEvent) -> String {
    format!("variable `{path}`: {}", event.name())
}

#[cfg(test)]
mod tests;
