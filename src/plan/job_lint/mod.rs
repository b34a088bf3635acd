//! Checks jobs against the volumes that they use: `job lint`.
//!
//! The rules are pure, over jobs of files and volumes of files or of a server. A problem marks the volume in the job
//! first, and what the volume declares second. What a job file itself breaks, the rules of the file report.

mod kinds;
mod limits;
mod lint;
mod sources;
mod uses;
mod volumes;

pub use lint::{lint_jobs, used_volumes};
pub use uses::LintedJob;
pub use volumes::{LintVolume, LintVolumes};

#[cfg(test)]
mod tests;
