//! Reads one named file as a whole.

use std::io::{self, ErrorKind, Read};
use std::path::Path;

use super::given::{GivenFile, PIPE_LIMIT};
use super::specs::{MAX_BYTES, reason};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_model::private::NotPrivate;

/// The largest file of variables that is read.
pub const MAX_VARIABLE_FILE_BYTES: u64 = 1 << 20;

/// The most files of variables of one command.
pub const MAX_VARIABLE_FILES: usize = 16;

/// Reads the text of a file, relative to `base_directory`.
///
/// # Errors
/// If the file is unreadable, larger than [`MAX_BYTES`], or not UTF-8.
pub fn read_text(base_directory: &Path, file: &Path) -> Result<String, Diagnostics> {
    let opened = GivenFile::open(&base_directory.join(file), PIPE_LIMIT);
    read_opened(file, opened, MAX_BYTES)
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
    read_opened(file, GivenFile::open_trusted(&base_directory.join(file)), MAX_BYTES)
}

/// Reads the text of a reader with this name.
///
/// # Errors
/// See [`read_text`].
pub fn read_text_from(reader: &mut dyn Read, name: &str) -> Result<String, Diagnostics> {
    read_named(name, Ok(reader), MAX_BYTES)
}

/// Reads the text of a file of variables, relative to `base_directory`.
///
/// # Errors
/// See [`read_text`]; also if it is larger than [`MAX_VARIABLE_FILE_BYTES`].
pub fn read_variable_file(base_directory: &Path, file: &Path) -> Result<String, Diagnostics> {
    let opened = GivenFile::open(&base_directory.join(file), PIPE_LIMIT);
    let help = "give the values that this run needs, or split the file";
    let read = read_opened(file, opened, MAX_VARIABLE_FILE_BYTES);
    // Some editors write the mark of the byte order at the start.
    let read = read.map(|text| match text.strip_prefix('\u{feff}') {
        Some(unmarked) => unmarked.to_owned(),
        None => text,
    });
    read.map_err(|problems| {
        problems.map(|problem| match problem.code {
            Code::FilesTooLarge => Diagnostic { help: vec![help.to_owned()], ..problem },
            _ => problem,
        })
    })
}

/// Reads the text of a file within a limit of bytes. `name` is shown in messages.
///
/// # Errors
/// See [`read_text`].
pub(super) fn read_within(path: &Path, name: &str, limit: u64) -> Result<String, Diagnostics> {
    read_named(name, GivenFile::open(path, PIPE_LIMIT), limit)
}

fn read_opened(
    file: &Path,
    opened: io::Result<GivenFile>,
    limit: u64,
) -> Result<String, Diagnostics> {
    read_named(&file.display().to_string(), opened, limit)
}

fn read_named(
    name: &str,
    opened: io::Result<impl Read>,
    limit: u64,
) -> Result<String, Diagnostics> {
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
    let read = opened.take(limit + 1).read_to_string(&mut text);
    read.map_err(unreadable)?;
    if text.len() as u64 > limit {
        let why = format!("the file is larger than {limit} bytes");
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
    fn a_file_of_variables_has_at_most_one_mebibyte() {
        let directory = tempfile::tempdir().unwrap();
        let read = |size: usize| {
            std::fs::write(directory.path().join("v.hcl"), "#".repeat(size)).unwrap();
            read_variable_file(directory.path(), Path::new("v.hcl"))
        };
        assert!(read(1 << 20).is_ok());
        let problems = read((1 << 20) + 1).unwrap_err();
        let problem = problems.iter().next().unwrap();
        assert_eq!(problem.code, Code::FilesTooLarge);
        assert_eq!(problem.message, "cannot read `v.hcl`: the file is larger than 1048576 bytes");
        assert_eq!(problem.help, ["give the values that this run needs, or split the file"]);
    }

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
