//! A disk that remembers in which order it was written, and what it would hold if the power had gone
//! at any moment.
//!
//! What was synced is there. Of what was written after the last sync, any part may be: every write
//! whole, in sectors, or not at all, in any order, as on a disk with a cache; and so may the file's
//! length.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use nomad_csi::store::Storage;
use redb::StorageBackend;

const SECTOR: usize = 512;

/// One thing that happened to the disk.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// Bytes were written at an offset.
    Write(usize, Vec<u8>),
    /// The length was set.
    Length(usize),
    /// All that was written is to survive.
    Sync,
    /// The file got its name, for good. Without one nobody finds it.
    Publish,
    /// Whoever uses the disk promised that this much is durable.
    Promise(u64),
}

/// A file on such a disk. A clone is the same file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<Content>>);

#[derive(Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    log: Vec<Operation>,
    published: bool,
    ignores_sync: bool,
}

impl Disk {
    /// One on which a file holds these bytes, all of them durable; or on which there is none.
    pub(crate) fn holding(file: Option<Vec<u8>>) -> Self {
        Self(Arc::new(Mutex::new(Content {
            published: file.is_some(),
            bytes: file.unwrap_or_default(),
            ..Content::default()
        })))
    }

    /// One that takes syncs and does not carry them out: a liar, for the harness's own test.
    pub(crate) fn that_ignores_syncs() -> Self {
        let disk = Self::default();
        disk.content().ignores_sync = true;
        disk
    }

    /// Notes that this much was promised to be durable.
    pub(crate) fn promise(&self, amount: u64) {
        self.content().log.push(Operation::Promise(amount));
    }

    /// All that happened so far.
    pub(crate) fn log(&self) -> Vec<Operation> {
        self.content().log.clone()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap()
    }
}

impl StorageBackend for Disk {
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
        content.log.push(Operation::Length(length));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut content = self.content();
        if !content.ignores_sync {
            content.log.push(Operation::Sync);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        let mut content = self.content();
        content.bytes[offset..offset + data.len()].copy_from_slice(data);
        content.log.push(Operation::Write(offset, data.to_vec()));
        Ok(())
    }
}

impl Storage for Disk {
    type Backend = Self;

    fn path(&self) -> &Path {
        Path::new("disk")
    }

    fn open(&self) -> io::Result<Option<Self>> {
        Ok(self.content().published.then(|| self.clone()))
    }

    fn create(&self) -> io::Result<Self> {
        Ok(self.clone())
    }

    fn publish(&self) -> io::Result<()> {
        let mut content = self.content();
        content.published = true;
        content.log.push(Operation::Publish);
        Ok(())
    }
}

/// Chance from a seed (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    /// One of `0..bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
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

/// What a disk with that file holds after the power went behind the last operation of `log`, and how
/// much had been promised by then.
pub(crate) fn lose_power(
    file: Option<&[u8]>,
    log: &[Operation],
    chance: &mut Chance,
) -> (Option<Vec<u8>>, u64) {
    let mut published = file.is_some();
    let mut bytes = file.unwrap_or_default().to_vec();
    let mut unsynced: Vec<&Operation> = vec![];
    let mut promised = 0;
    for operation in log {
        match operation {
            Operation::Sync => unsynced.drain(..).for_each(|o| carry_out(&mut bytes, o)),
            Operation::Publish => published = true,
            Operation::Promise(amount) => promised = *amount,
            Operation::Write(..) | Operation::Length(_) => unsynced.push(operation),
        }
    }
    let fate = chance.below(4);
    for operation in unsynced {
        match (operation, fate) {
            (_, 0) => carry_out(&mut bytes, operation),
            (_, 1) => {}
            (Operation::Write(offset, data), 3) => tear(&mut bytes, *offset, data, chance),
            _ if chance.coin() => carry_out(&mut bytes, operation),
            _ => {}
        }
    }
    (published.then_some(bytes), promised)
}

fn carry_out(bytes: &mut Vec<u8>, operation: &Operation) {
    match operation {
        Operation::Write(offset, data) => write(bytes, *offset, data),
        Operation::Length(length) => bytes.resize(*length, 0),
        Operation::Sync | Operation::Publish | Operation::Promise(_) => {}
    }
}

fn write(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(data);
}

/// Some of its sectors arrive.
fn tear(bytes: &mut Vec<u8>, offset: usize, data: &[u8], chance: &mut Chance) {
    let mut start = 0;
    while start < data.len() {
        let to_boundary = SECTOR - (offset + start) % SECTOR;
        let end = (start + to_boundary).min(data.len());
        if chance.coin() {
            write(bytes, offset + start, &data[start..end]);
        }
        start = end;
    }
}
