//! Reads what a task wrote: its last lines for people, and its files as they are.
//!
//! A task may write without end and anything. For the last lines, at most [`TAIL`] bytes are read, lines are cut and control
//! characters replaced as in every other output of a task. Every function blocks.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::super::output::LineSplitter;
use crate::task_run::{LogFile, LogSlice};
use nomad_csi_model::private;
use nomad_csi_ports::LogStream;

/// The number of bytes that are read.
const TAIL: u64 = 64 << 10;

/// Returns the last lines, newest last.
///
/// # Errors
/// If the directory or a file cannot be read.
pub(super) fn last_lines(
    directory: &Path,
    stream: LogStream,
    limit: usize,
) -> io::Result<Vec<String>> {
    let (bytes, is_cut) = tail(directory, stream)?;
    let mut lines = vec![];
    let mut splitter = LineSplitter::default();
    splitter.push(&bytes, &mut |line| lines.push(line));
    splitter.finish(&mut |line| lines.push(line));
    if is_cut && lines.len() > 1 {
        lines.remove(0);
    }
    let first = lines.len().saturating_sub(limit);
    Ok(lines.split_off(first))
}

/// Returns the files of an output, oldest first.
///
/// # Errors
/// If the directory or a file cannot be read.
pub(super) fn files(directory: &Path, stream: LogStream) -> io::Result<Vec<LogFile>> {
    let mut numbers = match numbers(directory, stream) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        numbers => numbers?,
    };
    numbers.sort_unstable();
    let mut files = vec![];
    for number in numbers {
        match std::fs::symlink_metadata(path_of(directory, stream, number)) {
            Ok(found) => files.push(LogFile { number, size: found.len() }),
            // It was removed by a rotation.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(files)
}

/// Returns bytes of a file; none if it was removed.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn read(directory: &Path, stream: LogStream, slice: LogSlice) -> io::Result<Vec<u8>> {
    let mut file = match private::open_to_read(&path_of(directory, stream, slice.number)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        file => file?,
    };
    file.seek(SeekFrom::Start(slice.offset))?;
    let mut bytes = vec![];
    file.take(slice.limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the path of a file.
pub(super) fn path_of(directory: &Path, stream: LogStream, number: u32) -> PathBuf {
    directory.join(format!("{}.{number}", stream.as_str()))
}

/// Returns the last bytes, and whether there are bytes before them.
fn tail(directory: &Path, stream: LogStream) -> io::Result<(Vec<u8>, bool)> {
    let mut numbers = numbers(directory, stream)?;
    numbers.sort_unstable();
    let mut bytes = vec![];
    for number in numbers.into_iter().rev() {
        let path = path_of(directory, stream, number);
        let mut file = match private::open_to_read(&path) {
            Ok(file) => file,
            // It was removed by a rotation, and so were all older ones.
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(error),
        };
        let room = TAIL - u64::try_from(bytes.len()).unwrap_or(TAIL).min(TAIL);
        let skipped = seek_to_tail(&mut file, room)?;
        let mut older = vec![];
        file.take(room).read_to_end(&mut older)?;
        older.append(&mut bytes);
        bytes = older;
        if skipped {
            return Ok((bytes, true));
        }
    }
    Ok((bytes, false))
}

/// Moves to the last `room` bytes. Returns whether others come before them.
fn seek_to_tail(file: &mut File, room: u64) -> io::Result<bool> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(room)))?;
    Ok(length > room)
}

fn numbers(directory: &Path, stream: LogStream) -> io::Result<Vec<u32>> {
    let mut numbers = vec![];
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix(stream.as_str())?.strip_prefix('.'))
            .and_then(|number| number.parse::<u32>().ok());
        numbers.extend(number);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in files {
            std::fs::write(directory.path().join(name), content).unwrap();
        }
        directory
    }

    fn read_slice(directory: &Path, slice: LogSlice) -> Vec<u8> {
        super::read(directory, LogStream::Stdout, slice).unwrap()
    }

    fn read(files: &[(&str, &[u8])], limit: usize) -> Vec<String> {
        last_lines(directory(files).path(), LogStream::Stdout, limit).unwrap()
    }

    #[test]
    fn the_last_lines_span_files_in_the_order_of_their_numbers() {
        let files: &[(&str, &[u8])] = &[
            ("stdout.9", b"one\ntwo\nth"),
            ("stdout.10", b"ree\nfour\n"),
            ("stderr.11", b"other\n"),
            ("stdout.x", b"other\n"),
        ];
        assert_eq!(read(files, 10), ["one", "two", "three", "four"]);
        assert_eq!(read(files, 2), ["three", "four"]);
        assert_eq!(read(&[], 2), [] as [&str; 0]);
    }

    #[test]
    fn files_are_listed_by_number_and_read_in_parts() {
        let directory =
            directory(&[("stdout.10", b"new"), ("stdout.9", b"old\xff"), ("stderr.1", b"")]);
        let file = |number, size| LogFile { number, size };
        let listed = files(directory.path(), LogStream::Stdout).unwrap();
        assert_eq!(listed, [file(9, 4), file(10, 3)]);
        let missing = files(&directory.path().join("missing"), LogStream::Stdout);
        assert_eq!(missing.unwrap(), []);
        for (number, offset, limit, expected) in [
            (9, 1, 100, &b"ld\xff"[..]),
            (9, 0, 2, b"ol"),
            (10, 3, 10, b""),
            (10, 9, 10, b""),
            (8, 0, 10, b""),
        ] {
            let slice = LogSlice { number, offset, limit };
            let bytes = read_slice(directory.path(), slice);
            assert_eq!(bytes, expected, "{slice:?}");
        }
    }

    #[test]
    fn only_the_tail_is_read_and_a_cut_line_is_left_out() {
        let line = [b"x".repeat(999), b"\n".to_vec()].concat();
        let files: &[(&str, &[u8])] = &[("stdout.0", &line.repeat(1000)), ("stdout.1", b"end")];
        let lines = read(files, 10_000);
        assert_eq!(lines.len(), 66, "65 whole lines of 64 KiB, and the last");
        assert!(lines[..65].iter().all(|line| line.len() == 999));
        assert_eq!(lines[65], "end");
    }

    #[test]
    fn control_characters_are_replaced() {
        let lines = read(&[("stdout.0", b"\x1b[2Jcleared\n")], 1);
        assert_eq!(lines, ["\u{fffd}[2Jcleared"]);
    }
}
