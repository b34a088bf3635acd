//! The file with the key that encrypts stored secrets.
//!
//! Only its owner can read it. The first start creates it atomically. A rotation replaces it twice, each
//! time atomically: first by a file with the new key above the old one, and when nothing needs the old one
//! any more, by a file with the new key alone. So at every moment the file has the keys of all that is
//! sealed.

use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::create_once::create_once;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::private::{self, NotPrivate};
use nomad_csi_model::{SecretOwner, hex};

const KEY: usize = 32;
/// The prefix of the key's digits in the file.
const LABEL: &str = "nomad-csi-key-1:";

/// The agent has no usable key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// Sealed secrets exist, but the key file does not.
    #[error("the key file `{}` for the secrets of {owner} is missing", path.display())]
    Missing {
        /// The key file.
        path: PathBuf,
        /// An owner of sealed secrets.
        owner: SecretOwner,
    },
    /// The key does not decrypt the secrets.
    #[error("the key file `{}` does not decrypt the secrets of {owner}", path.display())]
    Wrong {
        /// The key file.
        path: PathBuf,
        /// An owner of sealed secrets.
        owner: SecretOwner,
    },
    /// Other users can read or write the key file.
    #[error("other users can access the key file `{}` (mode {mode:04o}); run `chmod 600 {}`", path.display(), path.display())]
    Exposed {
        /// The key file.
        path: PathBuf,
        /// The file mode.
        mode: u32,
    },
    /// The file does not contain a key.
    #[error("the key file `{}` does not contain a key of this program", path.display())]
    Malformed {
        /// The key file.
        path: PathBuf,
    },
    /// The file cannot be read or created.
    #[error("cannot {operation} the key file `{}`", path.display())]
    Unavailable {
        /// The failed operation: `read`, `create`, `replace`.
        operation: &'static str,
        /// The key file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

impl KeyError {
    /// Returns the code of this error.
    pub fn code(&self) -> Code {
        match self {
            Self::Missing { .. } => Code::KeyMissing,
            Self::Wrong { .. } => Code::KeyWrong,
            Self::Exposed { .. } => Code::KeyExposed,
            Self::Malformed { .. } => Code::KeyMalformed,
            Self::Unavailable { source, .. } if NotPrivate::find(source).is_some() => {
                Code::FileNotPrivate
            }
            Self::Unavailable { .. } => Code::KeyUnavailable,
        }
    }
}

/// A key, wiped when it is dropped.
pub(super) type Key = Zeroizing<[u8; KEY]>;

/// The keys of a file.
#[derive(Clone)]
pub(super) struct Keys {
    /// The key that seals.
    pub(super) current: Key,
    /// The key from before a rotation that has not ended.
    pub(super) previous: Option<Key>,
}

/// Reads the keys; `None` if the file does not exist.
pub(super) fn read_keys(path: &Path) -> Result<Option<Keys>, KeyError> {
    let failed = unavailable("read", path);
    let file = match private::open_to_read(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let metadata = file.metadata().map_err(&failed)?;
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        let path = path.to_owned();
        return Err(KeyError::Exposed { path, mode });
    }
    let mut text = Zeroizing::new(String::with_capacity(256));
    let read = file.take(256).read_to_string(&mut text);
    let malformed = || KeyError::Malformed { path: path.to_owned() };
    match read {
        Ok(_) => parse_keys(&text).map(Some).ok_or_else(malformed),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(malformed()),
        Err(error) => Err(failed(error)),
    }
}

fn parse_keys(text: &str) -> Option<Keys> {
    let mut lines = text.strip_suffix('\n')?.split('\n');
    let keys = Keys {
        current: parse_key(lines.next()?)?,
        previous: match lines.next() {
            Some(line) => Some(parse_key(line)?),
            None => None,
        },
    };
    lines.next().is_none().then_some(keys)
}

fn parse_key(line: &str) -> Option<Key> {
    let digits = line.strip_prefix(LABEL)?.as_bytes();
    let mut key = Zeroizing::new([0; KEY]);
    if digits.len() != 2 * KEY {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(key)
}

/// Creates a key. If another process created the file first, returns its keys.
pub(super) fn create_key(path: &Path) -> Result<Keys, KeyError> {
    let failed = unavailable("create", path);
    let keys = Keys { current: new_key().map_err(&failed)?, previous: None };
    if create_once(path, text_of(&keys).as_bytes()).map_err(&failed)? {
        return Ok(keys);
    }
    read_keys(path)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
}

/// Replaces the keys of a file, durably and atomically.
pub(super) fn replace_keys(path: &Path, keys: &Keys) -> Result<(), KeyError> {
    let replaced = private::replace(path, text_of(keys).as_bytes());
    replaced.map_err(unavailable("replace", path))
}

/// Returns a new random key.
pub(super) fn new_key() -> io::Result<Key> {
    let mut key = Zeroizing::new([0; KEY]);
    random(&mut *key)?;
    Ok(key)
}

fn text_of(keys: &Keys) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(256));
    for key in [Some(&keys.current), keys.previous.as_ref()].into_iter().flatten() {
        text.push_str(LABEL);
        text.extend(hex(&**key));
        text.push('\n');
    }
    text
}

/// Fills `bytes` from the operating system's random number generator.
pub(super) fn random(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(io::Error::other)
}

/// Returns a function that wraps an error of the operating system.
pub(super) fn unavailable(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> KeyError {
    let path = path.to_owned();
    move |source| KeyError::Unavailable { operation, path: path.clone(), source }
}
