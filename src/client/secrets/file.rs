//! Secrets in files.
//!
//! A file is read as a whole, up to [`MAX_BYTES`]. One line break at its end is not part of the
//! value, because editors and `echo` add it. A reference of a specification must name a regular file: a pipe can be read
//! only once, and each volume that refers to the secret reads it. A reference of the command line is read once. A file that another user owns or can write is
//! refused (`private`). A file that they can read gives a warning, because users cannot change the permissions of
//! secrets that containers mount.

use std::fs::Metadata;
use std::io::{self, Read as _};
use std::path::Path;

use zeroize::Zeroizing;

use crate::files::GivenFile;
use crate::ports::{ResolvedSecret, SecretProblem};
use nomad_csi_model::Secret;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::private::NotPrivate;

/// Limit of a secret's file: sixteen times CSI's limit of a map.
pub const MAX_BYTES: u64 = 64 << 10;

/// How often a reference is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readings {
    /// Once, so that the file may be a pipe.
    One,
    /// Once for each volume.
    Many,
}

/// Returns the secret in a file; `shown` is the path as given.
pub(super) fn find(
    path: &Path,
    shown: &str,
    readings: Readings,
) -> Result<ResolvedSecret, SecretProblem> {
    let unreadable = |error: &io::Error| SecretProblem {
        code: match NotPrivate::find(error) {
            Some(_) => Code::SecretExposed,
            None => Code::SecretFile,
        },
        message: if error.kind() == io::ErrorKind::NotFound {
            format!("the file `{shown}` does not exist")
        } else {
            format!("cannot read the file `{shown}`: {}", reason(error))
        },
    };
    let refused =
        |code, what: &str| SecretProblem { code, message: format!("the file `{shown}` {what}") };
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(&error))?;
    if !metadata.is_file() && (readings == Readings::Many || metadata.is_dir()) {
        let what = match readings {
            Readings::Many => {
                "is not a regular file: each volume reads its secrets, and a pipe can be read once"
            }
            Readings::One => "is a directory",
        };
        return Err(refused(Code::SecretFile, what));
    }
    let mut file = GivenFile::open_trusted(path).map_err(|error| unreadable(&error))?;
    let metadata = file.metadata().map_err(|error| unreadable(&error))?;
    let bytes = read(&mut file).map_err(|error| unreadable(&error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(refused(Code::SecretTooLarge, "is larger than 64 KiB"));
    }
    let Some(value) = text(&bytes) else {
        return Err(refused(Code::SecretNotText, "is not UTF-8"));
    };
    if value.is_empty() {
        return Err(refused(Code::SecretEmpty, "is empty"));
    }
    let is_exposed = metadata.is_file() && others_can_read(&metadata);
    let warning = is_exposed.then(|| SecretProblem {
        code: Code::SecretExposed,
        message: format!("the file `{shown}` is readable by other users of this machine"),
    });
    Ok(ResolvedSecret { value, warning })
}

/// Reads at most one byte more than the limit. The buffer never grows, so no copy remains in
/// memory.
fn read(file: &mut GivenFile) -> io::Result<Zeroizing<Vec<u8>>> {
    let limit = MAX_BYTES + 1;
    let capacity = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut bytes = Zeroizing::new(Vec::with_capacity(capacity));
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the text without a line break at its end; `None` if it is not text.
fn text(bytes: &[u8]) -> Option<Secret> {
    let text = std::str::from_utf8(bytes).ok()?;
    let text = text.strip_suffix('\n').map_or(text, |line| line.strip_suffix('\r').unwrap_or(line));
    (!text.contains('\0')).then(|| Secret::new(text.to_owned()))
}

#[cfg(unix)]
fn others_can_read(metadata: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::mode(metadata) & 0o044 != 0
}

#[cfg(not(unix))]
fn others_can_read(_: &Metadata) -> bool {
    false
}

/// Returns the operating system's message without its number.
fn reason(error: &io::Error) -> String {
    let text = NotPrivate::explain(error);
    match text.split_once(" (os error") {
        Some((reason, _)) => reason.to_lowercase(),
        None => text,
    }
}
