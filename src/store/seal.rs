//! Seals secrets with the key in the data directory.
//!
//! State, journal and snapshots hold secrets only as XChaCha20-Poly1305 made them, each for its own
//! volume: what is sealed for one volume does not open for another. The key is one file that only
//! its owner reads. It is made on the first start, whole or not at all, and never again: where sealed
//! secrets are and the key is not, or is another one, the agent does not start, because a fresh key
//! would turn "restore the file" into "enter all secrets again".

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use crate::diagnostic::Code;
use crate::model::{NamespacedId, SealedSecrets, Secrets};
use crate::ports::{SealError, Sealer};

/// First byte of what is sealed: how.
const VERSION: u8 = 1;
const NONCE: usize = 24;
const KEY: usize = 32;
/// What the key file says before the key's digits.
const LABEL: &str = "nomad-csi-key-1:";

/// There is no key to start with.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// There are sealed secrets and no key.
    #[error("the key file {} is missing, and the secrets of volume {volume} were sealed with it", path.display())]
    Missing {
        /// The key file.
        path: PathBuf,
        /// One that has sealed secrets.
        volume: NamespacedId,
    },
    /// It is a key, and not the one that the secrets were sealed with.
    #[error("the key file {} is not the one that the secrets of volume {volume} were sealed with", path.display())]
    Wrong {
        /// The key file.
        path: PathBuf,
        /// One that has sealed secrets.
        volume: NamespacedId,
    },
    /// Others than its owner may read or write it.
    #[error("the key file {} may be read by others than its owner (mode {mode:04o}); run `chmod 600 {}`", path.display(), path.display())]
    Exposed {
        /// The key file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It holds something else.
    #[error("the key file {} does not hold a key of this program", path.display())]
    Malformed {
        /// The key file.
        path: PathBuf,
    },
    /// It cannot be read or made.
    #[error("cannot {operation} the key file {}", path.display())]
    Unavailable {
        /// What was tried: `read`, `make`.
        operation: &'static str,
        /// The key file.
        path: PathBuf,
        /// The operating system's reason.
        #[source]
        source: io::Error,
    },
}

impl KeyError {
    /// The code that stands for it.
    pub fn code(&self) -> Code {
        match self {
            Self::Missing { .. } => Code::KeyMissing,
            Self::Wrong { .. } => Code::KeyWrong,
            Self::Exposed { .. } => Code::KeyExposed,
            Self::Malformed { .. } => Code::KeyMalformed,
            Self::Unavailable { .. } => Code::KeyUnavailable,
        }
    }
}

/// Seals with a key from a file.
pub struct KeySealer {
    cipher: XChaCha20Poly1305,
    /// First part of every nonce: random, drawn at the start. The second part counts. So no nonce is
    /// used twice, and sealing needs no random numbers, which could fail.
    start: [u8; 16],
    count: AtomicU64,
}

impl KeySealer {
    /// The sealer with the key in `path`, which is made if there is none and nothing was sealed yet.
    /// `sealed` is any volume that has sealed secrets; they are opened to see whether this is the
    /// right key. Blocking calls.
    ///
    /// # Errors
    /// If there is no key to go on with; nothing has changed then.
    pub fn open(
        path: &Path,
        sealed: Option<(&NamespacedId, &SealedSecrets)>,
    ) -> Result<Self, KeyError> {
        let key = match (read_key(path)?, sealed) {
            (Some(key), _) => key,
            (None, None) => make_key(path)?,
            (None, Some((volume, _))) => {
                return Err(KeyError::Missing {
                    path: path.to_owned(),
                    volume: volume.clone(),
                });
            }
        };
        let mut start = [0; 16];
        random(&mut start).map_err(unavailable("read", path))?;
        let sealer = Self {
            cipher: XChaCha20Poly1305::new((&*key).into()),
            start,
            count: AtomicU64::new(0),
        };
        match sealed {
            Some((volume, secrets)) if sealer.open(volume, secrets).is_err() => {
                Err(KeyError::Wrong {
                    path: path.to_owned(),
                    volume: volume.clone(),
                })
            }
            Some(_) | None => Ok(sealer),
        }
    }

    fn nonce(&self) -> [u8; NONCE] {
        let mut nonce = [0; NONCE];
        let (start, count) = nonce.split_at_mut(self.start.len());
        start.copy_from_slice(&self.start);
        count.copy_from_slice(&self.count.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        nonce
    }
}

/// Ties what is sealed to its volume and to the way in which it is sealed.
fn associated_data(volume: &NamespacedId) -> Vec<u8> {
    let parts = [volume.namespace.as_str(), volume.id.as_str()];
    let mut data = vec![VERSION];
    data.extend_from_slice(parts.join("\0").as_bytes());
    data
}

impl Sealer for KeySealer {
    fn seal(&self, volume: &NamespacedId, secrets: &Secrets) -> SealedSecrets {
        if secrets.is_empty() {
            return SealedSecrets::default();
        }
        let clear = pack(secrets);
        let nonce = self.nonce();
        let payload = Payload {
            msg: &clear,
            aad: &associated_data(volume),
        };
        #[expect(
            clippy::expect_used,
            reason = "the cipher refuses nothing but messages of more than 256 GiB"
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

    fn open(&self, volume: &NamespacedId, sealed: &SealedSecrets) -> Result<Secrets, SealError> {
        if sealed.is_empty() {
            return Ok(Secrets::default());
        }
        let (version, rest) = sealed.as_bytes().split_first().ok_or(SealError)?;
        let (nonce, hidden) = rest.split_at_checked(NONCE).ok_or(SealError)?;
        if *version != VERSION {
            return Err(SealError);
        }
        let payload = Payload {
            msg: hidden,
            aad: &associated_data(volume),
        };
        let clear = self.cipher.decrypt(XNonce::from_slice(nonce), payload);
        let clear = Zeroizing::new(clear.map_err(|_| SealError)?);
        unpack(&clear).ok_or(SealError)
    }
}

/// Each key and value with its length before it, in a buffer that is never moved, so that wiping it
/// wipes all.
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

type Key = Zeroizing<[u8; KEY]>;

fn read_key(path: &Path) -> Result<Option<Key>, KeyError> {
    let failed = unavailable("read", path);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let metadata = file.metadata().map_err(&failed)?;
    let mode = mode(&metadata);
    if mode & 0o077 != 0 {
        let path = path.to_owned();
        return Err(KeyError::Exposed { path, mode });
    }
    let mut text = Zeroizing::new(String::with_capacity(256));
    let read = file.take(256).read_to_string(&mut text);
    let malformed = || KeyError::Malformed {
        path: path.to_owned(),
    };
    match read {
        Ok(_) => parse_key(&text).map(Some).ok_or_else(malformed),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(malformed()),
        Err(error) => Err(failed(error)),
    }
}

#[cfg(unix)]
fn mode(metadata: &std::fs::Metadata) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o7777
}

#[cfg(not(unix))]
fn mode(_: &std::fs::Metadata) -> u32 {
    0o600
}

fn parse_key(text: &str) -> Option<Key> {
    let digits = text.strip_prefix(LABEL)?.strip_suffix('\n')?.as_bytes();
    let mut key = Zeroizing::new([0; KEY]);
    if digits.len() != 2 * KEY {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(key)
}

/// Makes a key under another name, and gives it its own when it is durable: a crash leaves no key or
/// a whole one. If someone else was faster, his is the key.
fn make_key(path: &Path) -> Result<Key, KeyError> {
    let failed = unavailable("make", path);
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut key = Zeroizing::new([0; KEY]);
    random(&mut *key).map_err(&failed)?;
    let named = write_key(directory, &key).map_err(&failed)?;
    match named.persist_noclobber(path) {
        Ok(_) => {}
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
            return read_key(path)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()));
        }
        Err(error) => return Err(failed(error.error)),
    }
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(&failed)?;
    Ok(key)
}

fn write_key(directory: &Path, key: &Key) -> io::Result<tempfile::NamedTempFile> {
    let mut text = Zeroizing::new(String::with_capacity(256));
    text.push_str(LABEL);
    for byte in key.iter() {
        text.push(DIGITS[usize::from(byte >> 4)].into());
        text.push(DIGITS[usize::from(byte & 0xf)].into());
    }
    text.push('\n');
    // Mode 0600 from the beginning.
    let mut file = tempfile::Builder::new()
        .prefix(".key-")
        .tempfile_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    Ok(file)
}

const DIGITS: [u8; 16] = *b"0123456789abcdef";

fn random(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(io::Error::other)
}

fn unavailable(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> KeyError {
    let path = path.to_owned();
    move |source| KeyError::Unavailable {
        operation,
        path: path.clone(),
        source,
    }
}

#[cfg(test)]
mod tests;
