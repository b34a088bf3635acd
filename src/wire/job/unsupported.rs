//! [`Unsupported`]: a part of a job that this program does not carry out, and that must not be lost without a word.
//!
//! Only the presence of such a part matters. Nomad's clients write `null`, `false`, `0` or something
//! empty for what a job does not have.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Whether a document has the part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsupported {
    is_present: bool,
}

impl Unsupported {
    /// Returns whether the document does not have it.
    pub fn is_absent(&self) -> bool {
        !self.is_present
    }
}

impl<'de> Deserialize<'de> for Unsupported {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(Self { is_present: says_something(&value) })
    }
}

impl Serialize for Unsupported {
    /// It is never written: a job that has it is refused, or the part is ignored.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_none()
    }
}

/// Reads a part that is there if a document has an object for it, also an empty one.
pub(super) fn block<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Unsupported, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(Unsupported { is_present: !value.is_null() })
}

/// Reads one or several identities, which are there if the task gets one as a file or a variable.
pub(super) fn given_identity<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Unsupported, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let is_given = |identity: &Value| has_field(identity, "File") || has_field(identity, "Env");
    Ok(Unsupported {
        is_present: match &value {
            Value::Array(identities) => identities.iter().any(is_given),
            identity => is_given(identity),
        },
    })
}

/// Reads a disk of an allocation, which is there if its data should outlive the allocation: every job has one.
pub(super) fn kept_disk<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Unsupported, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(Unsupported { is_present: has_field(&value, "Sticky") || has_field(&value, "Migrate") })
}

/// Returns whether an object says something in a field. Go takes the name in any case.
fn has_field(object: &Value, name: &str) -> bool {
    let mut fields = object.as_object().into_iter().flatten();
    fields.any(|(key, value)| key.eq_ignore_ascii_case(name) && says_something(value))
}

fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => fields.values().any(says_something) || has_switch(fields),
    }
}

/// A periodic job that is not enabled does not run either.
fn has_switch(fields: &serde_json::Map<String, Value>) -> bool {
    fields.contains_key("Enabled")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::job::document::TaskGroupDocument;
    use crate::job::task::TaskDocument;

    #[test]
    fn a_block_is_present_also_without_fields() {
        for (value, is_present) in [
            (json!({"Vault": null}), false),
            (json!({}), false),
            (json!({"Vault": {}}), true),
            (json!({"Vault": {"Role": ""}}), true),
            (json!({"Schedule": {}}), true),
        ] {
            let task: TaskDocument = serde_json::from_value(value.clone()).unwrap();
            let found = !task.vault.is_absent() || !task.schedule.is_absent();
            assert_eq!(found, is_present, "{value}");
        }
        for (value, is_present) in [
            (json!({"Disconnect": {"Replace": false}}), true),
            (json!({"Disconnect": {}}), true),
            (json!({"Disconnect": null}), false),
        ] {
            let group: TaskGroupDocument = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(!group.disconnect.is_absent(), is_present, "{value}");
        }
        for (value, is_present) in [
            (json!({"EphemeralDisk": {"SizeMB": 300, "Sticky": false, "Migrate": false}}), false),
            (json!({"EphemeralDisk": {"Sticky": true}}), true),
            (json!({"EphemeralDisk": {"Migrate": true}}), true),
            (json!({"EphemeralDisk": {"sticky": true}}), true),
        ] {
            let group: TaskGroupDocument = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(!group.ephemeral_disk.is_absent(), is_present, "{value}");
        }
    }

    #[test]
    fn only_what_a_document_really_has_is_present() {
        for (value, is_present) in [
            (json!(null), false),
            (json!(false), false),
            (json!(0), false),
            (json!(""), false),
            (json!([]), false),
            (json!({}), false),
            (json!({"Regions": null, "Strategy": {}}), false),
            (json!(true), true),
            (json!(1), true),
            (json!("1h"), true),
            (json!([{}]), true),
            (json!({"Spec": "@daily"}), true),
            (json!({"Enabled": false}), true),
            (json!({"Payload": "", "MetaRequired": ["set"]}), true),
        ] {
            let part: Unsupported = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(!part.is_absent(), is_present, "{value}");
        }
    }
}
