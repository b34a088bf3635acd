//! Encryption of secrets with the key in the data directory.
//!
//! State, journal and snapshots contain secrets only as XChaCha20-Poly1305 ciphertext, bound to one
//! volume or variable. If sealed secrets exist and the key is missing or wrong, the agent does not
//! start: a new key would make restoring the old key file useless.
//!
//! While a rotation of the key has not ended, both keys open. The new key seals, and fingerprints are those
//! of the old key, so that they can still be compared with recorded ones.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::key_file::{Key, KeyError, Keys, create_key, random, read_keys, unavailable};
use crate::sealer::{SealError, Sealer};
use nomad_csi_model::{SealedSecrets, SecretOwner, Secrets, hex};

/// The first byte of sealed data: the method.
const VERSION: u8 = 1;
const NONCE: usize = 24;

/// Encrypts with a key from a file.
pub struct KeySealer {
    cipher: XChaCha20Poly1305,
    /// The cipher of the key before a rotation that has not ended.
    previous: Option<XChaCha20Poly1305>,
    /// The key of fingerprints, derived from the oldest key.
    fingerprint_key: Zeroizing<Vec<u8>>,
    /// The first part of every nonce, random per start; the second part is a counter. Nonces are
    /// therefore unique, and sealing needs no random numbers, which could fail.
    start: [u8; 16],
    count: AtomicU64,
}

impl KeySealer {
    /// Returns a text that only this key gives, and from which it cannot be computed.
    pub fn key_fingerprint(&self) -> String {
        hex(&keyed_hash(&self.fingerprint_key, b"the key of a cluster")).collect()
    }

    /// Opens the sealer with the key in `path`. Creates the key if neither it nor sealed secrets
    /// exist. `sealed` is any sealed data; decrypting it tests the key. Calls block.
    ///
    /// # Errors
    /// Fails without a usable key and changes nothing.
    pub fn open(
        path: &Path,
        sealed: Option<(&SecretOwner, &SealedSecrets)>,
    ) -> Result<Self, KeyError> {
        let keys = match (read_keys(path)?, sealed) {
            (Some(keys), _) => keys,
            (None, None) => create_key(path)?,
            (None, Some((owner, _))) => {
                return Err(KeyError::Missing { path: path.to_owned(), owner: owner.clone() });
            }
        };
        let sealer = Self::with_keys(&keys).map_err(unavailable("read", path))?;
        match sealed {
            Some((owner, secrets)) if sealer.open(owner, secrets).is_err() => {
                Err(KeyError::Wrong { path: path.to_owned(), owner: owner.clone() })
            }
            Some(_) | None => Ok(sealer),
        }
    }

    /// Opens the sealer with the key in `path`; `None` if there is none. Calls block.
    ///
    /// # Errors
    /// Fails if the file cannot be used.
    pub fn open_existing(path: &Path) -> Result<Option<Self>, KeyError> {
        let keys = read_keys(path)?;
        let opened = keys.map(|keys| Self::with_keys(&keys)).transpose();
        opened.map_err(unavailable("read", path))
    }

    /// Returns a sealer with these keys.
    pub(super) fn with_keys(keys: &Keys) -> io::Result<Self> {
        let cipher = |key: &Key| XChaCha20Poly1305::new((&**key).into());
        let oldest = keys.previous.as_ref().unwrap_or(&keys.current);
        let mut start = [0; 16];
        random(&mut start)?;
        Ok(Self {
            cipher: cipher(&keys.current),
            previous: keys.previous.as_ref().map(cipher),
            fingerprint_key: Zeroizing::new(keyed_hash(&**oldest, b"fingerprints of secrets")),
            start,
            count: AtomicU64::new(0),
        })
    }

    /// Returns whether a rotation of the key has not ended.
    pub fn is_in_rotation(&self) -> bool {
        self.previous.is_some()
    }

    /// Returns what is in a sealed message, with any of the keys.
    fn decrypt(&self, nonce: &[u8], hidden: &[u8], owner: &SecretOwner) -> Option<Vec<u8>> {
        let associated = associated_data(owner);
        let ciphers = [Some(&self.cipher), self.previous.as_ref()];
        ciphers.into_iter().flatten().find_map(|cipher| {
            let payload = Payload { msg: hidden, aad: &associated };
            cipher.decrypt(XNonce::from_slice(nonce), payload).ok()
        })
    }

    fn nonce(&self) -> [u8; NONCE] {
        let mut nonce = [0; NONCE];
        let (start, count) = nonce.split_at_mut(self.start.len());
        start.copy_from_slice(&self.start);
        count.copy_from_slice(&self.count.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        nonce
    }
}

/// Returns HMAC-SHA-256, which takes keys of any length.
fn keyed_hash(key: &[u8], data: &[u8]) -> Vec<u8> {
    use hmac::KeyInit as _;

    let hash = Hmac::<Sha256>::new_from_slice(key).map(|hash| hash.chain_update(data));
    hash.map_or_else(|_| vec![], |hash| hash.finalize().into_bytes().to_vec())
}

/// Binds sealed data to its owner and to the method. No part can contain the separator, a volume has one part
/// less than the others, and the last part of these tells them apart.
fn associated_data(owner: &SecretOwner) -> Vec<u8> {
    let text = match owner {
        SecretOwner::Volume(key) => [key.namespace.as_str(), key.id.as_str()].join("\0"),
        SecretOwner::Variable(key) => {
            [key.namespace.as_str(), key.path.as_str(), "variable"].join("\0")
        }
        SecretOwner::Job(key) => [key.namespace.as_str(), key.id.as_str(), "job"].join("\0"),
        SecretOwner::External(volume) => {
            [volume.plugin_id.as_str(), volume.external_id.as_str(), "external"].join("\0")
        }
    };
    let mut data = vec![VERSION];
    data.extend_from_slice(text.as_bytes());
    data
}

impl Sealer for KeySealer {
    fn seal(&self, owner: &SecretOwner, secrets: &Secrets) -> SealedSecrets {
        if secrets.is_empty() {
            return SealedSecrets::default();
        }
        let clear = pack(secrets);
        let nonce = self.nonce();
        let payload = Payload { msg: &clear, aad: &associated_data(owner) };
        #[expect(
            clippy::expect_used,
            reason = "the cipher refuses only messages of more than 256 GiB"
        )]
        let hidden = self
            .cipher
            .encrypt(XNonce::from_slice(&nonce), payload)
            .expect("invariant: secrets are short");
        let mut sealed = Vec::with_capacity(1 + NONCE + hidden.len());
        sealed.push(VERSION);
        sealed.extend(nonce);
        sealed.extend(hidden);
        SealedSecrets::new(sealed)
    }

    fn fingerprint(&self, secrets: &Secrets) -> String {
        match secrets.is_empty() {
            true => String::new(),
            false => hex(&keyed_hash(&self.fingerprint_key, &pack(secrets))).collect(),
        }
    }

    fn open(&self, owner: &SecretOwner, sealed: &SealedSecrets) -> Result<Secrets, SealError> {
        if sealed.is_empty() {
            return Ok(Secrets::default());
        }
        let (version, rest) = sealed.as_bytes().split_first().ok_or(SealError)?;
        let (nonce, hidden) = rest.split_at_checked(NONCE).ok_or(SealError)?;
        if *version != VERSION {
            return Err(SealError);
        }
        let clear = self.decrypt(nonce, hidden, owner).ok_or(SealError)?;
        let clear = Zeroizing::new(clear);
        unpack(&clear).ok_or(SealError)
    }
}

/// Encodes each key and value with its length, in a buffer that never reallocates, so wiping it leaves
/// no copy.
fn pack(secrets: &Secrets) -> Zeroizing<Vec<u8>> {
    let texts = || secrets.expose().flat_map(|(key, value)| [key, value]);
    let size = texts().map(|text| size_of::<u64>() + text.len()).sum();
    let mut packed = Zeroizing::new(Vec::with_capacity(size));
    for text in texts() {
        packed.extend((text.len() as u64).to_be_bytes());
        packed.extend(text.as_bytes());
    }
    packed
}

fn unpack(mut packed: &[u8]) -> Option<Secrets> {
    let mut next = || -> Option<&str> {
        let (length, rest) = packed.split_first_chunk()?;
        let length = usize::try_from(u64::from_be_bytes(*length)).ok()?;
        let (text, rest) = rest.split_at_checked(length)?;
        packed = rest;
        std::str::from_utf8(text).ok()
    };
    let mut secrets = Secrets::default();
    while let Some(key) = next() {
        secrets.insert(key, next()?);
    }
    Some(secrets)
}

#[cfg(test)]
mod tests;
