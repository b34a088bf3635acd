//! The content of a job file.

use super::place::JobPlaces;
use nomad_csi_model::Job;
use nomad_csi_model::diagnostic::Span;

/// A decoded job with its positions.
///
/// It is complete if the file has no errors. Otherwise it has the readable fields, so all problems
/// can be reported together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedJob {
    /// The job.
    pub job: Job,
    /// Where its parts are in the file.
    pub places: JobPlaces,
}

/// The content of a job file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobFile {
    /// A job in the words of Nomad's job specification.
    Specification(Box<ParsedJob>),
    /// A job in the words of Nomad's API, as `nomad job inspect` prints it, and the position of its
    /// first key. The text is JSON.
    Api(Span),
}
