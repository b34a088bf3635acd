//! The file with the key that secrets are sealed with.
//!
//! Only its owner reads it. It is made on the first start, whole or not at all, and is never written
//! again.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::diagnostic::Code;
use crate::model::{SecretOwner, hex};

const KEY: usize = 32;
/// What the file says before the key's digits.
const LABEL: &str = "nomad-csi-key-1:";

/// There is no key to start with.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// There are sealed secrets and no key.
    #[error("the key file {} is missing, and the secrets of {owner} were sealed with it", path.display())]
    Missing {
        /// The key file.
        path: PathBuf,
        /// One that has sealed secrets.
        owner: SecretOwner,
    },
    /// It is a key, and not the one that the secrets were sealed with.
    #[error("the key file {} is not the one that the secrets of {owner} were sealed with", path.display())]
    Wrong {
        /// The key file.
        path: PathBuf,
        /// One that has sealed secrets.
        owner: SecretOwner,
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

/// A key, wiped when it is dropped.
pub(super) type Key = Zeroizing<[u8; KEY]>;

/// The key in the file; `None` if there is no file.
pub(super) fn read_key(path: &Path) -> Result<Option<Key>, KeyError> {
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
pub(super) fn make_key(path: &Path) -> Result<Key, KeyError> {
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
    text.extend(hex(&**key));
    text.push('\n');
    // Mode 0600 from the beginning.
    let mut file = tempfile::Builder::new()
        .prefix(".key-")
        .tempfile_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Fills with random bytes of the operating system's.
pub(super) fn random(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(io::Error::other)
}

/// Makes a [`KeyError`] of the operating system's reason.
pub(super) fn unavailable(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> KeyError {
    let path = path.to_owned();
    move |source| KeyError::Unavailable {
        operation,
        path: path.clone(),
        source,
    }
}
