//! Loop devices in a table; files and copies are real.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::mounter::FakeMounter;
use crate::ports::block_storage::{
    Attach, AttachedDevice, BlockStorage, Copied, FileSystem, LoopDevice, Offers, Tuning,
};

/// Keeps loop devices as the kernel would: one that does not stay goes when its last mount (in the
/// table of the [`FakeMounter`] it is made with) and its last holder are gone. A clone is the same
/// machine, which therefore outlives a restart of the plugin.
#[derive(Clone, Debug)]
pub struct FakeBlockStorage {
    table: Arc<Mutex<Table>>,
    mounter: FakeMounter,
}

#[derive(Debug, Default)]
struct Table {
    offers: Offers,
    shares_blocks: bool,
    devices: BTreeMap<u32, Device>,
    /// Devices whose file system is frozen, with where it was.
    frozen: Vec<(PathBuf, String)>,
    next: u32,
}

#[derive(Debug)]
struct Device {
    attached: AttachedDevice,
    stays: bool,
    is_held: bool,
    bytes: u64,
}

/// Ends when it is dropped.
#[derive(Debug)]
struct Hold {
    table: Arc<Mutex<Table>>,
    number: u32,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = table.devices.get_mut(&self.number) {
            device.is_held = false;
        }
    }
}

impl FakeBlockStorage {
    /// A machine with loop devices and ext4.
    pub fn new(mounter: FakeMounter) -> Self {
        let table = Table {
            offers: Offers {
                no_loop_devices: None,
                file_systems: vec![FileSystem::Ext4],
                grow_unmounted: vec![],
            },
            ..Table::default()
        };
        Self {
            table: Arc::new(Mutex::new(table)),
            mounter,
        }
    }

    /// A machine that has none.
    pub fn without_loop_devices(mounter: FakeMounter) -> Self {
        let storage = Self::new(mounter);
        storage.lock().offers.no_loop_devices = Some("this machine has none".to_owned());
        storage
    }

    /// A machine on which ext4 does not grow while it is mounted.
    pub fn growing_unmounted(mounter: FakeMounter) -> Self {
        let storage = Self::new(mounter);
        storage.lock().offers.grow_unmounted = vec![FileSystem::Ext4];
        storage
    }

    /// Lets copies share blocks from now on.
    pub fn share_blocks(&self) {
        self.lock().shares_blocks = true;
    }

    /// All devices are gone, as after a reboot.
    pub fn reboot(&self) {
        let mut table = self.lock();
        table.devices.clear();
        table.frozen.clear();
    }

    /// The devices that are there now.
    pub fn devices(&self) -> Vec<AttachedDevice> {
        let mut table = self.lock();
        self.settle(&mut table);
        let devices = table.devices.values();
        devices.map(|device| device.attached.clone()).collect()
    }

    /// How large a device is, in bytes.
    pub fn bytes_of(&self, device: &Path) -> Option<u64> {
        let number = number_of(device)?;
        self.lock().devices.get(&number).map(|device| device.bytes)
    }

    /// Mounts that are frozen now.
    pub fn frozen(&self) -> Vec<PathBuf> {
        let table = self.lock();
        table
            .frozen
            .iter()
            .map(|(mount, _)| mount.clone())
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device whose file system is mounted there.
    fn device_at(&self, mount: &Path) -> String {
        let mounts = self.mounter.mounts();
        let found = mounts.into_iter().rev().find(|entry| entry.target == mount);
        found.map(|entry| entry.source).unwrap_or_default()
    }

    /// Devices without a user that do not stay are gone.
    fn settle(&self, table: &mut Table) {
        let mounts = self.mounter.mounts();
        table.devices.retain(|_, device| {
            let name = device.attached.path.to_string_lossy();
            device.stays || device.is_held || mounts.iter().any(|mount| mount.source == name)
        });
    }
}

fn number_of(device: &Path) -> Option<u32> {
    device.to_str()?.strip_prefix("/dev/loop")?.parse().ok()
}

impl BlockStorage for FakeBlockStorage {
    fn offers(&self) -> Offers {
        self.lock().offers.clone()
    }

    fn shares_blocks(&self, _: &Path) -> bool {
        self.lock().shares_blocks
    }

    fn attach(&self, file: &Path, how: Attach, _: &Tuning) -> io::Result<LoopDevice> {
        self.mounter.step()?;
        let bytes = std::fs::metadata(file)?.len();
        let mut table = self.lock();
        let number = table.next;
        table.next += 1;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let attached = AttachedDevice {
            path: path.clone(),
            file: file.to_owned(),
            read_only: how.read_only,
        };
        table.devices.insert(
            number,
            Device {
                attached,
                stays: how.stays,
                is_held: true,
                bytes,
            },
        );
        Ok(LoopDevice {
            path,
            hold: Box::new(Hold {
                table: self.table.clone(),
                number,
            }),
        })
    }

    fn attached(&self, path: &Path) -> io::Result<Vec<AttachedDevice>> {
        let devices = self.devices();
        Ok(devices
            .into_iter()
            .filter(|device| device.file.starts_with(path))
            .collect())
    }

    fn hold(&self, device: &AttachedDevice) -> io::Result<Option<LoopDevice>> {
        let is_there = self.devices().contains(device);
        Ok(is_there.then(|| LoopDevice {
            path: device.path.clone(),
            hold: Box::new(()),
        }))
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
        let device = table
            .devices
            .get_mut(&number)
            .ok_or(io::ErrorKind::NotFound)?;
        device.bytes = std::fs::metadata(&device.attached.file)?.len();
        Ok(())
    }

    fn tune(&self, _: &Path, _: &Tuning) -> io::Result<()> {
        Ok(())
    }

    fn flush(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn make_file_system(&self, file: &Path, kind: FileSystem) -> io::Result<()> {
        self.mounter.step()?;
        use std::os::unix::fs::FileExt as _;
        let file = std::fs::File::options().write(true).open(file)?;
        file.write_all_at(kind.name().as_bytes(), 0)
    }

    fn grow_file_system(&self, _: &Path, kind: FileSystem, _: u64) -> io::Result<()> {
        self.mounter.step()?;
        if self.lock().offers.grow_unmounted.contains(&kind) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(())
    }

    fn grow_unmounted(&self, _: &Path, _: FileSystem) -> io::Result<()> {
        Ok(())
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

    fn copy_file(&self, from: &Path, to: &Path) -> io::Result<Copied> {
        self.mounter.step()?;
        let mut source = std::fs::File::open(from)?;
        let mut target = std::fs::File::create_new(to)?;
        // Sparse files of any size are copied in no time: only their beginning ever has data here.
        let length = source.metadata()?.len();
        let mut beginning = io::Read::take(&mut source, 1 << 16);
        io::copy(&mut beginning, &mut target)?;
        target.set_len(length)?;
        Ok(if self.lock().shares_blocks {
            Copied::Shared
        } else {
            Copied::Blocks
        })
    }

    /// Files directly in it only.
    fn copy_directory(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.mounter.step()?;
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
        Ok(())
    }
}
