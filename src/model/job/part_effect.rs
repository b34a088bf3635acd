//! [`PartEffect`]: what a part of a job decides that this program refuses, because it does not carry it out.

/// The effect of a part of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartEffect {
    /// If and when the job runs, as `periodic` decides.
    Time,
    /// The clusters that run it, as `multiregion` does.
    Cluster,
    /// The handling of tasks while their node is away, as `disconnect` decides.
    Disconnection,
    /// How long tasks run, as `max_run_duration` does.
    Duration,
    /// Values and files that tasks get, as `template` does.
    Input,
}

impl PartEffect {
    /// Returns the effect for a sentence: "it decides …".
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Time => "when the job runs",
            Self::Cluster => "where the job runs",
            Self::Disconnection => "what happens to tasks while their node is away",
            Self::Duration => "how long tasks run",
            Self::Input => "which values or files tasks get",
        }
    }
}
