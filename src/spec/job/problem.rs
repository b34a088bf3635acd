//! A broken rule of a job, in Nomad's words where Nomad has the rule.

use super::place::JobPlace;
use nomad_csi_model::Job;
use nomad_csi_model::diagnostic::{Code, Severity};

/// A broken rule of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobProblem {
    /// The kind of problem.
    pub code: Code,
    /// The severity: the job cannot run, or it can.
    pub severity: Severity,
    /// The place.
    pub place: JobPlace,
    /// The problem, in Nomad's text where Nomad refuses it.
    pub text: String,
    /// The change to make at the place.
    pub label: String,
    /// The place of the first use, for a repetition.
    pub first: Option<JobPlace>,
}

impl JobProblem {
    pub(super) fn error(code: Code, place: JobPlace, text: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            place,
            text: text.into(),
            label: String::new(),
            first: None,
        }
    }

    pub(super) fn warning(code: Code, place: JobPlace, text: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, place, text) }
    }

    pub(super) fn label(self, label: impl Into<String>) -> Self {
        Self { label: label.into(), ..self }
    }

    pub(super) fn repeats(self, first: JobPlace) -> Self {
        Self { first: Some(first), label: "repeated here".to_owned(), ..self }
    }

    /// Returns the headline: the object in its group, and what is wrong.
    pub fn message(&self, job: &Job) -> String {
        let text = &self.text;
        let objects = self.objects(job);
        if objects.is_empty() {
            return text.clone();
        }
        format!("{}: {text}", objects.join(" of "))
    }

    /// Returns the object and what contains it, from the inside: "volume `v`", "group `g`".
    fn objects(&self, job: &Job) -> Vec<String> {
        let place = &self.place;
        let Some(group) = place.group.and_then(|at| job.groups.get(at)) else {
            return vec![];
        };
        let task = place.task.and_then(|at| group.tasks.get(at));
        let volume = match &place.block {
            Some(("volume", alias)) => Some(format!("volume `{alias}`")),
            _ => None,
        };
        let task = task.map(|task| format!("task `{}`", task.name));
        let group = format!("group `{}`", group.name);
        volume.into_iter().chain(task).chain([group]).collect()
    }
}

/// Returns the errors as Nomad's API reports them: a list per group, volume and task.
///
/// Returns `None` without an error.
pub fn report_text(job: &Job, problems: &[JobProblem]) -> Option<String> {
    let errors: Vec<_> =
        problems.iter().filter(|problem| problem.severity == Severity::Error).collect();
    let lines = |of: &dyn Fn(&JobPlace) -> bool| -> Vec<String> {
        let of = errors.iter().filter(|problem| of(&problem.place));
        of.map(|problem| problem.text.clone()).collect()
    };
    let mut all = lines(&|place| place.group.is_none());
    for (at, group) in job.groups.iter().enumerate() {
        let is_here = move |place: &JobPlace| place.group == Some(at);
        let volume_of = |place: &JobPlace| match &place.block {
            Some(("volume", alias)) => Some(alias.clone()),
            _ => None,
        };
        let is_own =
            |place: &JobPlace| is_here(place) && place.task.is_none() && volume_of(place).is_none();
        let mut inner = lines(&is_own);
        for alias in group.volumes.keys() {
            let of = |place: &JobPlace| {
                is_here(place) && volume_of(place).as_deref() == Some(alias.as_str())
            };
            let title = format!("Task group volume validation for {alias} failed");
            inner.extend(nested(&title, &lines(&of)));
        }
        for (task_at, task) in group.tasks.iter().enumerate() {
            let of = |place: &JobPlace| is_here(place) && place.task == Some(task_at);
            let title = format!("Task {} validation failed", task.name);
            inner.extend(nested(&title, &lines(&of)));
        }
        all.extend(nested(&format!("Task group {} validation failed", group.name), &inner));
    }
    (!all.is_empty()).then(|| list(&all))
}

fn nested(title: &str, lines: &[String]) -> Option<String> {
    (!lines.is_empty()).then(|| format!("{title}: {}", list(lines)))
}

fn list(lines: &[String]) -> String {
    let count = match lines.len() {
        1 => "1 error occurred".to_owned(),
        count => format!("{count} errors occurred"),
    };
    let items: String = lines.iter().map(|line| format!("\t* {line}\n")).collect();
    format!("{count}:\n{items}\n")
}
