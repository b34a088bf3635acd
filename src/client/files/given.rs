//! Opens and reads what an argument names: a file, or a stream such as the pipe of `<(…)`, `/dev/stdin` or
//! `/dev/fd/3`.
//!
//! Every file argument of the program is opened here, so that all of them accept the same. A stream has a time limit,
//! because a pipe without a writer would block for ever. It can be read once: who needs its content twice keeps it in
//! [`StreamTexts`].

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::time::Duration;

use zeroize::Zeroizing;

use super::timed::{TimedReader, open};
use nomad_csi_model::private::{check_given, open_given};

/// How long a pipe or a device may take to deliver its content.
pub const PIPE_LIMIT: Duration = Duration::from_secs(60);

/// A file or a stream that is open for reading.
pub(crate) enum GivenFile {
    /// A regular file.
    Regular(File),
    /// A pipe or a device.
    Stream(TimedReader),
}

impl GivenFile {
    /// Opens what a path names. It may belong to any user.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(crate) fn open(path: &Path, pipe_limit: Duration) -> io::Result<Self> {
        match open(path) {
            // A socket cannot be opened by its name, and a pipe of another user not either.
            Err(error) if is_standard_input(path) && cannot_open_again(&error) => {
                Self::of(standard_input()?, pipe_limit)
            }
            opened => Self::of(opened?, pipe_limit),
        }
    }

    /// Opens what a path names, if no other user can have changed it.
    ///
    /// # Errors
    /// If it cannot be opened, belongs to another user, or other users can write to it.
    pub(crate) fn open_trusted(path: &Path) -> io::Result<Self> {
        Self::of(open_given(path)?, PIPE_LIMIT)
    }

    /// Reads an open file. A stream has this time.
    pub(super) fn of(file: File, pipe_limit: Duration) -> io::Result<Self> {
        Ok(match file.metadata()?.is_file() {
            true => Self::Regular(file),
            false => Self::Stream(TimedReader::new(file, pipe_limit)),
        })
    }

    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        self.file().metadata()
    }

    fn file(&self) -> &File {
        match self {
            Self::Regular(file) => file,
            Self::Stream(reader) => reader.file(),
        }
    }
}

impl Read for GivenFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Regular(file) => file.read(buffer),
            Self::Stream(reader) => reader.read(buffer),
        }
    }
}

fn is_standard_input(path: &Path) -> bool {
    let names = ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];
    names.iter().any(|name| path == Path::new(name))
}

#[cfg(unix)]
fn cannot_open_again(error: &io::Error) -> bool {
    use rustix::io::Errno;
    error.kind() == ErrorKind::PermissionDenied || Errno::from_io_error(error) == Some(Errno::NXIO)
}

#[cfg(not(unix))]
fn cannot_open_again(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied
}

#[cfg(unix)]
fn standard_input() -> io::Result<File> {
    use std::os::fd::AsFd as _;
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

#[cfg(not(unix))]
fn standard_input() -> io::Result<File> {
    Err(ErrorKind::Unsupported.into())
}

/// Returns whether a path names something that another command will not find there: a stream, standard input or a file
/// that only this process has open.
pub fn is_passing(path: &Path) -> bool {
    let is_open_file = path == Path::new("/dev/stdin")
        || ["/dev/fd", "/proc"].iter().any(|directory| path.starts_with(directory));
    is_open_file || is_stream(path)
}

/// Returns whether a path names a pipe, a device or a socket.
pub fn is_stream(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// The content of streams that have been read already, by their arguments.
#[derive(Clone, Default)]
pub struct StreamTexts(BTreeMap<String, StreamText>);

#[derive(Clone)]
struct StreamText {
    bytes: Zeroizing<Vec<u8>>,
    /// Why the content may come from another user, if so.
    suspicion: Option<String>,
}

impl StreamTexts {
    /// Reads a stream, but not more than one byte more than `limit`. Does nothing with what is no stream.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn keep(&mut self, argument: &str, path: &Path, limit: u64) -> io::Result<()> {
        if self.0.contains_key(argument) || !is_stream(path) {
            return Ok(());
        }
        let mut opened = GivenFile::open(path, PIPE_LIMIT)?;
        let checked = check_given(path, opened.file());
        let suspicion = checked.err().map(|error| error.to_string());
        let bytes = read_at_most(&mut opened, limit)?.into();
        self.0.insert(argument.to_owned(), StreamText { bytes, suspicion });
        Ok(())
    }

    /// Keeps the content of standard input under its argument.
    pub fn keep_standard_input(&mut self, argument: &str, bytes: Vec<u8>) {
        let text = StreamText { bytes: bytes.into(), suspicion: None };
        self.0.insert(argument.to_owned(), text);
    }

    /// Returns the content of an argument.
    pub fn bytes(&self, argument: &str) -> Option<&[u8]> {
        Some(self.0.get(argument)?.bytes.as_slice())
    }

    /// Returns why the content of an argument may come from another user.
    pub fn suspicion(&self, argument: &str) -> Option<&str> {
        self.0.get(argument)?.suspicion.as_deref()
    }
}

impl std::fmt::Debug for StreamTexts {
    /// Shows the arguments only: the content may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Returns the bytes of a file or a stream. Of a longer one, only one byte more than `limit` is read.
///
/// # Errors
/// If it cannot be opened or read.
pub fn read_bytes(file: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_at_most(&mut GivenFile::open(file, PIPE_LIMIT)?, limit)
}

/// Returns the bytes of a reader. Of a longer one, only one byte more than `limit` is read.
///
/// # Errors
/// If it cannot be read.
pub fn read_at_most(reader: &mut dyn Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    reader.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::path::PathBuf;

    use super::super::pairs::{read_pairs, read_secret_refs};
    use super::super::text::{read_text, read_trusted_text};
    use super::*;

    /// A pipe with this content, and the name that a shell gives it.
    fn pipe(content: &str) -> (io::PipeReader, PathBuf) {
        let (end, mut writer) = io::pipe().unwrap();
        writer.write_all(content.as_bytes()).unwrap();
        let name = PathBuf::from(format!("/dev/fd/{}", end.as_raw_fd()));
        (end, name)
    }

    #[test]
    fn every_reader_of_an_argument_reads_a_pipe() {
        let base = Path::new("/");
        let (_end, name) = pipe("a: b\n");
        assert_eq!(read_text(base, &name).unwrap(), "a: b\n");
        let (_end, name) = pipe("a: b\n");
        assert_eq!(read_trusted_text(base, &name).unwrap(), "a: b\n");
        let (_end, name) = pipe("a: b\n");
        assert_eq!(read_bytes(&name, 2).unwrap(), b"a: ");
        let (_end, name) = pipe("a: b\n");
        assert_eq!(read_pairs(&name).unwrap().len(), 1);
        let (_end, name) = pipe("a: {env: B}\n");
        assert!(read_secret_refs(&name).is_ok());
    }

    #[test]
    fn a_kept_stream_is_read_once_and_never_shown() {
        let (_end, name) = pipe("hunter2");
        let argument = name.display().to_string();
        let mut texts = StreamTexts::default();
        texts.keep(&argument, &name, 100).unwrap();
        texts.keep(&argument, &name, 100).unwrap();
        assert_eq!(texts.bytes(&argument), Some(&b"hunter2"[..]));
        assert_eq!(texts.suspicion(&argument), None);
        assert!(!format!("{texts:?}").contains("hunter2"));
    }

    #[test]
    fn a_regular_file_is_not_kept() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut texts = StreamTexts::default();
        texts.keep("plan", file.path(), 100).unwrap();
        assert_eq!(texts.bytes("plan"), None);
    }

    #[test]
    fn what_another_command_will_not_find_is_passing() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(!is_passing(&file) && !is_passing(directory.path()));
        assert!(!is_passing(&directory.path().join("gone")));
        let (_end, name) = pipe("");
        for path in [Path::new("/dev/stdin"), Path::new("/proc/self/fd/0"), &name] {
            assert!(is_passing(path), "{}", path.display());
        }
    }
}
