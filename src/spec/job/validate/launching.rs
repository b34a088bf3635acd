//! The rules of jobs that other jobs are made from.

use std::path::{Component, Path};

use super::rules::Rules;
use crate::job::launch_times::{LaunchTimes, LaunchTimesProblem, MOST_EXPRESSIONS};
use crate::job::place::JobPlace;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{JobType, Parameterized, Periodic, Task};

impl Rules<'_> {
    /// A job that never starts by itself is not checked, as in Nomad.
    pub(super) fn launching(&mut self) {
        let job = self.job;
        if let Some(periodic) = job.periodic.as_ref().filter(|one| one.is_enabled) {
            let place = JobPlace::default().block("periodic", "");
            self.ends(&place, "Periodic");
            self.periodic(periodic, &place);
        }
        if let Some(parameterized) = job.parameterized.as_ref()
            && job.is_parameterized()
        {
            let place = JobPlace::default().block("parameterized", "");
            self.ends(&place, "Parameterized job");
            self.parameterized(parameterized, &place);
        }
    }

    fn ends(&mut self, place: &JobPlace, what: &str) {
        if !self.job.job_type.ends() {
            let (batch, sysbatch) = (JobType::Batch, JobType::Sysbatch);
            let text =
                format!("{what} can only be used with \"{batch}\" or \"{sysbatch}\" scheduler");
            let label = "write `type = \"batch\"` in the job";
            self.error(Code::JobInvalidValue, place.clone(), text, label);
        }
    }

    fn periodic(&mut self, periodic: &Periodic, place: &JobPlace) {
        if !periodic.cron.is_empty() && !periodic.crons.is_empty() {
            let text = "Only cron or crons may be used";
            let place = place.field("cron");
            self.error(Code::JobDuplicate, place, text, "add it to `crons`");
        }
        if periodic.expressions().next().is_none() {
            let label = "add `crons`";
            self.error(Code::JobIncomplete, place.clone(), "Must specify a spec", label);
        }
        if periodic.expressions().count() > MOST_EXPRESSIONS {
            let text = format!("A periodic job has at most {MOST_EXPRESSIONS} cron specs");
            let label = "split it into several jobs";
            self.error(Code::JobInvalidValue, place.field("crons"), text, label);
            return;
        }
        for problem in LaunchTimes::of(periodic).err().unwrap_or_default() {
            let (field, label) = match &problem {
                LaunchTimesProblem::TimeZone(_) => {
                    ("time_zone", "expected a name such as `Europe/Berlin`")
                }
                LaunchTimesProblem::Expression { .. } if !periodic.cron.is_empty() => {
                    ("cron", "expected a text such as `0 3 * * *`")
                }
                LaunchTimesProblem::Expression { .. } => {
                    ("crons", "expected texts such as `0 3 * * *`")
                }
            };
            let place = place.field(field);
            self.error(Code::JobInvalidValue, place, problem.to_string(), label);
        }
    }

    fn parameterized(&mut self, parameterized: &Parameterized, place: &JobPlace) {
        let required = parameterized.meta_required.iter();
        let both: Vec<&str> = required
            .filter(|key| parameterized.meta_optional.contains(key))
            .map(String::as_str)
            .collect();
        if !both.is_empty() {
            let text = format!(
                "Required and optional meta keys should be disjoint. Following keys exist in both: [{}]",
                both.join(" ")
            );
            let place = place.field("meta_optional");
            self.error(Code::JobDuplicate, place, text, "remove the repeated keys");
        }
    }

    /// The payload stays in the directory of its task.
    pub(super) fn payload_file(&mut self, task: &Task, place: &JobPlace) {
        let file = task.payload_file.as_deref().unwrap_or_default();
        let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_));
        let mut parts = Path::new(file).components();
        if !parts.all(is_inside) || file.contains('\0') {
            let text =
                "Dispatch Payload validation failed: destination escapes allocation directory";
            let place = place.block("dispatch_payload", "").field("file");
            let label = "expected a path in `local/`, such as `input.json`";
            self.error(Code::JobInvalidValue, place, text, label);
        }
    }
}
