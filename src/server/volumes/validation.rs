//! Validates a submission: reports all problems together. Pure.
//!
//! Problems that Nomad finds come first, with its text and in its order. Then come requests that
//! Nomad stores although they can never work.

use super::submission::VolumeSubmission;
use crate::error::{ServerError, UpdateOrigin};
use nomad_csi_model::{Bytes, MountOptions, Namespace, VolumeRequest};
use nomad_csi_wire::RequestProblem;

/// The kind of request that a submission is validated for.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValidationTarget {
    /// The request that contains it.
    pub(super) origin: UpdateOrigin,
    /// True if the volume exists. Its ID and name are then not checked.
    pub(super) exists: bool,
}

/// Refuses a submission with all its problems.
pub(super) fn validate_submission(
    submission: &VolumeSubmission,
    target: ValidationTarget,
) -> Result<(), ServerError> {
    let problems = problems(submission, target);
    if problems.is_empty() {
        return Ok(());
    }
    Err(ServerError::Invalid { volume: submission.request.id.clone(), problems })
}

fn problems(submission: &VolumeSubmission, target: ValidationTarget) -> Vec<String> {
    let request = &submission.request;
    let is_mode = |problem: &&RequestProblem| match problem {
        RequestProblem::AccessMode(_) | RequestProblem::AttachmentMode(_) => true,
        RequestProblem::NegativeCapacity(_) | RequestProblem::TopologyWithoutSegments(_) => false,
    };
    let is_topology = |problem: &&RequestProblem| match problem {
        RequestProblem::TopologyWithoutSegments(_) => true,
        RequestProblem::AccessMode(_)
        | RequestProblem::AttachmentMode(_)
        | RequestProblem::NegativeCapacity(_) => false,
    };
    let undecoded = |of: &dyn Fn(&&RequestProblem) -> bool| -> Vec<String> {
        let of_kind = submission.problems.iter().filter(of);
        of_kind.map(ToString::to_string).collect()
    };
    let (modes, topologies) = (undecoded(&is_mode), undecoded(&is_topology));
    let others = undecoded(&|problem| !is_mode(problem) && !is_topology(problem));

    let mut problems = missing(request);
    if request.capabilities.is_empty() && modes.is_empty() {
        problems.push("must include at least one capability block".into());
    }
    problems.extend(topologies);
    problems.extend(modes);
    problems.extend(others);
    problems.extend(naming_problems(request, target));
    problems.extend(contradictions(request, target));
    problems
}

fn missing(request: &VolumeRequest) -> Vec<String> {
    let conditions = [
        (request.id.as_str().is_empty(), "missing volume id"),
        (request.plugin_id.as_str().is_empty(), "missing plugin id"),
        (request.namespace.as_str().is_empty(), "missing namespace"),
        (
            request.snapshot_id.is_some() && request.clone_id.is_some(),
            "only one of snapshot_id and clone_id is allowed",
        ),
    ];
    conditions
        .into_iter()
        .filter(|(is_problem, _)| *is_problem)
        .map(|(_, text)| text.to_owned())
        .collect()
}

/// Problems of the ID and name of a new volume. CSI requires a name.
fn naming_problems(request: &VolumeRequest, target: ValidationTarget) -> Vec<String> {
    let mut problems = vec![];
    if request.namespace.as_str() == Namespace::ALL {
        problems.push("a volume cannot be in namespace \"*\"".into());
    }
    if target.exists {
        return problems;
    }
    let id = request.id.as_str();
    if let Some(problem) = request.id.problem().filter(|_| !id.is_empty()) {
        problems.push(format!("invalid volume id {id:?}: {problem}"));
    }
    match target.origin {
        UpdateOrigin::Create if request.name.is_none() => problems.push("missing Name".into()),
        UpdateOrigin::Create | UpdateOrigin::Register => {}
    }
    problems
}

fn contradictions(request: &VolumeRequest, target: ValidationTarget) -> Vec<String> {
    let mut problems = vec![];
    let range = request.capacity;
    // For an existing volume, `plan::merge` reports this with other problems of the size.
    if !target.exists && range.max > Bytes::ZERO && range.max < range.min {
        problems.push(format!(
            "max requested capacity ({}) less than or equal to min ({})",
            range.max.decimal(),
            range.min.decimal()
        ));
    }
    let options = request.mount_options.as_ref();
    if options.is_some_and(MountOptions::are_redacted) {
        problems
            .push("mount flags are [REDACTED], which a server shows instead of the values".into());
    }
    let redacted = |(_, value): (&str, &str)| value == MountOptions::REDACTED;
    let secrets = request.secrets.as_ref();
    if secrets.is_some_and(|secrets| secrets.expose().any(redacted)) {
        problems.push("a secret is [REDACTED], which a server shows instead of the value".into());
    }
    problems
}
