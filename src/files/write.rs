//! Files that a person asked for: written whole, and never over another.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use super::specs::reason;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};

/// Writes a new file, its path starting from `base_directory`. If it cannot be written whole, what
/// was written is removed again.
///
/// # Errors
/// If there is something of that name, or the file cannot be written.
pub fn write_new(base_directory: &Path, file: &Path, bytes: &[u8]) -> Result<(), Diagnostics> {
    let path = base_directory.join(file);
    write(&path, bytes).map_err(|error| refused(file, &error))
}

/// Writes a report, over the one of the last run if there is one.
///
/// # Errors
/// If the file cannot be written.
pub fn write_over(base_directory: &Path, file: &Path, bytes: &[u8]) -> Result<(), Diagnostics> {
    let written = std::fs::write(base_directory.join(file), bytes);
    written.map_err(|error| refused(file, &error))
}

/// Writes files below a directory, which is made if it is not there: all of them or, if one of them is
/// there already and none may be overwritten, none.
///
/// # Errors
/// Every file that is there already, or the first that cannot be written.
pub fn write_many(
    base_directory: &Path,
    files: &[(PathBuf, String)],
    overwrite: bool,
) -> Result<(), Diagnostics> {
    if !overwrite {
        let is_there = |file: &Path| base_directory.join(file).symlink_metadata().is_ok();
        let there = files.iter().filter(|(file, _)| is_there(file));
        let exists = io::Error::from(ErrorKind::AlreadyExists);
        let there: Diagnostics = there.flat_map(|(file, _)| refused(file, &exists)).collect();
        if !there.is_empty() {
            return Err(there);
        }
    }
    for (file, text) in files {
        if let Some(directory) = base_directory.join(file).parent() {
            std::fs::create_dir_all(directory).map_err(|error| refused(file, &error))?;
        }
        if overwrite {
            write_over(base_directory, file, text.as_bytes())?;
        } else {
            write_new(base_directory, file, text.as_bytes())?;
        }
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        // Half an example is worse than none. That it stays too is said by the first error.
        drop(std::fs::remove_file(path));
    }
    written
}

fn refused(file: &Path, error: &io::Error) -> Diagnostics {
    let file = file.display();
    let diagnostic = if error.kind() == ErrorKind::AlreadyExists {
        let message = format!("{file} exists already, and nothing is overwritten");
        Diagnostic::error(Code::CliFileExists, message)
            .help("name another file, or move that one away")
    } else {
        let message = format!("{file} could not be written: {}", reason(error));
        Diagnostic::error(Code::CliFile, message)
            .help("check the path, its permissions, and the room on the disk")
    };
    diagnostic.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_files_all_are_written_or_none() {
        let directory = tempfile::tempdir().unwrap();
        let read = |file: &str| std::fs::read_to_string(directory.path().join(file)).ok();
        let many = |text: &str, overwrite| {
            let files = ["new/b.hcl", "new/a.hcl"];
            let files = files.map(|file| (PathBuf::from(file), text.to_owned()));
            let result = write_many(directory.path(), &files[..], overwrite);
            result
                .err()
                .iter()
                .flatten()
                .map(|one| one.code)
                .collect::<Vec<_>>()
        };
        assert_eq!(many("first", false), []);
        std::fs::remove_file(directory.path().join("new/b.hcl")).unwrap();
        assert_eq!(many("second", false), [Code::CliFileExists]);
        assert_eq!(
            (read("new/b.hcl"), read("new/a.hcl")),
            (None, Some("first".to_owned()))
        );
        assert_eq!(many("third", true), []);
        assert_eq!(read("new/a.hcl").as_deref(), Some("third"));
    }

    #[test]
    fn a_file_is_written_once_and_never_over_another() {
        let directory = tempfile::tempdir().unwrap();
        let write = |file: &str, bytes: &[u8]| -> Vec<Code> {
            let result = write_new(directory.path(), Path::new(file), bytes);
            result.err().iter().flatten().map(|one| one.code).collect()
        };
        assert_eq!(write("volume.hcl", b"first"), []);
        assert_eq!(write("volume.hcl", b"second"), [Code::CliFileExists]);
        assert_eq!(write("volume.hcl/below", b""), [Code::CliFile]);
        let kept = std::fs::read(directory.path().join("volume.hcl")).unwrap();
        assert_eq!(kept, b"first");
    }
}
