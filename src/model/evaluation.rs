//! Evaluations of Nomad's scheduler that could not place their allocations.

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

/// The evaluations of a namespace that wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockedEvaluations {
    /// Those whose reasons were read.
    pub explained: Vec<BlockedEvaluation>,
    /// How many others there are.
    pub others: usize,
}
