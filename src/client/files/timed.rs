//! Reads and writes pipes and devices within a time limit: a pipe without another end would block without end.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use super::output_place::Stream;

/// Opens a file for reading, without waiting for the writer of a pipe.
#[cfg(unix)]
pub(super) fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;

    use rustix::fs::OFlags;

    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = File::options();
    options.read(true).custom_flags(flags.bits().cast_signed());
    options.open(path)
}

/// Opens a file for reading.
#[cfg(not(unix))]
pub(super) fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// The content of a pipe or a device that [`open`] opened.
pub(crate) struct TimedReader {
    file: File,
    until: Instant,
    limit: Duration,
}

impl TimedReader {
    pub(super) fn new(file: File, limit: Duration) -> Self {
        let until = Instant::now() + limit;
        Self { file, until, limit }
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Waits until there is something to read, or the end.
    #[cfg(unix)]
    fn wait(&self) -> io::Result<()> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};

        let left = self.until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut waiting = [PollFd::new(&self.file, PollFlags::IN)];
        if poll(&mut waiting, Some(&timeout))? == 0 {
            let seconds = self.limit.as_secs();
            let why = format!("nothing was written to it within {seconds}s");
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        Ok(())
    }

    #[cfg(not(unix))]
    fn wait(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TimedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.wait()?;
            match self.file.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

/// Writes to a pipe or a device, which must have a reader, and take the bytes in time.
///
/// # Errors
/// If it has no reader, is a block device or not what was looked at, or cannot be written.
#[cfg(unix)]
pub(super) fn write_stream(stream: &Stream, bytes: &[u8], limit: Duration) -> io::Result<()> {
    use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::OFlags;
    use rustix::io::Errno;

    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = File::options();
    options.write(true).custom_flags(flags.bits().cast_signed());
    let mut file =
        options.open(&stream.path).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::NXIO) => io::Error::other("no one reads the pipe"),
            _ => error,
        })?;
    let opened = file.metadata()?;
    if opened.file_type().is_block_device() || !stream.is(&opened) {
        return Err(io::Error::other("something else has taken its place"));
    }
    let until = Instant::now() + limit;
    let mut rest = bytes;
    while !rest.is_empty() {
        match file.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let left = until.saturating_duration_since(Instant::now());
                let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
                let mut waiting = [PollFd::new(&file, PollFlags::OUT)];
                if poll(&mut waiting, Some(&timeout))? == 0 {
                    let seconds = limit.as_secs();
                    let why = format!("no one has read all of it within {seconds}s");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, why));
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes to a device.
///
/// # Errors
/// If it cannot be written.
#[cfg(not(unix))]
pub(super) fn write_stream(stream: &Stream, bytes: &[u8], _: Duration) -> io::Result<()> {
    let mut file = File::options().write(true).open(&stream.path)?;
    file.write_all(bytes)
}
