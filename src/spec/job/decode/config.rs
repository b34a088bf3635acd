//! Decodes a driver's configuration and an environment, of which only the task's driver reads the
//! values.

use std::collections::HashMap;

use serde_json::{Map, Number, Value as Json};

use super::fields::{FieldReader, Fields};
use crate::{Entry, Node, Object, Scalar, ScalarKind, Value};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{TaskConfig, TaskEnvironment};

impl<'t, 'a> FieldReader<'_> {
    /// Decodes the `config` block. Objects become lists of objects, as in Nomad: a driver cannot
    /// tell a block from a list with one object.
    pub(super) fn config(&mut self, fields: &Fields<'t, 'a>) -> TaskConfig {
        let object = self.single_block(fields, "config");
        let values = object.map(|object| self.json_object(object));
        TaskConfig::new(values.unwrap_or_default())
    }

    fn json_object(&mut self, object: &Object<'_>) -> Map<String, Json> {
        let mut map = Map::new();
        for entry in &object.entries {
            let value = self.json_entry(entry);
            match map.get_mut(&*entry.key.text) {
                None => {
                    map.insert(entry.key.text.to_string(), value);
                }
                Some(Json::Array(blocks)) if entry.value.is_object() => match value {
                    Json::Array(more) => blocks.extend(more),
                    other => blocks.push(other),
                },
                Some(_) => {
                    let message = format!("duplicate field `{}`", entry.key.text);
                    let span = entry.key.span;
                    self.error(Code::SpecDuplicateField, message, span, "repeated here");
                }
            }
        }
        map
    }

    fn json_entry(&mut self, entry: &Entry<'_>) -> Json {
        let value = self.json_value(&entry.key.text, &entry.value);
        let labels = entry.labels.iter().rev();
        labels.fold(value, |inner, label| {
            let labelled = Map::from_iter([(label.text.to_string(), inner)]);
            Json::Array(vec![Json::Object(labelled)])
        })
    }

    fn json_value(&mut self, key: &str, node: &Node<'_>) -> Json {
        match &node.value {
            Value::Null
            | Value::Invalid
            | Value::Reference(_)
            | Value::Unknown
            | Value::Expression(_) => Json::Null,
            Value::Scalar(scalar) => self.json_scalar(key, node, scalar),
            Value::List(items) => {
                let items = items.iter().map(|item| match &item.value {
                    Value::Object(object) => Json::Object(self.json_object(object)),
                    _ => self.json_value(key, item),
                });
                Json::Array(items.collect())
            }
            Value::Object(object) => Json::Array(vec![Json::Object(self.json_object(object))]),
        }
    }

    fn json_scalar(&mut self, key: &str, node: &Node<'_>, scalar: &Scalar<'_>) -> Json {
        match scalar.kind {
            ScalarKind::Text => self.text_of(key, node).map_or(Json::Null, Json::String),
            ScalarKind::Boolean => Json::Bool(scalar.text.eq_ignore_ascii_case("true")),
            ScalarKind::Number => {
                let text = &*scalar.text;
                let integer = text.parse::<i64>().ok().map(Number::from);
                let number = || text.parse::<f64>().ok().and_then(Number::from_f64);
                let number = integer.or_else(number).map(Json::Number);
                number.unwrap_or_else(|| Json::String(text.to_owned()))
            }
        }
    }

    /// Decodes a block of names and texts, such as `env`. A value that is no text, number or boolean is an error.
    pub(super) fn texts(&mut self, fields: &Fields<'t, 'a>, key: &str) -> TaskEnvironment {
        let Some(object) = self.single_block(fields, key) else {
            return TaskEnvironment::default();
        };
        let mut seen = HashMap::with_capacity(object.entries.len());
        let mut pairs = vec![];
        for entry in &object.entries {
            let name = &entry.key.text;
            let first = *seen.entry(&**name).or_insert(entry.key.span);
            if first != entry.key.span {
                let message = format!("duplicate name `{name}` in `{key}`");
                self.diagnostics.push(
                    Diagnostic::error(Code::SpecDuplicateField, message)
                        .label(entry.key.span, "repeated here")
                        .label(first, "first here"),
                );
                continue;
            }
            let value = self.text_of(name, &entry.value);
            pairs.extend(value.map(|value| (name.to_string(), value)));
        }
        pairs.into_iter().collect()
    }
}
