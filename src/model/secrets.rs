//! Secrets, which stay in memory as briefly as possible and never appear in output.
//!
//! [`Secrets`] has no `Display` and no `Serialize`, its `Debug` shows keys only, and its memory is
//! wiped on drop. State, journal and snapshots contain only [`SealedSecrets`], which need the
//! agent's key file.
//!
//! A specification contains [`SecretRefs`]: values or references. A request with references
//! ([`super::UnresolvedRequest`]) and a request that can be sent ([`super::VolumeRequest`]) are
//! different types, so an unresolved reference never reaches a server.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use super::hex::hex;
use super::id::{JobKey, NamespacedId};
use super::remote_volume::RemoteVolume;
use super::variable::VariableKey;

/// A volume's secrets or a variable's items, in clear text.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(BTreeMap<String, Zeroizing<String>>);

impl Secrets {
    /// Adds a secret and replaces one with the same key. Returns whether it replaced one.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<String>) -> bool {
        self.0.insert(key.into(), Zeroizing::new(value.into())).is_some()
    }

    /// Returns whether there are no secrets.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the total size of keys and values in bytes.
    pub fn byte_count(&self) -> usize {
        self.expose().map(|(key, value)| key.len() + value.len()).sum()
    }

    /// Returns the keys, which are not secret.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns keys and values in clear text, only for the call that sends them.
    pub fn expose(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Returns these secrets, with those of `other` added; `other` wins for equal keys.
    #[must_use]
    pub fn merged_with(&self, other: &Self) -> Self {
        let mut all = self.0.clone();
        all.extend(other.0.iter().map(|(key, value)| (key.clone(), value.clone())));
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
        f.debug_map().entries(self.keys().map(|key| (key, format_args!("[REDACTED]")))).finish()
    }
}

/// A secret value, whose memory is wiped on drop.
pub type Secret = Zeroizing<String>;

/// The source of one secret value.
#[derive(Clone, PartialEq, Eq)]
pub enum SecretRef {
    /// The value itself.
    Literal(Secret),
    /// The value of an expression that uses a sensitive value, which is not in the specification.
    Evaluated(Secret),
    /// The name of an environment variable.
    Env(String),
    /// The path of a file as written in the specification. A relative path starts at the directory
    /// of the specification.
    File(String),
    /// An item of a Nomad variable in the volume's namespace.
    NomadVar {
        /// The path of the variable.
        path: String,
        /// The key of the item.
        key: String,
    },
}

impl SecretRef {
    /// Returns the value, if it is known without reading anything.
    pub fn value(&self) -> Option<&str> {
        match self {
            Self::Literal(value) | Self::Evaluated(value) => Some(value),
            Self::Env(_) | Self::File(_) | Self::NomadVar { .. } => None,
        }
    }

    /// Returns the value, if the specification contains it.
    pub fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal(value) => Some(value),
            Self::Evaluated(_) | Self::Env(_) | Self::File(_) | Self::NomadVar { .. } => None,
        }
    }
}

/// Omits the value. Names and paths are not secret.
impl std::fmt::Debug for SecretRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Literal(_) | Self::Evaluated(_) => f.write_str("[REDACTED]"),
            Self::Env(name) => write!(f, "env({name:?})"),
            Self::File(path) => write!(f, "file({path:?})"),
            Self::NomadVar { path, key } => write!(f, "nomad_var({path:?}, {key:?})"),
        }
    }
}

/// The secrets of a specification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretRefs(BTreeMap<String, SecretRef>);

impl SecretRefs {
    /// Returns the secrets, those that are sensitive not as literals.
    #[must_use]
    pub fn evaluated(self, is_sensitive: impl Fn(&str) -> bool) -> Self {
        let secret = |(key, secret): (String, SecretRef)| match secret {
            SecretRef::Literal(value) if is_sensitive(&key) => (key, SecretRef::Evaluated(value)),
            secret => (key, secret),
        };
        Self(self.0.into_iter().map(secret).collect())
    }

    /// Returns whether there are no secrets.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over keys and sources, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &SecretRef)> {
        self.0.iter().map(|(key, reference)| (key.as_str(), reference))
    }

    /// Returns the secrets, if the specification contains all values.
    pub fn literal(&self) -> Option<Secrets> {
        let pairs = self.iter().map(|(key, from)| Some((key, from.value()?)));
        pairs.collect()
    }

    /// Resolves every source with `value`.
    ///
    /// # Errors
    /// Fails with the errors of all sources that `value` cannot resolve.
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
        if missing.is_empty() { Ok(Secrets(secrets)) } else { Err(missing) }
    }
}

impl<K: Into<String>> FromIterator<(K, SecretRef)> for SecretRefs {
    fn from_iter<I: IntoIterator<Item = (K, SecretRef)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter();
        Self(pairs.map(|(key, from)| (key.into(), from)).collect())
    }
}

/// Wraps known values as a specification would contain them.
impl From<&Secrets> for SecretRefs {
    fn from(secrets: &Secrets) -> Self {
        let pairs = secrets.0.iter();
        Self(pairs.map(|(key, value)| (key.clone(), SecretRef::Literal(value.clone()))).collect())
    }
}

/// The owner of sealed secrets. Secrets sealed for one owner do not open for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretOwner {
    /// A volume.
    Volume(NamespacedId),
    /// A variable.
    Variable(VariableKey),
    /// A job.
    Job(JobKey),
    /// An external volume, whatever it is registered as: what its plugin answered.
    External(RemoteVolume),
}

impl std::fmt::Display for SecretOwner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Volume(key) => write!(f, "volume {}", key.quoted()),
            Self::Variable(key) => write!(f, "variable {key}"),
            Self::Job(key) => write!(f, "job {}", key.quoted()),
            Self::External(volume) => write!(f, "external volume {volume}"),
        }
    }
}

impl From<&NamespacedId> for SecretOwner {
    fn from(volume: &NamespacedId) -> Self {
        Self::Volume(volume.clone())
    }
}

/// Encrypted secrets. Serialised, they are hexadecimal digits.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SealedSecrets(Vec<u8>);

impl SealedSecrets {
    /// Wraps the output of a sealer; empty means no secrets.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the output of the sealer.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns whether there are no secrets.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The prefix of the text of a sealed value. No plugin and no client can record such a text: a value that
    /// begins with it is sealed, too.
    const TEXT_PREFIX: &'static str = "nomad-csi-sealed:";

    /// Returns the sealed value as a text, for a map that has values in clear as well.
    pub fn to_text(&self) -> String {
        format!("{}{}", Self::TEXT_PREFIX, hex(&self.0).collect::<String>())
    }

    /// Returns whether a text is a sealed value.
    pub fn is_text(text: &str) -> bool {
        text.starts_with(Self::TEXT_PREFIX)
    }

    /// Returns the sealed value that a text is; `None` if the text is in clear.
    ///
    /// # Errors
    /// If the text is damaged.
    pub fn from_text(text: &str) -> Option<Result<Self, InvalidSealedText>> {
        let digits = text.strip_prefix(Self::TEXT_PREFIX)?;
        Some(Self::from_hex(digits).ok_or(InvalidSealedText))
    }

    fn from_hex(digits: &str) -> Option<Self> {
        let value = |digit: u8| char::from(digit).to_digit(16).and_then(|v| u8::try_from(v).ok());
        let byte = |pair: &[u8]| match pair {
            [high, low] => Some(value(*high)? << 4 | value(*low)?),
            _ => None,
        };
        let bytes: Option<_> = digits.as_bytes().chunks(2).map(byte).collect();
        bytes.map(Self)
    }
}

/// A sealed value is no pairs of hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("sealed secrets must be pairs of hexadecimal digits")]
pub struct InvalidSealedText;

impl Serialize for SealedSecrets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(&self.0).collect::<String>())
    }
}

impl<'de> Deserialize<'de> for SealedSecrets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        Self::from_hex(&digits).ok_or_else(|| D::Error::custom(InvalidSealedText))
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
    fn debug_output_contains_keys_but_no_values() {
        let secrets = Secrets::from_iter([("token", "hunter2")]);
        let shown = format!("{secrets:?}");
        assert!(shown.contains("token") && !shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn sealed_secrets_serialise_as_hex_digits() {
        let sealed = SealedSecrets::new((0..=255).collect());
        let written = serde_json::to_string(&sealed).unwrap();
        assert!(written.starts_with("\"000102") && written.ends_with("fdfeff\""));
        assert_eq!(serde_json::from_str::<SealedSecrets>(&written).unwrap(), sealed);
        for foreign in ["\"0\"", "\"0g\"", "\"é\"", "[0]"] {
            assert!(serde_json::from_str::<SealedSecrets>(foreign).is_err(), "{foreign}");
        }
    }

    #[test]
    fn resolve_returns_the_errors_of_all_sources() {
        let literal = |value: &str| SecretRef::Literal(Secret::new(value.into()));
        let desired = SecretRefs::from_iter([
            ("a", SecretRef::Env("A".into())),
            ("b", literal("hunter2")),
            ("c", SecretRef::File("c.txt".into())),
        ]);
        assert!(desired.literal().is_none());
        let shown = format!("{desired:?}");
        assert!(!shown.contains("hunter2") && shown.contains("c.txt"), "{shown}");
        let missing = desired.resolve(|key, from| match from.literal() {
            Some(value) => Ok(Secret::new(value.into())),
            None => Err(key.to_owned()),
        });
        assert_eq!(missing, Err(vec!["a".to_owned(), "c".to_owned()]));
        let found = desired.resolve(|key, _| Ok::<_, ()>(Secret::new(key.into())));
        let expected = Secrets::from_iter([("a", "a"), ("b", "b"), ("c", "c")]);
        assert_eq!(found, Ok(expected.clone()));
        assert_eq!(SecretRefs::from(&expected).literal(), Some(expected));
    }

    #[test]
    fn merged_secrets_prefer_the_argument() {
        let stored = Secrets::from_iter([("a", "1"), ("b", "2")]);
        let both = stored.merged_with(&Secrets::from_iter([("b", "3")]));
        assert_eq!(both.expose().collect::<Vec<_>>(), [("a", "1"), ("b", "3")]);
    }
}
