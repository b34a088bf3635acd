//! A disk that records its writes, and computes its possible contents after a power failure.
//!
//! Synced data survives. After the last sync, each write may survive completely, in part (by
//! sectors) or not at all, in any order, as on a disk with a cache. The same applies to the length
//! of the file.

use std::io;
use std::path::Path;
use std::sync::Arc;

use nomad_csi_database::Storage;
use parking_lot::{Mutex, MutexGuard};
use redb::StorageBackend;

const SECTOR: usize = 512;

/// A recorded operation of the disk.
#[derive(Clone, Debug)]
pub enum DiskOperation {
    /// Bytes were written at an offset.
    Write(usize, Vec<u8>),
    /// The length was set.
    Length(usize),
    /// All earlier writes become durable.
    Sync,
    /// The file gets its final name, durably. Without it the file cannot be found.
    Publish,
    /// The program under test reported this amount as durable.
    Durable(u64),
}

/// A file on the disk. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct CrashDisk(Arc<Mutex<DiskState>>);

#[derive(Debug, Default)]
struct DiskState {
    bytes: Vec<u8>,
    log: Vec<DiskOperation>,
    published: bool,
    ignores_sync: bool,
}

impl CrashDisk {
    /// A disk with a durable file of these bytes, or without a file.
    pub fn with_file(file: Option<Vec<u8>>) -> Self {
        Self(Arc::new(Mutex::new(DiskState {
            published: file.is_some(),
            bytes: file.unwrap_or_default(),
            ..DiskState::default()
        })))
    }

    /// A disk that ignores syncs, to test the harness itself.
    pub fn ignoring_syncs() -> Self {
        let disk = Self::default();
        disk.content().ignores_sync = true;
        disk
    }

    /// Records that the program reported this amount as durable.
    pub fn mark_durable(&self, amount: u64) {
        self.content().log.push(DiskOperation::Durable(amount));
    }

    /// Returns all operations so far.
    pub fn log(&self) -> Vec<DiskOperation> {
        self.content().log.clone()
    }

    fn content(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock()
    }
}

impl StorageBackend for CrashDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.content().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        let content = self.content();
        let end = io::ErrorKind::UnexpectedEof;
        let bytes = content.bytes.get(offset..offset + out.len()).ok_or(end)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).unwrap();
        let mut content = self.content();
        content.bytes.resize(length, 0);
        content.log.push(DiskOperation::Length(length));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut content = self.content();
        if !content.ignores_sync {
            content.log.push(DiskOperation::Sync);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        let mut content = self.content();
        content.bytes[offset..offset + data.len()].copy_from_slice(data);
        content.log.push(DiskOperation::Write(offset, data.to_vec()));
        Ok(())
    }
}

impl Storage for CrashDisk {
    type Backend = Self;

    fn path(&self) -> &Path {
        Path::new("disk")
    }

    fn open(&self) -> io::Result<Option<Self>> {
        Ok(self.content().published.then(|| self.clone()))
    }

    fn unpublished(&self) -> io::Result<Self> {
        match self.content().published {
            // This disk has one file.
            true => Err(io::ErrorKind::Unsupported.into()),
            false => Ok(self.clone()),
        }
    }

    fn discard(&self) -> io::Result<()> {
        self.set_len(0)
    }

    fn publish(&self) -> io::Result<()> {
        let mut content = self.content();
        content.published = true;
        content.log.push(DiskOperation::Publish);
        Ok(())
    }

    fn replace(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A pseudo-random number generator (splitmix64).
#[derive(Clone, Debug)]
pub struct SeededRng(pub u64);

impl SeededRng {
    /// Returns a number in `0..bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// Returns the content of a disk that loses power after the last operation of `log`, and the amount
/// that had been reported as durable.
fn content_after_power_loss(
    file: Option<&[u8]>,
    log: &[DiskOperation],
    rng: &mut SeededRng,
) -> (Option<Vec<u8>>, u64) {
    let mut published = file.is_some();
    let mut bytes = file.unwrap_or_default().to_vec();
    let mut unsynced: Vec<&DiskOperation> = vec![];
    let mut durable = 0;
    for operation in log {
        match operation {
            DiskOperation::Sync => unsynced.drain(..).for_each(|o| apply(&mut bytes, o)),
            DiskOperation::Publish => published = true,
            DiskOperation::Durable(amount) => durable = *amount,
            DiskOperation::Write(..) | DiskOperation::Length(_) => unsynced.push(operation),
        }
    }
    let survival = rng.below(4);
    for operation in unsynced {
        match (operation, survival) {
            (_, 0) => apply(&mut bytes, operation),
            (_, 1) => {}
            (DiskOperation::Write(offset, data), 3) => write_partly(&mut bytes, *offset, data, rng),
            _ if rng.coin() => apply(&mut bytes, operation),
            _ => {}
        }
    }
    (published.then_some(bytes), durable)
}

/// Fails the power after each of the operations `moments` of a run, sometimes again during recovery.
/// `restart` checks what a restarted program finds on the disk, of which the amount was reported as durable.
/// Returns the number of failures and the problems.
pub async fn lose_power_at(
    log: &[DiskOperation],
    moments: impl Iterator<Item = usize>,
    rng: &mut SeededRng,
    restart: impl AsyncFn(&CrashDisk, u64) -> Result<(), String>,
) -> (usize, Vec<String>) {
    let (mut losses, mut problems) = (0, vec![]);
    for moment in moments {
        let (file, durable) = content_after_power_loss(None, &log[..moment], rng);
        let disk = CrashDisk::with_file(file.clone());
        losses += 1;
        let outcome = restart(&disk, durable).await;
        problems.extend(outcome.err().map(|e| format!("operation {moment}: {e}")));
        let recovery = disk.log();
        if recovery.is_empty() || rng.below(3) > 0 {
            continue;
        }
        let again = 1 + rng.below(recovery.len());
        let (file, _) = content_after_power_loss(file.as_deref(), &recovery[..again], rng);
        losses += 1;
        let outcome = restart(&CrashDisk::with_file(file), durable).await;
        let failed = |e| format!("operation {moment}, then {again}: {e}");
        problems.extend(outcome.err().map(failed));
    }
    (losses, problems)
}

fn apply(bytes: &mut Vec<u8>, operation: &DiskOperation) {
    match operation {
        DiskOperation::Write(offset, data) => write(bytes, *offset, data),
        DiskOperation::Length(length) => bytes.resize(*length, 0),
        DiskOperation::Sync | DiskOperation::Publish | DiskOperation::Durable(_) => {}
    }
}

fn write(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(data);
}

/// Writes some of the sectors.
fn write_partly(bytes: &mut Vec<u8>, offset: usize, data: &[u8], rng: &mut SeededRng) {
    let mut start = 0;
    while start < data.len() {
        let to_boundary = SECTOR - (offset + start) % SECTOR;
        let end = (start + to_boundary).min(data.len());
        if rng.coin() {
            write(bytes, offset + start, &data[start..end]);
        }
        start = end;
    }
}
