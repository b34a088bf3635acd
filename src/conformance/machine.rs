//! [`Workload`] on this machine, through its own file system, on threads that may block.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::workload::{Kind, Workload};

/// This machine's paths.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineFiles;

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
}

#[async_trait]
impl Workload for MachineFiles {
    async fn kind(&self, path: &Path) -> io::Result<Kind> {
        let path = path.to_owned();
        blocking(move || match std::fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Kind::Missing),
            Err(error) => Err(error),
            Ok(metadata) if metadata.is_dir() => Ok(Kind::Directory),
            Ok(metadata) if metadata.file_type().is_block_device() => Ok(Kind::Device),
            Ok(_) => Ok(Kind::Other),
        })
        .await
    }

    async fn make_directory(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let path = path.to_owned();
        blocking(move || {
            let missing: Vec<&Path> = path
                .ancestors()
                .take_while(|ancestor| !ancestor.exists())
                .collect();
            let mut made = vec![];
            for directory in missing.into_iter().rev() {
                std::fs::create_dir(directory)?;
                made.push(directory.to_owned());
            }
            Ok(made)
        })
        .await
    }

    async fn remove_empty(&self, path: &Path) -> io::Result<()> {
        let path = path.to_owned();
        blocking(move || {
            let metadata = match std::fs::symlink_metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                found => found?,
            };
            if metadata.is_dir() {
                std::fs::remove_dir(&path)
            } else if metadata.is_file() && metadata.len() == 0 {
                std::fs::remove_file(&path)
            } else {
                Err(io::Error::other("it is not empty"))
            }
        })
        .await
    }

    async fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let (path, bytes) = (path.to_owned(), bytes.to_owned());
        blocking(move || {
            let is_device =
                std::fs::metadata(&path).is_ok_and(|it| it.file_type().is_block_device());
            let mut options = OpenOptions::new();
            options.write(true).create(!is_device).truncate(!is_device);
            let mut file = options.open(&path)?;
            file.write_all(&bytes)?;
            file.sync_all()
        })
        .await
    }

    async fn read(&self, path: &Path, length: usize) -> io::Result<Vec<u8>> {
        let path = path.to_owned();
        blocking(move || {
            let mut bytes = vec![];
            let limit = u64::try_from(length).unwrap_or(u64::MAX);
            File::open(&path)?.take(limit).read_to_end(&mut bytes)?;
            Ok(bytes)
        })
        .await
    }

    async fn size(&self, path: &Path) -> io::Result<u64> {
        let path = path.to_owned();
        blocking(move || {
            if std::fs::metadata(&path)?.is_dir() {
                let system = rustix::fs::statvfs(&path)?;
                return Ok(system.f_blocks.saturating_mul(system.f_frsize));
            }
            File::open(&path)?.seek(SeekFrom::End(0))
        })
        .await
    }

    async fn tail(&self, path: &Path, offset: u64, limit: u64) -> io::Result<(Vec<u8>, u64)> {
        let path = path.to_owned();
        blocking(move || {
            let mut file = File::open(&path)?;
            let length = file.metadata()?.len();
            // A file that has been rotated begins anew.
            let offset = if length < offset { 0 } else { offset };
            let start = offset.max(length.saturating_sub(limit));
            file.seek(SeekFrom::Start(start))?;
            let mut bytes = vec![];
            file.take(limit).read_to_end(&mut bytes)?;
            Ok((bytes, length))
        })
        .await
    }
}
