//! Reads the elements of a JSON list one by one, each from its text: the parsed JSON of a long list
//! is never in memory at once.

use std::fmt;

use serde::de::{DeserializeOwned, Deserializer as _, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::bounded::{DecodeLimits, decode_bounded};
use super::decode::DecodeError;

/// Why a list was not read.
#[derive(Debug)]
pub enum ElementProblem<E> {
    /// The text is not a JSON list.
    Json(serde_json::Error),
    /// An element is not the expected document.
    Document(DecodeError),
    /// The receiver of the elements refused one.
    Refused(E),
}

/// Decodes each element of a list within the limits of one document, and passes it on with its text.
/// `null` is an empty list.
///
/// # Errors
/// Fails at the first element that is not the expected document, or that `see` refuses.
pub fn for_each_element<T: DeserializeOwned, E>(
    body: &[u8],
    limits: DecodeLimits,
    mut see: impl FnMut(T, &RawValue) -> Result<(), E>,
) -> Result<(), ElementProblem<E>> {
    let mut problem = None;
    let mut at = 0;
    let read = |text: &RawValue| {
        let decoded = decode_bounded(text.get().as_bytes(), limits);
        let done = match decoded {
            Ok(document) => see(document, text).map_err(ElementProblem::Refused),
            Err(error) => Err(ElementProblem::Document(error.within(format!("[{at}]")))),
        };
        at += 1;
        done.map_err(|found| problem = Some(found))
    };
    let mut json = serde_json::Deserializer::from_slice(body);
    let ended = json.deserialize_any(Elements(read)).and_then(|()| json.end());
    match (problem, ended) {
        (Some(problem), _) => Err(problem),
        (None, ended) => ended.map_err(ElementProblem::Json),
    }
}

struct Elements<F>(F);

impl<'de, F: FnMut(&RawValue) -> Result<(), ()>> Visitor<'de> for Elements<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut access: A) -> Result<(), A::Error> {
        while let Some(text) = access.next_element::<&RawValue>()? {
            (self.0)(text).map_err(|()| A::Error::custom("an element was refused"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NamespaceDocument;

    const LIMITS: DecodeLimits = DecodeLimits { json_values: 5, list_elements: 5 };

    fn read(text: &str) -> Result<Vec<String>, String> {
        let mut seen = vec![];
        let see = |document: NamespaceDocument, text: &RawValue| {
            if document.name == "refused" {
                return Err("refused");
            }
            seen.push(format!("{} {text}", document.name));
            Ok(())
        };
        match for_each_element(text.as_bytes(), LIMITS, see) {
            Ok(()) => Ok(seen),
            Err(ElementProblem::Json(error)) => Err(format!("json: {error}")),
            Err(ElementProblem::Document(error)) => Err(format!("document: {error}")),
            Err(ElementProblem::Refused(error)) => Err(error.to_owned()),
        }
    }

    #[test]
    fn every_element_keeps_its_text() {
        let expected = [r#"a {"name":"a", "X":1.50}"#, " null"];
        let listed = read(r#"[{"name":"a", "X":1.50}, null]"#);
        assert_eq!(listed, Ok(expected.map(str::to_owned).to_vec()));
        assert_eq!(read("null"), Ok(vec![]));
    }

    #[test]
    fn a_list_ends_at_its_first_problem() {
        for (text, expected) in [
            (
                r#"[{},{"Name":1} not JSON"#,
                "document: [1].Name: invalid type: integer `1`, expected a string",
            ),
            (r#"[{"Name":"refused"} not JSON"#, "refused"),
            ("{}", "json: invalid type: map, expected a sequence at line 1 column 2"),
            ("[] x", "json: trailing characters at line 1 column 4"),
            ("[{}", "json: EOF while parsing a list at line 1 column 3"),
        ] {
            assert_eq!(read(text), Err(expected.to_owned()), "{text}");
        }
        let error = read(r#"[{"a":1,"b":1},{"a":1,"b":1,"c":1}]"#).unwrap_err();
        assert!(error.starts_with("document: [1]: more than 5 JSON values"), "{error}");
    }
}
