//! Filter expressions of lists (`filter`), tested on the JSON that clients get.
//!
//! A client can filter only by what a response shows, so an expression reveals no secret.

use serde::Serialize;
use serde_json::{Map, Value};

use super::parameters::Parameters;
use crate::server::error::{RequestError, ServerError};
use crate::wire::Filter;

type Result<T> = std::result::Result<T, ServerError>;

/// The expression of a request; `None` without one.
pub(super) fn filter(parameters: &Parameters) -> Result<Option<Filter>> {
    let filter = parameters.text("filter").map(Filter::parse).transpose();
    filter.map_err(|problem| RequestError::Filter(problem.to_string()).into())
}

/// The fields of a list item.
pub(super) fn fields(document: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(document) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) | Err(_) => Map::new(),
    }
}

/// Whether the expression is true for a list item.
pub(super) fn is_listed(filter: &Filter, item: &Map<String, Value>) -> Result<bool> {
    let tested = filter.matches(item);
    tested.map_err(|problem| RequestError::FilterField(problem.to_string()).into())
}

/// Returns the documents for which the expression is true; all without one.
pub(super) fn listed<T: Serialize>(documents: Vec<T>, filter: Option<&Filter>) -> Result<Vec<T>> {
    let Some(filter) = filter else {
        return Ok(documents);
    };
    let mut kept = vec![];
    for document in documents {
        if is_listed(filter, &fields(&document))? {
            kept.push(document);
        }
    }
    Ok(kept)
}
