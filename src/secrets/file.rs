//! Secrets in files.
//!
//! A file is read whole, at most [`MAX_BYTES`] of it; one line break at its end is no part of the
//! value, because editors and `echo` add it. It must be a regular file (a pipe could wait for ever).
//! One that other users can write to is refused, since the value may be anybody's; one that they can
//! read is used with a warning: mounted secrets of containers are often like that, and their
//! permissions are not for the user to change.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::path::Path;

use zeroize::Zeroizing;

use crate::diagnostic::Code;
use crate::model::Secret;
use crate::ports::{FoundSecret, SecretRemark};

/// The largest file that is read for a secret: sixteen times what CSI allows for a map.
pub const MAX_BYTES: u64 = 64 << 10;

/// The value in a file; `shown` is its path as it was written.
pub(super) fn find(path: &Path, shown: &str) -> Result<FoundSecret, SecretRemark> {
    let unreadable = |error: &io::Error| SecretRemark {
        code: Code::SecretFile,
        clause: if error.kind() == io::ErrorKind::NotFound {
            format!("there is no file `{shown}`")
        } else {
            format!("the file `{shown}` cannot be read: {}", reason(error))
        },
    };
    let refused = |code, what: &str| SecretRemark {
        code,
        clause: format!("the file `{shown}` {what}"),
    };
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(&error))?;
    if !metadata.is_file() {
        return Err(refused(Code::SecretFile, "is not a regular file"));
    }
    let mut file = File::open(path).map_err(|error| unreadable(&error))?;
    let metadata = file.metadata().map_err(|error| unreadable(&error))?;
    let others = others(&metadata);
    if others == Others::Write {
        return Err(refused(
            Code::SecretExposed,
            "can be written by every user of this machine",
        ));
    }
    let bytes = read(&mut file).map_err(|error| unreadable(&error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(refused(Code::SecretTooLarge, "is larger than 64 KiB"));
    }
    let Some(value) = text(&bytes) else {
        return Err(refused(Code::SecretNotText, "is not text in UTF-8"));
    };
    if value.is_empty() {
        return Err(refused(Code::SecretEmpty, "is empty"));
    }
    let warning = (others == Others::Read).then(|| SecretRemark {
        code: Code::SecretExposed,
        clause: format!("other users of this machine may read the file `{shown}`"),
    });
    Ok(FoundSecret { value, warning })
}

/// At most one byte more than is allowed. The room is made before, so that no copy stays behind.
fn read(file: &mut File) -> io::Result<Zeroizing<Vec<u8>>> {
    let limit = MAX_BYTES + 1;
    let room = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text without one line break at its end; `None` if it is none.
fn text(bytes: &[u8]) -> Option<Secret> {
    let text = std::str::from_utf8(bytes).ok()?;
    let text = text
        .strip_suffix('\n')
        .map_or(text, |line| line.strip_suffix('\r').unwrap_or(line));
    (!text.contains('\0')).then(|| Secret::new(text.to_owned()))
}

/// What other users may do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    Nothing,
    Read,
    Write,
}

#[cfg(unix)]
fn others(metadata: &Metadata) -> Others {
    use std::os::unix::fs::MetadataExt as _;
    match metadata.mode() {
        mode if mode & 0o002 != 0 => Others::Write,
        mode if mode & 0o044 != 0 => Others::Read,
        _ => Others::Nothing,
    }
}

#[cfg(not(unix))]
fn others(_: &Metadata) -> Others {
    Others::Nothing
}

/// What the operating system says, without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((reason, _)) => reason.to_lowercase(),
        None => text,
    }
}
