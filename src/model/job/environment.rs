//! The settings of a task that may contain secrets: its environment and its driver's configuration.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::mount_options::MountOptions;

/// The environment of a task, or its `meta`. `Debug` shows names only.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskEnvironment(BTreeMap<String, String>);

impl TaskEnvironment {
    /// Returns whether no variable is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns what readers get instead of these values: one `[REDACTED]`, without a name.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let mark = (!self.is_empty()).then_some((MountOptions::REDACTED, MountOptions::REDACTED));
        mark.into_iter().collect()
    }

    /// Returns whether a name or a value is what readers get instead.
    pub fn is_redacted(&self) -> bool {
        self.expose().any(|(name, value)| [name, value].contains(&MountOptions::REDACTED))
    }

    /// Returns the value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Adds the values whose names are missing.
    pub fn fill_in(&mut self, others: &Self) {
        for (name, value) in &others.0 {
            self.0.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }

    /// Iterates over names and values, sorted by name.
    pub fn expose(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.iter();
        pairs.map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for TaskEnvironment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter();
        Self(pairs.map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl fmt::Debug for TaskEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.keys().map(|name| (name, format_args!("[REDACTED]")));
        f.debug_map().entries(names).finish()
    }
}

/// The configuration of a task's driver, which only the driver reads. `Debug` shows keys only.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskConfig(serde_json::Map<String, serde_json::Value>);

impl TaskConfig {
    /// Wraps the keys and values of a `config` block.
    pub fn new(values: serde_json::Map<String, serde_json::Value>) -> Self {
        Self(values)
    }

    /// Returns whether nothing is configured.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns what readers get instead: one `[REDACTED]`, without a key.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let mark = || (MountOptions::REDACTED.into(), MountOptions::REDACTED.into());
        Self((!self.is_empty()).then(mark).into_iter().collect())
    }

    /// Returns whether a key or a value is what readers get instead.
    pub fn is_redacted(&self) -> bool {
        let is_mark = |value: &serde_json::Value| value.as_str() == Some(MountOptions::REDACTED);
        let mut entries = self.0.iter();
        entries.any(|(key, value)| key == MountOptions::REDACTED || is_mark(value))
    }

    /// Returns every text of the configuration, wherever it is.
    pub fn texts(&self) -> Vec<&str> {
        let mut texts = vec![];
        let mut left: Vec<_> = self.0.values().collect();
        while let Some(value) = left.pop() {
            match value {
                serde_json::Value::String(text) => texts.push(text.as_str()),
                serde_json::Value::Array(values) => left.extend(values),
                serde_json::Value::Object(values) => left.extend(values.values()),
                serde_json::Value::Null
                | serde_json::Value::Bool(_)
                | serde_json::Value::Number(_) => {}
            }
        }
        texts
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&serde_json::Value> {
        self.0.get(key)
    }

    /// Returns all keys and values.
    pub fn expose(&self) -> &serde_json::Map<String, serde_json::Value> {
        &self.0
    }
}

impl fmt::Debug for TaskConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.0.keys().map(|key| (key, format_args!("[REDACTED]")));
        f.debug_map().entries(keys).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_contains_names_but_no_values() {
        let environment = TaskEnvironment::from_iter([("PASSWORD", "hunter2")]);
        let mut values = serde_json::Map::new();
        values.insert("auth".into(), serde_json::json!({"password": "hunter2"}));
        let shown = format!("{environment:?} {:?}", TaskConfig::new(values));
        assert!(shown.contains("PASSWORD") && shown.contains("auth"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
