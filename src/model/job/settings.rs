//! The part of a job that may be secret, apart from the rest.
//!
//! A job is recorded without its `meta` and payload, without the environments, `meta` and driver configurations of its
//! tasks, and without the mount flags of its volumes; those are sealed. Both together are the job again. `[REDACTED]`
//! stands where something was taken, so that readers know, and a job that is sent back with it is refused
//! (`job::validate`). A payload has no such mark: only the agent makes a job with one.
//!
//! [`Job::take_settings`] names every field of a job, so a new one needs a decision to compile.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::definition::Job;
use super::environment::{TaskConfig, TaskEnvironment};
use super::group::TaskGroup;
use super::launching::{Dispatch, JobOrigin, Payload};
use super::reference::{TextPart, text_parts};
use super::task::Task;
use super::volume::{JobVolume, JobVolumeKind};
use crate::id::VolumeAlias;
use crate::mount_options::MountOptions;
use crate::secret_values::SecretValues;
use crate::secrets::Secrets;

/// The place of what may be secret of the job itself.
const OF_JOB: &str = "job";

/// The possible secrets of the job itself.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnSettings {
    #[serde(default, skip_serializing_if = "TaskEnvironment::is_empty")]
    meta: TaskEnvironment,
    #[serde(default, skip_serializing_if = "Payload::is_empty")]
    payload: Payload,
}

/// The possible secrets of one task.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskSettings {
    environment: TaskEnvironment,
    #[serde(default, skip_serializing_if = "TaskEnvironment::is_empty")]
    meta: TaskEnvironment,
    config: TaskConfig,
}

/// The possible secrets of one volume.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VolumeSettings {
    mount_flags: Vec<String>,
}

/// The settings are not of this job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the recorded settings of the job's tasks are damaged")]
pub struct InvalidSettings;

impl Job {
    /// Removes `meta`, payload, environments, driver configurations and mount flags from the job, and returns them.
    pub fn take_settings(&mut self) -> Secrets {
        let mut taken = Secrets::default();
        // What readers get of a job, and what follows from it.
        let Self {
            namespace: _,
            id: _,
            name: _,
            region: _,
            job_type: _,
            priority: _,
            datacenters: _,
            node_pool: _,
            constraints: _,
            // The times, and which values a request gives.
            periodic: _,
            parameterized: _,
            meta,
            origin,
            groups,
        } = self;
        if let Some(text) = take_from_job(meta, origin.as_mut()) {
            taken.insert(OF_JOB.to_owned(), text);
        }
        for (at, group) in groups.iter_mut().enumerate() {
            let TaskGroup {
                name: _,
                count: _,
                canaries: _,
                constraints: _,
                restart: _,
                reschedule: _,
                volumes,
                tasks,
            } = group;
            for (alias, volume) in volumes {
                if let Some(text) = take_from_volume(volume) {
                    taken.insert(volume_place(at, alias), text);
                }
            }
            for (task_at, task) in tasks.iter_mut().enumerate() {
                if let Some(text) = take_from_task(task) {
                    taken.insert(task_place(at, task_at), text);
                }
            }
        }
        taken
    }

    /// Returns the job with what [`Job::take_settings`] took from it.
    ///
    /// # Errors
    /// If the settings are not of this job.
    pub fn with_settings(&self, settings: &Secrets) -> Result<Self, InvalidSettings> {
        let mut job = self.clone();
        let mut taken: BTreeMap<&str, &str> = settings.expose().collect();
        if let Some(text) = taken.remove(OF_JOB) {
            let own: OwnSettings = read(text)?;
            job.meta = own.meta;
            match payload_of(&mut job) {
                Some(payload) => *payload = own.payload,
                None if own.payload.is_empty() => {}
                None => return Err(InvalidSettings),
            }
        }
        for (at, group) in job.groups.iter_mut().enumerate() {
            for (alias, volume) in &mut group.volumes {
                let Some(text) = taken.remove(&*volume_place(at, alias)) else {
                    continue;
                };
                let settings: VolumeSettings = read(text)?;
                let options = flags_of(volume).ok_or(InvalidSettings)?;
                options.mount_flags = settings.mount_flags;
            }
            for (task_at, task) in group.tasks.iter_mut().enumerate() {
                let Some(text) = taken.remove(&*task_place(at, task_at)) else {
                    continue;
                };
                let settings: TaskSettings = read(text)?;
                task.environment = settings.environment;
                task.meta = settings.meta;
                task.config = settings.config;
            }
        }
        match taken.is_empty() {
            true => Ok(job),
            false => Err(InvalidSettings),
        }
    }

    /// Returns what no text about the job may contain: what is secret of it, its tasks and its volumes.
    pub fn secret_values(&self) -> SecretValues {
        let mut values = SecretValues::default();
        add_long(&self.meta, &mut values);
        let dispatch = self.origin.as_ref().and_then(|of| of.dispatch.as_ref());
        if let Some(dispatch) = dispatch {
            // Bytes that are no text are in no text.
            if let Ok(text) = str::from_utf8(dispatch.payload.expose()) {
                values.add(text);
            }
        }
        for group in &self.groups {
            for volume in group.volumes.values() {
                if let JobVolumeKind::Csi { mount_options: Some(options), .. } = &volume.kind {
                    options.mount_flags.iter().for_each(|flag| values.add(flag));
                }
            }
            for task in &group.tasks {
                add_long(&task.environment, &mut values);
                add_long(&task.meta, &mut values);
                task.config.texts().into_iter().for_each(|text| add_long_text(text, &mut values));
            }
        }
        values
    }
}

/// Takes what may be secret of the job itself. The token of a request finds the request again.
fn take_from_job(meta: &mut TaskEnvironment, origin: Option<&mut JobOrigin>) -> Option<String> {
    let payload = origin.and_then(|origin| {
        let JobOrigin { parent: _, dispatch } = origin;
        let Dispatch { idempotency_token: _, payload } = dispatch.as_mut()?;
        Some(std::mem::take(payload))
    });
    let payload = payload.unwrap_or_default();
    if meta.is_empty() && payload.is_empty() {
        return None;
    }
    let no_meta = meta.redacted();
    written(&OwnSettings { meta: std::mem::replace(meta, no_meta), payload })
}

fn payload_of(job: &mut Job) -> Option<&mut Payload> {
    let dispatch = job.origin.as_mut()?.dispatch.as_mut()?;
    Some(&mut dispatch.payload)
}

fn add_long(environment: &TaskEnvironment, values: &mut SecretValues) {
    environment.expose().for_each(|(_, value)| add_long_text(value, values));
}

/// Adds what a text says besides its references in the words of Nomad: a message names those.
fn add_long_text(text: &str, values: &mut SecretValues) {
    let mut literal = String::new();
    for part in text_parts(text) {
        match part {
            TextPart::Reference(reference) if reference.is_nomads => {
                add_long_literal(&literal, values);
                literal.clear();
            }
            TextPart::Reference(reference) => literal.push_str(reference.written),
            TextPart::Literal(part) => literal.push_str(part),
        }
    }
    add_long_literal(&literal, values);
}

fn add_long_literal(literal: &str, values: &mut SecretValues) {
    if is_long(literal) {
        values.add(literal);
    }
}

/// Shorter values are words of every sentence, such as `prod` or `plugin`.
fn is_long(value: &str) -> bool {
    value.len() >= 8
}

/// Takes what may be secret of a volume.
fn take_from_volume(volume: &mut JobVolume) -> Option<String> {
    let JobVolume { source: _, read_only: _, per_alloc: _, sticky: _, kind } = volume;
    match kind {
        JobVolumeKind::Csi { access_mode: _, attachment_mode: _, mount_options } => {
            let MountOptions { fs_type: _, mount_flags } = mount_options.as_mut()?;
            if mount_flags.is_empty() {
                return None;
            }
            let mark = vec![MountOptions::REDACTED.to_owned()];
            written(&VolumeSettings { mount_flags: std::mem::replace(mount_flags, mark) })
        }
        JobVolumeKind::Host { access_mode: _, attachment_mode: _, has_mount_options: _ } => None,
    }
}

/// Takes what may be secret of a task.
fn take_from_task(task: &mut Task) -> Option<String> {
    let Task {
        name: _,
        driver: _,
        config,
        environment,
        meta,
        user: _,
        constraints: _,
        restart: _,
        kill_timeout: _,
        kill_signal: _,
        lifecycle: _,
        is_leader: _,
        volume_mounts: _,
        csi_plugin: _,
        // A path, which no value is a part of.
        payload_file: _,
        resources: _,
    } = task;
    if environment.is_empty() && meta.is_empty() && config.is_empty() {
        return None;
    }
    let (no_environment, no_meta) = (environment.redacted(), meta.redacted());
    let no_config = config.redacted();
    written(&TaskSettings {
        environment: std::mem::replace(environment, no_environment),
        meta: std::mem::replace(meta, no_meta),
        config: std::mem::replace(config, no_config),
    })
}

fn flags_of(volume: &mut JobVolume) -> Option<&mut MountOptions> {
    match &mut volume.kind {
        JobVolumeKind::Csi { mount_options, .. } => mount_options.as_mut(),
        JobVolumeKind::Host { .. } => None,
    }
}

/// Maps of texts and JSON values always have a JSON text.
fn written(settings: &impl Serialize) -> Option<String> {
    serde_json::to_string(settings).ok()
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, InvalidSettings> {
    serde_json::from_str(text).map_err(|_| InvalidSettings)
}

/// The place of a task, by group and position, which are unique whatever their names are.
fn task_place(group: usize, task: usize) -> String {
    format!("{group}/{task}")
}

/// The place of a volume, which no task has.
fn volume_place(group: usize, alias: &VolumeAlias) -> String {
    format!("{group}/volume/{alias}")
}

#[cfg(test)]
mod tests {
    use super::super::{JobType, RestartPolicy};
    use super::*;
    use crate::{JobId, Namespace};

    fn job() -> Job {
        let mut job = Job::new(Namespace::default(), JobId::new("web"));
        for name in ["a", "b"] {
            let mut group = TaskGroup::new(name, JobType::Service);
            let policy = RestartPolicy::of_type(JobType::Service);
            group.tasks =
                vec![Task::new("same", "exec", policy.clone()), Task::new("plain", "exec", policy)];
            group.tasks[0].environment = TaskEnvironment::from_iter([("PASSWORD", name)]);
            group.tasks[0].meta = TaskEnvironment::from_iter([("TOKEN", name)]);
            let command = serde_json::Map::from_iter([("command".to_owned(), "hunter2".into())]);
            group.tasks[0].config = TaskConfig::new(command);
            let volume = JobVolume {
                source: "db".to_owned(),
                read_only: false,
                per_alloc: false,
                sticky: false,
                kind: JobVolumeKind::Csi {
                    access_mode: None,
                    attachment_mode: None,
                    mount_options: Some(MountOptions {
                        fs_type: "ext4".to_owned(),
                        mount_flags: vec!["password=hunter2".to_owned()],
                    }),
                },
            };
            group.volumes.insert(VolumeAlias::new("0"), volume);
            job.groups.push(group);
        }
        job
    }

    #[test]
    fn settings_are_taken_and_given_back() {
        let original = job();
        let mut stored = original.clone();
        let settings = stored.take_settings();
        let text = serde_json::to_string(&stored).unwrap();
        assert!(
            ["PASSWORD", "TOKEN", "hunter2", "command"].iter().all(|secret| !text.contains(secret)),
            "{text}"
        );
        assert!(text.contains("ext4"), "{text}");
        let task = &stored.groups[0].tasks[0];
        assert!(task.environment.is_redacted() && task.meta.is_redacted());
        assert!(task.config.is_redacted() && !original.groups[0].tasks[0].config.is_redacted());
        assert_eq!(stored.groups[0].tasks[1], original.groups[0].tasks[1]);
        let places = ["0/0", "0/volume/0", "1/0", "1/volume/0"];
        assert_eq!(settings.keys().collect::<Vec<_>>(), places);
        assert_eq!(stored.with_settings(&settings), Ok(original));
    }

    #[test]
    fn the_meta_and_the_payload_of_a_job_are_taken_too() {
        let mut original = job();
        original.groups.truncate(1);
        original.meta = TaskEnvironment::from_iter([("set", "hunter2")]);
        original.origin = Some(JobOrigin {
            parent: JobId::new("import"),
            dispatch: Some(Dispatch {
                idempotency_token: "t".to_owned(),
                payload: Payload::new(b"hunter3\0\xff".to_vec()),
            }),
        });
        assert!(!format!("{original:?}").contains("hunter"));
        let mut stored = original.clone();
        let settings = stored.take_settings();
        let text = serde_json::to_string(&stored).unwrap();
        assert!(!text.contains("hunter") && !text.contains("aHVudGVy"), "{text}");
        assert!(stored.meta.is_redacted());
        let places = ["0/0", "0/volume/0", "job"];
        assert_eq!(settings.keys().collect::<Vec<_>>(), places);
        let hidden = original.secret_values().hidden_in("failed: hunter3\0");
        assert!(hidden.is_none());
        assert_eq!(stored.with_settings(&settings), Ok(original));
        let mut launched = job();
        launched.take_settings();
        assert_eq!(launched.with_settings(&settings), Err(InvalidSettings));
    }

    /// What a node says about a reference is no secret, and what is beside the reference may be one.
    #[test]
    fn a_reference_is_not_hidden_and_the_rest_of_its_text_is() {
        let mut job = job();
        let task = &mut job.groups[0].tasks[0];
        let text = "user:hunter2hunter2@${attr.unique.hostname}:${HOME:-hunter3}";
        task.environment = TaskEnvironment::from_iter([("A", "${node.class}"), ("B", text)]);
        let args = serde_json::json!(["--node-id=${attr.unique.hostname}"]);
        task.config = TaskConfig::new([("args".to_owned(), args)].into_iter().collect());
        let values = job.secret_values();
        let said = "`${node.class}` and `${attr.unique.hostname}` have no value";
        assert_eq!(values.hidden_in(said), None);
        let hidden = values.hidden_in("cannot use user:hunter2hunter2@ or :${HOME:-hunter3}");
        let hidden = hidden.unwrap();
        assert!(!hidden.contains("hunter"), "{hidden}");
    }

    #[test]
    fn settings_of_another_job_are_refused() {
        let mut stored = job();
        let settings = stored.take_settings();
        stored.groups.truncate(1);
        assert_eq!(stored.with_settings(&settings), Err(InvalidSettings));
        let damaged = Secrets::from_iter([("0/0", "{")]);
        assert_eq!(stored.with_settings(&damaged), Err(InvalidSettings));
    }
}
