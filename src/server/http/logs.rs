//! The output of tasks: `GET /v1/client/fs/logs/:alloc`.
//!
//! The response is a stream of frames, or of bytes with `plain`. One chunk at a time is in memory. A client that
//! follows gets a frame without data while the task writes nothing, so that a connection that is gone is noticed.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures_util::stream::{Stream, try_unfold};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::allocs::require_of;
use super::capabilities::READ_LOGS;
use super::connection_slots::StreamPlace;
use super::credentials::Credentials;
use super::reply::Reply;
use super::request::IncomingRequest;
use crate::error::{JobError, ServerError};
use crate::services::Services;
use nomad_csi_model::{AllocId, Namespace};
use nomad_csi_ports::{
    LogChunk, LogOrigin, LogPosition, LogStream, TaskLogError, TaskLogs, TaskOutput,
};
use nomad_csi_wire::{LogFrameDocument, parse_boolean};

/// The largest part of an output in one frame, in bytes.
const CHUNK: u64 = 64 << 10;
/// The longest time between two frames for a client that follows.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Reads the logs of a task for one client, frame by frame.
struct FrameReader {
    logs: Arc<dyn TaskLogs>,
    output: TaskOutput,
    position: LogPosition,
    follows: bool,
    is_plain: bool,
    stopping: CancellationToken,
    /// Whose stream it is, to look up whether it may go on.
    reader: LogClient,
    /// The place of a client that follows.
    _place: Option<StreamPlace>,
}

/// The client that reads.
struct LogClient {
    credentials: Credentials,
    services: Services,
    namespace: Namespace,
}

impl LogClient {
    fn may_read(&self) -> bool {
        let rights = self.credentials.rights(&self.services);
        rights.is_ok_and(|rights| rights.has_any(&self.namespace, READ_LOGS))
    }
}

fn bad(text: impl Into<String>) -> ServerError {
    JobError::BadRequest(text.into()).into()
}

pub(super) async fn read(request: &IncomingRequest, id: &str) -> Result<Reply, ServerError> {
    let parameters = &request.parameters;
    let unknown = || ServerError::from(JobError::UnknownAlloc(id.to_owned()));
    let alloc = AllocId::new(id);
    require_of(request, &alloc, READ_LOGS)?;
    let task = parameters.text("task").ok_or_else(|| bad("must provide task name"))?;
    let found = request.services.cell.read(|state| {
        let record = state.alloc(&alloc)?;
        let placement = record.placement.as_deref()?;
        let mut groups = placement.job.job.groups.iter();
        let group = groups.find(|group| group.name == placement.group)?;
        let is_known = group.tasks.iter().any(|known| known.name == task);
        let namespace = placement.job.job.namespace.clone();
        Some((is_known, record.has_ended, record.node.clone(), namespace))
    });
    let (is_known, has_ended, node, namespace) = found.ok_or_else(unknown)?;
    if !is_known {
        return Err(bad(format!("unknown task name {task:?}")));
    }
    let logs = request.services.task_logs(&node);
    let logs = logs.ok_or_else(|| JobError::NodeUnreachable { alloc: id.to_owned(), node })?;
    let stream = match parameters.text("type") {
        Some("stdout") => LogStream::Stdout,
        Some("stderr") => LogStream::Stderr,
        _ => return Err(bad("must provide log type (stdout/stderr)")),
    };
    let origin = match parameters.text("origin") {
        None | Some("start") => LogOrigin::Start,
        Some("end") => LogOrigin::End,
        Some(_) => return Err(bad("origin must be start or end")),
    };
    let offset = match parameters.text("offset") {
        None => 0,
        Some(text) => {
            text.parse().map_err(|_| bad(format!("failed to parse offset field to int: {text}")))?
        }
    };
    let output = TaskOutput { alloc, task: task.to_owned(), stream };
    let unreadable = |error: TaskLogError| ServerError::Internal(error.to_string());
    if has_ended && !logs.has_files(&output).await.map_err(unreadable)? {
        return Err(JobError::NoOutput(output.alloc.to_string()).into());
    }
    let position = logs.locate(&output, origin, offset).await;
    let position = position.map_err(unreadable)?;
    let follows = flag(request, "follow")?;
    let place = match follows {
        true => Some(request.connection.subscribe()?),
        false => None,
    };
    let reader = FrameReader {
        position,
        follows,
        is_plain: flag(request, "plain")?,
        stopping: request.services.stopping.clone(),
        reader: LogClient {
            credentials: request.credentials.clone(),
            services: request.services.clone(),
            namespace,
        },
        logs,
        output,
        _place: place,
    };
    let is_plain = reader.is_plain;
    let reply = Reply::stream(frames(reader), is_plain);
    // The connection has no working place any more.
    Ok(if follows { reply.closing() } else { reply })
}

fn flag(request: &IncomingRequest, name: &str) -> Result<bool, ServerError> {
    match request.parameters.text(name) {
        None => Ok(false),
        Some(text) => parse_boolean(text)
            .ok_or_else(|| bad(format!("failed to parse {name} field to boolean: {text}"))),
    }
}

fn frames(reader: FrameReader) -> impl Stream<Item = Result<Bytes, TaskLogError>> + Send {
    try_unfold(reader, |mut reader| async move {
        let frame = reader.next().await?;
        Ok(frame.map(|frame| (frame, reader)))
    })
}

impl FrameReader {
    /// The next frame; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, TaskLogError> {
        loop {
            if !self.reader.may_read() {
                return Ok(None);
            }
            let chunk = self.logs.read(&self.output, self.position, CHUNK).await?;
            self.position = chunk.next;
            if !chunk.data.is_empty() {
                return Ok(Some(self.frame(chunk)));
            }
            if !self.follows {
                return Ok(None);
            }
            let more = self.logs.wait_for_more(&self.output, self.position);
            tokio::select! {
                () = self.stopping.cancelled() => return Ok(None),
                waited = timeout(HEARTBEAT, more) => match waited {
                    Ok(more) => more?,
                    Err(_) if self.is_plain => {}
                    Err(_) => return Ok(Some(Bytes::from_static(b"{}"))),
                },
            }
        }
    }

    fn frame(&self, chunk: LogChunk) -> Bytes {
        if self.is_plain {
            return chunk.data.into();
        }
        let offset = i64::try_from(chunk.next.offset).unwrap_or(i64::MAX);
        let frame = LogFrameDocument::new(&chunk.data, &chunk.file, offset);
        serde_json::to_vec(&frame).unwrap_or_default().into()
    }
}
