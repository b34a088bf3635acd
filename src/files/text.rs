//! Reads one named file as a whole.

use std::io::{ErrorKind, Read as _};
use std::path::Path;

use super::specs::{MAX_BYTES, reason};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};

/// Reads the text of a file, relative to `base_directory`.
///
/// # Errors
/// If the file is unreadable, larger than [`MAX_BYTES`], or not UTF-8.
pub fn read_text(base_directory: &Path, file: &Path) -> Result<String, Diagnostics> {
    let name = file.display();
    let refused = |code: Code, why: String| {
        let message = format!("cannot read `{name}`: {why}");
        Diagnostics::from(Diagnostic::error(code, message).help(code.advice()))
    };
    let unreadable = |error: std::io::Error| {
        let code = match error.kind() {
            ErrorKind::NotFound => Code::FilesNotFound,
            ErrorKind::InvalidData => Code::FilesNotUtf8,
            _ => Code::FilesUnreadable,
        };
        refused(code, reason(&error))
    };
    let opened = std::fs::File::open(base_directory.join(file)).map_err(unreadable)?;
    let mut text = String::new();
    let read = opened.take(MAX_BYTES + 1).read_to_string(&mut text);
    read.map_err(unreadable)?;
    if text.len() as u64 > MAX_BYTES {
        let why = format!("the file is larger than {MAX_BYTES} bytes");
        return Err(refused(Code::FilesTooLarge, why));
    }
    Ok(text)
}
