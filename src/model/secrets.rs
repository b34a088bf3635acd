//! Secrets: held as briefly as possible, shown never.
//!
//! [`Secrets`] has no `Display` and no `Serialize`, its `Debug` shows keys only, and its memory is
//! wiped when it is dropped. What is kept is [`SealedSecrets`], which only the holder of the
//! agent's key file can open; state, journal and snapshots hold nothing else.
//!
//! What a specification says is [`SecretRefs`]: a value, or where it is to be had. A request that
//! still holds those ([`super::WantedRequest`]) is another type than one that can be sent
//! ([`super::VolumeRequest`]), so that nothing unresolved ever reaches a server.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use super::hex::hex;
use super::id::NamespacedId;
use super::variable::VariableKey;

/// A volume's secrets or a variable's items, in the clear.
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

    /// How many bytes keys and values have together.
    pub fn bytes(&self) -> usize {
        self.expose()
            .map(|(key, value)| key.len() + value.len())
            .sum()
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

/// A value that is a secret: its memory is wiped, and nothing shows it.
pub type Secret = Zeroizing<String>;

/// Where the value of one secret comes from.
#[derive(Clone, PartialEq, Eq)]
pub enum SecretRef {
    /// It stands in the specification.
    Literal(Secret),
    /// The environment variable of this name holds it.
    Env(String),
    /// The file at this path holds it, as it was written: a relative one starts from the directory
    /// of the specification.
    File(String),
}

impl SecretRef {
    /// The value, if it stands in the specification.
    pub fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal(value) => Some(value),
            Self::Env(_) | Self::File(_) => None,
        }
    }
}

/// Without a value; a name and a path are no secret.
impl std::fmt::Debug for SecretRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Literal(_) => f.write_str("[REDACTED]"),
            Self::Env(name) => write!(f, "env({name:?})"),
            Self::File(path) => write!(f, "file({path:?})"),
        }
    }
}

/// A volume's secrets as a specification says them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretRefs(BTreeMap<String, SecretRef>);

impl SecretRefs {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keys and where their values come from, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &SecretRef)> {
        self.0
            .iter()
            .map(|(key, reference)| (key.as_str(), reference))
    }

    /// The values themselves, if all of them stand in the specification.
    pub fn literal(&self) -> Option<Secrets> {
        let pairs = self.iter().map(|(key, from)| Some((key, from.literal()?)));
        pairs.collect()
    }

    /// The values, each as `value` gives it.
    ///
    /// # Errors
    /// All keys that `value` has none for, each with its reason; never an empty list.
    pub fn resolve<E>(
        &self,
        mut value: impl FnMut(&str, &SecretRef) -> Result<Secret, E>,
    ) -> Result<Secrets, Vec<E>> {
        let mut secrets = BTreeMap::new();
        let mut missing = vec![];
        for (key, reference) in &self.0 {
            match value(key, reference) {
                Ok(value) => {
                    secrets.insert(key.clone(), value);
                }
                Err(problem) => missing.push(problem),
            }
        }
        if missing.is_empty() {
            Ok(Secrets(secrets))
        } else {
            Err(missing)
        }
    }
}

impl<K: Into<String>> FromIterator<(K, SecretRef)> for SecretRefs {
    fn from_iter<I: IntoIterator<Item = (K, SecretRef)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter();
        Self(pairs.map(|(key, from)| (key.into(), from)).collect())
    }
}

/// Secrets that are known already, as a specification could say them.
impl From<&Secrets> for SecretRefs {
    fn from(secrets: &Secrets) -> Self {
        let pairs = secrets.0.iter();
        Self(
            pairs
                .map(|(key, value)| (key.clone(), SecretRef::Literal(value.clone())))
                .collect(),
        )
    }
}

/// Whose secrets are sealed: what is sealed for one does not open for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretOwner {
    /// A volume.
    Volume(NamespacedId),
    /// A variable.
    Variable(VariableKey),
}

impl std::fmt::Display for SecretOwner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Volume(key) => write!(f, "volume {key}"),
            Self::Variable(key) => write!(f, "variable {key}"),
        }
    }
}

impl From<&NamespacedId> for SecretOwner {
    fn from(volume: &NamespacedId) -> Self {
        Self::Volume(volume.clone())
    }
}

/// Secrets that only the holder of the key can open. Written down, they are hexadecimal digits.
#[derive(Clone, Default, PartialEq, Eq)]
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

impl Serialize for SealedSecrets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(&self.0).collect::<String>())
    }
}

impl<'de> Deserialize<'de> for SealedSecrets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let invalid = || D::Error::custom("sealed secrets are pairs of hexadecimal digits");
        let value = |digit: u8| {
            char::from(digit)
                .to_digit(16)
                .and_then(|v| u8::try_from(v).ok())
        };
        let byte = |pair: &[u8]| match pair {
            [high, low] => Some(value(*high)? << 4 | value(*low)?),
            _ => None,
        };
        let bytes: Option<_> = digits.as_bytes().chunks(2).map(byte).collect();
        bytes.map(Self).ok_or_else(invalid)
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
    fn sealed_secrets_are_written_as_digits_and_read_back() {
        let sealed = SealedSecrets::new((0..=255).collect());
        let written = serde_json::to_string(&sealed).unwrap();
        assert!(written.starts_with("\"000102") && written.ends_with("fdfeff\""));
        assert_eq!(
            serde_json::from_str::<SealedSecrets>(&written).unwrap(),
            sealed
        );
        for foreign in ["\"0\"", "\"0g\"", "\"é\"", "[0]"] {
            assert!(
                serde_json::from_str::<SealedSecrets>(foreign).is_err(),
                "{foreign}"
            );
        }
    }

    #[test]
    fn all_references_without_a_value_are_named_at_once() {
        let literal = |value: &str| SecretRef::Literal(Secret::new(value.into()));
        let wanted = SecretRefs::from_iter([
            ("a", SecretRef::Env("A".into())),
            ("b", literal("hunter2")),
            ("c", SecretRef::File("c.txt".into())),
        ]);
        assert!(wanted.literal().is_none());
        let shown = format!("{wanted:?}");
        assert!(
            !shown.contains("hunter2") && shown.contains("c.txt"),
            "{shown}"
        );
        let missing = wanted.resolve(|key, from| match from.literal() {
            Some(value) => Ok(Secret::new(value.into())),
            None => Err(key.to_owned()),
        });
        assert_eq!(missing, Err(vec!["a".to_owned(), "c".to_owned()]));
        let found = wanted.resolve(|key, _| Ok::<_, ()>(Secret::new(key.into())));
        let expected = Secrets::from_iter([("a", "a"), ("b", "b"), ("c", "c")]);
        assert_eq!(found, Ok(expected.clone()));
        assert_eq!(SecretRefs::from(&expected).literal(), Some(expected));
    }

    #[test]
    fn of_one_key_the_overlay_wins() {
        let stored = Secrets::from_iter([("a", "1"), ("b", "2")]);
        let both = stored.overlaid_by(&Secrets::from_iter([("b", "3")]));
        assert_eq!(both.expose().collect::<Vec<_>>(), [("a", "1"), ("b", "3")]);
    }
}
