//! The bytes of a set: its rows one after the other, deflated, cut into chunks.
//!
//! A row is the tag of its table, its two names and its content, each with its length.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use sha2::{Digest as _, Sha256};

use crate::batch::take_u32;
use crate::manifest::SetEntry;
use nomad_csi_claims::state::{SnapshotChanges, StateSnapshot};
use nomad_csi_model::hex;
use nomad_csi_server::JournalErrorKind;
use nomad_csi_server::store::{RowError, SnapshotRow, SnapshotRows, snapshot_rows};

/// The bytes of a chunk: appends beside larger ones wait longer.
const CHUNK_BYTES: usize = 128 << 10;
/// The most bytes of a set before it was deflated.
const MAX_BYTES: u64 = 8 << 30;

/// A set cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetError {
    /// The chunks are not those that were written.
    #[error("the snapshot at event {index} is incomplete or was changed after it was written")]
    Damaged { index: u64 },
    /// A row cannot be encoded or decoded.
    #[error(transparent)]
    Row(#[from] RowError),
    /// The chunks cannot be inflated.
    #[error("the snapshot at event {index} cannot be read: {source}")]
    Inflate {
        /// The set.
        index: u64,
        /// The underlying error.
        source: std::io::Error,
    },
}

impl SetError {
    pub(crate) fn kind(&self) -> JournalErrorKind {
        match self {
            Self::Damaged { .. } | Self::Inflate { .. } => JournalErrorKind::Damaged,
            Self::Row(error) => error.kind(),
        }
    }
}

fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes)).collect()
}

/// Returns the entry and the chunks of a set.
pub(crate) fn encode_set(changes: &SnapshotChanges) -> Result<(SetEntry, Vec<Vec<u8>>), SetError> {
    let index = changes.numbers.index;
    let inflate = |source| SetError::Inflate { index, source };
    let mut encoder = DeflateEncoder::new(vec![], Compression::fast());
    for row in snapshot_rows(changes) {
        let SnapshotRow { table, group, name, row } = row?;
        encoder.write_all(&[table]).map_err(inflate)?;
        for part in [group.as_bytes(), name.as_bytes(), &row] {
            let length = u32::try_from(part.len()).map_err(|_| SetError::Damaged { index })?;
            encoder.write_all(&length.to_be_bytes()).map_err(inflate)?;
            encoder.write_all(part).map_err(inflate)?;
        }
    }
    let bytes = encoder.finish().map_err(inflate)?;
    let chunks: Vec<_> = bytes.chunks(CHUNK_BYTES).map(<[u8]>::to_vec).collect();
    let entry = SetEntry {
        index,
        is_complete: changes.is_complete,
        chunks: u32::try_from(chunks.len()).map_err(|_| SetError::Damaged { index })?,
        bytes: bytes.len() as u64,
        sha256: digest(&bytes),
    };
    Ok((entry, chunks))
}

/// Composes the snapshot of a chain of sets, each with its bytes.
pub(crate) fn decode_sets(sets: &[(SetEntry, Vec<u8>)]) -> Result<Option<StateSnapshot>, SetError> {
    let Some((last, _)) = sets.last() else {
        return Ok(None);
    };
    let mut rows = SnapshotRows::default();
    for (entry, bytes) in sets {
        add_rows(&mut rows, entry, bytes)?;
    }
    Ok(Some(rows.finish(last.index)?))
}

fn add_rows(rows: &mut SnapshotRows, entry: &SetEntry, bytes: &[u8]) -> Result<(), SetError> {
    let index = entry.index;
    let damaged = || SetError::Damaged { index };
    if bytes.len() as u64 != entry.bytes || digest(bytes) != entry.sha256 {
        return Err(damaged());
    }
    let mut inflated = vec![];
    let mut decoder = DeflateDecoder::new(bytes).take(MAX_BYTES);
    decoder.read_to_end(&mut inflated).map_err(|source| SetError::Inflate { index, source })?;
    let mut rest = inflated.as_slice();
    while let Some((table, after)) = rest.split_first() {
        rest = after;
        let mut part = || -> Option<Vec<u8>> {
            let length = usize::try_from(take_u32(&mut rest)?).ok()?;
            let (part, after) = rest.split_at_checked(length)?;
            rest = after;
            Some(part.to_vec())
        };
        let mut text = || String::from_utf8(part().ok_or_else(damaged)?).map_err(|_| damaged());
        let (group, name) = (text()?, text()?);
        let row = part().ok_or_else(damaged)?;
        rows.add(index, SnapshotRow { table: *table, group, name, row })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_claims::state::State;
    use nomad_csi_claims::state::samples::History;

    #[test]
    fn a_set_is_read_as_it_was_written_and_damage_is_found() {
        let mut history = History::new(5);
        history.by_ref().take(300).for_each(drop);
        let state = history.state().clone();
        let (entry, chunks) = encode_set(&SnapshotChanges::complete(&state)).unwrap();
        let bytes = chunks.concat();
        let read = decode_sets(&[(entry.clone(), bytes.clone())]).unwrap().unwrap();
        assert_eq!(State::from(read), state);
        for at in [0, bytes.len() / 2, bytes.len() - 1] {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let error = decode_sets(&[(entry.clone(), changed)]).unwrap_err();
            assert_eq!(error.kind(), JournalErrorKind::Damaged, "{error}");
        }
        let error = decode_sets(&[(entry, bytes[1..].to_vec())]).unwrap_err();
        assert_eq!(error.kind(), JournalErrorKind::Damaged);
        assert_eq!(decode_sets(&[]).unwrap(), None);
    }
}
