//! Files that a person asked for: written whole, and never over another.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

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
