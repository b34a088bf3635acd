//! Nodes, volumes and jobs for tests of placement.

use crate::state::samples::jobs::{alloc_placed, alloc_reported, job, job_key};
use crate::state::samples::{definition, instance, key, provided, started};
use crate::state::{AllocEvent, Event, EventKind, JobEvent, State, apply, check, violations};
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, Capability, ClientStatus, Job, JobType, JobVolume,
    JobVolumeKind, MountConfig, Node, NodeId, PluginId, PropagationMode, SealedSecrets,
    VolumeAlias, VolumeMount,
};

/// A state that tests change event by event; every event must be valid.
pub(super) struct World {
    pub(super) state: State,
    second: i64,
}

pub(super) const SECOND: i64 = 1_000_000_000;

impl World {
    /// A world with these nodes, each with a healthy plugin, and the volumes `data` and `data[0]` to `data[2]`.
    pub(super) fn new(nodes: &[&str]) -> Self {
        let mut world = Self { state: State::default(), second: 0 };
        world.apply(started());
        for id in nodes {
            world.apply(EventKind::NodeRegistered { node: node(id) });
            world.observe(id, true, None);
        }
        for (at, id) in ["data", "data[0]", "data[1]", "data[2]"].iter().enumerate() {
            world.register(id, &format!("ext-{at}"), AccessMode::SingleNodeWriter);
        }
        world
    }

    pub(super) fn now(&self) -> i64 {
        self.second * SECOND
    }

    pub(super) fn apply(&mut self, kind: EventKind) {
        self.second += 1;
        let event = Event::new(self.now(), kind);
        check(&self.state, &event).unwrap();
        apply(&mut self.state, &event);
        assert_eq!(violations(&self.state), Vec::<String>::new());
    }

    pub(super) fn observe(&mut self, node: &str, is_healthy: bool, max_volumes: Option<u64>) {
        let mut instance = instance(is_healthy);
        instance.alloc_id = AllocId::new(format!("plugin-{node}"));
        if let Some(info) = &mut instance.node {
            info.max_volumes = max_volumes;
        }
        self.apply(EventKind::PluginAllocObserved {
            plugin: PluginId::new("hostpath"),
            node: NodeId::new(node),
            instance: Box::new(instance),
        });
    }

    pub(super) fn register(&mut self, id: &str, external_id: &str, access_mode: AccessMode) {
        let mut definition = definition(&key("default", id));
        definition.capabilities = vec![capability(access_mode)].into();
        self.apply(EventKind::VolumeRegistered {
            definition: Box::new(definition),
            provided: Box::new(provided(external_id)),
            secrets: SealedSecrets::default(),
        });
    }

    pub(super) fn submit(&mut self, job: Job) {
        let key = job.key();
        self.apply(EventKind::Job {
            job: key,
            event: Box::new(JobEvent::Registered {
                job: Box::new(job),
                settings: SealedSecrets::default(),
                earlier: 0,
            }),
        });
    }

    pub(super) fn place(&mut self, alloc: &str, node: &str) {
        self.apply(alloc_placed(&job_key("web"), alloc, node));
    }

    pub(super) fn report(&mut self, alloc: &str, status: ClientStatus) {
        self.apply(alloc_reported(alloc, status));
    }

    pub(super) fn request_stop(&mut self, alloc: &str) {
        self.apply(EventKind::PlacedAlloc {
            alloc: AllocId::new(alloc),
            event: Box::new(AllocEvent::StopRequested {
                reason: "an operator stopped it".to_owned(),
            }),
        });
    }
}

pub(super) fn node(id: &str) -> Node {
    Node {
        drivers: [
            ("exec".to_owned(), MountConfig::All),
            ("raw_exec".to_owned(), MountConfig::None),
        ]
        .into(),
        ..Node::new(NodeId::new(id), format!("machine {id}"), "dc1")
    }
}

pub(super) fn capability(access_mode: AccessMode) -> Capability {
    Capability { access_mode, attachment_mode: AttachmentMode::FileSystem }
}

/// Job `web` with one group `g` of one task with driver `exec`.
pub(super) fn web(job_type: JobType, count: i64) -> Job {
    let mut job = job(&job_key("web"));
    job.job_type = job_type;
    job.groups[0].count = count;
    job
}

/// Gives the group of a job a volume that its task mounts.
pub(super) fn with_volume(mut job: Job, source: &str, per_alloc: bool) -> Job {
    let volume = JobVolume {
        source: source.to_owned(),
        read_only: false,
        per_alloc,
        sticky: false,
        kind: JobVolumeKind::Csi {
            access_mode: Some(AccessMode::SingleNodeWriter),
            attachment_mode: Some(AttachmentMode::FileSystem),
            mount_options: None,
        },
    };
    let alias = VolumeAlias::new(source);
    job.groups[0].tasks[0].volume_mounts.push(VolumeMount {
        volume: alias.clone(),
        destination: format!("/{source}"),
        read_only: false,
        propagation_mode: PropagationMode::Private,
        selinux_label: None,
    });
    job.groups[0].volumes.insert(alias, volume);
    job
}
