//! Requests about jobs and allocations that are refused.

use http::StatusCode;

use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{JobKey, NodeId, shell_quoted};

/// Why a request about a job, an evaluation or an allocation fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobError {
    /// The job breaks rules; Nomad's text of all of them.
    Invalid {
        /// The job.
        job: JobKey,
        /// The rules.
        text: String,
    },
    /// The job does not allow what the request wants; Nomad's text.
    Refused {
        /// The job.
        job: JobKey,
        /// Why.
        text: String,
    },
    /// The job does not return to a version.
    NoVersion {
        /// The job.
        job: JobKey,
        /// Why.
        text: String,
    },
    /// A job that starts by itself, or only on request, cannot become another kind, or another kind one; Nomad's text.
    OtherKind {
        /// The job.
        job: JobKey,
        /// The part of the job that cannot change.
        text: &'static str,
    },
    /// The request contains no job.
    Missing,
    /// The path and the body name different jobs.
    OtherName {
        /// The ID in the path.
        path: String,
        /// The ID in the body.
        body: String,
    },
    /// The job does not exist.
    NotFound(JobKey),
    /// The job is not the one that the client read.
    Changed {
        /// The job.
        job: JobKey,
        /// The index that the client expects; 0 for a job that does not exist.
        expected: u64,
        /// The index of the last change; `None` if the job does not exist.
        found: Option<u64>,
    },
    /// The evaluation does not exist.
    NoEvaluation(String),
    /// The allocation does not exist.
    NoAlloc(String),
    /// The node has no allocation of this ID.
    UnknownAlloc(String),
    /// The allocation has ended, and its node has no files of it.
    NoOutput(String),
    /// What an operator wants of tasks needs one that runs.
    NotRunning(String),
    /// The allocation has no such file.
    NoFile(String),
    /// The node of the allocation cannot be reached.
    NodeUnreachable {
        /// The allocation.
        alloc: String,
        /// The node.
        node: NodeId,
    },
    /// The ID of an allocation or a node is not complete.
    ShortId {
        /// `alloc`, `node`, `eval`: the first word of Nomad's text.
        kind: &'static str,
        /// The ID.
        id: String,
    },
    /// The node does not exist.
    NoNode(String),
    /// The node pool does not exist.
    NoNodePool(String),
    /// The request has an invalid field.
    BadRequest(String),
}

impl JobError {
    pub(crate) fn refused(job: &JobKey, text: impl Into<String>) -> Self {
        Self::Refused { job: job.clone(), text: text.into() }
    }

    pub(super) fn code_and_status(&self) -> (Code, StatusCode) {
        const OTHER: StatusCode = StatusCode::INTERNAL_SERVER_ERROR;
        match self {
            Self::Invalid { .. } | Self::OtherKind { .. } => (Code::JobInvalid, OTHER),
            Self::Refused { .. } | Self::NoVersion { .. } => (Code::JobRefused, OTHER),
            Self::Missing | Self::OtherName { .. } | Self::BadRequest(_) => {
                (Code::ApiBadRequest, StatusCode::BAD_REQUEST)
            }
            Self::NotFound(_) => (Code::JobNotFound, StatusCode::NOT_FOUND),
            Self::Changed { .. } => (Code::JobConflict, OTHER),
            Self::NotRunning(_) => (Code::AllocTask, OTHER),
            Self::NoFile(_)
            | Self::NoEvaluation(_)
            | Self::NoAlloc(_)
            | Self::UnknownAlloc(_)
            | Self::NoOutput(_) => (Code::AllocNotFound, StatusCode::NOT_FOUND),
            Self::NodeUnreachable { .. } => (Code::NodeUnreachable, StatusCode::NOT_FOUND),
            Self::ShortId { .. } => (Code::ApiBadRequest, OTHER),
            Self::NoNode(_) | Self::NoNodePool(_) => (Code::NodeUnknown, StatusCode::NOT_FOUND),
        }
    }

    /// Returns Nomad's exact text.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Invalid { text, .. }
            | Self::Refused { text, .. }
            | Self::NoVersion { text, .. } => text.clone(),
            Self::OtherKind { text, .. } => (*text).to_owned(),
            Self::Missing => "Job must be specified".to_owned(),
            Self::OtherName { .. } => "Job ID does not match name".to_owned(),
            Self::NotFound(_) => "job not found".to_owned(),
            Self::Changed { expected, found, .. } => match found {
                Some(_) if *expected == 0 => {
                    "Enforcing job modify index 0: job already exists".to_owned()
                }
                Some(found) => format!(
                    "Enforcing job modify index {expected}: job exists with conflicting job modify index: {found}"
                ),
                None => format!("Enforcing job modify index {expected}: job does not exist"),
            },
            Self::NoEvaluation(_) => "eval not found".to_owned(),
            Self::NoAlloc(_) => "alloc not found".to_owned(),
            Self::UnknownAlloc(id) => format!("Unknown allocation {id:?}"),
            Self::NoOutput(_) => self.message(),
            Self::NodeUnreachable { .. } => "No path to node".to_owned(),
            Self::ShortId { kind, .. } => {
                format!("{kind} lookup failed: index error: UUID must be 36 characters")
            }
            Self::NoNode(_) => "node not found".to_owned(),
            Self::NoNodePool(_) => "node pool not found".to_owned(),
            Self::BadRequest(text) | Self::NotRunning(text) | Self::NoFile(text) => text.clone(),
        }
    }

    /// Returns what to do, if the code does not say it.
    pub(super) fn help(&self) -> Option<String> {
        if let Self::NoVersion { job, .. } = self {
            return Some(format!(
                "run `nomad-csi job history {} --namespace {}` to list the versions",
                shell_quoted(&job.id),
                shell_quoted(&job.namespace)
            ));
        }
        let Self::OtherKind { job, .. } = self else {
            return None;
        };
        Some(format!(
            "run `nomad-csi job stop {} --namespace {} --purge`, which stops what runs of it, then submit the file again; or use another ID",
            shell_quoted(&job.id),
            shell_quoted(&job.namespace)
        ))
    }

    /// Returns the message for people.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Refused { job, text } => {
                format!("job {} does not allow the request: {text}", job.quoted())
            }
            Self::NoVersion { job, text } => {
                format!("cannot revert job {}: {text}", job.quoted())
            }
            Self::Invalid { job, text } => format!("job {} is not valid: {text}", job.quoted()),
            Self::OtherKind { job, text } => format!("job {}: {text}", job.quoted()),
            Self::Missing => "the request contains no job".to_owned(),
            Self::OtherName { path, body } => {
                format!("the path names job `{path}` and the body job `{body}`")
            }
            Self::NotFound(job) => format!("job {} does not exist", job.quoted()),
            Self::Changed { job, expected, found } => match found {
                Some(_) if *expected == 0 => format!("job {} already exists", job.quoted()),
                Some(found) => format!(
                    "job {} has changed: its index is {found}, and {expected} was expected",
                    job.quoted()
                ),
                None => format!("job {} does not exist", job.quoted()),
            },
            Self::NoEvaluation(id) => format!("evaluation `{id}` does not exist"),
            Self::NoAlloc(id) | Self::UnknownAlloc(id) => {
                format!("allocation `{id}` does not exist")
            }
            Self::NoOutput(id) => format!(
                "allocation `{id}` has no output: no task started, or the agent has removed its files; it keeps \
                 those of the newest allocations that have ended"
            ),
            Self::NodeUnreachable { alloc, node } => {
                format!(
                    "cannot read from node `{node}`, on which allocation `{alloc}` runs: it is not connected"
                )
            }
            Self::ShortId { id, .. } => format!("`{id}` is not a complete ID of 36 characters"),
            Self::NoNode(id) => format!("node `{id}` does not exist"),
            Self::NoNodePool(name) => {
                format!("node pool `{name}` does not exist: this agent has `all` and `default`")
            }
            Self::BadRequest(text) | Self::NotRunning(text) | Self::NoFile(text) => text.clone(),
        }
    }
}
