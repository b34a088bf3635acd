//! Variables and their locks (Nomad's Variables API).
//!
//! One document serves all responses. List entries have no items, and clients without
//! permission get no lock. Items may be secrets, so no `Debug` output and no decoding error contains
//! a value. The URL selects the variable and the query contains the index to compare; servers ignore
//! path, indexes and times in a body.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use nomad_csi_model::{GoDuration, Secrets};

/// The items of a variable in a body; hidden in `Debug`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemsDocument(pub Secrets);

impl Serialize for ItemsDocument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.expose())
    }
}

impl<'de> Deserialize<'de> for ItemsDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let hidden = |_| D::Error::custom("items must be strings");
        let pairs = BTreeMap::<String, String>::deserialize(deserializer).map_err(hidden)?;
        Ok(Self(pairs.into_iter().collect()))
    }
}

/// The lock of a variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct LockDocument {
    /// The lock's ID. A client that knows it owns the lock. Empty in a request for a new lock.
    #[serde(rename = "ID")]
    pub id: String,
    /// How long the variable stays locked after the lock expired.
    pub lock_delay: GoDuration,
    /// How long the lock lasts without a renewal.
    #[serde(rename = "TTL")]
    pub ttl: GoDuration,
}

/// A variable, with or without its items.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct VariableDocument {
    /// The index of the creation; 0 if the variable does not exist or another client locked it.
    pub create_index: u64,
    /// Nanoseconds since the epoch.
    pub create_time: i64,
    /// Missing in lists, and in conflicts if the client may not read them. Never an empty map.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<ItemsDocument>,
    /// Missing if the variable is not locked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<LockDocument>,
    /// The index of the last change, which `cas` compares.
    pub modify_index: u64,
    /// Nanoseconds since the epoch.
    pub modify_time: i64,
    /// The namespace.
    pub namespace: String,
    /// The path.
    pub path: String,
}

/// A variable in the body of a request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct VariableRequest<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// Missing in requests that only renew or release a lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<BorrowedItems<'a>>,
    /// Missing in requests without a lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<LockDocument>,
}

/// The items of a variable that are sent where they are; hidden in `Debug`.
#[derive(Clone, Copy, Serialize)]
#[serde(transparent)]
pub struct BorrowedItems<'a>(pub &'a BTreeMap<&'a str, &'a str>);

impl std::fmt::Debug for BorrowedItems<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hidden = self.0.keys().map(|key| (key, format_args!("[REDACTED]")));
        f.debug_map().entries(hidden).finish()
    }
}

/// The response to a write of a variable, without what the writer sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct WrittenVariable {
    /// The index of this write.
    pub modify_index: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;

    /// The response is from Nomad 2.0.5 (`variables.jsonl`, `lock-acquire-min-delay`).
    #[test]
    fn a_variable_round_trips() {
        let text = r#"{"CreateIndex":56,"CreateTime":1795272809501265791,"Items":{"a":"1"},"Lock":{"ID":"30acf457-1361-6a07-d299-48d1a59b5d42","LockDelay":"48h0m0s","TTL":"1m30.5s"},"ModifyIndex":56,"ModifyTime":1795272809501265791,"Namespace":"default","Path":"lock/e"}"#;
        let variable: VariableDocument =
            decode(text.as_bytes()).expect("cannot decode the variable");
        let lock = variable.lock.as_ref().expect("the lock is missing");
        assert_eq!(lock.ttl, GoDuration(90_500_000_000));
        assert_eq!(serde_json::to_string(&variable).expect("cannot serialise the variable"), text);
    }

    /// A number means nanoseconds, and an empty string means "not given".
    #[test]
    fn the_durations_of_a_lock_are_text_or_numbers() {
        let text = r#"{"lock":{"ttl":12000000000,"LockDelay":""},"Items":null}"#;
        let variable: VariableDocument =
            decode(text.as_bytes()).expect("cannot decode the variable");
        let lock = variable.lock.expect("the lock is missing");
        assert_eq!((lock.ttl, lock.lock_delay), (GoDuration::from_secs(12), GoDuration(0)));
        assert_eq!(variable.items, None);
    }

    #[test]
    fn errors_and_debug_output_never_contain_an_item() {
        let error = decode::<VariableDocument>(br#"{"Items":{"pin":4711}}"#);
        assert_eq!(
            error.expect_err("a number is not a string").to_string(),
            "Items: items must be strings"
        );
        let shown: VariableDocument =
            decode(br#"{"Items":{"token":"hunter2"}}"#).expect("cannot decode the variable");
        assert!(!format!("{shown:?}").contains("hunter2"));
    }
}
