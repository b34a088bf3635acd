//! The rules of a job as a whole.

use std::collections::HashMap;

use super::rules::{Rules, name_problem};
use crate::job::place::JobPlace;
use crate::job::problem::JobProblem;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{Job, JobType};

/// Checks a job, and returns every broken rule.
pub fn validate(job: &Job) -> Vec<JobProblem> {
    let mut rules = Rules { job, problems: vec![], patterns: 0 };
    rules.names();
    rules.launching();
    if job.meta.is_redacted() {
        rules.redacted(&JobPlace::default().field("meta"), "meta");
    }
    rules.constraints(&job.constraints, &JobPlace::default());
    if job.groups.is_empty() {
        let place = JobPlace::default();
        rules.error(Code::JobIncomplete, place, "Missing job task groups", "add a `group`");
    }
    rules.group_names();
    for (at, group) in job.groups.iter().enumerate() {
        rules.group(group, &JobPlace::group(at));
    }
    rules.problems
}

impl Rules<'_> {
    fn names(&mut self) {
        let job = self.job;
        let place = JobPlace::default();
        let id = job.id.as_str();
        let problem = match id {
            "" => Some("Missing job ID".to_owned()),
            id if id.contains(' ') => Some("Job ID contains a space".to_owned()),
            id => name_problem("Job ID", id).or_else(|| {
                let problem = job.id.path_problem()?;
                Some(format!("Job ID cannot be addressed: {problem}"))
            }),
        };
        if let Some(problem) = problem {
            self.error(Code::JobName, place.field("id"), problem, "");
        }
        let problem = match job.name.as_str() {
            "" => Some("Missing job name".to_owned()),
            name => name_problem("Job name", name),
        };
        if let Some(problem) = problem {
            self.error(Code::JobName, place.field("name"), problem, "");
        }
        if job.region.is_empty() {
            let label = "remove this, or name a region";
            self.error(Code::JobInvalidValue, place.field("region"), "Missing job region", label);
        }
        if job.datacenters.iter().any(String::is_empty) {
            let text = "Job datacenter must be non-empty string";
            let place = place.field("datacenters");
            self.error(Code::JobInvalidValue, place, text, "one name is empty");
        }
        if !(1..=100).contains(&job.priority) {
            let text = "Job priority must be between [1, 100]";
            let label = "expected 1 to 100";
            self.error(Code::JobInvalidValue, place.field("priority"), text, label);
        }
    }

    fn group_names(&mut self) {
        let mut seen = HashMap::new();
        for (at, group) in self.job.groups.iter().enumerate() {
            let place = JobPlace::group(at);
            let name = group.name.as_str();
            if name.is_empty() {
                let text = format!("Job task group {} has no name", at + 1);
                self.error(Code::JobName, place, text, "add a name");
                continue;
            }
            if let Some(problem) = name_problem("Task group name", name) {
                self.error(Code::JobName, place.clone(), problem, "");
            }
            let first = *seen.entry(name).or_insert(at);
            if first != at {
                let text = format!(
                    "Job task group {} redefines '{name}' from group {}",
                    at + 1,
                    first + 1
                );
                let problem = JobProblem::error(Code::JobDuplicate, place, text);
                self.problems.push(problem.repeats(JobPlace::group(first)));
            }
        }
    }

    /// A system job has one allocation per node, so a higher count has no meaning.
    pub(super) fn system_count(&mut self, name: &str, count: i64, place: &JobPlace) {
        if self.job.job_type == JobType::System && count > 1 {
            let text = format!(
                "Job task group {name} has count {count}. Count cannot exceed 1 with system scheduler"
            );
            let place = place.field("count");
            self.error(Code::JobInvalidValue, place, text, "remove this, or write 1");
        }
    }
}
