//! Errors of the operating system with the action that failed.

use std::io;

/// Returns an error such as "cannot execute `/bin/x`: No such file or directory".
pub(super) fn about(action: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {action}: {error}"))
}
