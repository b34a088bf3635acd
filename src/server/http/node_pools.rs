//! The node pools that every agent has: `all`, and `default`, in which all its nodes are.

use serde_json::{Value, json};

use super::reply::Reply;
use super::request::IncomingRequest;
use crate::error::{JobError, ServerError};

const POOLS: [(&str, &str); 2] =
    [("all", "All nodes of this agent"), ("default", "The pool of all nodes of this agent")];

pub(super) fn list(request: &IncomingRequest) -> Result<Reply, ServerError> {
    let prefix = request.parameters.prefix();
    let pools = POOLS.into_iter().filter(|(name, _)| name.starts_with(prefix));
    let documents: Vec<_> = pools.map(document).collect();
    Ok(Reply::json(&documents, request.pretty)?.with_index(1))
}

pub(super) fn read(request: &IncomingRequest, name: &str) -> Result<Reply, ServerError> {
    let pool = POOLS.into_iter().find(|(known, _)| *known == name);
    let pool = pool.ok_or_else(|| JobError::NoNodePool(name.to_owned()))?;
    Ok(Reply::json(&document(pool), request.pretty)?.with_index(1))
}

/// No write makes a pool, so its indexes are the first one.
fn document((name, description): (&str, &str)) -> Value {
    json!({
        "CreateIndex": 1,
        "Description": description,
        "Meta": null,
        "ModifyIndex": 1,
        "Name": name,
        "SchedulerConfiguration": null,
    })
}
