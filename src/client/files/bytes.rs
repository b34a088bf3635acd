//! Reads one named file that need not be text.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Returns the bytes of a file. Of a longer one, only one byte more than `limit` is read.
///
/// # Errors
/// If the file cannot be opened or read.
pub fn read_bytes(file: &Path, limit: usize) -> io::Result<Vec<u8>> {
    read_at_most(&mut File::open(file)?, limit)
}

/// Returns the bytes of a reader. Of a longer one, only one byte more than `limit` is read.
///
/// # Errors
/// If it cannot be read.
pub fn read_at_most(reader: &mut dyn Read, limit: usize) -> io::Result<Vec<u8>> {
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = vec![];
    reader.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}
