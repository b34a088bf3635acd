//! A sealer that checks key and owner but does not encrypt.

use std::hash::{Hash as _, Hasher as _};

use crate::sealer::{SealError, Sealer};
use nomad_csi_model::{SealedSecrets, SecretOwner, Secrets};

/// A sealer whose key is a string.
#[derive(Clone, Debug, Default)]
pub struct FakeSealer {
    /// Secrets sealed with one key do not open with another.
    pub key: String,
}

impl FakeSealer {
    fn header(&self, owner: &SecretOwner) -> [String; 2] {
        [self.key.clone(), owner.to_string()]
    }
}

impl Sealer for FakeSealer {
    fn seal(&self, owner: &SecretOwner, secrets: &Secrets) -> SealedSecrets {
        if secrets.is_empty() {
            return SealedSecrets::default();
        }
        let pairs: Vec<_> = secrets.expose().collect();
        let sealed = serde_json::to_vec(&(self.header(owner), pairs));
        SealedSecrets::new(sealed.unwrap_or_default())
    }

    fn fingerprint(&self, secrets: &Secrets) -> String {
        let mut hash = std::hash::DefaultHasher::new();
        for pair in secrets.expose() {
            pair.hash(&mut hash);
        }
        match secrets.is_empty() {
            true => String::new(),
            false => format!("{:016x}", hash.finish()),
        }
    }

    fn open(&self, owner: &SecretOwner, sealed: &SealedSecrets) -> Result<Secrets, SealError> {
        if sealed.is_empty() {
            return Ok(Secrets::default());
        }
        let (header, pairs): ([String; 2], Vec<(String, String)>) =
            serde_json::from_slice(sealed.as_bytes()).map_err(|_| SealError)?;
        if header != self.header(owner) {
            return Err(SealError);
        }
        Ok(pairs.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::{Namespace, NamespacedId};

    #[test]
    fn sealed_secrets_open_only_with_their_key_and_owner() {
        let key =
            |id: &str| SecretOwner::Volume(NamespacedId::new(Namespace::default(), id.into()));
        let sealer = FakeSealer::default();
        let secrets = Secrets::from_iter([("a", "1")]);
        let sealed = sealer.seal(&key("db"), &secrets);
        assert_eq!(sealer.open(&key("db"), &sealed), Ok(secrets));
        assert_eq!(sealer.open(&key("other"), &sealed), Err(SealError));
        let other = FakeSealer { key: "x".into() };
        assert_eq!(other.open(&key("db"), &sealed), Err(SealError));
        assert!(sealer.seal(&key("db"), &Secrets::default()).is_empty());
    }
}
