//! Whether a request can be meant at all: everything that is wrong with it at once, in Nomad's words
//! and order where it has some (`csi-orchestration` 2.1), then what Nomad takes and stores although
//! it can never work (W23). Pure.

use crate::model::{AttachmentMode, Bytes, MountOptions, Namespace, VolumeRequest};
use crate::server::error::{ServerError, UpdateRequest};
use crate::server::volumes::service::Submitted;
use crate::wire::RequestProblem;

/// What a request is checked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purpose {
    /// Which request.
    pub(super) on: UpdateRequest,
    /// Whether the volume exists already: then its ID and its name are what they are.
    pub(super) exists: bool,
}

/// Refuses a request with all its problems.
pub(super) fn check(submitted: &Submitted, purpose: Purpose) -> Result<(), ServerError> {
    let problems = problems(submitted, purpose);
    if problems.is_empty() {
        return Ok(());
    }
    Err(ServerError::Invalid {
        volume: submitted.request.id.clone(),
        problems,
    })
}

fn problems(submitted: &Submitted, purpose: Purpose) -> Vec<String> {
    let request = &submitted.request;
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
    let unread = |of: &dyn Fn(&&RequestProblem) -> bool| -> Vec<String> {
        let of_kind = submitted.problems.iter().filter(of);
        of_kind.map(ToString::to_string).collect()
    };
    let (modes, topologies) = (unread(&is_mode), unread(&is_topology));
    let others = unread(&|problem| !is_mode(problem) && !is_topology(problem));

    let mut problems = missing(request);
    if request.capabilities.is_empty() && modes.is_empty() {
        problems.push("must include at least one capability block".into());
    }
    problems.extend(topologies);
    problems.extend(modes);
    problems.extend(others);
    problems.extend(unaddressable(request, purpose));
    problems.extend(contradictions(request, purpose));
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
        .filter(|(holds, _)| *holds)
        .map(|(_, text)| text.to_owned())
        .collect()
}

/// What a new volume could not be called (W49), and CSI's demand for a name.
fn unaddressable(request: &VolumeRequest, purpose: Purpose) -> Vec<String> {
    let mut problems = vec![];
    if request.namespace.as_str() == Namespace::ALL {
        problems.push("a volume lives in one namespace, not in \"*\"".into());
    }
    if purpose.exists {
        return problems;
    }
    let id = request.id.as_str();
    if let Some(problem) = request.id.problem().filter(|_| !id.is_empty()) {
        problems.push(format!("invalid volume id {id:?}: {problem}"));
    }
    match purpose.on {
        UpdateRequest::Create if request.name.is_none() => problems.push("missing Name".into()),
        UpdateRequest::Create | UpdateRequest::Register => {}
    }
    problems
}

fn contradictions(request: &VolumeRequest, purpose: Purpose) -> Vec<String> {
    let mut problems = vec![];
    let range = request.capacity;
    // Of an existing volume, `plan::merge` says it beside what else is wrong with the size.
    if !purpose.exists && range.max > Bytes::ZERO && range.max < range.min {
        problems.push(format!(
            "max requested capacity ({}) less than or equal to min ({})",
            range.max.decimal(),
            range.min.decimal()
        ));
    }
    let options = request.mount_options.as_ref();
    if options.is_some_and(MountOptions::are_redacted) {
        problems.push("mount flags are [REDACTED], which a server shows in place of them".into());
    }
    let redacted = |(_, value): (&str, &str)| value == MountOptions::REDACTED;
    let secrets = request.secrets.as_ref();
    if secrets.is_some_and(|secrets| secrets.expose().any(redacted)) {
        problems.push("a secret is [REDACTED], which a server shows in place of it".into());
    }
    problems
}

/// What is taken, and has no effect: worth a word.
pub(super) fn warnings(request: &VolumeRequest, on: UpdateRequest) -> Vec<String> {
    let mut warnings = vec![];
    let given = |map: Option<&std::collections::BTreeMap<_, _>>| map.is_some_and(|m| !m.is_empty());
    match on {
        UpdateRequest::Create if given(request.context.as_ref()) => warnings.push(format!(
            "volume {}: the context is the plugin's to give, so the one in the request was not kept",
            request.key()
        )),
        UpdateRequest::Create | UpdateRequest::Register => {}
    }
    let is_block = |mode| mode == AttachmentMode::BlockDevice;
    let only_blocks = request
        .capabilities
        .iter()
        .all(|capability| is_block(capability.attachment_mode));
    let options = request.mount_options.as_ref();
    if only_blocks && options.is_some_and(|options| !options.is_empty()) {
        warnings.push(format!(
            "volume {}: mount options have no effect on a volume that is only used as a block device",
            request.key()
        ));
    }
    warnings
}
