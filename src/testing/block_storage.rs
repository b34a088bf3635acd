//! Fake loop devices in a table, with real files and copies.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::mounter::FakeMounter;
use nomad_csi_ports::{
    AttachOptions, AttachedDevice, BlockStorage, BlockStorageFeatures, CopyMethod, DeviceTuning,
    FileContent, FileSystem, LoopDevice,
};

/// Loop devices that behave as in the kernel. A device that is not persistent goes with its last mount
/// (in the table of its [`FakeMounter`]) and its last open handle. Clones share their state.
#[derive(Clone, Debug)]
pub struct FakeBlockStorage {
    table: Arc<Mutex<Table>>,
    mounter: FakeMounter,
}

#[derive(Debug, Default)]
struct Table {
    features: BlockStorageFeatures,
    supports_reflink: bool,
    devices: BTreeMap<u32, Device>,
    /// The number that [`BlockStorage::file_system_errors`] returns.
    file_system_errors: u64,
    /// The devices that are mounted in a namespace of which the mount table shows nothing.
    mounted_elsewhere: Vec<PathBuf>,
    /// Mount points that are frozen, with their devices.
    frozen: Vec<(PathBuf, String)>,
    next: u32,
}

#[derive(Debug)]
struct Device {
    attached: AttachedDevice,
    persistent: bool,
    is_open: bool,
    bytes: u64,
}

/// Marks the device as closed when it is dropped.
#[derive(Debug)]
struct DeviceGuard {
    table: Arc<Mutex<Table>>,
    number: u32,
}

impl Drop for DeviceGuard {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        if let Some(device) = table.devices.get_mut(&self.number) {
            device.is_open = false;
        }
    }
}

impl FakeBlockStorage {
    /// Creates a machine with loop devices and ext4.
    pub fn new(mounter: FakeMounter) -> Self {
        let table = Table {
            features: BlockStorageFeatures {
                loop_devices_unavailable: None,
                file_systems: vec![FileSystem::Ext4],
                offline_growth_only: vec![],
            },
            ..Table::default()
        };
        Self { table: Arc::new(Mutex::new(table)), mounter }
    }

    /// Creates a machine without loop devices.
    pub fn without_loop_devices(mounter: FakeMounter) -> Self {
        let storage = Self::new(mounter);
        storage.lock().features.loop_devices_unavailable = Some("this machine has none".to_owned());
        storage
    }

    /// Creates a machine on which ext4 cannot grow while it is mounted.
    pub fn with_offline_growth(mounter: FakeMounter) -> Self {
        let storage = Self::new(mounter);
        storage.lock().features.offline_growth_only = vec![FileSystem::Ext4];
        storage
    }

    /// Makes later copies share blocks.
    pub fn enable_reflink(&self) {
        self.lock().supports_reflink = true;
    }

    /// Removes all devices, as a reboot does.
    pub fn reboot(&self) {
        let mut table = self.lock();
        table.devices.clear();
        table.frozen.clear();
    }

    /// Mounts all devices in the namespace of a task too, or unmounts them there.
    pub fn mount_elsewhere(&self, is_mounted: bool) {
        let devices = match is_mounted {
            true => self.devices().into_iter().map(|device| device.path).collect(),
            false => vec![],
        };
        self.lock().mounted_elsewhere = devices;
    }

    /// Makes every file system report this many errors.
    pub fn set_file_system_errors(&self, errors: u64) {
        self.lock().file_system_errors = errors;
    }

    /// Returns the current devices.
    pub fn devices(&self) -> Vec<AttachedDevice> {
        let mut table = self.lock();
        self.drop_unused(&mut table);
        let devices = table.devices.values();
        devices.map(|device| device.attached.clone()).collect()
    }

    /// Returns the size of a device in bytes.
    pub fn bytes_of(&self, device: &Path) -> Option<u64> {
        let number = number_of(device)?;
        self.lock().devices.get(&number).map(|device| device.bytes)
    }

    /// Returns the frozen mount points.
    pub fn frozen(&self) -> Vec<PathBuf> {
        let table = self.lock();
        table.frozen.iter().map(|(mount, _)| mount.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    /// Returns the device of the file system that is mounted at `mount`.
    fn device_at(&self, mount: &Path) -> String {
        let mounts = self.mounter.mounts();
        let found = mounts.into_iter().rev().find(|entry| entry.target == mount);
        found.map(|entry| entry.source).unwrap_or_default()
    }

    /// Removes devices that are neither persistent nor in use.
    fn drop_unused(&self, table: &mut Table) {
        let mounts = self.mounter.mounts();
        let Table { devices, mounted_elsewhere, .. } = table;
        devices.retain(|_, device| {
            let name = device.attached.path.to_string_lossy();
            let is_mounted = mounts.iter().any(|mount| mount.source == name);
            let is_hidden = mounted_elsewhere.contains(&device.attached.path);
            device.persistent || device.is_open || is_mounted || is_hidden
        });
    }
}

fn number_of(device: &Path) -> Option<u32> {
    device.to_str()?.strip_prefix("/dev/loop")?.parse().ok()
}

impl BlockStorage for FakeBlockStorage {
    fn features(&self) -> BlockStorageFeatures {
        self.lock().features.clone()
    }

    fn supports_reflink(&self, _: &Path) -> bool {
        self.lock().supports_reflink
    }

    fn attach(&self, file: &Path, how: AttachOptions, _: &DeviceTuning) -> io::Result<LoopDevice> {
        self.mounter.step()?;
        let bytes = std::fs::metadata(file)?.len();
        let mut table = self.lock();
        let number = table.next;
        table.next += 1;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let attached =
            AttachedDevice { path: path.clone(), file: file.to_owned(), read_only: how.read_only };
        table
            .devices
            .insert(number, Device { attached, persistent: how.persistent, is_open: true, bytes });
        Ok(LoopDevice { path, guard: Box::new(DeviceGuard { table: self.table.clone(), number }) })
    }

    fn attached(&self, path: &Path) -> io::Result<Vec<AttachedDevice>> {
        let devices = self.devices();
        Ok(devices.into_iter().filter(|device| device.file.starts_with(path)).collect())
    }

    fn open(&self, device: &AttachedDevice) -> io::Result<Option<LoopDevice>> {
        let is_there = self.devices().contains(device);
        Ok(is_there.then(|| LoopDevice { path: device.path.clone(), guard: Box::new(()) }))
    }

    fn detach(&self, device: &AttachedDevice) -> io::Result<()> {
        self.mounter.step()?;
        if let Some(number) = number_of(&device.path) {
            self.lock().devices.remove(&number);
        }
        Ok(())
    }

    fn resize(&self, device: &Path) -> io::Result<()> {
        self.mounter.step()?;
        let number = number_of(device).ok_or(io::ErrorKind::NotFound)?;
        let mut table = self.lock();
        let device = table.devices.get_mut(&number).ok_or(io::ErrorKind::NotFound)?;
        device.bytes = std::fs::metadata(&device.attached.file)?.len();
        Ok(())
    }

    fn tune(&self, _: &Path, _: &DeviceTuning) -> io::Result<()> {
        Ok(())
    }

    fn flush(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn probe(&self, file: &Path) -> io::Result<FileContent> {
        use std::os::unix::fs::FileExt as _;
        let file = std::fs::File::open(file)?;
        let mut beginning = [0; 8];
        file.read_at(&mut beginning, 0)?;
        let name = |kind: &FileSystem| beginning.starts_with(kind.name().as_bytes());
        Ok(match FileSystem::ALL.into_iter().find(name) {
            Some(kind) => FileContent::FileSystem(kind),
            None if beginning == [0; 8] => FileContent::Empty,
            None => FileContent::Other,
        })
    }

    fn make_file_system(&self, file: &Path, kind: FileSystem) -> io::Result<()> {
        self.mounter.step()?;
        use std::os::unix::fs::FileExt as _;
        let file = std::fs::File::options().write(true).open(file)?;
        file.write_all_at(kind.name().as_bytes(), 0)
    }

    fn grow_file_system(&self, _: &Path, kind: FileSystem, _: u64) -> io::Result<()> {
        self.mounter.step()?;
        if self.lock().features.offline_growth_only.contains(&kind) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(())
    }

    fn grow_unmounted(&self, _: &Path, _: FileSystem) -> io::Result<()> {
        Ok(())
    }

    fn file_system_errors(&self, _: &Path, _: FileSystem) -> io::Result<u64> {
        Ok(self.lock().file_system_errors)
    }

    fn freeze(&self, mount: &Path) -> io::Result<()> {
        self.mounter.step()?;
        let device = self.device_at(mount);
        let mut table = self.lock();
        if table.frozen.iter().any(|(_, frozen)| *frozen == device) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        table.frozen.push((mount.to_owned(), device));
        Ok(())
    }

    fn thaw(&self, mount: &Path) -> io::Result<()> {
        self.mounter.step()?;
        let device = self.device_at(mount);
        self.lock().frozen.retain(|(_, frozen)| *frozen != device);
        Ok(())
    }

    fn copy_file(&self, from: &Path, to: &Path) -> io::Result<CopyMethod> {
        self.mounter.step()?;
        let mut source = std::fs::File::open(from)?;
        let mut target = std::fs::File::create_new(to)?;
        // Copies only the beginning, so that large sparse files are fast: no test writes further.
        let length = source.metadata()?.len();
        let mut beginning = io::Read::take(&mut source, 1 << 16);
        io::copy(&mut beginning, &mut target)?;
        target.set_len(length)?;
        Ok(if self.lock().supports_reflink {
            CopyMethod::Reflink
        } else {
            CopyMethod::BlockByBlock
        })
    }

    /// Copies the files in `from`, without subdirectories.
    fn copy_directory(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.mounter.step()?;
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
        Ok(())
    }
}
