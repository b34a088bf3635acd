//! Reads one named file as a whole.

use std::io::{self, ErrorKind, Read};
use std::path::Path;

use super::given::{GivenFile, PIPE_LIMIT};
use super::specs::{MAX_BYTES, reason};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_model::private::NotPrivate;

/// Reads the text of a file, relative to `base_directory`.
///
/// # Errors
/// If the file is unreadable, larger than [`MAX_BYTES`], or not UTF-8.
pub fn read_text(base_directory: &Path, file: &Path) -> Result<String, Diagnostics> {
    read_opened(file, GivenFile::open(&base_directory.join(file), PIPE_LIMIT))
}

/// The length of what [`read_beginning`] reads, in bytes.
const BEGINNING: u64 = 64;

/// Reads the first bytes of a regular file as text. `None` for anything else: a pipe can be read only
/// once.
pub fn read_beginning(file: &Path) -> Option<String> {
    let is_regular = std::fs::metadata(file).is_ok_and(|found| found.is_file());
    let opened = is_regular.then(|| GivenFile::open(file, PIPE_LIMIT))?;
    let mut bytes = vec![];
    let read = opened.ok()?.take(BEGINNING).read_to_end(&mut bytes);
    read.ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads the text of a file that no other user can have changed, relative to `base_directory`.
///
/// # Errors
/// See [`read_text`]; also if another user owns the file or can write to it.
pub fn read_trusted_text(base_directory: &Path, file: &Path) -> Result<String, Diagnostics> {
    read_opened(file, GivenFile::open_trusted(&base_directory.join(file)))
}

/// Reads the text of a reader with this name.
///
/// # Errors
/// See [`read_text`].
pub fn read_text_from(reader: &mut dyn Read, name: &str) -> Result<String, Diagnostics> {
    read_named(name, Ok(reader))
}

fn read_opened(file: &Path, opened: io::Result<GivenFile>) -> Result<String, Diagnostics> {
    read_named(&file.display().to_string(), opened)
}

fn read_named(name: &str, opened: io::Result<impl Read>) -> Result<String, Diagnostics> {
    let refused = |code: Code, why: String| {
        let message = format!("cannot read `{name}`: {why}");
        Diagnostics::from(Diagnostic::error(code, message).help(code.advice()))
    };
    let unreadable = |error: io::Error| {
        if let Some(refused) = NotPrivate::find(&error) {
            return Diagnostics::from(refused.diagnostic("read the file"));
        }
        let code = match error.kind() {
            ErrorKind::NotFound => Code::FilesNotFound,
            ErrorKind::InvalidData => Code::FilesNotUtf8,
            ErrorKind::TimedOut => Code::FilesTimedOut,
            _ => Code::FilesUnreadable,
        };
        refused(code, reason(&error))
    };
    let opened = opened.map_err(unreadable)?;
    let mut text = String::new();
    let read = opened.take(MAX_BYTES + 1).read_to_string(&mut text);
    read.map_err(unreadable)?;
    if text.len() as u64 > MAX_BYTES {
        let why = format!("the file is larger than {MAX_BYTES} bytes");
        return Err(refused(Code::FilesTooLarge, why));
    }
    Ok(text)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_plan_that_others_can_write_to_is_not_trusted() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("plan.json");
        std::fs::write(&file, "{}").unwrap();
        for (mode, expected) in [(0o644, None), (0o664, Some(Code::FileNotPrivate))] {
            std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            let name = Path::new("plan.json");
            assert!(read_text(directory.path(), name).is_ok());
            let read = read_trusted_text(directory.path(), name);
            let code = read.err().and_then(|problems| Some(problems.iter().next()?.code));
            assert_eq!(code, expected, "{mode:o}");
        }
    }
}
