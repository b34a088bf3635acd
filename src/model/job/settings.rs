//! The part of a job that may be secret, apart from the rest.
//!
//! A job is recorded without the environments, `meta` and driver configurations of its tasks; those are sealed. Both
//! together are the job again.

use serde::{Deserialize, Serialize};

use super::definition::Job;
use super::environment::{TaskConfig, TaskEnvironment};
use super::task::Task;
use crate::model::secrets::Secrets;

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
    /// Removes environments, `meta` and driver configurations from the job, and returns them.
    pub fn take_settings(&mut self) -> Secrets {
        let mut taken = Secrets::default();
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
    use super::super::{JobType, RestartPolicy, TaskGroup};
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
    fn settings_of_another_job_are_refused() {
        let mut stored = job();
        let settings = stored.take_settings();
        stored.groups.truncate(1);
        assert_eq!(stored.with_settings(&settings), Err(InvalidSettings));
        let damaged = Secrets::from_iter([("0/0", "{")]);
        assert_eq!(stored.with_settings(&damaged), Err(InvalidSettings));
    }
}
