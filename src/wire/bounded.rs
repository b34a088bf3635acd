//! Decodes JSON of a client that may be hostile: values are counted while they are read.
//!
//! A value takes many times its text in memory: `{}` has two bytes, a volume several hundred. So the
//! number of values and the length of each list are bounded, and decoding ends at the first value
//! above.

use std::cell::Cell;
use std::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Number, Value};

use super::decode::{DecodeError, decode_value};

/// The limits of one document. The names in messages are those of the agent's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Values and keys.
    pub json_values: usize,
    /// Elements of one list.
    pub list_elements: usize,
}

/// Decodes the first JSON value of a body, like `decode`, within limits.
///
/// # Errors
/// Fails if the body is not JSON, exceeds a limit, or a value has the wrong type.
pub fn decode_bounded<T: DeserializeOwned>(
    body: &[u8],
    limits: DecodeLimits,
) -> Result<T, DecodeError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(DecodeError::custom("EOF"));
    }
    let budget = Budget { limits, left: Cell::new(limits.json_values) };
    let mut json = serde_json::Deserializer::from_slice(body);
    let value = Bounded(&budget).deserialize(&mut json);
    decode_value(&value.map_err(DecodeError::custom)?)
}

/// Why a document was not parsed.
#[derive(Debug)]
pub struct ParseProblem {
    /// The parser's error.
    pub error: serde_json::Error,
    /// True if the document exceeds a limit.
    pub is_limit: bool,
}

/// Parses JSON within limits. Unlike [`decode_bounded`], it refuses text after the value.
///
/// # Errors
/// Fails if the body is not JSON or exceeds a limit.
pub fn parse_bounded(body: &[u8], limits: DecodeLimits) -> Result<Value, ParseProblem> {
    let budget = Budget { limits, left: Cell::new(limits.json_values) };
    let mut json = serde_json::Deserializer::from_slice(body);
    let parsed = Bounded(&budget).deserialize(&mut json);
    let parsed = parsed.and_then(|value| json.end().map(|()| value));
    parsed.map_err(|error| ParseProblem {
        is_limit: budget.left.get() == 0 && error.is_data(),
        error,
    })
}

struct Budget {
    limits: DecodeLimits,
    left: Cell<usize>,
}

impl Budget {
    fn take<E: Error>(&self) -> Result<(), E> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| {
            let limit = self.limits.json_values;
            E::custom(format_args!("more than {limit} JSON values and keys (limit `json-values`)"))
        })?;
        self.left.set(left);
        Ok(())
    }
}

/// Reads any value, and counts it and what is in it.
#[derive(Clone, Copy)]
struct Bounded<'b>(&'b Budget);

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.0.take()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Bool(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let limit = self.0.limits.list_elements;
        let mut elements = vec![];
        while let Some(element) = access.next_element_seed(self)? {
            if elements.len() == limit {
                return Err(A::Error::custom(format_args!(
                    "a list has more than {limit} elements (limit `list-elements`)"
                )));
            }
            elements.push(element);
        }
        Ok(Value::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut entries = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            self.0.take()?;
            let value = access.next_value_seed(self)?;
            entries.insert(key, value);
        }
        Ok(Value::Object(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WriteRequest;
    use crate::decode::decode;

    const LIMITS: DecodeLimits = DecodeLimits { json_values: 1000, list_elements: 100 };

    fn refused(body: &str) -> Option<String> {
        let decoded = decode_bounded::<WriteRequest>(body.as_bytes(), LIMITS);
        decoded.err().map(|error| error.to_string())
    }

    fn volumes(number: usize, text: &str) -> String {
        format!(r#"{{"Volumes":[{}]}}"#, vec![text; number].join(","))
    }

    #[test]
    fn a_list_has_at_most_its_limit_of_elements() {
        assert_eq!(refused(&volumes(100, "{}")), None);
        let error = refused(&volumes(101, "{}")).unwrap();
        let expected = "a list has more than 100 elements (limit `list-elements`)";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn a_document_has_at_most_its_limit_of_values() {
        // The document, its key and its list; then per volume two keys, a text, a number and itself.
        let volume = r#"{"ID":"a","X":1}"#;
        assert_eq!(refused(&volumes(99, volume)), None);
        let deep = |keys: usize| {
            let keys: Vec<_> = (0..keys).map(|at| format!(r#""{at}":0"#)).collect();
            format!("{{{}}}", keys.join(","))
        };
        assert_eq!(refused(&deep(499)), None);
        let error = refused(&deep(500)).unwrap();
        let expected = "more than 1000 JSON values and keys (limit `json-values`)";
        assert!(error.starts_with(expected), "{error}");
    }

    /// It must end at the limit, not after it has read everything.
    #[test]
    fn what_follows_the_limit_is_not_read() {
        let endless = format!(r#"{{"Volumes":[{} not JSON"#, "{},".repeat(101));
        let error = refused(&endless).unwrap();
        assert!(error.contains("list-elements"), "{error}");
    }

    #[test]
    fn every_body_decodes_as_without_limits() {
        for body in [
            r#"{"Volumes":[{"ID":"a","RequestedCapacityMin":5}]} trailing"#,
            r#"{"volumes":[{"id":"a"}],"VOLUMES":[]}"#,
            r#"{"Volumes":[{"ID":"a","ID":"b"}]}"#,
            r#"{"Volumes":null,"X":[1.5,-1,18446744073709551615,1e400]}"#,
            r#"{"Volumes":[{"RequestedCapacityMin":1e3}]}"#,
            r#"{"Volumes":{}}"#,
            r#"{"Volumes":[{"ID":"\ud800"}]}"#,
            "",
            " \n",
            "null",
            "[]",
            "x",
            "{",
            r#"{"Volumes":[{"ID":"#,
        ] {
            let bounded = decode_bounded::<WriteRequest>(body.as_bytes(), LIMITS);
            assert_eq!(bounded, decode::<WriteRequest>(body.as_bytes()), "{body}");
        }
        let deep = "[".repeat(100_000);
        assert!(refused(&deep).is_some());
    }
}
