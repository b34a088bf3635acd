//! The problems that the rules of one job find.

use std::time::Duration;

use crate::job::place::JobPlace;
use crate::job::problem::JobProblem;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{GoDuration, Job, TaskGroup, TextPart, is_invisible, text_parts};

/// The longest name of a job, a group or a task. It is part of names of directories, of URLs and of every table.
const LONGEST_NAME: usize = 255;

/// Returns what is wrong with the characters or the length of a name, if anything is.
pub(super) fn name_problem(what: &str, name: &str) -> Option<String> {
    if name.len() > LONGEST_NAME {
        let bytes = name.len();
        return Some(format!("{what} has {bytes} bytes, and {LONGEST_NAME} are allowed"));
    }
    match name.chars().find(|c| is_invisible(*c))? {
        '\0' => Some(format!("{what} contains a null character")),
        c => Some(format!("{what} contains the invisible character U+{:04X}", u32::from(c))),
    }
}

/// The job under check, with the problems found so far.
pub(super) struct Rules<'j> {
    pub(super) job: &'j Job,
    pub(super) problems: Vec<JobProblem>,
    /// The regular expressions so far.
    pub(super) patterns: usize,
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
        self.problems.push(JobProblem::error(code, place, text).label(label));
    }

    pub(super) fn warning(
        &mut self,
        code: Code,
        place: JobPlace,
        text: impl Into<String>,
        label: &str,
    ) {
        self.problems.push(JobProblem::warning(code, place, text).label(label));
    }
}

/// Returns the first reference of a text, as written.
pub(super) fn first_reference(text: &str) -> Option<&str> {
    text_parts(text).into_iter().find_map(|part| match part {
        TextPart::Reference(reference) => Some(reference.written),
        TextPart::Literal(_) => None,
    })
}

/// Returns a duration as Nomad writes it.
pub(super) fn shown_duration(duration: Duration) -> GoDuration {
    GoDuration(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_visible_and_short() {
        let long = "x".repeat(LONGEST_NAME + 1);
        for (name, expected) in [
            ("web", None),
            ("wéb 日本 🦀", None),
            (&long[1..], None),
            (&long, Some("Name has 256 bytes, and 255 are allowed")),
            ("a\0b", Some("Name contains a null character")),
            ("a\nb", Some("Name contains the invisible character U+000A")),
            ("a\u{1b}[2J", Some("Name contains the invisible character U+001B")),
            ("a\u{202e}b", Some("Name contains the invisible character U+202E")),
        ] {
            assert_eq!(name_problem("Name", name).as_deref(), expected, "{name:?}");
        }
    }
}
