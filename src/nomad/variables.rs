//! Variables and their locks (`nomad-neighbour-apis` 1 and 2): as much as a ledger needs.
//!
//! A write with a condition ends in one of three ways: it was made, the condition did not hold, or
//! nobody knows. Whoever gave the condition reads the variable to find out which of the first two it
//! was; here nothing is repeated. A lock is taken with the items that the variable shall have, since
//! an acquire replaces them (2.3).

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;

use super::client::unsendable;
use super::endpoint::Request;
use super::session::{Conditional, Session};
use crate::diagnostic::Code;
use crate::model::Secrets;
use crate::ports::ApiError;
use crate::wire::{GoDuration, ItemsDocument, LockDocument, VariableDocument};

/// Variables per page of a list.
const PER_PAGE: &str = "1000";

/// What came of a write with a condition.
#[derive(Clone, Debug)]
pub(super) enum Put {
    /// It was made; this is the variable now.
    Written(VariableDocument),
    /// The condition did not hold.
    Conflict,
}

/// What came of an attempt to take or to keep a lock.
#[derive(Clone, Debug)]
pub(super) enum Lock {
    /// It is held, under this ID; none if the server did not lock anything.
    Held(Option<String>),
    /// Somebody else holds it, or it ran out.
    NotOurs,
}

/// The variables of one namespace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variables<'s> {
    pub(super) session: &'s Session,
    pub(super) namespace: &'s str,
}

impl Variables<'_> {
    /// Paths that start so, as far as the token may list them.
    pub(super) async fn list(self, prefix: &str, what: &str) -> Result<Vec<String>, ApiError> {
        let query = [
            ("namespace", self.namespace),
            ("prefix", prefix),
            ("per_page", PER_PAGE),
        ];
        let listed = self
            .session
            .list::<VariableDocument>(&["vars"], &query, what)
            .await?;
        let paths = listed.into_iter().map(|(variable, _)| variable.path);
        Ok(paths.filter(|path| path.starts_with(prefix)).collect())
    }

    /// One variable; `None` if there is none.
    pub(super) async fn read(
        self,
        path: &str,
        what: &str,
    ) -> Result<Option<VariableDocument>, ApiError> {
        let segments = segments(path);
        let get = Request {
            query: vec![("namespace", self.namespace)],
            ..Request::new(Method::GET, &segments)
        };
        let found = self
            .session
            .find::<VariableDocument>(&get, what, Code::VariableNotFound)
            .await?;
        Ok(found.map(|(variable, _)| variable))
    }

    /// Writes a variable if it has that index, 0 for one that is not there.
    pub(super) async fn put(
        self,
        path: &str,
        index: u64,
        items: &BTreeMap<&str, &str>,
        what: &str,
    ) -> Result<Put, ApiError> {
        let cas = index.to_string();
        let body = self.body(Some(items), None, what)?;
        let segments = segments(path);
        let put = Request {
            query: vec![("namespace", self.namespace), ("cas", &cas)],
            body: Some(&body),
            ..Request::new(Method::PUT, &segments)
        };
        match self.session.conditional(&put, what).await? {
            Conditional::Done(answer) => Ok(Put::Written(self.session.document(&answer, what)?)),
            Conditional::Refused => Ok(Put::Conflict),
        }
    }

    /// Deletes a variable if it has that index. Whether it had.
    pub(super) async fn delete(self, path: &str, index: u64, what: &str) -> Result<bool, ApiError> {
        let cas = index.to_string();
        let segments = segments(path);
        let delete = Request {
            query: vec![("namespace", self.namespace), ("cas", &cas)],
            ..Request::new(Method::DELETE, &segments)
        };
        match self.session.conditional(&delete, what).await? {
            Conditional::Done(_) => Ok(true),
            Conditional::Refused => Ok(false),
        }
    }

    /// Takes the lock of a variable under an ID of our own; the variable then has these items. Taking
    /// it again under the same ID succeeds, so that it may be repeated (2.3; recorded on 2.0.5 as
    /// `lock-acquire-given-id` and `lock-acquire-again`). Once it ran out it stays held for a second
    /// more (the shortest that is told apart from the default of 15).
    pub(super) async fn acquire(
        self,
        path: &str,
        id: &str,
        items: &BTreeMap<&str, &str>,
        time_to_live: Duration,
        what: &str,
    ) -> Result<Lock, ApiError> {
        let nanoseconds = i64::try_from(time_to_live.as_nanos()).unwrap_or(i64::MAX);
        let lock = LockDocument {
            ttl: GoDuration(nanoseconds),
            lock_delay: GoDuration::from_secs(1),
            id: id.to_owned(),
        };
        let body = self.body(Some(items), Some(lock), what)?;
        self.lock("lock-acquire", path, &body, what).await
    }

    /// Keeps a lock for another time to live.
    pub(super) async fn renew(self, path: &str, id: &str, what: &str) -> Result<Lock, ApiError> {
        let body = self.body(None, Some(held(id)), what)?;
        self.lock("lock-renew", path, &body, what).await
    }

    /// Gives a lock back.
    pub(super) async fn release(self, path: &str, id: &str, what: &str) -> Result<Lock, ApiError> {
        let body = self.body(None, Some(held(id)), what)?;
        self.lock("lock-release", path, &body, what).await
    }

    async fn lock(
        self,
        operation: &'static str,
        path: &str,
        body: &[u8],
        what: &str,
    ) -> Result<Lock, ApiError> {
        let segments = segments(path);
        let put = Request {
            query: vec![("namespace", self.namespace), (operation, "")],
            body: Some(body),
            ..Request::new(Method::PUT, &segments)
        };
        match self.session.conditional(&put, what).await? {
            Conditional::Done(answer) => {
                let variable: VariableDocument = self.session.document(&answer, what)?;
                Ok(Lock::Held(variable.lock.map(|lock| lock.id)))
            }
            Conditional::Refused => Ok(Lock::NotOurs),
        }
    }

    fn body(
        self,
        items: Option<&BTreeMap<&str, &str>>,
        lock: Option<LockDocument>,
        what: &str,
    ) -> Result<Vec<u8>, ApiError> {
        let items = items.map(|items| items.iter().map(|(key, text)| (*key, *text)));
        let variable = VariableDocument {
            namespace: self.namespace.to_owned(),
            items: items.map(|items| ItemsDocument(Secrets::from_iter(items))),
            lock,
            ..VariableDocument::default()
        };
        serde_json::to_vec(&variable).map_err(|error| unsendable(what, &error.to_string()))
    }
}

fn held(id: &str) -> LockDocument {
    LockDocument {
        id: id.to_owned(),
        ..LockDocument::default()
    }
}

/// A variable's path below `/v1/var`, which keeps its slashes.
fn segments(path: &str) -> Vec<&str> {
    std::iter::once("var").chain(path.split('/')).collect()
}
