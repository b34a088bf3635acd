//! Allocations and logs over HTTP.
//!
//! The server forwards a request for a log to the node of the allocation. The log is read piece by
//! piece, so its size has no limit; only the pause between two pieces has one.

use async_trait::async_trait;
use http::Method;

use super::client::NomadClient;
use super::endpoint::ResponseStream;
use super::request::{ApiRequest, check_addressable};
use super::retrying::Access;
use crate::ports::{AllocationApi, ApiError, LogReader, LogRequest, WithDocument};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{AllocId, Namespace};
use nomad_csi_wire::{AllocationDocument, AllocationStopResponse, AllocationStub, LogFrames};

/// Allocations per page.
const PER_PAGE: &str = "1000";

#[async_trait]
impl AllocationApi for NomadClient {
    async fn list_allocations(
        &self,
        namespace: &Namespace,
        prefix: &str,
    ) -> Result<Vec<WithDocument<AllocationStub>>, ApiError> {
        let mut query = vec![("namespace", namespace.as_str()), ("per_page", PER_PAGE)];
        query.extend((!prefix.is_empty()).then_some(("prefix", prefix)));
        let mut allocations = vec![];
        let add = |value: AllocationStub, document| {
            if value.id.starts_with(prefix) {
                allocations.push(WithDocument { value, document });
            }
        };
        let action = "list the allocations";
        self.session.list(&["allocations"], &query, action, add).await?;
        allocations.sort_by(|a, b| a.value.id.cmp(&b.value.id));
        Ok(allocations)
    }

    async fn read_allocation(
        &self,
        id: &AllocId,
    ) -> Result<Option<WithDocument<AllocationDocument>>, ApiError> {
        let action = format!("read allocation `{id}`");
        check_addressable(id.as_str(), &action)?;
        let path = ["allocation", id.as_str()];
        let get = ApiRequest::new(Method::GET, &path);
        let found =
            self.session.find::<AllocationDocument>(&get, &action, Code::AllocNotFound).await?;
        Ok(found.map(|(value, document)| WithDocument { value, document }))
    }

    async fn stop_allocation(&self, id: &AllocId) -> Result<AllocationStopResponse, ApiError> {
        let action = format!("stop allocation `{id}`");
        check_addressable(id.as_str(), &action)?;
        let path = ["allocation", id.as_str(), "stop"];
        let put = ApiRequest::new(Method::PUT, &path);
        let response = self.session.call(&put, &action, Access::Write).await?;
        self.session.document(&response, &action)
    }

    async fn open_log(&self, request: &LogRequest) -> Result<Box<dyn LogReader>, ApiError> {
        let action = format!("read the log of task `{}`", request.task);
        check_addressable(request.alloc.as_str(), &action)?;
        let offset = request.from_end.unwrap_or_default().to_string();
        let origin = request.from_end.map_or("start", |_| "end");
        let path = ["client", "fs", "logs", request.alloc.as_str()];
        let get = ApiRequest {
            query: vec![
                ("follow", if request.follows { "true" } else { "false" }),
                ("offset", &offset),
                ("origin", origin),
                ("task", &request.task),
                ("type", request.stream.as_str()),
            ],
            ..ApiRequest::new(Method::GET, &path)
        };
        let stream = self.session.stream(&get, &action).await?;
        Ok(Box::new(FramedLog { stream, frames: LogFrames::default() }))
    }
}

/// The frames of a log that is being received.
struct FramedLog {
    stream: ResponseStream,
    frames: LogFrames,
}

#[async_trait]
impl LogReader for FramedLog {
    async fn next_piece(&mut self) -> Result<Option<Vec<u8>>, ApiError> {
        loop {
            let Some(chunk) = self.stream.next_chunk().await? else {
                return match self.frames.is_complete() {
                    true => Ok(None),
                    false => Err(self.stream.unexpected("the log ended within a frame")),
                };
            };
            let data = self.frames.push(&chunk);
            let data = data.map_err(|problem| self.stream.unexpected(&problem.to_string()))?;
            if !data.is_empty() {
                return Ok(Some(data));
            }
        }
    }
}
