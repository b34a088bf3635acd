//! Filter expressions of lists (`filter`), tested on the JSON that clients get.
//!
//! A client can filter only by what a response shows, so an expression reveals no secret.

use std::borrow::Cow;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::Serialize;
use serde_json::{Map, Value};

use super::parameters::Parameters;
use crate::error::{RequestError, ServerError};
use nomad_csi_wire::Filter;

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

/// Returns whether the expression is true for a list item.
pub(super) fn is_listed(filter: &Filter, item: &Map<String, Value>) -> Result<bool> {
    let tested = filter.matches(item);
    tested.map_err(|problem| RequestError::FilterField(problem.to_string()).into())
}

/// Which part of a list a client wants: what its expression is true for, from a place on, and so many.
#[derive(Debug, Default)]
pub(super) struct Paging {
    filter: Option<Filter>,
    /// The place of the first document; `None` for the beginning.
    start: Option<String>,
    /// The largest number; 0 is unlimited.
    per_page: usize,
}

impl Paging {
    pub(super) fn of(parameters: &Parameters) -> Result<Self> {
        let start = parameters.text("next_token").map(|token| {
            let bytes = percent_decode_str(token).decode_utf8();
            bytes.map(Cow::into_owned)
        });
        Ok(Self {
            filter: filter(parameters)?,
            start: start.transpose().map_err(|_| RequestError::NextToken)?,
            per_page: parameters.per_page()?,
        })
    }

    /// Returns what a client wants of a list without pages.
    pub(super) fn whole(parameters: &Parameters) -> Result<Self> {
        Ok(Self { filter: filter(parameters)?, ..Self::default() })
    }

    /// Returns the part of a list, and the token of what follows. The places of its documents grow.
    pub(super) fn page<T: Serialize>(
        &self,
        documents: Vec<T>,
        place: impl Fn(&T) -> String,
    ) -> Result<(Vec<T>, Option<String>)> {
        let mut kept = vec![];
        for document in documents {
            let is_before = |start: &String| place(&document) < *start;
            if self.start.as_ref().is_some_and(is_before) {
                continue;
            }
            if let Some(filter) = &self.filter
                && !is_listed(filter, &fields(&document))?
            {
                continue;
            }
            if self.per_page > 0 && kept.len() == self.per_page {
                let next = utf8_percent_encode(&place(&document), NON_ALPHANUMERIC).to_string();
                return Ok((kept, Some(next)));
            }
            kept.push(document);
        }
        Ok((kept, None))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use url::form_urlencoded;

    use super::*;

    /// Every page size gives the whole list, with and without an expression, also while it changes.
    #[test]
    fn pages_are_the_list() {
        let list = |ids: &[u32]| -> Vec<Value> {
            let documents =
                ids.iter().map(|id| json!({"ID": format!("é {id:02}"), "Even": id % 2 == 0}));
            documents.collect()
        };
        let place = |one: &Value| one["ID"].as_str().unwrap_or_default().to_owned();
        let whole = list(&(0..20).collect::<Vec<_>>());
        for filter in ["", "&filter=Even+%3D%3D+true"] {
            let all = Parameters::parse(Some(&filter.replacen('&', "", 1)));
            let (expected, next) = Paging::of(&all).unwrap().page(whole.clone(), place).unwrap();
            assert_eq!((expected.len(), next), (if filter.is_empty() { 20 } else { 10 }, None));
            for per_page in 1..=21 {
                let (mut read, mut token) = (vec![], String::new());
                loop {
                    let query = form_urlencoded::Serializer::new(String::new())
                        .append_pair("next_token", &token)
                        .finish();
                    let query = format!("per_page={per_page}&{query}{filter}");
                    let paging = Paging::of(&Parameters::parse(Some(&query))).unwrap();
                    let (page, next) = paging.page(whole.clone(), place).unwrap();
                    assert!(page.len() <= per_page);
                    read.extend(page);
                    match next {
                        Some(next) => token = next,
                        None => break,
                    }
                }
                assert_eq!(read, expected, "{per_page} {filter}");
            }
        }
        let paging = |query: &str| Paging::of(&Parameters::parse(Some(query))).unwrap();
        let (_, next) = paging("per_page=5").page(whole, place).unwrap();
        let after = paging(&format!("next_token={}", next.unwrap().replace('%', "%25")));
        let (rest, _) = after.page(list(&[1, 4, 6, 9]), place).unwrap();
        assert_eq!(rest, list(&[6, 9]), "the next one is gone");
        assert!(Paging::of(&Parameters::parse(Some("next_token=%25ff"))).is_err());
    }
}
