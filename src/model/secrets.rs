//! Secrets: held as briefly as possible, shown never.
//!
//! [`Secrets`] has no `Display` and no `Serialize`, its `Debug` shows keys only, and its memory is
//! wiped when it is dropped. What is kept is [`SealedSecrets`], which only the holder of the
//! agent's key file can open; state, journal and snapshots hold nothing else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// A volume's secrets, in the clear.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(BTreeMap<String, Zeroizing<String>>);

impl Secrets {
    /// Adds one; the last of a key wins, and it is said whether there was one before.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<String>) -> bool {
        self.0
            .insert(key.into(), Zeroizing::new(value.into()))
            .is_some()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys, which are no secret.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Keys and values, in the clear: for the call that needs them, and for nothing else.
    pub fn expose(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// These, overlaid by `other`: of one key, `other`'s value holds.
    #[must_use]
    pub fn overlaid_by(&self, other: &Self) -> Self {
        let mut all = self.0.clone();
        all.extend(
            other
                .0
                .iter()
                .map(|(key, value)| (key.clone(), value.clone())),
        );
        Self(all)
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Secrets {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(
            pairs
                .into_iter()
                .map(|(key, value)| (key.into(), Zeroizing::new(value.into())))
                .collect(),
        )
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(self.keys().map(|key| (key, format_args!("[REDACTED]"))))
            .finish()
    }
}

/// Secrets that only the holder of the key can open.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SealedSecrets(Vec<u8>);

impl SealedSecrets {
    /// Wraps what a sealer made; empty means that there are no secrets.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// What the sealer made.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether there are no secrets.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Debug for SealedSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SealedSecrets({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_keys_and_no_value() {
        let secrets = Secrets::from_iter([("token", "hunter2")]);
        let shown = format!("{secrets:?}");
        assert!(
            shown.contains("token") && !shown.contains("hunter2"),
            "{shown}"
        );
    }

    #[test]
    fn of_one_key_the_overlay_wins() {
        let stored = Secrets::from_iter([("a", "1"), ("b", "2")]);
        let both = stored.overlaid_by(&Secrets::from_iter([("b", "3")]));
        assert_eq!(both.expose().collect::<Vec<_>>(), [("a", "1"), ("b", "3")]);
    }
}
