//! A batch of events as it is stored.
//!
//! Its identity is the leader's epoch and term and a number that this leader uses once. A batch that was sent under an index
//! is the only content that its leader ever sends there, so a request whose answer was lost can be repeated.
//!
//! ```text
//! magic 4, format 1, pieces 4, epoch 8, term 8, number 8, first 8, count 4, bytes 8, SHA-256 8, events
//! ```
//!
//! `pieces` is 0, or the events are in so many keys of their own because they are too large for one.

use sha2::{Digest as _, Sha256};

use nomad_csi_claims::state::Event;
use nomad_csi_model::Term;
use nomad_csi_server::JournalErrorKind;
use nomad_csi_server::store::{RowError, decode_event_row, encode_event_row};

const MAGIC: &[u8; 4] = b"NCSI";
const FORMAT: u8 = 1;
/// Bytes up to the checksum, and of the checksum.
const HEADER: usize = 53;
const CHECKSUM: usize = 8;

/// The most bytes of events under one key: etcd refuses requests of more than 1.5 MiB.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// The bytes of a piece.
pub(crate) const PIECE_BYTES: usize = 512 << 10;
/// The most bytes of a batch that is read: no commit is that large.
const MAX_BATCH: u64 = 1 << 30;

/// What identifies a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchId {
    /// The leadership.
    pub term: Term,
    /// The number of the batch in its leadership.
    pub number: u64,
}

/// A batch whose events are encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub id: BatchId,
    pub first: u64,
    pub count: u32,
    /// The events, each with its length.
    pub events: Vec<u8>,
}

/// The start of a stored batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    pub id: BatchId,
    pub first: u64,
    pub count: u32,
    pub pieces: u32,
    pub bytes: u64,
    checksum: [u8; CHECKSUM],
}

/// A stored batch cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BatchError {
    /// It is damaged, or is that of another index.
    #[error("the batch from event {first} is incomplete or was changed after it was written")]
    Damaged { first: u64 },
    /// A later version of this program wrote it.
    #[error(
        "the batch from event {first} has format {found}, and this program reads format {FORMAT}"
    )]
    TooNew { first: u64, found: u8 },
    /// One of its events cannot be encoded or decoded.
    #[error(transparent)]
    Row(#[from] RowError),
}

impl BatchError {
    pub(crate) fn kind(&self) -> JournalErrorKind {
        match self {
            Self::Damaged { .. } => JournalErrorKind::Damaged,
            Self::TooNew { .. } => JournalErrorKind::TooNew,
            Self::Row(error) => error.kind(),
        }
    }
}

impl Batch {
    /// Encodes events, the first under this index.
    pub(crate) fn new(id: BatchId, first: u64, events: &[Event]) -> Result<Self, BatchError> {
        let damaged = || BatchError::Damaged { first };
        let mut encoded = vec![];
        for (index, event) in (first..).zip(events) {
            let row = encode_event_row(index, event)?;
            let length = u32::try_from(row.len()).map_err(|_| damaged())?;
            encoded.extend(length.to_be_bytes());
            encoded.extend(row);
        }
        let count = u32::try_from(events.len()).map_err(|_| damaged())?;
        Ok(Self { id, first, count, events: encoded })
    }

    /// Returns the index of the last event.
    pub(crate) fn last(&self) -> u64 {
        self.first + u64::from(self.count) - 1
    }

    /// Returns the pieces of a batch that is too large for one key.
    pub(crate) fn pieces(&self) -> Vec<&[u8]> {
        match self.events.len() > MAX_BYTES {
            true => self.events.chunks(PIECE_BYTES).collect(),
            false => vec![],
        }
    }

    /// Returns the value of the batch's key.
    pub(crate) fn value(&self) -> Vec<u8> {
        let pieces = self.pieces().len();
        let mut value = Vec::with_capacity(HEADER + CHECKSUM + self.events.len());
        value.extend(MAGIC);
        value.push(FORMAT);
        value.extend(u32::try_from(pieces).unwrap_or(u32::MAX).to_be_bytes());
        for number in [self.id.term.epoch, self.id.term.revision, self.id.number, self.first] {
            value.extend(number.to_be_bytes());
        }
        value.extend(self.count.to_be_bytes());
        value.extend((self.events.len() as u64).to_be_bytes());
        let checksum = checksum(&value, &self.events);
        value.extend(checksum);
        if pieces == 0 {
            value.extend(&self.events);
        }
        value
    }
}

fn checksum(header: &[u8], events: &[u8]) -> [u8; CHECKSUM] {
    let mut hash = Sha256::new();
    hash.update(header);
    hash.update(events);
    let digest = hash.finalize();
    std::array::from_fn(|at| digest[at])
}

impl BatchHeader {
    /// Reads the start of a value under the key of `first`. Returns what follows it too.
    pub(crate) fn read(first: u64, value: &[u8]) -> Result<(Self, &[u8]), BatchError> {
        let damaged = || BatchError::Damaged { first };
        let (header, rest) = value.split_at_checked(HEADER).ok_or_else(damaged)?;
        let (checksum, events) = rest.split_first_chunk::<CHECKSUM>().ok_or_else(damaged)?;
        let (magic, fields) = header.split_first_chunk::<4>().ok_or_else(damaged)?;
        let (format, mut fields) = fields.split_first().ok_or_else(damaged)?;
        if magic != MAGIC {
            return Err(damaged());
        }
        if *format != FORMAT {
            return Err(BatchError::TooNew { first, found: *format });
        }
        let pieces = take_u32(&mut fields).ok_or_else(damaged)?;
        let mut number = || take_u64(&mut fields).ok_or_else(damaged);
        let term = Term { epoch: number()?, revision: number()? };
        let id = BatchId { term, number: number()? };
        let written_first = number()?;
        let count = take_u32(&mut fields).ok_or_else(damaged)?;
        let bytes = take_u64(&mut fields).ok_or_else(damaged)?;
        let is_possible = written_first == first && count > 0 && bytes <= MAX_BATCH;
        if !is_possible || first.checked_add(u64::from(count)).is_none() {
            return Err(damaged());
        }
        Ok((Self { id, first, count, pieces, bytes, checksum: *checksum }, events))
    }

    /// Returns the index of the last event.
    pub(crate) fn last(&self) -> u64 {
        self.first + u64::from(self.count) - 1
    }

    /// Decodes the events, which `encoded` is, or the pieces joined.
    pub(crate) fn events(&self, encoded: &[u8]) -> Result<Vec<Event>, BatchError> {
        let damaged = || BatchError::Damaged { first: self.first };
        let batch = Batch { id: self.id, first: self.first, count: self.count, events: vec![] };
        let mut header = batch.value();
        header.truncate(HEADER - 8);
        header.extend(self.bytes.to_be_bytes());
        header[5..9].copy_from_slice(&self.pieces.to_be_bytes());
        let is_whole = encoded.len() as u64 == self.bytes;
        if !is_whole || checksum(&header, encoded) != self.checksum {
            return Err(damaged());
        }
        let mut rest = encoded;
        let mut events = vec![];
        for index in self.first..=self.last() {
            let length = take_u32(&mut rest).ok_or_else(damaged)?;
            let length = usize::try_from(length).map_err(|_| damaged())?;
            let (row, after) = rest.split_at_checked(length).ok_or_else(damaged)?;
            events.push(decode_event_row(index, row)?);
            rest = after;
        }
        rest.is_empty().then_some(events).ok_or_else(damaged)
    }
}

pub(crate) fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    Some(u32::from_be_bytes(*number))
}

fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    *bytes = rest;
    Some(u64::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_claims::state::samples::History;

    const ID: BatchId = BatchId { term: Term { epoch: 1, revision: 9 }, number: 4 };

    fn batch(count: usize) -> (Batch, Vec<Event>) {
        let events: Vec<_> = History::new(3).take(count).collect();
        (Batch::new(ID, 12, &events).unwrap(), events)
    }

    #[test]
    fn a_batch_is_read_as_it_was_written() {
        let (batch, events) = batch(5);
        let value = batch.value();
        let (header, rest) = BatchHeader::read(12, &value).unwrap();
        assert_eq!((header.id, header.last(), header.pieces), (ID, 16, 0));
        assert_eq!(header.events(rest).unwrap(), events);
    }

    #[test]
    fn every_changed_or_missing_byte_is_found() {
        let (batch, _) = batch(2);
        let value = batch.value();
        let read = |value: &[u8]| {
            let (header, rest) = BatchHeader::read(12, value)?;
            header.events(rest).map(drop)
        };
        for at in 0..value.len() {
            let mut changed = value.clone();
            changed[at] ^= 1;
            assert!(read(&changed).is_err(), "byte {at}");
            assert!(read(&value[..at]).is_err(), "{at} bytes");
        }
        assert!(BatchHeader::read(13, &value).is_err(), "another index");
        let mut later = value;
        later[4] = 2;
        assert_eq!(read(&later).unwrap_err().kind(), JournalErrorKind::TooNew);
    }

    #[test]
    fn a_large_batch_is_in_pieces_that_are_read_as_one() {
        let (small, events) = batch(3);
        let mut large = small.clone();
        // As large as a job with a long template, whatever it says.
        large.events.resize(MAX_BYTES + 1, 0);
        assert_eq!(large.pieces().len(), 3);
        assert_eq!(large.value().len(), HEADER + CHECKSUM);
        let value = large.value();
        let (header, rest) = BatchHeader::read(12, &value).unwrap();
        assert_eq!((header.pieces, rest.len()), (3, 0));
        let joined = large.pieces().concat();
        assert!(
            matches!(header.events(&joined), Err(BatchError::Damaged { .. })),
            "zeros are no event"
        );
        assert!(small.pieces().is_empty() && events.len() == 3);
    }
}
