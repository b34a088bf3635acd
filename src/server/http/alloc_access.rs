//! What the operator does with an allocation on its node: `/v1/client/allocation/:id/restart` and `signal`, and
//! `/v1/client/fs/ls`, `stat`, `cat` and `readat`.
//!
//! The state says which tasks an allocation has and where; the node does the rest. A file is sent in pieces, up to the size that
//! it has at the start.

use std::sync::Arc;

use axum::body::Bytes;
use futures_util::stream::try_unfold;
use serde::Deserialize;
use serde_json::json;

use super::allocs::require_of;
use super::capabilities::{ALLOC_LIFECYCLE, READ_FILES};
use super::reply::Reply;
use super::request::IncomingRequest;
use crate::error::{JobError, ServerError};
use nomad_csi_model::{AllocId, NodeId};
use nomad_csi_ports::{AllocAccess, AllocAccessError, AllocFile};
use nomad_csi_wire::{AllocFileDocument, time_to_wire};

type Result<T> = std::result::Result<T, ServerError>;

/// The largest piece of a file, in bytes.
const PIECE: u64 = 64 << 10;

/// The body of a request to restart tasks.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct RestartRequest {
    task_name: String,
    all_tasks: bool,
}

/// The body of a request to send a signal.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct SignalRequest {
    task: String,
    signal: String,
}

fn bad(text: impl Into<String>) -> ServerError {
    JobError::BadRequest(text.into()).into()
}

/// An allocation on a node that can be reached.
struct Reached {
    alloc: AllocId,
    access: Arc<dyn AllocAccess>,
    tasks: Vec<String>,
    has_ended: bool,
}

impl Reached {
    fn of(request: &IncomingRequest, id: &str, capabilities: &[&str]) -> Result<Self> {
        let alloc = AllocId::new(id);
        require_of(request, &alloc, capabilities)?;
        let found = request.services.cell.read(|state| {
            let record = state.alloc(&alloc)?;
            let group = record.placement.as_deref()?.task_group()?;
            let tasks = group.tasks.iter().map(|task| task.name.clone());
            Some((tasks.collect(), record.has_ended, record.node.clone()))
        });
        let found: Option<(Vec<String>, bool, NodeId)> = found;
        let (tasks, has_ended, node) =
            found.ok_or_else(|| JobError::UnknownAlloc(id.to_owned()))?;
        let access = request.services.alloc_access(&node);
        let access =
            access.ok_or_else(|| JobError::NodeUnreachable { alloc: id.to_owned(), node })?;
        Ok(Self { alloc, access, tasks, has_ended })
    }

    /// Returns the task of a name, or none for all of them.
    fn task<'a>(&self, name: &'a str) -> Result<Option<&'a str>> {
        if self.has_ended {
            return Err(
                JobError::NotRunning(format!("allocation `{}` has ended", self.alloc)).into()
            );
        }
        match name {
            "" => Ok(None),
            name if self.tasks.iter().any(|known| known == name) => Ok(Some(name)),
            name => Err(bad(format!(
                "allocation `{}` has no task {name:?}: it has {}",
                self.alloc,
                self.tasks.join(", ")
            ))),
        }
    }
}

fn refused(error: AllocAccessError) -> ServerError {
    match error {
        AllocAccessError::NotRunning(text) => JobError::NotRunning(text).into(),
        AllocAccessError::NoFile(text) => JobError::NoFile(text).into(),
        AllocAccessError::Refused(text) => bad(text),
        AllocAccessError::Failed(text) => ServerError::Internal(text),
    }
}

/// Restarts the tasks that run, or one of them.
pub(super) async fn restart(request: &IncomingRequest, id: &str) -> Result<Reply> {
    let body: RestartRequest = request.document()?;
    if body.all_tasks {
        return Err(bad(
            "`AllTasks` is not supported: this agent restarts the tasks that run, and none that has ended",
        ));
    }
    let reached = Reached::of(request, id, ALLOC_LIFECYCLE)?;
    let task = reached.task(&body.task_name)?;
    reached.access.restart(&reached.alloc, task).await.map_err(refused)?;
    done(request)
}

/// Sends a signal to the tasks that run, or to one of them.
pub(super) async fn signal(request: &IncomingRequest, id: &str) -> Result<Reply> {
    let body: SignalRequest = request.document()?;
    if body.signal.is_empty() {
        return Err(bad("`Signal` is missing: name a signal such as `SIGHUP`"));
    }
    let reached = Reached::of(request, id, ALLOC_LIFECYCLE)?;
    let task = reached.task(&body.task)?;
    reached.access.signal(&reached.alloc, task, &body.signal).await.map_err(refused)?;
    done(request)
}

fn done(request: &IncomingRequest) -> Result<Reply> {
    Reply::json(&json!({"Index": 0}), request.pretty)
}

fn path(request: &IncomingRequest) -> &str {
    request.parameters.text("path").unwrap_or("/")
}

/// Lists a directory of an allocation.
pub(super) async fn list_files(request: &IncomingRequest, id: &str) -> Result<Reply> {
    let reached = Reached::of(request, id, READ_FILES)?;
    let files = reached.access.list(&reached.alloc, path(request)).await.map_err(refused)?;
    let documents: Vec<_> = files.iter().map(file_document).collect();
    Reply::json(&documents, request.pretty)
}

/// Returns the facts about a file of an allocation.
pub(super) async fn stat_file(request: &IncomingRequest, id: &str) -> Result<Reply> {
    let reached = Reached::of(request, id, READ_FILES)?;
    let file = reached.access.stat(&reached.alloc, path(request)).await.map_err(refused)?;
    Reply::json(&file_document(&file), request.pretty)
}

/// Sends a file of an allocation.
pub(super) async fn cat_file(request: &IncomingRequest, id: &str) -> Result<Reply> {
    send_file(request, id, (0, u64::MAX)).await
}

/// Sends a part of a file of an allocation.
pub(super) async fn read_file_at(request: &IncomingRequest, id: &str) -> Result<Reply> {
    let number = |name: &str| {
        let text = request.parameters.text(name).unwrap_or_default();
        text.parse().map_err(|_| bad(format!("`{name}` must be a number of bytes, such as 4096")))
    };
    let part = (number("offset")?, number("limit")?);
    send_file(request, id, part).await
}

async fn send_file(
    request: &IncomingRequest,
    id: &str,
    (offset, limit): (u64, u64),
) -> Result<Reply> {
    let Reached { alloc, access, .. } = Reached::of(request, id, READ_FILES)?;
    let path = path(request).to_owned();
    let file = access.stat(&alloc, &path).await.map_err(refused)?;
    if file.is_directory {
        return Err(bad(format!("`{path}` is a directory: list it with `/v1/client/fs/ls`")));
    }
    let end = file.size.min(offset.saturating_add(limit));
    // What cannot be read is refused before the response begins.
    let first = access.read(&alloc, &path, offset, PIECE.min(end.saturating_sub(offset)));
    let first = first.await.map_err(refused)?;
    let reader = FileReader { access, alloc, path, offset, end, first: Some(first) };
    let pieces = try_unfold(reader, |mut reader| async move {
        let piece = reader.next().await?;
        Ok::<_, AllocAccessError>(piece.map(|piece| (piece, reader)))
    });
    Ok(Reply::stream(pieces, true))
}

/// Reads a file piece by piece.
struct FileReader {
    access: Arc<dyn AllocAccess>,
    alloc: AllocId,
    path: String,
    offset: u64,
    end: u64,
    first: Option<Vec<u8>>,
}

impl FileReader {
    /// Returns the next piece; `None` at the end.
    async fn next(&mut self) -> std::result::Result<Option<Bytes>, AllocAccessError> {
        let piece = match self.first.take() {
            Some(first) => first,
            None if self.offset >= self.end => return Ok(None),
            None => {
                let limit = PIECE.min(self.end - self.offset);
                self.access.read(&self.alloc, &self.path, self.offset, limit).await?
            }
        };
        self.offset += u64::try_from(piece.len()).unwrap_or(u64::MAX);
        Ok((!piece.is_empty()).then(|| piece.into()))
    }
}

fn file_document(file: &AllocFile) -> AllocFileDocument {
    AllocFileDocument {
        content_type: String::new(),
        file_mode: mode_text(file.mode),
        is_dir: file.is_directory,
        mod_time: time_to_wire(file.modified),
        name: file.name.clone(),
        size: file.size,
    }
}

/// Returns the kind and the permissions as Nomad writes them: `-rw-r--r--`.
fn mode_text(mode: u32) -> String {
    let kind = match mode & 0o170_000 {
        0o040_000 => 'd',
        0o120_000 => 'L',
        0o010_000 => 'p',
        0o140_000 => 'S',
        0o060_000 | 0o020_000 => 'D',
        _ => '-',
    };
    let rights = (0..9).map(|at| match mode & (0o400 >> at) {
        0 => '-',
        _ => ['r', 'w', 'x'][at % 3],
    });
    [kind].into_iter().chain(rights).collect()
}
