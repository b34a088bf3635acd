//! Reads pipes and devices within a time limit: a pipe without a writer would block without end.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

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
pub(super) struct TimedReader {
    file: File,
    until: Instant,
    limit: Duration,
}

impl TimedReader {
    pub(super) fn new(file: File, limit: Duration) -> Self {
        let until = Instant::now() + limit;
        Self { file, until, limit }
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
