//! Nomad variables and their locks, as far as a ledger needs them.
//!
//! A conditional write has three outcomes: applied, conflict, or unknown. The caller reads the
//! variable after an unknown outcome. Nothing is repeated here. Acquiring a lock replaces the items
//! of its variable, so the caller passes them along.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use http::Method;

use super::client::NomadClient;
use super::request::{ApiRequest, unsendable_request};
use super::session::{ConditionalResponse, Session};
use crate::ports::{ApiError, VariableReader};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{Namespace, Secrets};
use nomad_csi_wire::{
    BorrowedItems, GoDuration, LockDocument, VariableDocument, VariableRequest, WrittenVariable,
};

/// Variables per page of a list.
const PER_PAGE: &str = "1000";

/// The result of a check-and-set.
#[derive(Clone, Debug)]
pub(super) enum CheckAndSet {
    /// The variable was written, at this index.
    Written(u64),
    /// The condition did not hold.
    Conflict,
}

/// The result of acquiring, renewing or releasing a lock.
#[derive(Clone, Debug)]
pub(super) enum LockResult {
    /// The lock is held with this ID. `None` if the server supports no locks.
    Held(Option<String>),
    /// Another client holds the lock, or it expired.
    NotHeld,
}

/// The variables of one namespace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variables<'s> {
    pub(super) session: &'s Session,
    pub(super) namespace: &'s str,
}

#[async_trait]
impl VariableReader for NomadClient {
    async fn variable_items(
        &self,
        namespace: &Namespace,
        path: &str,
    ) -> Result<Option<Secrets>, ApiError> {
        let variables = Variables { session: &self.session, namespace: namespace.as_str() };
        let action = format!("read the variable `{path}` in namespace `{namespace}`");
        let found = variables.read(path, &action).await?;
        let items = |variable: VariableDocument| variable.items.map(|items| items.0);
        Ok(found.map(|variable| items(variable).unwrap_or_default()))
    }
}

impl Variables<'_> {
    /// Lists the paths with a prefix, as far as the token may list them.
    pub(super) async fn list(self, prefix: &str, action: &str) -> Result<Vec<String>, ApiError> {
        let query = [("namespace", self.namespace), ("prefix", prefix), ("per_page", PER_PAGE)];
        let mut paths = vec![];
        let add = |variable: VariableDocument, _| {
            if variable.path.starts_with(prefix) {
                paths.push(variable.path);
            }
        };
        let listed = self.session.list(&["vars"], &query, action, add);
        listed.await?;
        Ok(paths)
    }

    /// Reads one variable; `None` if it does not exist.
    pub(super) async fn read(
        self,
        path: &str,
        action: &str,
    ) -> Result<Option<VariableDocument>, ApiError> {
        let segments = segments(path);
        let get = ApiRequest {
            query: vec![("namespace", self.namespace)],
            ..ApiRequest::new(Method::GET, &segments).uncompressed()
        };
        let found =
            self.session.find::<VariableDocument>(&get, action, Code::VariableNotFound).await?;
        Ok(found.map(|(variable, _)| variable))
    }

    /// Writes a variable if it has this index; 0 means that it does not exist.
    pub(super) async fn put(
        self,
        path: &str,
        index: u64,
        items: &BTreeMap<&str, &str>,
        action: &str,
    ) -> Result<CheckAndSet, ApiError> {
        let cas = index.to_string();
        let body = self.body(Some(items), None, action)?;
        let segments = segments(path);
        let put = ApiRequest {
            query: vec![("namespace", self.namespace), ("cas", &cas)],
            body: Some(&body),
            ..ApiRequest::new(Method::PUT, &segments).uncompressed()
        };
        match self.session.write_if(&put, action).await? {
            ConditionalResponse::Applied(response) => {
                let written: WrittenVariable = self.session.document(&response, action)?;
                Ok(CheckAndSet::Written(written.modify_index))
            }
            ConditionalResponse::Conflict => Ok(CheckAndSet::Conflict),
        }
    }

    /// Deletes a variable if it has this index. Returns whether it had.
    pub(super) async fn delete(
        self,
        path: &str,
        index: u64,
        action: &str,
    ) -> Result<bool, ApiError> {
        let cas = index.to_string();
        let segments = segments(path);
        let delete = ApiRequest {
            query: vec![("namespace", self.namespace), ("cas", &cas)],
            ..ApiRequest::new(Method::DELETE, &segments)
        };
        match self.session.write_if(&delete, action).await? {
            ConditionalResponse::Applied(_) => Ok(true),
            ConditionalResponse::Conflict => Ok(false),
        }
    }

    /// Acquires the lock of a variable with an ID of the client's choice, and sets the items.
    /// Acquiring it again with the same ID succeeds, so a request with an unknown outcome can be
    /// repeated (recorded on Nomad 2.0.5 as `lock-acquire-given-id` and `lock-acquire-again`). The
    /// lock delay is one second, the shortest that Nomad does not replace with its default of 15.
    pub(super) async fn acquire(
        self,
        path: &str,
        id: &str,
        items: &BTreeMap<&str, &str>,
        time_to_live: Duration,
        action: &str,
    ) -> Result<LockResult, ApiError> {
        let nanoseconds = i64::try_from(time_to_live.as_nanos()).unwrap_or(i64::MAX);
        let lock = LockDocument {
            ttl: GoDuration(nanoseconds),
            lock_delay: GoDuration::from_secs(1),
            id: id.to_owned(),
        };
        let body = self.body(Some(items), Some(lock), action)?;
        self.lock("lock-acquire", path, &body, action).await
    }

    /// Renews a lock for another time to live.
    pub(super) async fn renew(
        self,
        path: &str,
        id: &str,
        action: &str,
    ) -> Result<LockResult, ApiError> {
        let body = self.body(None, Some(lock_with_id(id)), action)?;
        self.lock("lock-renew", path, &body, action).await
    }

    /// Releases a lock.
    pub(super) async fn release(
        self,
        path: &str,
        id: &str,
        action: &str,
    ) -> Result<LockResult, ApiError> {
        let body = self.body(None, Some(lock_with_id(id)), action)?;
        self.lock("lock-release", path, &body, action).await
    }

    async fn lock(
        self,
        operation: &'static str,
        path: &str,
        body: &[u8],
        action: &str,
    ) -> Result<LockResult, ApiError> {
        let segments = segments(path);
        let put = ApiRequest {
            query: vec![("namespace", self.namespace), (operation, "")],
            body: Some(body),
            ..ApiRequest::new(Method::PUT, &segments).uncompressed()
        };
        match self.session.write_if(&put, action).await? {
            ConditionalResponse::Applied(response) => {
                let variable: VariableDocument = self.session.document(&response, action)?;
                Ok(LockResult::Held(variable.lock.map(|lock| lock.id)))
            }
            ConditionalResponse::Conflict => Ok(LockResult::NotHeld),
        }
    }

    fn body(
        self,
        items: Option<&BTreeMap<&str, &str>>,
        lock: Option<LockDocument>,
        action: &str,
    ) -> Result<Vec<u8>, ApiError> {
        let size: usize = items.into_iter().flatten().map(|(_, text)| text.len()).sum();
        let variable =
            VariableRequest { namespace: self.namespace, items: items.map(BorrowedItems), lock };
        // A text of JSON grows by its quotes.
        let mut body = Vec::with_capacity(size + size / 4);
        serde_json::to_writer(&mut body, &variable)
            .map_err(|error| unsendable_request(action, &error.to_string()))?;
        Ok(body)
    }
}

fn lock_with_id(id: &str) -> LockDocument {
    LockDocument { id: id.to_owned(), ..LockDocument::default() }
}

/// Returns the path segments of a variable below `/v1`.
fn segments(path: &str) -> Vec<&str> {
    std::iter::once("var").chain(path.split('/')).collect()
}
