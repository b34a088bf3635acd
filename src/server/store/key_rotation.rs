//! [`KeyRotation`]: replaces the key in steps that a crash can interrupt anywhere.
//!
//! 1. [`KeyRotation::begin`] puts a new key above the old one in the file. A start of the agent in this
//!    state works: both keys open.
//! 2. The caller seals the state again ([`Reseal`]) and makes it durable.
//! 3. [`KeyRotation::finish`] removes the old key.
//!
//! A rotation that was interrupted goes on with its new key, which nothing else has seen, and removes what
//! the crash has left of writing the file.

use std::io;
use std::path::{Path, PathBuf};

use super::key_file::{KeyError, Keys, new_key, read_keys, replace_keys, unavailable};
use super::seal::KeySealer;
use crate::sealer::{SealError, Sealer as _};
use nomad_csi_claims::claim::SealedFlags;
use nomad_csi_claims::state::Reseal;
use nomad_csi_model::private::remove_temporary_in;
use nomad_csi_model::{SealedSecrets, SecretOwner, Secrets};

/// A rotation that has begun.
pub struct KeyRotation {
    path: PathBuf,
    keys: Keys,
    /// Opens with either key.
    before: KeySealer,
    /// Knows the new key only.
    after: KeySealer,
}

/// Something that the keys do not open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot decrypt the secrets of {owner}")]
pub struct ResealError {
    /// The owner of the secrets.
    pub owner: SecretOwner,
    /// The cause.
    #[source]
    pub source: SealError,
}

impl KeyRotation {
    /// Puts a new key above the one in the file, or goes on with a rotation that was interrupted. The caller
    /// has the lock of the directory. Blocks.
    ///
    /// # Errors
    /// If the file does not exist or cannot be used, or no key can be made. Nothing has changed then.
    pub fn begin(path: &Path) -> Result<Self, KeyError> {
        let failed = unavailable("replace", path);
        let found = read_keys(path)?;
        let found = found.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let directory = path.parent().unwrap_or(Path::new("."));
        remove_temporary_in(directory).map_err(&failed)?;
        let keys = match found.previous {
            Some(_) => found,
            None => {
                let keys =
                    Keys { current: new_key().map_err(&failed)?, previous: Some(found.current) };
                replace_keys(path, &keys)?;
                keys
            }
        };
        let new = Keys { current: keys.current.clone(), previous: None };
        Ok(Self {
            path: path.to_owned(),
            before: KeySealer::with_keys(&keys).map_err(&failed)?,
            after: KeySealer::with_keys(&new).map_err(&failed)?,
            keys: new,
        })
    }

    /// Returns what opens with the new key only, and compares fingerprints, to verify a state that was
    /// sealed again.
    pub fn verification(&self) -> KeyVerification<'_> {
        KeyVerification { sealer: &self.after, compares_fingerprints: true }
    }

    /// Removes the old key. Blocks.
    ///
    /// # Errors
    /// If the file cannot be replaced. Both keys are in it then.
    pub fn finish(self) -> Result<(), KeyError> {
        replace_keys(&self.path, &self.keys)
    }
}

impl Reseal for KeyRotation {
    type Error = ResealError;

    fn secrets(
        &self,
        owner: &SecretOwner,
        sealed: &SealedSecrets,
    ) -> Result<SealedSecrets, ResealError> {
        let opened = open(&self.before, owner, sealed)?;
        Ok(self.after.seal(owner, &opened))
    }

    fn flags(&self, owner: &SecretOwner, flags: &SealedFlags) -> Result<SealedFlags, ResealError> {
        let opened = open(&self.before, owner, &flags.sealed)?;
        Ok(SealedFlags {
            sealed: self.after.seal(owner, &opened),
            fingerprint: self.after.fingerprint(&opened),
        })
    }
}

/// Opens everything, and changes nothing.
pub struct KeyVerification<'a> {
    sealer: &'a KeySealer,
    compares_fingerprints: bool,
}

impl<'a> KeyVerification<'a> {
    /// Verifies that this sealer opens everything.
    pub fn of_opening(sealer: &'a KeySealer) -> Self {
        Self { sealer, compares_fingerprints: false }
    }
}

impl Reseal for KeyVerification<'_> {
    type Error = ResealError;

    fn secrets(
        &self,
        owner: &SecretOwner,
        sealed: &SealedSecrets,
    ) -> Result<SealedSecrets, ResealError> {
        open(self.sealer, owner, sealed)?;
        Ok(sealed.clone())
    }

    fn flags(&self, owner: &SecretOwner, flags: &SealedFlags) -> Result<SealedFlags, ResealError> {
        let opened = open(self.sealer, owner, &flags.sealed)?;
        if self.compares_fingerprints && self.sealer.fingerprint(&opened) != flags.fingerprint {
            return Err(ResealError { owner: owner.clone(), source: SealError });
        }
        Ok(flags.clone())
    }
}

fn open(
    sealer: &KeySealer,
    owner: &SecretOwner,
    sealed: &SealedSecrets,
) -> Result<Secrets, ResealError> {
    let opened = sealer.open(owner, sealed);
    opened.map_err(|source| ResealError { owner: owner.clone(), source })
}

#[cfg(test)]
mod tests;
