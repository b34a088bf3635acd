//! JSON decoding with the rules of Go.
//!
//! Keys of documents match in any case. `null` and missing fields are zero values. Unknown keys are
//! ignored, and only the first value of a body is read. Keys of *maps* (parameters, segments) are
//! data and match exactly. Unlike Go, a key that appears twice in different cases is an error.

use std::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Unexpected,
    Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Value;

/// Why JSON does not match the expected document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Keys and positions from the faulty value outwards.
    path: Vec<String>,
    message: String,
}

impl DecodeError {
    /// Adds the key or the position that contains the faulty value.
    pub(super) fn within(mut self, step: String) -> Self {
        self.path.push(step);
        self
    }
}

impl fmt::Display for DecodeError {
    /// Writes `Volumes[0].RequestedCapacityMin: invalid type: string "x", expected i64`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for step in self.path.iter().rev() {
            if !first && !step.starts_with('[') {
                f.write_str(".")?;
            }
            f.write_str(step)?;
            first = false;
        }
        if !first {
            f.write_str(": ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for DecodeError {}

impl serde::de::Error for DecodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { path: vec![], message: message.to_string() }
    }
}

/// Decodes the first JSON value of a body and ignores the rest, as Go does.
///
/// # Errors
/// Fails if the body is not JSON or a value has the wrong type. The message contains no value except
/// the faulty one.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, DecodeError> {
    let mut values = serde_json::Deserializer::from_slice(body).into_iter::<Value>();
    match values.next() {
        Some(value) => decode_value(&value.map_err(DecodeError::custom)?),
        None => Err(DecodeError::custom("EOF")),
    }
}

/// Decodes a document from parsed JSON.
///
/// # Errors
/// Fails if a value has the wrong type. The message contains its path.
pub fn decode_value<T: DeserializeOwned>(value: &Value) -> Result<T, DecodeError> {
    T::deserialize(LenientValue(value))
}

#[derive(Clone, Copy)]
struct LenientValue<'de>(&'de Value);

macro_rules! null_is_zero {
    ($($method:ident: $zero:expr;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
            if self.0.is_null() {
                let zero: fn(V) -> Result<V::Value, Self::Error> = $zero;
                return zero(visitor);
            }
            self.deserialize_any(visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for LenientValue<'de> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(truth) => visitor.visit_bool(*truth),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), _, _) => visitor.visit_u64(number),
                (_, Some(number), _) => visitor.visit_i64(number),
                (_, _, number) => visitor.visit_f64(number.unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(elements) => visitor.visit_seq(Elements::new(elements)),
            Value::Object(entries) => visitor.visit_map(Entries::new(Some(entries), &[])),
        }
    }

    null_is_zero! {
        deserialize_bool: |visitor| visitor.visit_bool(false);
        deserialize_i64: |visitor| visitor.visit_i64(0);
        deserialize_u64: |visitor| visitor.visit_u64(0);
        deserialize_str: |visitor| visitor.visit_borrowed_str("");
        deserialize_string: |visitor| visitor.visit_borrowed_str("");
        deserialize_seq: |visitor| visitor.visit_seq(Elements::new(&[]));
        deserialize_map: |visitor| visitor.visit_map(Entries::new(None, &[]));
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        match self.0 {
            Value::Null => visitor.visit_map(Entries::new(None, fields)),
            Value::Object(entries) => visitor.visit_map(Entries::new(Some(entries), fields)),
            // Serde would assign the elements of a list to fields in order.
            Value::Array(_) => Err(DecodeError::invalid_type(Unexpected::Seq, &visitor)),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u16 u32 u128 f32 f64 char bytes byte_buf unit unit_struct tuple
        tuple_struct enum identifier ignored_any
    }
}

struct Elements<'de> {
    rest: std::slice::Iter<'de, Value>,
    at: usize,
}

impl<'de> Elements<'de> {
    fn new(elements: &'de [Value]) -> Self {
        Self { rest: elements.iter(), at: 0 }
    }
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Self::Error> {
        let Some(element) = self.rest.next() else {
            return Ok(None);
        };
        let at = self.at;
        self.at += 1;
        seed.deserialize(LenientValue(element))
            .map(Some)
            .map_err(|error| error.within(format!("[{at}]")))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

struct Entries<'de> {
    rest: Option<serde_json::map::Iter<'de>>,
    /// The keys of the document; empty for a map, whose keys are data.
    fields: &'static [&'static str],
    current: Option<(&'de str, &'de Value)>,
}

impl<'de> Entries<'de> {
    fn new(
        entries: Option<&'de serde_json::Map<String, Value>>,
        fields: &'static [&'static str],
    ) -> Self {
        Self { rest: entries.map(serde_json::Map::iter), fields, current: None }
    }

    fn canonical(&self, key: &'de str) -> &'de str {
        let exact = self.fields.iter().find(|field| **field == key);
        let folded = || self.fields.iter().find(|field| field.eq_ignore_ascii_case(key));
        exact.or_else(folded).copied().unwrap_or(key)
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Self::Error> {
        let Some((key, value)) = self.rest.as_mut().and_then(Iterator::next) else {
            return Ok(None);
        };
        let key = self.canonical(key);
        self.current = Some((key, value));
        seed.deserialize(serde::de::value::BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, Self::Error> {
        let (key, value) = self
            .current
            .take()
            .ok_or_else(|| DecodeError::custom("a value was requested before its key"))?;
        seed.deserialize(LenientValue(value)).map_err(|error| error.within(key.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, rename_all = "PascalCase")]
    struct Inner {
        count: i64,
        name: String,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, rename_all = "PascalCase")]
    struct Outer {
        #[serde(rename = "ID")]
        id: String,
        flag: bool,
        inner: Inner,
        list: Vec<Option<Inner>>,
        map: Option<BTreeMap<String, String>>,
        index: u64,
    }

    fn read(text: &str) -> Result<Outer, String> {
        decode(text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn null_and_missing_fields_are_zero() {
        let nulls =
            r#"{"ID":null,"Flag":null,"Inner":null,"List":null,"Map":null,"Index":null,"X":[{}]}"#;
        assert_eq!(read(nulls), Ok(Outer::default()));
        assert_eq!(read("{}"), Ok(Outer::default()));
        assert_eq!(read("null"), Ok(Outer::default()));
    }

    #[test]
    fn keys_of_documents_ignore_case_and_keys_of_maps_do_not() {
        let outer = read(
            r#"{"id":"a","FLAG":true,"inner":{"COUNT":3,"nAmE":"n"},"list":[null,{"count":1}],
                "mAP":{"Zone":"A","zone":null},"index":18446744073709551615} trailing"#,
        )
        .expect("cannot decode");
        assert_eq!(outer.id, "a");
        assert_eq!((outer.inner.count, outer.inner.name.as_str()), (3, "n"));
        assert_eq!(outer.list.len(), 2);
        assert_eq!(outer.index, u64::MAX);
        let map = outer.map.expect("the map is missing");
        assert_eq!(
            map.into_iter().collect::<Vec<_>>(),
            [("Zone".into(), "A".into()), ("zone".into(), String::new())]
        );
    }

    #[test]
    fn an_error_contains_the_path() {
        for (text, expected) in [
            (
                r#"{"List":[{},{"Count":"x"}]}"#,
                r#"List[1].Count: invalid type: string "x", expected i64"#,
            ),
            (r#"{"Inner":[]}"#, "Inner: invalid type: sequence, expected struct Inner"),
            (r#"{"Map":{"a":1}}"#, "Map.a: invalid type: integer `1`, expected a string"),
            (r#"{"ID":"a","id":"b"}"#, "duplicate field `ID`"),
            ("", "EOF"),
            ("<html>", "expected value at line 1 column 1"),
            (r#"{"ID":"#, "EOF while parsing a value at line 1 column 6"),
        ] {
            assert_eq!(read(text), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_an_error_instead_of_a_stack_overflow() {
        let deep = "[".repeat(100_000);
        assert!(decode::<Outer>(deep.as_bytes()).is_err());
    }
}
