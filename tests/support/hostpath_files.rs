//! Paths as a workload of the embedded plugin sees them on the machine in memory: directories are
//! real, and what is written to an image or a device that is "mounted" is written to its file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use nomad_csi::conformance::{Kind, MachineFiles, Workload};
use nomad_csi::ports::MountEntry;

use super::hostpath::Machine;

/// The one file of an image lies here in it: its length, and then its bytes. A copy of an image has
/// it too, since copies here have the beginning of a file.
const SLOT: u64 = 8192;

/// The paths of that machine.
#[derive(Clone)]
pub(crate) struct MountedFiles(pub(crate) Machine);

/// What a path of a workload is.
enum At {
    /// A file of a real directory.
    Path(PathBuf),
    /// The file of an image.
    Image(PathBuf),
    /// A block device, by its file.
    Device(PathBuf),
}

impl MountedFiles {
    /// The mount that a path lies on, and the rest of the path.
    fn mount_of(&self, path: &Path) -> Option<(MountEntry, PathBuf)> {
        let mounts = self.0.mounter.mounts().into_iter().rev();
        let mut over = mounts.filter(|mount| path.starts_with(&mount.target));
        let mount = over.next()?;
        let rest = path.strip_prefix(&mount.target).ok()?.to_owned();
        Some((mount, rest))
    }

    /// What is at a path, and whether it cannot be written there.
    fn at(&self, path: &Path) -> io::Result<(At, bool)> {
        let Some((mount, rest)) = self.mount_of(path) else {
            return Ok((At::Path(path.to_owned()), false));
        };
        let devices = self.0.storage.devices();
        let device_of = |path: &Path| devices.iter().find(|device| device.path == path);
        if mount.root.to_string_lossy().starts_with("/dev/loop") {
            let device = device_of(&mount.root).ok_or(io::ErrorKind::NotFound)?;
            let read_only = device.read_only || mount.flags.read_only;
            return Ok((At::Device(device.file.clone()), read_only));
        }
        let read_only = mount.flags.read_only;
        if let Some(device) = device_of(Path::new(&mount.source)) {
            return Ok((At::Image(device.file.clone()), read_only));
        }
        Ok((At::Path(mount.root.join(rest)), read_only))
    }
}

fn open(file: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(file)
}

#[async_trait]
impl Workload for MountedFiles {
    async fn kind(&self, path: &Path) -> io::Result<Kind> {
        match self.at(path)?.0 {
            At::Device(_) => Ok(Kind::Device),
            At::Image(_) => Ok(Kind::Directory),
            At::Path(_) => MachineFiles.kind(path).await,
        }
    }

    async fn make_directory(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        MachineFiles.make_directory(path).await
    }

    async fn remove_empty(&self, path: &Path) -> io::Result<()> {
        MachineFiles.remove_empty(path).await
    }

    async fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        match self.at(path)? {
            (_, true) => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
            (At::Path(path), false) => MachineFiles.write(&path, bytes).await,
            (At::Device(file), false) => open(&file)?.write_all_at(bytes, 0),
            (At::Image(file), false) => {
                let file = open(&file)?;
                file.write_all_at(&bytes.len().to_le_bytes(), SLOT)?;
                file.write_all_at(bytes, SLOT + 8)
            }
        }
    }

    async fn read(&self, path: &Path, length: usize) -> io::Result<Vec<u8>> {
        let image = match self.at(path)?.0 {
            At::Path(path) => return MachineFiles.read(&path, length).await,
            At::Device(file) => return MachineFiles.read(&file, length).await,
            At::Image(file) => open(&file)?,
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

    /// A device has the size that the machine's table says, whatever its file has.
    async fn size(&self, path: &Path) -> io::Result<u64> {
        let (At::Image(file) | At::Device(file)) = self.at(path)?.0 else {
            return MachineFiles.size(path).await;
        };
        let devices = self.0.storage.devices();
        let device = devices.iter().find(|device| device.file == file);
        let size = device.and_then(|device| self.0.storage.bytes_of(&device.path));
        size.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    async fn tail(&self, path: &Path, offset: u64, limit: u64) -> io::Result<(Vec<u8>, u64)> {
        MachineFiles.tail(path, offset, limit).await
    }
}
