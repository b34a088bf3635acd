//! Variables and locks: decode, call, encode (`nomad-neighbour-apis` 1, 2).
//!
//! A conflict is an answer, not an error: 409 with the variable in force, or with an empty one if
//! somebody else holds it. Which operation is meant is said by the presence of a query key, what to
//! compare by `cas`; the body is looked at for items, lock and namespace only.

use http::{Method, StatusCode};

use super::blocking::hold;
use super::reply::Reply;
use super::router::Asked;
use super::volumes::document;
use crate::model::{Namespace, Secrets, VariableKey, VariablePath};
use crate::server::error::{RequestError, ServerError, VariableError};
use crate::server::variables::{VariableOutcome, VariableReading, VariableWrite};
use crate::state::{State, VariableFilter, VariableRecord, VariableToken, variables};
use crate::wire::{GoDuration, ItemsDocument, LockDocument, VariableDocument};

type Result<T = Reply> = std::result::Result<T, ServerError>;

pub(super) async fn list(asked: &Asked) -> Result {
    let parameters = &asked.parameters;
    let limit = parameters.per_page()?;
    if parameters.text("filter").is_some() {
        return Err(RequestError::Filter.into());
    }
    let start = parameters.text("next_token").map(VariableToken::parse);
    let start = start.transpose().map_err(|_| RequestError::NextToken)?;
    let wait = parameters.wait()?;
    hold(&asked.services, wait, State::variables_index).await;
    let filter = VariableFilter {
        namespace: parameters.namespace_or_default(),
        prefix: parameters.prefix().to_owned(),
    };
    let (page, index) = asked.services.cell.read(|state| {
        let page = variables(state, &filter, start.as_ref(), limit);
        (page, state.variables_index())
    });
    let listed = page.variables.iter();
    let documents: Vec<_> = listed.map(|record| encode(record, None)).collect();
    let next = page.next.as_ref().map(ToString::to_string);
    Ok(Reply::json(&documents, asked.pretty)?
        .at(index)
        .before(next))
}

pub(super) async fn one(asked: &Asked, method: &Method, path: &str) -> Result {
    if path.is_empty() {
        return Err(VariableError::MissingPath.into());
    }
    let path = VariablePath::new(path);
    match method.as_str() {
        "GET" => read(asked, path).await,
        "DELETE" => delete(asked, path).await,
        _ => write(asked, path).await,
    }
}

async fn read(asked: &Asked, path: VariablePath) -> Result {
    let wait = asked.parameters.wait()?;
    let key = VariableKey::new(asked.parameters.namespace_or_default(), path);
    let index_of = |state: &State| {
        let record = state.variable(&key);
        record.map_or(state.variables_index(), |record| record.modify_index)
    };
    hold(&asked.services, wait, index_of).await;
    let reading = asked.services.variables.read(&key)?;
    let VariableReading { record, items } = reading.ok_or(VariableError::NotFound)?;
    let reply = Reply::json(&encode(&record, Some(items)), asked.pretty)?;
    Ok(reply.at(record.modify_index))
}

async fn delete(asked: &Asked, path: VariablePath) -> Result {
    let key = VariableKey::new(asked.parameters.namespace_or_default(), path);
    let check = check(asked)?;
    carry_out(asked, &key, VariableWrite::Delete { check }).await
}

async fn write(asked: &Asked, path: VariablePath) -> Result {
    let operation = operation(asked)?;
    let document: VariableDocument = document(&asked.body)?;
    let namespace = match (operation, document.namespace.as_str()) {
        (Some(LockOperation::Renew), _) | (_, "") => asked.parameters.namespace_or_default(),
        (_, name) => Namespace::new(name),
    };
    let key = VariableKey::new(namespace, path);
    let lock = document.lock.unwrap_or_default();
    let items = document.items.map(|items| items.0);
    let write = match operation {
        None => set(asked, items, lock)?,
        Some(LockOperation::Acquire) => VariableWrite::Acquire {
            items: items.unwrap_or_default(),
            id: some(lock.id),
            ttl: lock.ttl.0,
            delay: lock.lock_delay.0,
        },
        Some(LockOperation::Renew) => VariableWrite::Renew { id: lock.id },
        Some(LockOperation::Release) => release(items.as_ref(), lock)?,
    };
    carry_out(asked, &key, write).await
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

#[derive(Clone, Copy)]
enum LockOperation {
    Acquire,
    Renew,
    Release,
}

fn operation(asked: &Asked) -> Result<Option<LockOperation>> {
    let operations = [
        ("lock-acquire", LockOperation::Acquire),
        ("lock-renew", LockOperation::Renew),
        ("lock-release", LockOperation::Release),
    ];
    let is_asked = |name: &str| asked.parameters.get(name).is_some();
    let mut named = operations.into_iter().filter(|(name, _)| is_asked(name));
    let first = named.next().map(|(_, operation)| operation);
    if named.next().is_some() {
        return Err(VariableError::SeveralOperations.into());
    }
    if first.is_some() && asked.parameters.text("cas").is_some() {
        return Err(VariableError::CheckWithLock.into());
    }
    Ok(first)
}

/// What the writer has seen, if he says.
fn check(asked: &Asked) -> Result<Option<u64>> {
    let Some(text) = asked.parameters.text("cas") else {
        return Ok(None);
    };
    let index = text
        .parse()
        .map_err(|_| VariableError::Check(text.to_owned()))?;
    Ok(Some(index))
}

fn set(asked: &Asked, items: Option<Secrets>, lock: LockDocument) -> Result<VariableWrite> {
    let check = check(asked)?;
    let items = items.filter(|items| !items.is_empty());
    let items = items.ok_or(VariableError::MissingItems)?;
    if lock.ttl != GoDuration::default() || lock.lock_delay != GoDuration::default() {
        let text = "variable should not contain lock definition";
        return Err(VariableError::Invalid(text.into()).into());
    }
    let holder = some(lock.id);
    Ok(VariableWrite::Set {
        items,
        check,
        holder,
    })
}

fn release(items: Option<&Secrets>, lock: LockDocument) -> Result<VariableWrite> {
    if items.is_some() {
        let text = "lock release operation doesn't take variable items";
        return Err(VariableError::Invalid(text.into()).into());
    }
    let id =
        some(lock.id).ok_or_else(|| VariableError::Invalid("missing lock information".into()))?;
    Ok(VariableWrite::Release { id })
}

async fn carry_out(asked: &Asked, key: &VariableKey, write: VariableWrite) -> Result {
    let outcome = asked.services.variables.write(key, write).await?;
    match outcome {
        VariableOutcome::Written { record, items } => {
            let reply = Reply::json(&encode(&record, items), asked.pretty)?;
            Ok(reply.at(record.modify_index))
        }
        VariableOutcome::Gone => Ok(Reply::empty().with(StatusCode::NO_CONTENT)),
        VariableOutcome::Differs(Some(VariableReading { record, items })) => {
            let reply = Reply::json(&encode(&record, Some(items)), asked.pretty)?;
            Ok(reply.with(StatusCode::CONFLICT).at(record.modify_index))
        }
        VariableOutcome::Differs(None) | VariableOutcome::Held => {
            let nothing = VariableDocument {
                namespace: key.namespace.to_string(),
                path: key.path.to_string(),
                ..VariableDocument::default()
            };
            let reply = Reply::json(&nothing, asked.pretty)?;
            Ok(reply.with(StatusCode::CONFLICT))
        }
    }
}

/// A variable for an answer; one that holds nothing has no items.
fn encode(record: &VariableRecord, items: Option<Secrets>) -> VariableDocument {
    let lock = record.lock.as_ref().map(|lock| LockDocument {
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
