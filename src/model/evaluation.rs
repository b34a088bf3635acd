//! An evaluation of Nomad's scheduler that could not place its allocations.

/// An evaluation that waits until its allocations can be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedEvaluation {
    /// The ID.
    pub id: String,
    /// The job.
    pub job_id: String,
    /// Why nodes were refused: the scheduler's texts, sorted.
    pub reasons: Vec<String>,
}
