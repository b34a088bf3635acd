//! Copies files, and preserves holes.
//!
//! `FICLONE` clones a file atomically where the file system supports shared blocks. Elsewhere the
//! data is copied range by range. The caller removes an incomplete copy.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use nomad_csi_ports::CopyMethod;

/// The maximum length of one `copy_file_range` call.
const CHUNK: u64 = 1 << 30;
/// The buffer size where the kernel cannot copy.
const BUFFER: usize = 1 << 20;

/// Copies a regular file to a new one, and syncs the file and its directory entry.
pub(super) fn copy_file(from: &Path, to: &Path) -> io::Result<CopyMethod> {
    let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let source = File::from(rustix::fs::open(from, read, Mode::empty())?);
    let write = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target = File::from(rustix::fs::open(to, write, Mode::RUSR | Mode::WUSR)?);
    rustix::fs::fchmod(&target, Mode::RUSR | Mode::WUSR)?;
    let copied = copy_content(&source, &target)?;
    target.sync_all()?;
    if let Some(parent) = to.parent() {
        File::open(parent)?.sync_all()?;
    }
    Ok(copied)
}

/// Returns whether files in `directory` can share blocks. Tries it with one block.
pub(super) fn shares_blocks(directory: &Path) -> bool {
    let clone_block = || {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let open = || rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR);
        let source = File::from(open()?);
        source.write_all_at(&[1; 4096], 0)?;
        rustix::fs::ioctl_ficlone(open()?, &source)?;
        Ok::<_, io::Error>(())
    };
    clone_block().is_ok()
}

pub(super) fn copy_content(source: &File, target: &File) -> io::Result<CopyMethod> {
    if rustix::fs::ioctl_ficlone(target, source).is_ok() {
        return Ok(CopyMethod::Reflink);
    }
    let length = source.metadata()?.len();
    target.set_len(length)?;
    let mut at = 0;
    while at < length {
        let start = match rustix::fs::seek(source, SeekFrom::Data(at)) {
            Ok(start) => start,
            // The rest is a hole.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(source, SeekFrom::Hole(start))?.min(length);
        copy_range(source, target, start, end)?;
        at = end;
    }
    Ok(CopyMethod::BlockByBlock)
}

fn copy_range(source: &File, target: &File, start: u64, end: u64) -> io::Result<()> {
    let (mut read, mut write) = (start, start);
    while read < end {
        let length = usize::try_from((end - read).min(CHUNK)).unwrap_or(BUFFER);
        let copied =
            rustix::fs::copy_file_range(source, Some(&mut read), target, Some(&mut write), length);
        match copied {
            Ok(0) => return Err(ended_early(read, end)),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                return copy_buffered(source, target, read, end);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn copy_buffered(source: &File, target: &File, mut at: u64, end: u64) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    while at < end {
        let length = usize::try_from(end - at).map_or(BUFFER, |rest| rest.min(BUFFER));
        let read = source.read_at(&mut buffer[..length], at)?;
        if read == 0 {
            return Err(ended_early(at, end));
        }
        target.write_all_at(&buffer[..read], at)?;
        at += read as u64;
    }
    Ok(())
}

/// The source was truncated, or its file system returned less than it has. The rest of the copy would be
/// zeros.
fn ended_early(at: u64, end: u64) -> io::Error {
    let why = format!("the file ended at byte {at}, {} bytes early, while it was copied", end - at);
    io::Error::new(io::ErrorKind::UnexpectedEof, why)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_copied_file_has_the_same_data_and_holes() {
        let directory = tempfile::tempdir().unwrap();
        let from = directory.path().join("from");
        let file = File::create(&from).unwrap();
        file.set_len(64 << 20).unwrap();
        file.write_all_at(b"beginning", 0).unwrap();
        file.write_all_at(b"middle", 32 << 20).unwrap();
        let to = directory.path().join("to");
        copy_file(&from, &to).unwrap();
        assert_eq!(std::fs::read(&from).unwrap(), std::fs::read(&to).unwrap());
        assert!(to.metadata().unwrap().blocks() * 512 < 1 << 20, "the copy is sparse");
        assert!(copy_file(&from, &to).is_err(), "an existing file is not overwritten");
    }

    #[test]
    fn a_buffered_copy_has_the_same_data() {
        let directory = tempfile::tempdir().unwrap();
        let from = directory.path().join("from");
        let bytes: Vec<u8> = (0..=250).cycle().take(3 * BUFFER + 17).collect();
        std::fs::write(&from, &bytes).unwrap();
        let to = File::create_new(directory.path().join("to")).unwrap();
        let end = bytes.len() as u64;
        copy_buffered(&File::open(&from).unwrap(), &to, 0, end).unwrap();
        let copied = std::fs::read(directory.path().join("to")).unwrap();
        assert!(copied == bytes);
    }

    /// A file of sysfs has 4096 bytes by its metadata, and ends after a few.
    #[test]
    fn a_file_that_ends_early_is_an_error_and_no_zeros() {
        let directory = tempfile::tempdir().unwrap();
        let from = Path::new("/sys/kernel/uevent_seqnum");
        assert_eq!(from.metadata().unwrap().len(), 4096);
        let error = copy_file(from, &directory.path().join("to")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{error}");
        let truncated = File::create_new(directory.path().join("from")).unwrap();
        truncated.set_len(10).unwrap();
        let source = File::open(directory.path().join("from")).unwrap();
        let target = File::create_new(directory.path().join("target")).unwrap();
        for copy in [copy_range, copy_buffered] {
            let error = copy(&source, &target, 0, 11).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{error}");
            copy(&source, &target, 0, 10).unwrap();
        }
    }
}
