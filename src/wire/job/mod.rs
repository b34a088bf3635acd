//! A job in the words of Nomad's API, and its conversion to the model.
//!
//! Nomad's clients leave out what they do not know, and write `null` for what a job file does not
//! set. Both mean Nomad's default. A part that decides whether, when, where or how often a task runs, or
//! which values it gets, is read or refused. Others are ignored when a document is read, and not written.

mod diff;
mod document;
mod from_wire;
mod ignored;
mod launching;
mod plan;
mod policy;
mod response;
mod stub;
mod task;
mod to_wire;
mod unsupported;

pub use diff::{
    FieldDiffDocument, GroupDiffDocument, JobDiffDocument, ObjectDiffDocument, TaskDiffDocument,
};
pub use document::{
    JobDocument, JobRequestDocument, JobSubmissionDocument, TaskGroupDocument, UpdateDocument,
    VolumeRequestDocument,
};
pub use from_wire::{JobWordProblem, job_from_wire};
pub use ignored::ignored_parts;
pub use launching::{
    DispatchPayloadDocument, JobDispatchRequest, JobDispatchResponse, ParameterizedDocument,
    PeriodicDocument, PeriodicForceResponse,
};
pub use plan::{DesiredUpdatesDocument, JobPlanResponse, PlanAnnotationsDocument};
pub use policy::{ConstraintDocument, ReschedulePolicyDocument, RestartPolicyDocument};
pub use response::{
    EvaluateOptions, JobDeregisterResponse, JobEvaluateRequest, JobRegisterResponse,
    JobValidateResponse,
};
pub use stub::{GroupSummaryDocument, JobChildrenDocument, JobStub, JobSummaryDocument};
pub use task::{
    CsiPluginDocument, LifecycleDocument, ResourcesDocument, TaskDocument, VolumeMountDocument,
};
pub use to_wire::job_to_wire;
pub use unsupported::Unsupported;

#[cfg(test)]
mod tests;
