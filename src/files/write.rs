//! Files that a person asked for: written whole, and never over another.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};

/// Writes a new file. If it cannot be written whole, what was written is removed again.
///
/// # Errors
/// If there is something of that name, or the file cannot be written.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Diagnostics> {
    let opened = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let message = format!(
                "{} exists already, and nothing is overwritten",
                path.display()
            );
            return Err(Diagnostic::error(Code::CliFileExists, message)
                .help("name another file, or move that one away")
                .into());
        }
        Err(error) => return Err(failed(path, &error)),
    };
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .map_err(|error| {
            // Half an example is worse than none; that it may stay is said by the error itself.
            drop(std::fs::remove_file(path));
            failed(path, &error)
        })
}

fn failed(path: &Path, error: &std::io::Error) -> Diagnostics {
    let message = format!("{} could not be written", path.display());
    Diagnostic::error(Code::CliFile, message)
        .note(error.to_string())
        .help("check the path, its permissions, and the room on the disk")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_once_and_never_over_another() {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let path = directory.path().join("volume.hcl");
        assert_eq!(write_new(&path, b"first"), Ok(()));
        let codes = |result: Result<(), Diagnostics>| -> Vec<Code> {
            result.err().iter().flatten().map(|one| one.code).collect()
        };
        assert_eq!(codes(write_new(&path, b"second")), [Code::CliFileExists]);
        assert_eq!(std::fs::read(&path).expect("it is there"), b"first");
        assert_eq!(codes(write_new(&path.join("below"), b"")), [Code::CliFile]);
    }
}
