//! Allocations, their tasks, logs and files over HTTP.
//!
//! The server forwards a request for a log or a file to the node of the allocation. A log is read piece by
//! piece, so its size has no limit; only the pause between two pieces has one.

use async_trait::async_trait;
use http::Method;

use super::client::NomadClient;
use super::endpoint::ResponseStream;
use super::request::{ApiRequest, check_addressable};
use super::retrying::Access;
use crate::ports::{AllocationApi, ApiError, Document, LogReader, LogRequest, WithDocument};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{AllocId, Namespace};
use nomad_csi_wire::{
    AllocFileDocument, AllocationDocument, AllocationStopResponse, AllocationStub, LogFrames,
};

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

    async fn restart_allocation(&self, id: &AllocId, task: &str) -> Result<(), ApiError> {
        let action = format!("restart allocation `{id}`");
        let body = serde_json::json!({"TaskName": task, "AllTasks": false});
        self.change_tasks(id, "restart", &body, &action).await
    }

    async fn signal_allocation(
        &self,
        id: &AllocId,
        task: &str,
        signal: &str,
    ) -> Result<(), ApiError> {
        let action = format!("send a signal to allocation `{id}`");
        let body = serde_json::json!({"Task": task, "Signal": signal});
        self.change_tasks(id, "signal", &body, &action).await
    }

    async fn stat_file(
        &self,
        id: &AllocId,
        path: &str,
    ) -> Result<WithDocument<AllocFileDocument>, ApiError> {
        let action = format!("read a file of allocation `{id}`");
        check_addressable(id.as_str(), &action)?;
        let segments = ["client", "fs", "stat", id.as_str()];
        let get =
            ApiRequest { query: vec![("path", path)], ..ApiRequest::new(Method::GET, &segments) };
        let (value, document) = self.session.read(&get, &action).await?;
        Ok(WithDocument { value, document })
    }

    async fn list_files(
        &self,
        id: &AllocId,
        path: &str,
    ) -> Result<Vec<WithDocument<AllocFileDocument>>, ApiError> {
        let action = format!("list files of allocation `{id}`");
        check_addressable(id.as_str(), &action)?;
        let segments = ["client", "fs", "ls", id.as_str()];
        let get =
            ApiRequest { query: vec![("path", path)], ..ApiRequest::new(Method::GET, &segments) };
        let (files, _) = self.session.read::<Vec<serde_json::Value>>(&get, &action).await?;
        let files = files.into_iter().map(|file| {
            let value = self.session.part(&file, &action)?;
            Ok(WithDocument { value, document: Document::new(file.to_string()) })
        });
        files.collect()
    }

    async fn open_file(&self, id: &AllocId, path: &str) -> Result<Box<dyn LogReader>, ApiError> {
        let action = format!("read a file of allocation `{id}`");
        check_addressable(id.as_str(), &action)?;
        let segments = ["client", "fs", "cat", id.as_str()];
        let get =
            ApiRequest { query: vec![("path", path)], ..ApiRequest::new(Method::GET, &segments) };
        Ok(Box::new(PlainFile(self.session.stream(&get, &action).await?)))
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

impl NomadClient {
    /// Changes tasks of an allocation on its node.
    async fn change_tasks(
        &self,
        id: &AllocId,
        change: &str,
        body: &serde_json::Value,
        action: &str,
    ) -> Result<(), ApiError> {
        check_addressable(id.as_str(), action)?;
        let body = body.to_string().into_bytes();
        let path = ["client", "allocation", id.as_str(), change];
        let put = ApiRequest { body: Some(&body), ..ApiRequest::new(Method::PUT, &path) };
        self.session.call(&put, action, Access::Write).await?;
        Ok(())
    }
}

/// A file that is being received.
struct PlainFile(ResponseStream);

#[async_trait]
impl LogReader for PlainFile {
    async fn next_piece(&mut self) -> Result<Option<Vec<u8>>, ApiError> {
        self.0.next_chunk().await
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
