//! [`WorkloadFiles`] on the file system of this machine, on blocking threads.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::workload_files::{PathKind, WorkloadFiles};
use nomad_csi_ports::run_blocking;

/// The paths of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalFiles;

#[async_trait]
impl WorkloadFiles for LocalFiles {
    async fn kind(&self, path: &Path) -> io::Result<PathKind> {
        let path = path.to_owned();
        run_blocking(move || match std::fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(PathKind::Missing),
            Err(error) => Err(error),
            Ok(metadata) if metadata.is_dir() => Ok(PathKind::Directory),
            Ok(metadata) if metadata.file_type().is_block_device() => Ok(PathKind::Device),
            Ok(_) => Ok(PathKind::Other),
        })
        .await
    }

    async fn create_directories(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let path = path.to_owned();
        run_blocking(move || {
            let missing: Vec<&Path> =
                path.ancestors().take_while(|ancestor| !ancestor.exists()).collect();
            let mut created = vec![];
            for directory in missing.into_iter().rev() {
                std::fs::create_dir(directory)?;
                created.push(directory.to_owned());
            }
            Ok(created)
        })
        .await
    }

    async fn remove_empty(&self, path: &Path) -> io::Result<()> {
        let path = path.to_owned();
        run_blocking(move || {
            let metadata = match std::fs::symlink_metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                found => found?,
            };
            if metadata.is_dir() {
                std::fs::remove_dir(&path)
            } else if metadata.is_file() && metadata.len() == 0 {
                std::fs::remove_file(&path)
            } else {
                Err(io::Error::other("not an empty directory or file"))
            }
        })
        .await
    }

    async fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let (path, bytes) = (path.to_owned(), bytes.to_owned());
        run_blocking(move || {
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
        run_blocking(move || {
            let mut bytes = vec![];
            let limit = u64::try_from(length).unwrap_or(u64::MAX);
            File::open(&path)?.take(limit).read_to_end(&mut bytes)?;
            Ok(bytes)
        })
        .await
    }

    async fn size(&self, path: &Path) -> io::Result<u64> {
        let path = path.to_owned();
        run_blocking(move || {
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
        run_blocking(move || {
            let mut file = File::open(&path)?;
            let length = file.metadata()?.len();
            // A shorter file was rotated: read it from its start.
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
