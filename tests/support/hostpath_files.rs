//! The files of a workload on a simulated host. Directories are real. A write to a "mounted" image
//! or device goes to its file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use nomad_csi_conformance::{LocalFiles, PathKind, WorkloadFiles};
use nomad_csi_ports::MountEntry;

use super::hostpath::TestHost;

/// The offset in an image where its only file lies: the length, then the bytes. Simulated copies
/// keep the start of a file, so a copy contains it too.
const SLOT: u64 = 8192;

/// The files of this host.
#[derive(Clone)]
pub(crate) struct MountedFiles(pub(crate) TestHost);

/// The file behind a path of a workload.
enum WorkloadFile {
    /// A file in a real directory.
    Real(PathBuf),
    /// The image file behind a mount.
    Image(PathBuf),
    /// The file behind a block device.
    Device(PathBuf),
}

impl MountedFiles {
    /// Returns the mount that contains a path, and the rest of the path.
    fn mount_of(&self, path: &Path) -> Option<(MountEntry, PathBuf)> {
        let mounts = self.0.mounter.mounts().into_iter().rev();
        let mut over = mounts.filter(|mount| path.starts_with(&mount.target));
        let mount = over.next()?;
        let rest = path.strip_prefix(&mount.target).ok()?.to_owned();
        Some((mount, rest))
    }

    /// Locates a path, and returns whether it is read-only.
    fn locate(&self, path: &Path) -> io::Result<(WorkloadFile, bool)> {
        let Some((mount, rest)) = self.mount_of(path) else {
            return Ok((WorkloadFile::Real(path.to_owned()), false));
        };
        let devices = self.0.storage.devices();
        let device_of = |path: &Path| devices.iter().find(|device| device.path == path);
        if mount.root.to_string_lossy().starts_with("/dev/loop") {
            let device = device_of(&mount.root).ok_or(io::ErrorKind::NotFound)?;
            let read_only = device.read_only || mount.flags.read_only;
            return Ok((WorkloadFile::Device(device.file.clone()), read_only));
        }
        let read_only = mount.flags.read_only;
        if let Some(device) = device_of(Path::new(&mount.source)) {
            return Ok((WorkloadFile::Image(device.file.clone()), read_only));
        }
        Ok((WorkloadFile::Real(mount.root.join(rest)), read_only))
    }
}

fn open(file: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(file)
}

#[async_trait]
impl WorkloadFiles for MountedFiles {
    async fn kind(&self, path: &Path) -> io::Result<PathKind> {
        match self.locate(path)?.0 {
            WorkloadFile::Device(_) => Ok(PathKind::Device),
            WorkloadFile::Image(_) => Ok(PathKind::Directory),
            WorkloadFile::Real(_) => LocalFiles.kind(path).await,
        }
    }

    async fn create_directories(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        LocalFiles.create_directories(path).await
    }

    async fn remove_empty(&self, path: &Path) -> io::Result<()> {
        LocalFiles.remove_empty(path).await
    }

    async fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        match self.locate(path)? {
            (_, true) => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
            (WorkloadFile::Real(path), false) => LocalFiles.write(&path, bytes).await,
            (WorkloadFile::Device(file), false) => open(&file)?.write_all_at(bytes, 0),
            (WorkloadFile::Image(file), false) => {
                let file = open(&file)?;
                file.write_all_at(&bytes.len().to_le_bytes(), SLOT)?;
                file.write_all_at(bytes, SLOT + 8)
            }
        }
    }

    async fn read(&self, path: &Path, length: usize) -> io::Result<Vec<u8>> {
        let image = match self.locate(path)?.0 {
            WorkloadFile::Real(path) => return LocalFiles.read(&path, length).await,
            WorkloadFile::Device(file) => return LocalFiles.read(&file, length).await,
            WorkloadFile::Image(file) => open(&file)?,
        };
        let mut held = [0; 8];
        image.read_exact_at(&mut held, SLOT)?;
        let held = usize::from_le_bytes(held).min(length);
        if held == 0 {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut bytes = vec![0; held];
        image.read_exact_at(&mut bytes, SLOT + 8)?;
        Ok(bytes)
    }

    /// The size of a device comes from the host's table, not from its file.
    async fn size(&self, path: &Path) -> io::Result<u64> {
        let (WorkloadFile::Image(file) | WorkloadFile::Device(file)) = self.locate(path)?.0 else {
            return LocalFiles.size(path).await;
        };
        let devices = self.0.storage.devices();
        let device = devices.iter().find(|device| device.file == file);
        let size = device.and_then(|device| self.0.storage.bytes_of(&device.path));
        size.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    async fn tail(&self, path: &Path, offset: u64, limit: u64) -> io::Result<(Vec<u8>, u64)> {
        LocalFiles.tail(path, offset, limit).await
    }
}
