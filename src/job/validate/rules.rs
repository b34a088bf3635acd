//! The problems that the rules of one job find.

use crate::diagnostic::Code;
use crate::job::place::JobPlace;
use crate::job::problem::JobProblem;
use crate::model::{Job, TaskGroup};

/// The job under check, with the problems found so far.
pub(super) struct Rules<'j> {
    pub(super) job: &'j Job,
    pub(super) problems: Vec<JobProblem>,
}

/// A group with its place.
#[derive(Clone, Copy)]
pub(super) struct GroupAt<'j, 'p> {
    pub(super) group: &'j TaskGroup,
    pub(super) place: &'p JobPlace,
}

impl Rules<'_> {
    pub(super) fn error(
        &mut self,
        code: Code,
        place: JobPlace,
        text: impl Into<String>,
        label: &str,
    ) {
        self.problems
            .push(JobProblem::error(code, place, text).label(label));
    }

    pub(super) fn warning(
        &mut self,
        code: Code,
        place: JobPlace,
        text: impl Into<String>,
        label: &str,
    ) {
        self.problems
            .push(JobProblem::warning(code, place, text).label(label));
    }
}
