//! The file with the key that encrypts stored secrets.
//!
//! Only its owner can read it. The first start creates it atomically, and nothing writes it again.

use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::create_once::create_once;
use crate::diagnostic::Code;
use crate::model::{SecretOwner, hex};
use crate::private::{self, NotPrivate};

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
        /// The failed operation: `read`, `create`.
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

/// Reads the key; `None` if the file does not exist.
pub(super) fn read_key(path: &Path) -> Result<Option<Key>, KeyError> {
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
    let malformed = || KeyError::Malformed {
        path: path.to_owned(),
    };
    match read {
        Ok(_) => parse_key(&text).map(Some).ok_or_else(malformed),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(malformed()),
        Err(error) => Err(failed(error)),
    }
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

/// Creates a key. If another process created the file first, returns its key.
pub(super) fn create_key(path: &Path) -> Result<Key, KeyError> {
    let failed = unavailable("create", path);
    let mut key = Zeroizing::new([0; KEY]);
    random(&mut *key).map_err(&failed)?;
    if write_key(path, &key).map_err(&failed)? {
        return Ok(key);
    }
    read_key(path)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
}

/// Returns whether the file was created.
fn write_key(path: &Path, key: &Key) -> io::Result<bool> {
    let mut text = Zeroizing::new(String::with_capacity(256));
    text.push_str(LABEL);
    text.extend(hex(&**key));
    text.push('\n');
    create_once(path, text.as_bytes())
}

/// Fills `bytes` from the operating system's random number generator.
pub(super) fn random(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(io::Error::other)
}

/// Returns a function that wraps an error of the operating system.
pub(super) fn unavailable(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> KeyError {
    let path = path.to_owned();
    move |source| KeyError::Unavailable {
        operation,
        path: path.clone(),
        source,
    }
}
