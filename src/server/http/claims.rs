//! The endpoints of claims and of lost nodes, which only this agent has.

use std::time::Duration;

use http::StatusCode;

use super::blocking::wait_for_index;
use super::capabilities::{LIST_VOLUMES, READ_VOLUME};
use super::filtering::Paging;
use super::reply::Reply;
use super::request::IncomingRequest;
use crate::claims::{ClaimStatus, MountRequest};
use crate::error::{ClaimError, ServerError};
use nomad_csi_claims::claim::{Known, StepProblem};
use nomad_csi_claims::state::{State, Table, Topic, volume};
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, FenceStatement, MountOptions, NamespacedId, NodeId,
    VolumeAlias, VolumeId,
};
use nomad_csi_wire::{
    ClaimDocument, ClaimProblemDocument, ClaimRequestDocument, GoDuration, ReleaseResponse,
};

type Result<T = Reply> = std::result::Result<T, ServerError>;

/// How long a request waits that does not say it.
const DEFAULT_WAIT: Duration = Duration::from_secs(30);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

pub(super) async fn list_of_volume(request: &IncomingRequest, id: &str) -> Result {
    let key = key(request, id);
    if request.services.cell.read(|state| volume(state, &key)).is_none() {
        return Err(ServerError::NoVolumeToRead);
    }
    list(request, |volume| *volume == key, READ_VOLUME).await
}

/// Without `type=csi` this is Nomad's path for claims of host volumes, which the agent does not have.
pub(super) async fn list_all(request: &IncomingRequest) -> Result {
    if request.parameters.get("type") != Some("csi") {
        return Reply::json(&[(); 0], request.pretty);
    }
    list(request, |_| true, LIST_VOLUMES).await
}

async fn list(
    request: &IncomingRequest,
    is_selected: impl Fn(&NamespacedId) -> bool,
    capabilities: &'static [&'static str],
) -> Result {
    let page = Paging::whole(&request.parameters)?;
    let wait = request.parameters.wait()?;
    let topics = |_: &State| vec![Topic::all(Table::Claims)];
    wait_for_index(request, wait, topics, State::claims_index).await?;
    let scope = request.scope(capabilities)?;
    let is_shown = |volume: &NamespacedId| is_selected(volume) && scope.contains(&volume.namespace);
    let (statuses, index) = request.services.claims.statuses(is_shown);
    let documents = statuses.iter().map(status_to_wire).collect();
    let (documents, _) = page.page(documents, |_| String::new())?;
    Ok(Reply::json(&documents, request.pretty)?.with_index(index))
}

/// Claims a volume: 200 with the target path, or 202 with the state after the wait.
pub(super) async fn claim(request: &IncomingRequest, id: &str) -> Result {
    let document: ClaimRequestDocument = request.document()?;
    let wait = wait(&document.wait)?;
    let mount = mount_request(key(request, id), document)?;
    let outcome = request.services.claims.claim(&mount, wait).await;
    let outcome = outcome.map_err(not_found)?;
    let status = match &outcome.claim {
        Some(claim) if claim.published == Known::Yes => StatusCode::OK,
        Some(_) | None => StatusCode::ACCEPTED,
    };
    let claim = outcome.claim.as_ref();
    let document = claim.map(status_to_wire).unwrap_or_else(|| ClaimDocument {
        alloc_id: mount.alloc.to_string(),
        namespace: mount.volume.namespace.to_string(),
        volume_id: mount.volume.id.to_string(),
        ..ClaimDocument::default()
    });
    let reply = Reply::json(&document, request.pretty)?;
    Ok(reply.with_status(status).with_index(outcome.index))
}

/// Releases the claims of an allocation: 200 when they are gone, or 202 after the wait.
pub(super) async fn release(request: &IncomingRequest, id: &str) -> Result {
    let parameters = &request.parameters;
    let alloc = parameters.text("alloc").map(AllocId::new);
    let alloc = alloc.ok_or_else(|| invalid("the request names no allocation (`alloc`)"))?;
    let alias = parameters.text("alias").map(VolumeAlias::new);
    let wait = wait(parameters.text("wait").unwrap_or_default())?;
    let volume = key(request, id);
    let claims = &request.services.claims;
    let what = ("allocation", "releases");
    let released = if cuts_off(parameters.text("cuts_off"), alloc.as_str(), what)? {
        claims.cut_off(&volume, &alloc, alias.as_ref(), wait).await
    } else {
        claims.release(&volume, &alloc, alias.as_ref(), wait).await
    };
    released_reply(request, released.map_err(not_found)?)
}

/// Returns whether the request approves that tasks lose their volumes. The approval repeats what it is for, so that it cannot
/// be one for all.
fn cuts_off(approved: Option<&str>, id: &str, (noun, verb): (&str, &str)) -> Result<bool> {
    match approved {
        None => Ok(false),
        Some(approved) if approved == id => Ok(true),
        Some(approved) => Err(invalid(&format!(
            "`cuts_off` approves {noun} `{approved}`, and the request {verb} {noun} `{id}`"
        ))),
    }
}

/// Detaches a volume from a node: releases what ended allocations have there.
pub(super) async fn detach(request: &IncomingRequest, volume: NamespacedId, node: &str) -> Result {
    let wait = wait(request.parameters.text("wait").unwrap_or_default())?;
    let node = NodeId::new(node);
    let index = request.services.claims.detach(&volume, &node, wait).await?;
    Ok(Reply::empty().with_index(index))
}

pub(super) async fn fence(request: &IncomingRequest, node: &str) -> Result {
    let claims = &request.services.claims;
    let id = NodeId::new(node);
    let approved = request.parameters.text("cuts_off");
    let statement = fence_statement(request)?;
    if !cuts_off(approved, node, ("node", "fences"))? {
        claims.check_unheard(&id)?;
        if statement.is_none() {
            let (off, cut_off) = (FenceStatement::POWERED_OFF, FenceStatement::CUT_OFF_STORAGE);
            return Err(invalid(&format!(
                "the request does not say why nothing can write on node `{node}`: `statement` is `{off}` or `{cut_off}`"
            )));
        }
    }
    let index = claims.fence(&id, statement).await?;
    Ok(Reply::empty().with_index(index))
}

/// What the request says of the node, as `statement` and `controllers_stopped`.
fn fence_statement(request: &IncomingRequest) -> Result<Option<FenceStatement>> {
    let given = |name: &str| request.parameters.text(name).filter(|text| !text.is_empty());
    let are_stopped = match given("controllers_stopped") {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => {
            return Err(invalid(&format!(
                "`controllers_stopped` is `{other}`, and not true or false"
            )));
        }
    };
    let Some(word) = given("statement") else {
        return match are_stopped {
            true => Err(invalid("`controllers_stopped` needs `statement=cut-off-storage`")),
            false => Ok(None),
        };
    };
    let statement = FenceStatement::parse(word, are_stopped);
    let (off, cut_off) = (FenceStatement::POWERED_OFF, FenceStatement::CUT_OFF_STORAGE);
    let expected = || invalid(&format!("`{word}` is not a statement: use `{off}` or `{cut_off}`"));
    statement.map(Some).ok_or_else(expected)
}

pub(super) async fn unfence(request: &IncomingRequest, node: &str) -> Result {
    let index = request.services.claims.unfence(&NodeId::new(node)).await?;
    Ok(Reply::empty().with_index(index))
}

fn released_reply(request: &IncomingRequest, (remaining, index): (usize, u64)) -> Result {
    let status = if remaining == 0 { StatusCode::OK } else { StatusCode::ACCEPTED };
    let reply = Reply::json(&ReleaseResponse { remaining }, request.pretty)?;
    Ok(reply.with_status(status).with_index(index))
}

/// A missing volume is 404 on the routes that Nomad does not have.
fn not_found(error: ServerError) -> ServerError {
    match error {
        ServerError::VolumeNotFound(volume) => ClaimError::NoVolume(volume).into(),
        other => other,
    }
}

fn key(request: &IncomingRequest, id: &str) -> NamespacedId {
    let namespace = request.parameters.namespace_or_default();
    NamespacedId::new(namespace, VolumeId::new(id))
}

fn invalid(problem: &str) -> ServerError {
    ClaimError::Invalid(problem.to_owned()).into()
}

fn wait(text: &str) -> Result<Duration> {
    if text.is_empty() {
        return Ok(DEFAULT_WAIT);
    }
    let wait = GoDuration::parse(text).ok().and_then(GoDuration::to_std);
    let wait = wait.ok_or_else(|| invalid(&format!("`{text}` is not a duration")))?;
    Ok(wait.min(LONGEST_WAIT))
}

/// Names are part of paths and stay on record, so their length is limited as CSI limits its strings.
fn check_name(name: &str, field: &str) -> Result<()> {
    if name.len() > 128 {
        return Err(invalid(&format!("`{field}` has more than 128 bytes")));
    }
    if name.chars().any(char::is_control) {
        return Err(invalid(&format!("`{field}` has a control character")));
    }
    Ok(())
}

fn mount_request(volume: NamespacedId, document: ClaimRequestDocument) -> Result<MountRequest> {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let access_mode = given(&document.access_mode).map(|text| {
        let mode = AccessMode::parse(&text);
        mode.ok_or_else(|| invalid(&format!("`{text}` is not an access mode")))
    });
    let attachment_mode = given(&document.attachment_mode).map(|text| {
        let mode = AttachmentMode::parse(&text);
        mode.ok_or_else(|| invalid(&format!("`{text}` is not an attachment mode")))
    });
    let alloc = given(&document.alloc_id);
    let alloc = alloc.ok_or_else(|| invalid("the request names no allocation (`AllocID`)"))?;
    for (name, field) in [(&alloc, "AllocID"), (&document.alias, "Alias")] {
        check_name(name, field)?;
    }
    Ok(MountRequest {
        volume,
        alloc: AllocId::new(alloc),
        node: given(&document.node_id).map(NodeId::new),
        alias: given(&document.alias).map(VolumeAlias::new),
        read_only: document.read_only,
        access_mode: access_mode.transpose()?,
        attachment_mode: attachment_mode.transpose()?,
        mount_options: document.mount_options.map(|options| MountOptions {
            fs_type: options.fs_type,
            mount_flags: options.mount_flags.unwrap_or_default(),
        }),
    })
}

const fn known_name(known: Known) -> &'static str {
    match known {
        Known::No => "no",
        Known::Maybe => "maybe",
        Known::Yes => "yes",
    }
}

fn problem_to_wire(problem: &StepProblem) -> ClaimProblemDocument {
    ClaimProblemDocument {
        error: problem.error.clone(),
        help: problem.help.clone().unwrap_or_default(),
        since: problem.since,
        step: problem.step.clone(),
    }
}

fn path_text(path: Option<&std::path::PathBuf>) -> String {
    path.map(|path| path.display().to_string()).unwrap_or_default()
}

fn status_to_wire(status: &ClaimStatus) -> ClaimDocument {
    ClaimDocument {
        access_mode: status.capability.access_mode.to_string(),
        alias: status.key.alias.to_string(),
        alloc_id: status.key.alloc.to_string(),
        attached: known_name(status.attached).to_owned(),
        attachment_mode: status.capability.attachment_mode.to_string(),
        external_id: status.remote.external_id.to_string(),
        failed_attempts: status.attempts.map_or(0, |attempts| attempts.failed),
        granted_at: status.granted_at,
        namespace: status.volume.namespace.to_string(),
        next_attempt: status.attempts.map_or(0, |attempts| attempts.next_at),
        node_id: status.node.to_string(),
        plugin_id: status.remote.plugin_id.to_string(),
        problem: status.problem.as_ref().map(problem_to_wire),
        published: known_name(status.published).to_owned(),
        read_only: status.read_only,
        staged: known_name(status.staged).to_owned(),
        state: match status.is_cut_off {
            true => "cutting-off".to_owned(),
            false => status.progress.as_str().to_owned(),
        },
        target_path: path_text(status.target.as_ref()),
        volume_id: status.volume.id.to_string(),
    }
}
