//! Writes the user's files: as a whole, and never over another file.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use super::specs::reason;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::private;

/// Writes a new file, relative to `base_directory`. Removes an incomplete file.
///
/// # Errors
/// If the file exists or cannot be written.
pub fn write_new(base_directory: &Path, file: &Path, bytes: &[u8]) -> Result<(), Diagnostics> {
    let path = base_directory.join(file);
    write(&path, bytes).map_err(|error| refused(file, &error))
}

/// Writes a new file that only this user can read, relative to `base_directory`. Removes an incomplete
/// file.
///
/// # Errors
/// If the file exists or cannot be written.
pub fn write_private(base_directory: &Path, file: &Path, bytes: &[u8]) -> Result<(), Diagnostics> {
    let path = base_directory.join(file);
    let written = private::create_new(&path).and_then(|opened| fill(opened, &path, bytes));
    written.map_err(|error| refused(file, &error))
}

/// Writes a report, and replaces an earlier one.
///
/// # Errors
/// If the file cannot be written.
pub fn write_over(base_directory: &Path, file: &Path, bytes: &[u8]) -> Result<(), Diagnostics> {
    let written = std::fs::write(base_directory.join(file), bytes);
    written.map_err(|error| refused(file, &error))
}

/// Writes files below a directory, and creates it if necessary. Without `overwrite`, writes none if
/// one of them exists.
///
/// # Errors
/// Every file that exists, or the first that cannot be written.
pub fn write_many(
    base_directory: &Path,
    files: &[(PathBuf, String)],
    overwrite: bool,
) -> Result<(), Diagnostics> {
    if !overwrite {
        let exists = |file: &Path| base_directory.join(file).symlink_metadata().is_ok();
        let existing = files.iter().filter(|(file, _)| exists(file));
        let error = io::Error::from(ErrorKind::AlreadyExists);
        let existing: Diagnostics = existing
            .flat_map(|(file, _)| refused(file, &error))
            .collect();
        if !existing.is_empty() {
            return Err(existing);
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
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    fill(file, path, bytes)
}

fn fill(mut file: File, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        // An incomplete file is worse than none. The first error is the one to report.
        drop(std::fs::remove_file(path));
    }
    written
}

fn refused(file: &Path, error: &io::Error) -> Diagnostics {
    let file = file.display();
    let diagnostic = if error.kind() == ErrorKind::AlreadyExists {
        let message = format!("cannot write `{file}`: the file exists");
        Diagnostic::error(Code::CliFileExists, message)
            .help("choose another name, or move the existing file")
    } else {
        let message = format!("cannot write `{file}`: {}", reason(error));
        Diagnostic::error(Code::CliFile, message)
            .help("check the path, its permissions and the free disk space")
    };
    diagnostic.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_written_or_none() {
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

    #[cfg(unix)]
    #[test]
    fn a_private_file_has_mode_0600_and_follows_no_link() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        write_private(directory.path(), Path::new("plan"), b"{}").unwrap();
        let plan = directory.path().join("plan");
        let mode = plan.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path().join("target"), &link).unwrap();
        assert!(write_private(directory.path(), Path::new("link"), b"{}").is_err());
        assert!(!directory.path().join("target").exists());
    }

    #[test]
    fn an_existing_file_is_not_overwritten() {
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
