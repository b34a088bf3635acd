//! Conversion of a job from Nomad's words.
//!
//! A word that Nomad does not know is a problem, never dropped (W51: Nomad drops a volume of an
//! unknown type). What a problem concerns is left out of the job, so a job with problems must not run.

use std::time::Duration;

use super::document::{JobDocument, TaskGroupDocument, VolumeRequestDocument};
use super::launching::{CRON, ParameterizedDocument, PeriodicDocument};
use super::policy::{ConstraintDocument, ReschedulePolicyDocument, RestartPolicyDocument};
use super::task::{
    CsiPluginDocument, LifecycleDocument, ResourcesDocument, TaskDocument, VolumeMountDocument,
};
use super::unsupported::Unsupported;
use crate::volume::MountOptionsDocument;
use nomad_csi_model::{
    AccessMode, AttachmentMode, Constraint, ConstraintOperator, CsiPluginConfig, CsiPluginType,
    DelayFunction, HostAccessMode, Job, JobId, JobType, JobVolume, JobVolumeKind, Lifecycle,
    LifecycleHook, MountOptions, Namespace, Parameterized, PartEffect, PayloadRule, Periodic,
    PluginId, PropagationMode, ReschedulePolicy, Resources, RestartMode, RestartPolicy,
    SelinuxLabel, Task, TaskGroup, VolumeAlias, VolumeMount,
};

/// A word or number of a job that has no meaning, in Nomad's text where Nomad has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}{text}")]
pub struct JobWordProblem {
    /// The part of the job that has the word: `Task group g: `; empty for the job itself.
    object: String,
    text: String,
}

/// Converts a job from JSON, and returns the words and numbers without a meaning.
///
/// `fallback` is the namespace of a job that names none. The caller checks the rules of the job.
pub fn job_from_wire(document: &JobDocument, fallback: &Namespace) -> (Job, Vec<JobWordProblem>) {
    let mut reader = JobReader::default();
    let namespace = given(&document.namespace).map(Namespace::new);
    let mut job = Job::new(namespace.unwrap_or_else(|| fallback.clone()), JobId::new(&document.id));
    if let Some(name) = given(&document.name) {
        job.name = name.to_owned();
    }
    if let Some(region) = given(&document.region) {
        job.region = region.to_owned();
    }
    let unknown = |word: &str| format!("Invalid job type: {word:?}");
    let job_type = reader.word(&document.job_type, JobType::parse, unknown);
    job.job_type = job_type.unwrap_or(job.job_type);
    job.priority = document.priority.filter(|number| *number != 0).unwrap_or(job.priority);
    if !document.datacenters.is_empty() {
        job.datacenters.clone_from(&document.datacenters);
    }
    if let Some(pool) = given(&document.node_pool) {
        job.node_pool = pool.to_owned();
    }
    job.constraints = reader.constraints(&document.constraints);
    reader.refuse(&[
        ("Multiregion", document.multiregion, PartEffect::Cluster),
        ("Payload", document.payload, PartEffect::Input),
    ]);
    job.meta = document.meta.clone();
    let periodic = document.periodic.as_ref();
    job.periodic = periodic.map(|periodic| reader.periodic(periodic));
    let parameterized = document.parameterized_job.as_ref();
    job.parameterized = parameterized.map(|one| reader.parameterized(one));
    if document.stop {
        reader.problem(
            "job can't be submitted with 'Stop' set: it would run; stop a job with `job stop`, and start it with 'Stop' false"
                .to_owned(),
        );
    }
    if document.dispatched {
        reader.problem("job can't be submitted with 'Dispatched' set".to_owned());
    } else if !document.parent_id.is_empty() {
        reader.problem("job can't be submitted with 'ParentID' set".to_owned());
    }
    for group in &document.task_groups {
        reader.object = format!("Task group {}: ", group.name);
        let group = reader.group(group, job.job_type, document);
        job.groups.push(group);
    }
    (job, reader.problems)
}

fn given(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

#[derive(Default)]
struct JobReader {
    object: String,
    problems: Vec<JobWordProblem>,
}

impl JobReader {
    /// Reports the parts that a document has and this program does not carry out.
    fn refuse(&mut self, parts: &[(&str, Unsupported, PartEffect)]) {
        for (name, part, decides) in parts {
            if !part.is_absent() {
                let decides = decides.as_str();
                self.problem(format!("{name} is not supported: it decides {decides}"));
            }
        }
    }

    fn problem(&mut self, text: String) {
        let object = self.object.clone();
        self.problems.push(JobWordProblem { object, text });
    }

    /// Returns the value of a word; `None` if it is empty or unknown.
    fn word<T>(
        &mut self,
        word: &str,
        parse: impl FnOnce(&str) -> Option<T>,
        unknown: impl FnOnce(&str) -> String,
    ) -> Option<T> {
        let word = given(word)?;
        let value = parse(word);
        if value.is_none() {
            self.problem(unknown(word));
        }
        value
    }

    fn duration(&mut self, nanoseconds: Option<i64>, negative: &str) -> Option<Duration> {
        match u64::try_from(nanoseconds?) {
            Ok(nanoseconds) => Some(Duration::from_nanos(nanoseconds)),
            Err(_) => {
                self.problem(negative.to_owned());
                None
            }
        }
    }

    fn constraints(&mut self, documents: &[ConstraintDocument]) -> Vec<Constraint> {
        let mut constraints = vec![];
        for document in documents {
            let operator = ConstraintOperator::parse_with_synonyms(&document.operator);
            match operator {
                Some(operator) => constraints.push(Constraint {
                    attribute: document.attribute.clone(),
                    operator,
                    value: document.value.clone(),
                }),
                None => self.problem(format!("Unknown constraint type {:?}", document.operator)),
            }
        }
        constraints
    }

    fn periodic(&mut self, document: &PeriodicDocument) -> Periodic {
        let kind = document.spec_type.as_str();
        if !matches!(kind, "" | CRON) {
            self.problem(format!("Unknown periodic specification type {kind:?}"));
        }
        Periodic {
            is_enabled: document.enabled.unwrap_or(true),
            cron: document.spec.clone(),
            crons: document.specs.clone(),
            time_zone: document.time_zone.clone(),
            prohibits_overlap: document.prohibit_overlap,
        }
    }

    fn parameterized(&mut self, document: &ParameterizedDocument) -> Parameterized {
        let rule = self.word(&document.payload, PayloadRule::parse, |word| {
            format!("Unknown payload requirement: {word:?}")
        });
        Parameterized {
            payload: rule.unwrap_or(PayloadRule::Optional),
            meta_required: document.meta_required.clone(),
            meta_optional: document.meta_optional.clone(),
        }
    }

    fn group(
        &mut self,
        document: &TaskGroupDocument,
        job_type: JobType,
        job: &JobDocument,
    ) -> TaskGroup {
        self.refuse(&[
            ("Disconnect", document.disconnect, PartEffect::Disconnection),
            ("MaxClientDisconnect", document.max_client_disconnect, PartEffect::Disconnection),
            ("MaxRunDuration", document.max_run_duration, PartEffect::Duration),
            (
                "PreventRescheduleOnLost",
                document.prevent_reschedule_on_lost,
                PartEffect::Disconnection,
            ),
            (
                "StopAfterClientDisconnect",
                document.stop_after_client_disconnect,
                PartEffect::Disconnection,
            ),
        ]);
        let canaries = job.update.as_ref().and_then(|update| update.canary);
        let mut group = TaskGroup::new(&document.name, job_type);
        let own = document.update.as_ref().and_then(|update| update.canary);
        group.count = document.count.unwrap_or(group.count);
        group.canaries = own.or(canaries).unwrap_or_default();
        group.constraints = self.constraints(&document.constraints);
        group.restart = self.restart(document.restart_policy.as_ref(), &group.restart);
        let policy = document.reschedule_policy.as_ref();
        group.reschedule = self.reschedule(policy.or(job.reschedule.as_ref()), job_type);
        for (alias, volume) in &document.volumes {
            let volume = self.volume(volume);
            let alias = VolumeAlias::new(alias);
            group.volumes.extend(volume.map(|volume| (alias, volume)));
        }
        let object = self.object.clone();
        for task in &document.tasks {
            self.object = format!("{object}Task {}: ", task.name);
            let mut task = self.task(task, &group.restart);
            task.meta.fill_in(&document.meta);
            group.tasks.push(task);
        }
        self.object = object;
        group
    }

    fn restart(
        &mut self,
        document: Option<&RestartPolicyDocument>,
        base: &RestartPolicy,
    ) -> RestartPolicy {
        let Some(document) = document else {
            return base.clone();
        };
        let attempts = document.attempts.map(u32::try_from);
        if let Some(Err(_)) = attempts {
            self.problem("Restart policy has an invalid number of attempts".to_owned());
        }
        let unknown = |word: &str| format!("Unsupported restart mode: {word:?}");
        let mode = document.mode.as_deref().unwrap_or_default();
        let mode = self.word(mode, RestartMode::parse, unknown);
        let negative = "Restart policy has a negative duration";
        RestartPolicy {
            attempts: attempts.and_then(Result::ok).unwrap_or(base.attempts),
            interval: self.duration(document.interval, negative).unwrap_or(base.interval),
            delay: self.duration(document.delay, negative).unwrap_or(base.delay),
            mode: mode.unwrap_or(base.mode),
        }
    }

    /// Returns when a failed allocation is replaced; `None` for the default of the job's type.
    fn reschedule(
        &mut self,
        document: Option<&ReschedulePolicyDocument>,
        job_type: JobType,
    ) -> Option<ReschedulePolicy> {
        let document = document?;
        let base = ReschedulePolicy::of_type(job_type);
        let attempts = document.attempts.map(u32::try_from);
        if let Some(Err(_)) = attempts {
            self.problem("Reschedule policy has an invalid number of attempts".to_owned());
        }
        let unknown = |word: &str| format!("Invalid delay function {word:?}");
        let function = document.delay_function.as_deref().unwrap_or_default();
        let function = self.word(function, DelayFunction::parse, unknown);
        let negative = "Reschedule policy has a negative duration";
        let mut duration = |given, base| self.duration(given, negative).unwrap_or(base);
        let policy = ReschedulePolicy {
            attempts: attempts.and_then(Result::ok).unwrap_or(base.attempts),
            interval: duration(document.interval, base.interval),
            delay: duration(document.delay, base.delay),
            delay_function: function.unwrap_or(base.delay_function),
            max_delay: duration(document.max_delay, base.max_delay),
            unlimited: document.unlimited.unwrap_or(base.unlimited),
        };
        let policy = policy.unless_default(job_type);
        if policy.is_some() && matches!(job_type, JobType::System | JobType::Sysbatch) {
            self.problem("System or sysbatch jobs should not have a reschedule policy".to_owned());
        }
        policy
    }

    fn volume(&mut self, document: &VolumeRequestDocument) -> Option<JobVolume> {
        let attachment_mode = self.word(&document.attachment_mode, AttachmentMode::parse, |word| {
            format!("unknown volume attachment mode: {word}")
        });
        let kind = match document.volume_type.as_str() {
            "csi" => JobVolumeKind::Csi {
                access_mode: self.word(&document.access_mode, AccessMode::parse, |word| {
                    format!("unknown volume access mode: {word}")
                }),
                attachment_mode,
                mount_options: document.mount_options.as_ref().map(mount_options),
            },
            "host" => JobVolumeKind::Host {
                access_mode: self.word(&document.access_mode, HostAccessMode::parse, |word| {
                    format!("host volumes cannot be mounted with {word} access mode")
                }),
                attachment_mode,
                has_mount_options: document.mount_options.is_some(),
            },
            other => {
                self.problem(format!("volume has unrecognized type {other}"));
                return None;
            }
        };
        Some(JobVolume {
            source: document.source.clone(),
            read_only: document.read_only,
            per_alloc: document.per_alloc,
            sticky: document.sticky,
            kind,
        })
    }

    fn task(&mut self, document: &TaskDocument, restart: &RestartPolicy) -> Task {
        self.refuse(&[
            ("Artifacts", document.artifacts, PartEffect::Input),
            ("Identities", document.identities, PartEffect::Input),
            ("Identity", document.identity, PartEffect::Input),
            ("Schedule", document.schedule, PartEffect::Time),
            ("Secrets", document.secrets, PartEffect::Input),
            ("Templates", document.templates, PartEffect::Input),
            ("Vault", document.vault, PartEffect::Input),
        ]);
        let restart = self.restart(document.restart_policy.as_ref(), restart);
        let mut task = Task::new(&document.name, &document.driver, restart);
        task.config = document.config.clone();
        task.environment = document.env.clone();
        task.meta = document.meta.clone();
        task.user.clone_from(&document.user);
        task.constraints = self.constraints(&document.constraints);
        task.kill_timeout = self
            .duration(document.kill_timeout, "KillTimeout must be a positive value")
            .filter(|timeout| !timeout.is_zero())
            .unwrap_or(task.kill_timeout);
        task.kill_signal.clone_from(&document.kill_signal);
        task.lifecycle = document.lifecycle.as_ref().and_then(|one| self.lifecycle(one));
        task.is_leader = document.leader;
        let mounts = document.volume_mounts.iter();
        task.volume_mounts = mounts.map(|mount| self.volume_mount(mount)).collect();
        task.csi_plugin = document.csi_plugin_config.as_ref().map(|one| self.csi_plugin(one));
        let payload = document.dispatch_payload.as_ref();
        task.payload_file = payload.and_then(|one| given(&one.file).map(str::to_owned));
        if let Some(resources) = &document.resources {
            task.resources = resources_from(resources);
        }
        task
    }

    fn lifecycle(&mut self, document: &LifecycleDocument) -> Option<Lifecycle> {
        let hook = LifecycleHook::parse(&document.hook);
        if hook.is_none() {
            self.problem(format!("Lifecycle validation failed: invalid hook: {}", document.hook));
        }
        hook.map(|hook| Lifecycle { hook, is_sidecar: document.sidecar })
    }

    fn volume_mount(&mut self, document: &VolumeMountDocument) -> VolumeMount {
        let mode = self.word(&document.propagation_mode, PropagationMode::parse, |word| {
            format!("volume mount has an invalid propagation mode: {word:?}")
        });
        let selinux_label = self.word(&document.selinux_label, SelinuxLabel::parse, |word| {
            format!("volume mount has an invalid SELinux label: {word:?}")
        });
        VolumeMount {
            volume: VolumeAlias::new(&document.volume),
            destination: document.destination.clone(),
            read_only: document.read_only,
            propagation_mode: mode.unwrap_or(PropagationMode::Private),
            selinux_label,
        }
    }

    fn csi_plugin(&mut self, document: &CsiPluginDocument) -> CsiPluginConfig {
        let word = &document.plugin_type;
        let plugin_type = CsiPluginType::parse(word);
        if plugin_type.is_none() {
            self.problem(format!(
                "CSIPluginConfig PluginType must be one of 'node', 'controller', or 'monolith', got: {word:?}"
            ));
        }
        let plugin_type = plugin_type.unwrap_or(CsiPluginType::Node);
        let mut plugin = CsiPluginConfig::new(PluginId::new(&document.id), plugin_type);
        for (directory, value) in [
            (&mut plugin.mount_dir, &document.mount_dir),
            (&mut plugin.stage_publish_base_dir, &document.stage_publish_base_dir),
        ] {
            if !value.is_empty() {
                directory.clone_from(value);
            }
        }
        let negative = "CSIPluginConfig HealthTimeout must not be negative";
        let timeout = self.duration(Some(document.health_timeout), negative);
        let timeout = timeout.filter(|timeout| !timeout.is_zero());
        plugin.health_timeout = timeout.unwrap_or(plugin.health_timeout);
        plugin
    }
}

fn mount_options(document: &MountOptionsDocument) -> MountOptions {
    MountOptions {
        fs_type: document.fs_type.clone(),
        mount_flags: document.mount_flags.clone().unwrap_or_default(),
    }
}

fn resources_from(document: &ResourcesDocument) -> Resources {
    let default = Resources::default();
    Resources {
        cpu: document.cpu.unwrap_or(default.cpu),
        cores: document.cores.unwrap_or(default.cores),
        memory_mb: document.memory_mb.unwrap_or(default.memory_mb),
        memory_max_mb: document.memory_max_mb.unwrap_or(default.memory_max_mb),
    }
}
