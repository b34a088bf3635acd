//! Lists of volumes from what earlier lists were made of: the JSON of each volume, and compressed groups of them.

use axum::body::Bytes;

use super::compressed_list::CompressedGroups;
use super::kept_stubs::{KeptStubs, Text};
use super::long_body::Pieces;
use super::reply::{Reply, not_encoded};
use crate::error::ServerError;
use nomad_csi_claims::state::VolumeView;

/// Smaller bodies, such as one volume, take longer to compress than to send.
pub(super) const MIN_COMPRESSED_BODY: u16 = 4096;

/// The texts that are kept for lists.
#[derive(Debug, Default)]
pub(super) struct KeptLists {
    stubs: KeptStubs,
    groups: CompressedGroups,
}

impl KeptLists {
    /// Returns the JSON list of these volumes, without spaces. A long one is compressed if `is_compressed`.
    ///
    /// # Errors
    /// If a volume cannot be encoded.
    pub(super) fn reply(
        &self,
        volumes: &[VolumeView],
        is_compressed: bool,
    ) -> Result<Reply, ServerError> {
        let texts = self.stubs.texts(volumes).map_err(not_encoded)?;
        let length: usize = texts.iter().map(|text| text.bytes.len()).sum();
        if is_compressed && length >= usize::from(MIN_COMPRESSED_BODY) {
            let list = self.groups.compress(&texts).map_err(not_encoded)?;
            return Ok(Reply::compressed(list));
        }
        Ok(Reply::pieces(list(texts)))
    }
}

fn list(mut texts: Vec<Text>) -> Pieces {
    if let Some(last) = texts.last_mut() {
        last.bytes.truncate(last.bytes.len() - 1);
    }
    let mut pieces = Pieces::from(b"[".to_vec());
    for text in texts {
        pieces.push(text.bytes);
    }
    pieces.push(Bytes::from_static(b"]"));
    pieces
}
