//! The volume side of Nomad's job files: from a text to a [`nomad_csi_model::Job`], and its rules.
//!
//! A job file that Nomad accepts is accepted here too, unless it can never run. What does not
//! concern volumes is ignored with one warning that names it, and a word that Nomad does not know is
//! an error with its position. Nothing is evaluated: a variable or a function is an error, and a
//! reference that a node replaces when a task starts stays as written.
//!
//! [`parse_job`] decodes a file, [`validate`] checks a job from any source, and [`check`] reports
//! its problems at their places in the file. `docs/jobs.md` lists where Nomad decides differently.

mod check;
mod decode;
mod file;
mod launch_times;
mod parse;
mod place;
mod problem;
mod schema;
mod validate;

pub use check::check;
pub use file::{JobFile, ParsedJob};
pub use launch_times::{LaunchTimes, LaunchTimesProblem};
pub use parse::parse_job;
pub use place::{JobPlace, JobPlaces};
pub use problem::{JobProblem, report_text};
pub use validate::{ROOT_REFUSED, may_be_refused_as_root, root_tasks, validate};

#[cfg(test)]
mod message_tests;
#[cfg(test)]
mod tests;
