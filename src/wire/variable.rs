//! Variables and their locks (`nomad-neighbour-apis` 1.3, 2.2).
//!
//! One document serves for all: a list's elements have no items, and who may not see a lock gets
//! none. Items may be secrets, so no `Debug` and no decoding error shows a value. Which variable is
//! meant says the URL, the index to compare with the query: what a body says of path, indexes and
//! times is passed over by servers.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::duration::GoDuration;
use crate::model::Secrets;

/// A variable's items on their way; hidden in `Debug`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemsDocument(pub Secrets);

impl Serialize for ItemsDocument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.expose())
    }
}

impl<'de> Deserialize<'de> for ItemsDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use std::collections::BTreeMap;
        let hidden = |_| D::Error::custom("items must be text");
        let pairs = BTreeMap::<String, String>::deserialize(deserializer).map_err(hidden)?;
        Ok(Self(pairs.into_iter().collect()))
    }
}

/// Who holds a variable, and how long nobody else can after him.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct LockDocument {
    /// The holder's; whoever names it is the holder. Empty in a request for a new one.
    #[serde(rename = "ID")]
    pub id: String,
    /// How long it stays held after it expired.
    pub lock_delay: GoDuration,
    /// The holder has to renew it within this time.
    #[serde(rename = "TTL")]
    pub ttl: GoDuration,
}

/// A variable, or what is known of it besides its items.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct VariableDocument {
    /// Index of its creation; 0 if there is no such variable, or if somebody else holds it.
    pub create_index: u64,
    /// Nanoseconds since the epoch.
    pub create_time: i64,
    /// Absent in lists, and in conflicts for who may not read them; an empty map is never answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<ItemsDocument>,
    /// Absent if nobody holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<LockDocument>,
    /// Index of its last change: what `cas` is compared with.
    pub modify_index: u64,
    /// Nanoseconds since the epoch.
    pub modify_time: i64,
    /// Where it lives.
    pub namespace: String,
    /// Its name, with slashes.
    pub path: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::decode;

    /// As a real Nomad 2.0.5 answered (`variables.jsonl`, `lock-acquire-min-delay`).
    #[test]
    fn a_variable_reads_and_writes_as_nomads() {
        let text = r#"{"CreateIndex":56,"CreateTime":1795272809501265791,"Items":{"a":"1"},"Lock":{"ID":"30acf457-1361-6a07-d299-48d1a59b5d42","LockDelay":"48h0m0s","TTL":"1m30.5s"},"ModifyIndex":56,"ModifyTime":1795272809501265791,"Namespace":"default","Path":"lock/e"}"#;
        let variable: VariableDocument = decode(text.as_bytes()).expect("it is a variable");
        let lock = variable.lock.as_ref().expect("it is held");
        assert_eq!(lock.ttl, GoDuration(90_500_000_000));
        assert_eq!(
            serde_json::to_string(&variable).expect("it can be written"),
            text
        );
    }

    /// `nomad-neighbour-apis` 2.2: a number is nanoseconds, empty text is "not given".
    #[test]
    fn a_locks_durations_are_text_or_numbers() {
        let text = r#"{"lock":{"ttl":12000000000,"LockDelay":""},"Items":null}"#;
        let variable: VariableDocument = decode(text.as_bytes()).expect("it is a variable");
        let lock = variable.lock.expect("it is there");
        assert_eq!(
            (lock.ttl, lock.lock_delay),
            (GoDuration::from_secs(12), GoDuration(0))
        );
        assert_eq!(variable.items, None);
    }

    #[test]
    fn an_item_of_the_wrong_type_is_not_in_the_error_and_none_is_in_debug_output() {
        let error = decode::<VariableDocument>(br#"{"Items":{"pin":4711}}"#);
        assert_eq!(
            error.expect_err("a number is no text").to_string(),
            "Items: items must be text"
        );
        let shown: VariableDocument =
            decode(br#"{"Items":{"token":"hunter2"}}"#).expect("it is a variable");
        assert!(!format!("{shown:?}").contains("hunter2"));
    }
}
