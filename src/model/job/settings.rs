//! The part of a job that may be secret, apart from the rest.
//!
//! A job is recorded without its `meta` and payload, and without the environments, `meta` and driver configurations of
//! its tasks; those are sealed. Both together are the job again.

use serde::{Deserialize, Serialize};

use super::definition::Job;
use super::environment::{TaskConfig, TaskEnvironment};
use super::launching::Payload;
use super::task::Task;
use crate::model::secrets::Secrets;

/// The place of what may be secret of the job itself.
const OF_JOB: &str = "job";

/// What may be secret of the job itself.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnSettings {
    #[serde(default, skip_serializing_if = "TaskEnvironment::is_empty")]
    meta: TaskEnvironment,
    #[serde(default, skip_serializing_if = "Payload::is_empty")]
    payload: Payload,
}

/// What may be secret of one task.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskSettings {
    environment: TaskEnvironment,
    #[serde(default, skip_serializing_if = "TaskEnvironment::is_empty")]
    meta: TaskEnvironment,
    config: TaskConfig,
}

/// The settings are not of this job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the recorded settings of the job's tasks are damaged")]
pub struct InvalidSettings;

impl Job {
    /// Removes environments, `meta`, payload and driver configurations from the job, and returns them.
    pub fn take_settings(&mut self) -> Secrets {
        let mut taken = Secrets::default();
        let payload = self.payload_mut().map(std::mem::take);
        let own = OwnSettings {
            meta: std::mem::take(&mut self.meta),
            payload: payload.unwrap_or_default(),
        };
        if !(own.meta.is_empty() && own.payload.is_empty())
            && let Ok(text) = serde_json::to_string(&own)
        {
            taken.insert(OF_JOB.to_owned(), text);
        }
        for (place, task) in self.tasks_by_place() {
            let settings = TaskSettings {
                environment: std::mem::take(&mut task.environment),
                meta: std::mem::take(&mut task.meta),
                config: std::mem::take(&mut task.config),
            };
            let TaskSettings {
                environment,
                meta,
                config,
            } = &settings;
            if environment.is_empty() && meta.is_empty() && config.is_empty() {
                continue;
            }
            // Maps of texts and JSON values always have a JSON text.
            if let Ok(text) = serde_json::to_string(&settings) {
                taken.insert(place, text);
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
        let mut missing = settings.keys().count();
        if let Some((_, text)) = settings.expose().find(|(key, _)| *key == OF_JOB) {
            let own: OwnSettings = serde_json::from_str(text).map_err(|_| InvalidSettings)?;
            job.meta = own.meta;
            match job.payload_mut() {
                Some(payload) => *payload = own.payload,
                None if own.payload.is_empty() => {}
                None => return Err(InvalidSettings),
            }
            missing -= 1;
        }
        for (place, task) in job.tasks_by_place() {
            let Some((_, text)) = settings.expose().find(|(key, _)| *key == place) else {
                continue;
            };
            let settings: TaskSettings = serde_json::from_str(text).map_err(|_| InvalidSettings)?;
            task.environment = settings.environment;
            task.meta = settings.meta;
            task.config = settings.config;
            missing -= 1;
        }
        if missing > 0 {
            return Err(InvalidSettings);
        }
        Ok(job)
    }

    fn payload_mut(&mut self) -> Option<&mut Payload> {
        let dispatch = self.origin.as_mut()?.dispatch.as_mut()?;
        Some(&mut dispatch.payload)
    }

    /// The tasks by group and position, which are unique whatever their names are.
    fn tasks_by_place(&mut self) -> impl Iterator<Item = (String, &mut Task)> {
        let groups = self.groups.iter_mut().enumerate();
        groups.flat_map(|(group, of)| {
            let tasks = of.tasks.iter_mut().enumerate();
            tasks.map(move |(at, task)| (format!("{group}/{at}"), task))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Dispatch, JobOrigin, JobType, RestartPolicy, TaskGroup};
    use super::*;
    use crate::model::{JobId, Namespace};

    fn job() -> Job {
        let mut job = Job::new(Namespace::default(), JobId::new("web"));
        for name in ["a", "b"] {
            let mut group = TaskGroup::new(name, JobType::Service);
            let policy = RestartPolicy::of_type(JobType::Service);
            group.tasks = vec![
                Task::new("same", "exec", policy.clone()),
                Task::new("plain", "exec", policy),
            ];
            group.tasks[0].environment = TaskEnvironment::from_iter([("PASSWORD", name)]);
            group.tasks[0].meta = TaskEnvironment::from_iter([("TOKEN", name)]);
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
            !text.contains("PASSWORD") && !text.contains("TOKEN"),
            "{text}"
        );
        assert_eq!(settings.keys().collect::<Vec<_>>(), ["0/0", "1/0"]);
        assert_eq!(stored.with_settings(&settings), Ok(original));
    }

    #[test]
    fn the_meta_and_the_payload_of_a_job_are_taken_too() {
        let mut original = job();
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
        assert!(
            !text.contains("hunter") && !text.contains("aHVudGVy"),
            "{text}"
        );
        assert_eq!(settings.keys().collect::<Vec<_>>(), ["0/0", "1/0", "job"]);
        assert_eq!(stored.with_settings(&settings), Ok(original));
        let mut launched = job();
        launched.take_settings();
        assert_eq!(launched.with_settings(&settings), Err(InvalidSettings));
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
