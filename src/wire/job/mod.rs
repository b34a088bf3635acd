//! A job in the words of Nomad's API, and its conversion to the model.
//!
//! Nomad's clients leave out what they do not know, and write `null` for what a job file does not
//! set. Both mean Nomad's default. Fields that do not concern volumes are ignored when a document is
//! read, and not written.

mod document;
mod from_wire;
mod policy;
mod task;
mod to_wire;

pub use document::{
    JobDocument, JobRequestDocument, TaskGroupDocument, UpdateDocument, VolumeRequestDocument,
};
pub use from_wire::{JobWordProblem, job_from_wire};
pub use policy::{ConstraintDocument, RestartPolicyDocument};
pub use task::{
    CsiPluginDocument, LifecycleDocument, ResourcesDocument, TaskDocument, VolumeMountDocument,
};
pub use to_wire::job_to_wire;

#[cfg(test)]
mod tests;
