//! The output of a task in files: `stdout.0`, `stdout.1`, …, the highest number newest.
//!
//! No file is larger than the limit, whatever the size of one write. What cannot be written is dropped: a full disk
//! must not stop the task. Every function blocks.

use std::fs::File;
use std::io::{Read, Write as _};
use std::path::PathBuf;

use crate::ports::{LogLimits, LogStream};
use crate::private;

/// The size of one read from a task.
const CHUNK: usize = 64 << 10;

/// The files of one output.
pub(super) struct LogFile {
    directory: PathBuf,
    stream: LogStream,
    limits: LogLimits,
    number: u32,
    size: u64,
    file: Option<File>,
}

impl LogFile {
    pub(super) fn new(directory: PathBuf, stream: LogStream, limits: LogLimits) -> Self {
        Self {
            directory,
            stream,
            limits,
            number: 0,
            size: 0,
            file: None,
        }
    }

    /// Writes everything that `input` has until its end.
    pub(super) fn copy_from(&mut self, mut input: impl Read) {
        let mut chunk = vec![0; CHUNK];
        loop {
            match input.read(&mut chunk) {
                Ok(0) => return,
                Ok(length) => self.write(&chunk[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.size >= self.limits.file_bytes.max(1) {
                self.rotate();
            }
            let room = self.limits.file_bytes.max(1) - self.size;
            let length = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
            let Some(written) = self.append(&bytes[..length]) else {
                return;
            };
            bytes = &bytes[written..];
        }
    }

    /// Returns how many bytes were written; `None` if none can be.
    fn append(&mut self, bytes: &[u8]) -> Option<usize> {
        if self.file.is_none() {
            self.file = private::open_or_create(&self.path(self.number)).ok();
        }
        let written = self.file.as_mut()?.write(bytes).ok()?;
        self.size += u64::try_from(written).unwrap_or(u64::MAX);
        (written > 0).then_some(written)
    }

    fn rotate(&mut self) {
        self.number += 1;
        self.size = 0;
        self.file = None;
        if let Some(oldest) = self.number.checked_sub(self.limits.files.max(1)) {
            let _was_removed = std::fs::remove_file(self.path(oldest)).is_ok();
        }
    }

    fn path(&self, number: u32) -> PathBuf {
        self.directory
            .join(format!("{}.{number}", self.stream.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files_after(limits: LogLimits, chunks: &[&[u8]]) -> Vec<(String, Vec<u8>)> {
        let directory = tempfile::tempdir().unwrap();
        let mut log = LogFile::new(directory.path().to_owned(), LogStream::Stdout, limits);
        for chunk in chunks {
            log.copy_from(*chunk);
        }
        let mut files: Vec<_> = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                (name, std::fs::read(path).unwrap())
            })
            .collect();
        files.sort();
        files
    }

    fn file(name: &str, content: &[u8]) -> (String, Vec<u8>) {
        (name.to_owned(), content.to_owned())
    }

    #[test]
    fn no_file_passes_the_limit_and_the_oldest_go() {
        let limits = LogLimits {
            file_bytes: 4,
            files: 2,
        };
        let files = files_after(limits, &[b"abc", b"defgh", b"ij"]);
        let expected = [file("stdout.1", b"efgh"), file("stdout.2", b"ij")];
        assert_eq!(files, expected);
    }

    #[test]
    fn one_large_write_is_split() {
        let limits = LogLimits {
            file_bytes: 1000,
            files: 100,
        };
        let files = files_after(limits, &[&[b'x'; 3 * CHUNK]]);
        let sizes: Vec<_> = files.iter().map(|(_, content)| content.len()).collect();
        assert!(sizes.iter().all(|size| *size <= 1000), "{sizes:?}");
        assert_eq!(files.len(), 100);
    }

    #[test]
    fn a_limit_of_nothing_keeps_one_byte() {
        let limits = LogLimits {
            file_bytes: 0,
            files: 0,
        };
        assert_eq!(files_after(limits, &[b"abc"]), [file("stdout.2", b"c")]);
    }

    #[test]
    fn what_cannot_be_written_is_dropped() {
        let nowhere = PathBuf::from("/nowhere/at/all");
        let mut log = LogFile::new(nowhere, LogStream::Stderr, LogLimits::default());
        log.copy_from(&b"lost"[..]);
    }
}
