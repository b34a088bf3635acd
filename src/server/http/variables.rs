//! The endpoints of variables and their locks.
//!
//! A conflict is a reply, not an error: 409 with the current variable, or with an empty one if another
//! client holds its lock. Query keys select the lock operation and `cas` the expected index; the body
//! has the items, the lock and the namespace.

use http::{Method, StatusCode};

use super::blocking::wait_for_index;
use super::reply::Reply;
use super::request::{IncomingRequest, LONG_LIST};
use crate::error::{RequestError, ServerError, VariableError};
use crate::variables::{VariableContents, VariableWrite, VariableWriteOutcome};
use nomad_csi_claims::state::{
    State, Subject, Table, Topic, VariableFilter, VariableRecord, VariableToken, variables,
};
use nomad_csi_model::{Namespace, Secrets, VariableKey, VariablePath};
use nomad_csi_wire::{GoDuration, ItemsDocument, LockDocument, VariableDocument};

type Result<T = Reply> = std::result::Result<T, ServerError>;

pub(super) async fn list(request: &IncomingRequest) -> Result {
    let parameters = &request.parameters;
    let limit = parameters.per_page()?;
    if parameters.text("filter").is_some() {
        let why = "this agent does not filter variables".to_owned();
        return Err(RequestError::Filter(why).into());
    }
    let start = parameters.text("next_token").map(VariableToken::parse);
    let start = start.transpose().map_err(|_| RequestError::NextToken)?;
    let wait = parameters.wait()?;
    let filter = VariableFilter {
        namespace: parameters.namespace_or_default(),
        prefix: parameters.prefix().to_owned(),
    };
    let topics = |_: &State| vec![Topic::list(Table::Variables, &filter.namespace, &filter.prefix)];
    wait_for_index(request, wait, topics, State::variables_index).await?;
    let rights = request.rights()?;
    let is_shown =
        |key: &VariableKey| rights.has_variable(&key.namespace, key.path.as_str(), "list");
    let read = || {
        request.services.cell.read(|state| {
            let page = variables(state, &filter, start.as_ref(), limit, is_shown);
            (page, state.variables_index())
        })
    };
    let (mut page, mut index) = read();
    let mut _permit = None;
    if page.variables.len() >= LONG_LIST {
        // While it waits, nothing is kept in memory.
        drop(page);
        _permit = Some(request.long_list().await?);
        (page, index) = read();
    }
    let listed = page.variables.iter();
    let shows_lock = rights.is_management();
    let documents: Vec<_> = listed.map(|record| encode(record, None, shows_lock)).collect();
    let next = page.next.as_ref().map(ToString::to_string);
    let reply = Reply::json(&documents, request.pretty)?;
    Ok(reply.with_index(index).with_next_token(next))
}

pub(super) async fn read_or_write(
    request: &IncomingRequest,
    method: &Method,
    path: &str,
) -> Result {
    if path.is_empty() {
        return Err(VariableError::MissingPath.into());
    }
    let path = VariablePath::new(path);
    match method.as_str() {
        "GET" => read(request, path).await,
        "DELETE" => delete(request, path).await,
        _ => write(request, path).await,
    }
}

async fn read(request: &IncomingRequest, path: VariablePath) -> Result {
    let wait = request.parameters.wait()?;
    let key = VariableKey::new(request.parameters.namespace_or_default(), path);
    require(request, &key, "read")?;
    let index_of = |state: &State| {
        let record = state.variable(&key);
        record.map_or(state.variables_index(), |record| record.modify_index)
    };
    let topics = |_: &State| vec![Topic::Object(Subject::Variable(key.clone()))];
    wait_for_index(request, wait, topics, index_of).await?;
    require(request, &key, "read")?;
    let reading = request.services.variables.read(&key)?;
    let VariableContents { record, items } = reading.ok_or(VariableError::NotFound)?;
    let shows_lock = request.rights()?.is_management();
    let reply = Reply::json(&encode(&record, Some(items), shows_lock), request.pretty)?;
    Ok(reply.with_index(record.modify_index))
}

async fn delete(request: &IncomingRequest, path: VariablePath) -> Result {
    let key = VariableKey::new(request.parameters.namespace_or_default(), path);
    require(request, &key, "destroy")?;
    let check = expected_index(request)?;
    write_and_reply(request, &key, VariableWrite::Delete { check }).await
}

async fn write(request: &IncomingRequest, path: VariablePath) -> Result {
    let operation = operation(request)?;
    let document: VariableDocument = request.document()?;
    let namespace = match (operation, document.namespace.as_str()) {
        (Some(LockOperation::Renew), _) | (_, "") => request.parameters.namespace_or_default(),
        (_, name) => Namespace::new(name),
    };
    let key = VariableKey::new(namespace, path);
    require(request, &key, "write")?;
    let lock = document.lock.unwrap_or_default();
    let items = document.items.map(|items| items.0);
    let write = match operation {
        None => set(request, items, lock)?,
        Some(LockOperation::Acquire) => VariableWrite::Acquire {
            items: items.unwrap_or_default(),
            id: non_empty(lock.id),
            ttl: lock.ttl.0,
            delay: lock.lock_delay.0,
        },
        Some(LockOperation::Renew) => VariableWrite::Renew { id: lock.id },
        Some(LockOperation::Release) => release(items.as_ref(), lock)?,
    };
    write_and_reply(request, &key, write).await
}

/// Refuses a request about a variable without this capability on its path.
fn require(request: &IncomingRequest, key: &VariableKey, capability: &str) -> Result<()> {
    let VariableKey { namespace, path } = key;
    match request.rights()?.has_variable(namespace, path.as_str(), capability) {
        true => Ok(()),
        false => {
            Err(request.denied(format!("{capability} on variable {path} in namespace {namespace}")))
        }
    }
}

fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

#[derive(Clone, Copy)]
enum LockOperation {
    Acquire,
    Renew,
    Release,
}

fn operation(request: &IncomingRequest) -> Result<Option<LockOperation>> {
    let operations = [
        ("lock-acquire", LockOperation::Acquire),
        ("lock-renew", LockOperation::Renew),
        ("lock-release", LockOperation::Release),
    ];
    let is_requested = |name: &str| request.parameters.get(name).is_some();
    let mut named = operations.into_iter().filter(|(name, _)| is_requested(name));
    let first = named.next().map(|(_, operation)| operation);
    if named.next().is_some() {
        return Err(VariableError::MultipleOperations.into());
    }
    if first.is_some() && request.parameters.text("cas").is_some() {
        return Err(VariableError::CasWithLock.into());
    }
    Ok(first)
}

/// The index that the client expects.
fn expected_index(request: &IncomingRequest) -> Result<Option<u64>> {
    let Some(text) = request.parameters.text("cas") else {
        return Ok(None);
    };
    let index = text.parse().map_err(|_| VariableError::InvalidCas(text.to_owned()))?;
    Ok(Some(index))
}

fn set(
    request: &IncomingRequest,
    items: Option<Secrets>,
    lock: LockDocument,
) -> Result<VariableWrite> {
    let check = expected_index(request)?;
    let items = items.filter(|items| !items.is_empty());
    let items = items.ok_or(VariableError::MissingItems)?;
    if lock.ttl != GoDuration::default() || lock.lock_delay != GoDuration::default() {
        let text = "variable should not contain lock definition";
        return Err(VariableError::Invalid(text.into()).into());
    }
    let holder = non_empty(lock.id);
    Ok(VariableWrite::Set { items, cas: check, lock_id: holder })
}

fn release(items: Option<&Secrets>, lock: LockDocument) -> Result<VariableWrite> {
    if items.is_some() {
        let text = "lock release operation doesn't take variable items";
        return Err(VariableError::Invalid(text.into()).into());
    }
    let id = non_empty(lock.id)
        .ok_or_else(|| VariableError::Invalid("missing lock information".into()))?;
    Ok(VariableWrite::Release { id })
}

async fn write_and_reply(
    request: &IncomingRequest,
    key: &VariableKey,
    write: VariableWrite,
) -> Result {
    let outcome = request.services.variables.write(key, write).await?;
    // Who may write does not see by that what stands there.
    let sees = require(request, key, "read").is_ok();
    let shown = |items: Secrets| sees.then_some(items);
    let shows_lock = request.rights().is_ok_and(|rights| rights.is_management());
    match outcome {
        VariableWriteOutcome::Written { record, items } => {
            let reply = Reply::json(&encode(&record, items.and_then(shown), true), request.pretty)?;
            Ok(reply.with_index(record.modify_index))
        }
        VariableWriteOutcome::Absent => Ok(Reply::empty().with_status(StatusCode::NO_CONTENT)),
        VariableWriteOutcome::Conflict(Some(VariableContents { record, items })) => {
            let reply = Reply::json(&encode(&record, shown(items), shows_lock), request.pretty)?;
            Ok(reply.with_status(StatusCode::CONFLICT).with_index(record.modify_index))
        }
        VariableWriteOutcome::Conflict(None) | VariableWriteOutcome::Locked => {
            let empty = VariableDocument {
                namespace: key.namespace.to_string(),
                path: key.path.to_string(),
                ..VariableDocument::default()
            };
            let reply = Reply::json(&empty, request.pretty)?;
            Ok(reply.with_status(StatusCode::CONFLICT))
        }
    }
}

/// Encodes a variable; the items are omitted if there are none. Who knows the ID of a lock can release it, so it is shown to
/// those who manage the cluster, and to its owner when it is acquired.
fn encode(record: &VariableRecord, items: Option<Secrets>, shows_lock: bool) -> VariableDocument {
    let lock = record.lock.as_ref().filter(|_| shows_lock).map(|lock| LockDocument {
        id: lock.terms.id.clone(),
        lock_delay: GoDuration(lock.terms.delay),
        ttl: GoDuration(lock.terms.ttl),
    });
    let items = items.filter(|items| !items.is_empty());
    VariableDocument {
        create_index: record.create_index,
        create_time: record.create_time,
        items: items.map(ItemsDocument),
        lock,
        modify_index: record.modify_index,
        modify_time: record.modify_time,
        namespace: record.key.namespace.to_string(),
        path: record.key.path.to_string(),
    }
}

#[cfg(test)]
mod tests;
