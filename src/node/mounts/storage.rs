//! [`LinuxBlockStorage`]: loop devices, file systems and copies on Linux.

use std::io;
use std::path::Path;
use std::sync::OnceLock;

use super::{copy, copy_tree, file_system, loop_device};
use nomad_csi_ports::{
    AttachOptions, AttachedDevice, BlockStorage, BlockStorageFeatures, CopyMethod, DeviceTuning,
    FileContent, FileSystem, LoopDevice,
};

/// The block storage of this machine. Loop devices need `CAP_SYS_ADMIN` and `/dev/loop-control`.
#[derive(Debug, Default)]
pub struct LinuxBlockStorage {
    offers: OnceLock<BlockStorageFeatures>,
}

impl BlockStorage for LinuxBlockStorage {
    fn features(&self) -> BlockStorageFeatures {
        let look = || BlockStorageFeatures {
            offline_growth_only: file_system::growable_only_unmounted(),
            loop_devices_unavailable: loop_device::check_available().err().map(|error| match error
                .kind()
            {
                io::ErrorKind::PermissionDenied => {
                    "the plugin does not run as root (CAP_SYS_ADMIN)".to_owned()
                }
                io::ErrorKind::NotFound => "/dev/loop-control does not exist".to_owned(),
                _ => error.to_string(),
            }),
            file_systems: file_system::supported(),
        };
        self.offers.get_or_init(look).clone()
    }

    fn supports_reflink(&self, directory: &Path) -> bool {
        copy::shares_blocks(directory)
    }

    fn attach(
        &self,
        file: &Path,
        how: AttachOptions,
        tuning: &DeviceTuning,
    ) -> io::Result<LoopDevice> {
        let (path, device) = loop_device::attach(file, how, tuning)?;
        if tuning.read_ahead_kib.is_some() {
            let direct_io = None;
            loop_device::tune(&path, &DeviceTuning { direct_io, ..*tuning })?;
        }
        Ok(LoopDevice { path, guard: Box::new(device) })
    }

    fn attached(&self, path: &Path) -> io::Result<Vec<AttachedDevice>> {
        loop_device::attached(path)
    }

    fn open(&self, device: &AttachedDevice) -> io::Result<Option<LoopDevice>> {
        let held = loop_device::open_unchanged(device)?;
        Ok(held.map(|held| LoopDevice { path: device.path.clone(), guard: Box::new(held) }))
    }

    fn detach(&self, device: &AttachedDevice) -> io::Result<()> {
        loop_device::detach(device)
    }

    fn resize(&self, device: &Path) -> io::Result<()> {
        loop_device::resize(device)
    }

    fn tune(&self, device: &Path, tuning: &DeviceTuning) -> io::Result<()> {
        loop_device::tune(device, tuning)
    }

    fn flush(&self, device: &Path) -> io::Result<()> {
        std::fs::File::open(device)?.sync_all()
    }

    fn probe(&self, file: &Path) -> io::Result<FileContent> {
        file_system::probe(file)
    }

    fn make_file_system(&self, file: &Path, kind: FileSystem) -> io::Result<()> {
        file_system::make_file_system(file, kind)
    }

    fn grow_file_system(
        &self,
        mount: &Path,
        kind: FileSystem,
        device_bytes: u64,
    ) -> io::Result<()> {
        file_system::grow(mount, kind, device_bytes)
    }

    fn grow_unmounted(&self, device: &Path, kind: FileSystem) -> io::Result<()> {
        file_system::grow_unmounted(device, kind)
    }

    fn file_system_errors(&self, device: &Path, kind: FileSystem) -> io::Result<u64> {
        file_system::error_count(device, kind)
    }

    fn freeze(&self, mount: &Path) -> io::Result<()> {
        file_system::freeze(mount)
    }

    fn thaw(&self, mount: &Path) -> io::Result<()> {
        file_system::thaw(mount)
    }

    fn copy_file(&self, from: &Path, to: &Path) -> io::Result<CopyMethod> {
        copy::copy_file(from, to)
    }

    fn copy_directory(&self, from: &Path, to: &Path) -> io::Result<()> {
        copy_tree::copy_directory(from, to)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    /// The smallest test that reveals a wrong ioctl. `tests/e2e/hostpath_images.rs` tests images as
    /// root. Both need loop devices.
    #[test]
    #[expect(clippy::print_stderr, reason = "a skipped test must report it")]
    fn a_device_exists_while_it_is_open_or_until_it_is_detached() {
        let storage = LinuxBlockStorage::default();
        if let Some(reason) = storage.features().loop_devices_unavailable {
            eprintln!("SKIPPED loop devices: {reason}");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("image");
        let file = std::fs::File::create_new(&path).unwrap();
        file.set_len(1_048_576 + 512).unwrap();
        let held =
            storage.attach(&path, AttachOptions::default(), &DeviceTuning::default()).unwrap();
        let found = storage.attached(&path).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, held.path);
        drop(held);
        assert_eq!(
            storage.attached(&path).unwrap(),
            [],
            "the device is detached when it is closed"
        );
        let how = AttachOptions { persistent: true, read_only: true };
        drop(storage.attach(&path, how, &DeviceTuning::default()).unwrap());
        let found = storage.attached(directory.path()).unwrap();
        assert!(found[0].read_only);
        let bytes = |device: &Path| {
            let file = std::fs::File::open(device).unwrap();
            std::io::Seek::seek(&mut &file, std::io::SeekFrom::End(0)).unwrap()
        };
        assert_eq!(bytes(&found[0].path), 1_048_576 + 512, "the size is exact to the sector");
        let device = std::fs::File::options().write(true).open(&found[0].path);
        assert!(device.is_err() || device.unwrap().write_at(b"x", 0).is_err());
        file.set_len(2_097_152).unwrap();
        storage.resize(&found[0].path).unwrap();
        assert_eq!(bytes(&found[0].path), 2_097_152);
        storage.detach(&found[0]).unwrap();
        storage.detach(&found[0]).unwrap();
        assert_eq!(storage.attached(&path).unwrap(), []);
    }
}
