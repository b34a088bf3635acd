//! The event as sent to subscribers: topic, type and key, in Nomad's words.
//!
//! An event without a word in Nomad, such as the intent to create a volume, gives no notice. A change of
//! the claims of an external volume gives one notice for each of its registrations.

use nomad_csi_claims::claim::ClaimEvent;
use nomad_csi_claims::state::{AllocEvent, EventKind, JobEvent, State, volumes_sharing};
use nomad_csi_model::{
    AllocId, EvaluationId, JobKey, NamespacedId, NodeId, PluginId, RemoteVolume,
};

/// An event as sent to subscribers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    /// The kind of object.
    pub(crate) topic: &'static str,
    /// The kind of event.
    pub(crate) event_type: &'static str,
    /// The ID of the object.
    pub(crate) key: String,
    /// Its namespace; empty for nodes and plugins.
    pub(crate) namespace: String,
    /// Other names by which a topic can name it.
    pub(crate) filter_keys: Vec<String>,
    /// The object.
    pub(crate) subject: NoticeSubject,
}

/// The object of a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoticeSubject {
    Volume(NamespacedId),
    Plugin(PluginId),
    /// A job, and whether it was removed.
    Job(JobKey, bool),
    Evaluation(JobKey, EvaluationId),
    Alloc(AllocId),
    Node(NodeId),
}

/// Returns what subscribers hear of an event. The state is that after the event, or a later one.
pub(crate) fn notices(state: &State, kind: &EventKind) -> Vec<Notice> {
    match kind {
        EventKind::NodeRegistered { node } => vec![of_node("NodeRegistration", &node.id)],
        EventKind::NodeBooted { node, .. }
        | EventKind::NodeConnected { node, .. }
        | EventKind::NodeDisconnected { node }
        | EventKind::NodeDown { node }
        | EventKind::NodeLost { node, .. }
        | EventKind::NodeReturned { node }
        | EventKind::NodeSwept { node } => vec![of_node("NodeStreamEvent", node)],
        EventKind::PluginInstanceObserved { plugin, .. }
        | EventKind::PluginAllocObserved { plugin, .. } => {
            vec![of_plugin("NodeRegistration", plugin)]
        }
        EventKind::PluginInstanceGone { plugin, .. }
        | EventKind::PluginAllocGone { plugin, .. } => vec![of_plugin("AllocationUpdated", plugin)],
        EventKind::VolumeRegistered { definition, .. }
        | EventKind::VolumeUpdated { definition, .. } => {
            vec![of_volume(state, "CSIVolumeRegistered", &definition.key)]
        }
        EventKind::VolumeCreated { key, .. }
        | EventKind::VolumeExpanded { key, .. }
        | EventKind::VolumeModified { key } => {
            vec![of_volume(state, "CSIVolumeRegistered", key)]
        }
        EventKind::VolumeDeleted { key } | EventKind::VolumeDeregistered { key } => {
            vec![of_volume(state, "CSIVolumeDeregistered", key)]
        }
        EventKind::Claim { volume, event } => of_claim(state, volume, event),
        EventKind::Job { job, event } => of_job(job, event).into_iter().collect(),
        EventKind::PlacedAlloc { alloc, event } => {
            of_alloc(state, alloc, event).into_iter().collect()
        }
        EventKind::AgentStarted { .. }
        | EventKind::LeaderStarted { .. }
        | EventKind::KeyRotationStarted
        | EventKind::VolumeCreateIntended { .. }
        | EventKind::VolumeCreateAbandoned { .. }
        | EventKind::VolumeDeleteIntended { .. }
        | EventKind::VolumeDeleteAbandoned { .. }
        | EventKind::VolumeExpandIntended { .. }
        | EventKind::VolumeExpandAbandoned { .. }
        | EventKind::VolumeModifyIntended { .. }
        | EventKind::VolumeModifyAbandoned { .. }
        | EventKind::AllocStarted { .. }
        | EventKind::AllocEnded { .. }
        | EventKind::AllocForgotten { .. }
        | EventKind::Acl { .. }
        | EventKind::Namespace { .. }
        | EventKind::Variable { .. } => vec![],
    }
}

fn of_node(event_type: &'static str, node: &NodeId) -> Notice {
    Notice {
        topic: "Node",
        event_type,
        key: node.to_string(),
        namespace: String::new(),
        filter_keys: vec![],
        subject: NoticeSubject::Node(node.clone()),
    }
}

fn of_plugin(event_type: &'static str, plugin: &PluginId) -> Notice {
    Notice {
        topic: "CSIPlugin",
        event_type,
        key: plugin.to_string(),
        namespace: String::new(),
        filter_keys: vec![plugin.to_string()],
        subject: NoticeSubject::Plugin(plugin.clone()),
    }
}

/// The name and the plugin of a volume are among its keys while it is registered.
fn of_volume(state: &State, event_type: &'static str, key: &NamespacedId) -> Notice {
    let record = state.record(key);
    let names = record.map(|record| {
        let definition = &record.definition;
        [definition.name.clone(), definition.plugin_id.to_string()]
    });
    let own = [key.id.to_string()];
    Notice {
        topic: "CSIVolume",
        event_type,
        key: key.id.to_string(),
        namespace: key.namespace.to_string(),
        filter_keys: own.into_iter().chain(names.into_iter().flatten()).collect(),
        subject: NoticeSubject::Volume(key.clone()),
    }
}

/// Only what a reader of the volume sees: a step of a claim is not one.
fn of_claim(state: &State, volume: &RemoteVolume, event: &ClaimEvent) -> Vec<Notice> {
    match event {
        ClaimEvent::Granted { .. }
        | ClaimEvent::AccessChanged { .. }
        | ClaimEvent::ReleaseRequested { .. }
        | ClaimEvent::Released { .. } => {}
        ClaimEvent::StepStarted { .. }
        | ClaimEvent::StepDone { .. }
        | ClaimEvent::StepFailed { .. }
        | ClaimEvent::NodeAssumedGone { .. }
        | ClaimEvent::NodeRebooted { .. }
        | ClaimEvent::MountsLost { .. }
        | ClaimEvent::ExpansionRequired { .. }
        | ClaimEvent::Orphaned { .. } => return vec![],
    }
    let registrations = volumes_sharing(state, &volume.plugin_id, &volume.external_id);
    let keys = registrations.into_iter();
    keys.map(|key| of_volume(state, "CSIVolumeClaim", &key)).collect()
}

fn of_job(job: &JobKey, event: &JobEvent) -> Option<Notice> {
    let (event_type, is_removed) = match event {
        JobEvent::Registered { .. } => ("JobRegistered", false),
        JobEvent::Stopped { purges } => ("JobDeregistered", *purges),
        JobEvent::Evaluated { evaluation } => {
            return Some(Notice {
                topic: "Evaluation",
                event_type: "EvaluationUpdated",
                key: evaluation.id.to_string(),
                namespace: job.namespace.to_string(),
                filter_keys: vec![job.id.to_string()],
                subject: NoticeSubject::Evaluation(job.clone(), evaluation.id.clone()),
            });
        }
        JobEvent::Launched { .. } | JobEvent::Forgotten => return None,
    };
    Some(Notice {
        topic: "Job",
        event_type,
        key: job.id.to_string(),
        namespace: job.namespace.to_string(),
        filter_keys: vec![],
        subject: NoticeSubject::Job(job.clone(), is_removed),
    })
}

/// An allocation that is forgotten already has no job, so nothing is said of it.
fn of_alloc(state: &State, alloc: &AllocId, event: &AllocEvent) -> Option<Notice> {
    let placement = state.alloc(alloc)?.placement.as_deref()?;
    let job = &placement.job.job;
    let event_type = match event {
        AllocEvent::Placed { .. } => "PlanResult",
        AllocEvent::StopRequested { .. } | AllocEvent::CutOff { .. } => {
            "AllocationUpdateDesiredStatus"
        }
        AllocEvent::Reported { .. } => "AllocationUpdated",
    };
    Some(Notice {
        topic: "Allocation",
        event_type,
        key: alloc.to_string(),
        namespace: job.namespace.to_string(),
        filter_keys: vec![job.id.to_string()],
        subject: NoticeSubject::Alloc(alloc.clone()),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use nomad_csi_claims::state::samples::jobs::{
        alloc_placed, alloc_reported, job_key, job_registered,
    };
    use nomad_csi_claims::state::samples::{
        History, key, node_registered, registered, started, state_of,
    };
    use nomad_csi_model::ClientStatus;

    fn notices_of(state: &State, kind: &EventKind) -> Vec<(&'static str, &'static str, String)> {
        let notices = notices(state, kind).into_iter();
        let shown = notices.map(|notice| (notice.topic, notice.event_type, notice.key));
        shown.collect()
    }

    #[test]
    fn events_have_nomads_words() {
        let (web, db) = (job_key("web"), key("prod", "db"));
        let kinds = [
            started(),
            node_registered(0),
            registered(&db, "ext-1"),
            job_registered(&web),
            alloc_placed(&web, "a", "node-0"),
            alloc_reported("a", ClientStatus::Running),
        ];
        let state = state_of(kinds.clone());
        let all: Vec<_> = kinds.iter().flat_map(|kind| notices_of(&state, kind)).collect();
        let expected = [
            ("Node", "NodeRegistration", "node-0"),
            ("CSIVolume", "CSIVolumeRegistered", "db"),
            ("Job", "JobRegistered", "web"),
            ("Allocation", "PlanResult", "a"),
            ("Allocation", "AllocationUpdated", "a"),
        ];
        assert_eq!(all, expected.map(|(topic, what, key)| (topic, what, key.to_owned())));
        let volume = notices(&state, &kinds[2]).remove(0);
        assert_eq!(volume.filter_keys, ["db", "db of prod", "hostpath"]);
        assert_eq!(volume.namespace, "prod");
    }

    #[test]
    fn no_event_of_a_history_gives_a_notice_twice() {
        let mut history = History::new(7);
        for _ in 0..400 {
            let event = history.next().unwrap();
            let all = notices(history.state(), &event.kind);
            let of = |one: &Notice| (one.event_type, one.namespace.clone(), one.key.clone());
            let distinct: BTreeSet<_> = all.iter().map(of).collect();
            assert_eq!(all.len(), distinct.len(), "{:?}", event.kind);
        }
    }
}
