//! The output of a task in files: `stdout.0`, `stdout.1`, …, the highest number newest.
//!
//! No file is larger than the limit, whatever the size of one write, and there are no more files than the limit, those of
//! earlier runs of the task included: a task that is restarted without end keeps no more output than one that runs on.
//! What cannot be written is dropped: a full disk must not stop the task. Every function blocks.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write as _};
use std::path::PathBuf;

use super::log_reader::{self, path_of};
use crate::task_run::LogLimits;
use nomad_csi_model::private;
use nomad_csi_ports::LogStream;

/// The size of one read from a task.
const CHUNK: usize = 64 << 10;

/// The files of one output.
pub(super) struct LogFile {
    directory: PathBuf,
    /// The directories of earlier runs that may have files, the oldest first.
    earlier: VecDeque<PathBuf>,
    stream: LogStream,
    limits: LogLimits,
    number: u32,
    size: u64,
    file: Option<File>,
}

impl LogFile {
    pub(super) fn new(
        directory: PathBuf,
        stream: LogStream,
        limits: LogLimits,
        earlier: &[PathBuf],
    ) -> Self {
        Self {
            directory,
            earlier: earlier.iter().cloned().collect(),
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
            self.make_room();
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
    }

    /// Removes the oldest files until there is room for one more.
    fn make_room(&mut self) {
        let oldest_own = self.number.saturating_sub(self.limits.files.max(1) - 1);
        if let Some(number) = oldest_own.checked_sub(1) {
            let _was_removed = std::fs::remove_file(self.path(number)).is_ok();
        }
        let own = self.number - oldest_own;
        let mut room = self.limits.files.max(1) - 1 - own;
        let mut kept = VecDeque::new();
        // The newest of the earlier files stay.
        while let Some(directory) = self.earlier.pop_back() {
            let files = log_reader::files(&directory, self.stream).unwrap_or_default();
            let has_files = !files.is_empty();
            for file in files.iter().rev() {
                match room.checked_sub(1) {
                    Some(rest) => room = rest,
                    None => {
                        let path = path_of(&directory, self.stream, file.number);
                        let _was_removed = std::fs::remove_file(path).is_ok();
                    }
                }
            }
            if has_files {
                kept.push_front(directory);
            }
        }
        self.earlier = kept;
    }

    fn path(&self, number: u32) -> PathBuf {
        path_of(&self.directory, self.stream, number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files_after(limits: LogLimits, chunks: &[&[u8]]) -> Vec<(String, Vec<u8>)> {
        let directory = tempfile::tempdir().unwrap();
        let mut log = LogFile::new(directory.path().to_owned(), LogStream::Stdout, limits, &[]);
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
        let limits = LogLimits { file_bytes: 4, files: 2 };
        let files = files_after(limits, &[b"abc", b"defgh", b"ij"]);
        let expected = [file("stdout.1", b"efgh"), file("stdout.2", b"ij")];
        assert_eq!(files, expected);
    }

    #[test]
    fn one_large_write_is_split() {
        let limits = LogLimits { file_bytes: 1000, files: 100 };
        let files = files_after(limits, &[&[b'x'; 3 * CHUNK]]);
        let sizes: Vec<_> = files.iter().map(|(_, content)| content.len()).collect();
        assert!(sizes.iter().all(|size| *size <= 1000), "{sizes:?}");
        assert_eq!(files.len(), 100);
    }

    #[test]
    fn a_limit_of_nothing_keeps_one_byte() {
        let limits = LogLimits { file_bytes: 0, files: 0 };
        assert_eq!(files_after(limits, &[b"abc"]), [file("stdout.2", b"c")]);
    }

    /// Whatever the runs wrote, in files of any number: there are never more than the limit.
    #[test]
    fn the_files_of_all_runs_count_in_one_limit_and_the_newest_stay() {
        let base = tempfile::tempdir().unwrap();
        let directory = |run: usize| base.path().join(run.to_string());
        let limits = LogLimits { file_bytes: 4, files: 3 };
        let mut earlier = vec![];
        for (run, text) in ["", "a", "bbbbbbbbb", "", "c", "dd", "e"].into_iter().enumerate() {
            std::fs::create_dir(directory(run)).unwrap();
            let mut log = LogFile::new(directory(run), LogStream::Stdout, limits, &earlier);
            for byte in text.bytes() {
                log.copy_from(&[byte][..]);
                let all = earlier.iter().chain([&log.directory]);
                let count: usize = all.map(|it| std::fs::read_dir(it).unwrap().count()).sum();
                assert!(count <= 3, "run {run}");
            }
            earlier.push(directory(run));
        }
        let left: Vec<_> = earlier
            .iter()
            .flat_map(|run| log_reader::files(run, LogStream::Stdout).unwrap())
            .map(|file| (file.number, file.size))
            .collect();
        assert_eq!(left, [(0, 1), (0, 2), (0, 1)], "c, dd and e");
    }

    #[test]
    fn what_cannot_be_written_is_dropped() {
        let nowhere = PathBuf::from("/nowhere/at/all");
        let mut log = LogFile::new(nowhere, LogStream::Stderr, LogLimits::default(), &[]);
        log.copy_from(&b"lost"[..]);
    }
}
