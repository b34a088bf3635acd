//! [`Keys`]: the names of everything that a cluster keeps in etcd.
//!
//! ```text
//! leader             JSON of the leader, with its lease; the create revision is its term
//! head               the index of the last event: 8 bytes, big endian
//! log/FIRST          a batch of events under the index of its first one, 16 hexadecimal digits
//! part/FIRST/ID/N    a piece of a large batch
//! snap/INDEX/N       a chunk of a set of the snapshot
//! snapshots          JSON: the sets that count
//! meta/format        the number of this layout
//! meta/key           the fingerprint of the key that seals secrets
//! ```

use crate::api::{Etcd, read_key};
use crate::batch::BatchId;
use crate::error::EtcdError;
use nomad_csi_model::Term;

/// The names of the keys of one cluster, below its prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    prefix: String,
}

impl Keys {
    /// Returns the keys below this prefix, which ends with a slash.
    pub fn new(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into() }
    }

    /// Returns the prefix.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn leader(&self) -> Vec<u8> {
        self.named("leader")
    }

    pub(crate) fn head(&self) -> Vec<u8> {
        self.named("head")
    }

    pub(crate) fn snapshots(&self) -> Vec<u8> {
        self.named("snapshots")
    }

    pub(crate) fn format(&self) -> Vec<u8> {
        self.named("meta/format")
    }

    pub(crate) fn key_fingerprint(&self) -> Vec<u8> {
        self.named("meta/key")
    }

    pub(crate) fn log(&self, first: u64) -> Vec<u8> {
        self.named(&format!("log/{first:016x}"))
    }

    /// Returns the end of all batches.
    pub(crate) fn log_end(&self) -> Vec<u8> {
        self.named("log0")
    }

    /// Returns the index in the key of a batch.
    pub(crate) fn first_of_log(&self, key: &[u8]) -> Option<u64> {
        index(key.strip_prefix(self.named("log/").as_slice())?)
    }

    /// Returns the start of the pieces of batches from this index on.
    pub(crate) fn parts_from(&self, first: u64) -> Vec<u8> {
        self.named(&format!("part/{first:016x}/"))
    }

    pub(crate) fn part(&self, first: u64, id: BatchId, number: u32) -> Vec<u8> {
        let BatchId { term: Term { epoch, revision }, number: batch } = id;
        self.named(&format!("part/{first:016x}/{epoch:x}-{revision:x}-{batch:x}/{number:08x}"))
    }

    pub(crate) fn chunk(&self, index: u64, number: u32) -> Vec<u8> {
        self.named(&format!("snap/{index:016x}/{number:08x}"))
    }

    pub(crate) fn chunks(&self) -> (Vec<u8>, Vec<u8>) {
        (self.named("snap/"), self.named("snap0"))
    }

    /// Returns the range of the chunks of one set.
    pub(crate) fn chunks_of(&self, index: u64) -> (Vec<u8>, Vec<u8>) {
        let (from, to) = (format!("snap/{index:016x}/"), format!("snap/{index:016x}0"));
        (self.named(&from), self.named(&to))
    }

    /// Returns the index in the key of a chunk.
    pub(crate) fn index_of_chunk(&self, key: &[u8]) -> Option<u64> {
        let rest = key.strip_prefix(self.named("snap/").as_slice())?;
        index(rest.split(|byte| *byte == b'/').next()?)
    }

    fn named(&self, name: &str) -> Vec<u8> {
        format!("{}{name}", self.prefix).into_bytes()
    }
}

fn index(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Returns the text that the key of a cluster gives, which its first server wrote.
///
/// # Errors
/// If etcd does not answer.
pub async fn recorded_key(etcd: &dyn Etcd, keys: &Keys) -> Result<Option<String>, EtcdError> {
    let (found, _) = read_key(etcd, keys.key_fingerprint(), 0).await?;
    Ok(found.map(|kv| String::from_utf8_lossy(&kv.value).into_owned()))
}

/// Returns an index as it is stored.
pub(crate) fn encoded_index(index: u64) -> Vec<u8> {
    index.to_be_bytes().to_vec()
}

/// Returns a stored index.
pub(crate) fn decoded_index(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_below_the_prefix_and_sorted_by_index() {
        let keys = Keys::new("/nomad-csi/global/");
        assert_eq!(keys.log(255), b"/nomad-csi/global/log/00000000000000ff");
        assert!(keys.log(15) < keys.log(16) && keys.log(u64::MAX) < keys.log_end());
        assert_eq!(keys.first_of_log(&keys.log(77)), Some(77));
        assert_eq!(keys.first_of_log(&keys.head()), None);
        assert_eq!(keys.index_of_chunk(&keys.chunk(9, 3)), Some(9));
        let (from, to) = keys.chunks_of(9);
        assert!(from < keys.chunk(9, 0) && keys.chunk(9, u32::MAX) < to);
        assert!(to < keys.chunk(10, 0));
        let id = BatchId { term: Term { epoch: 1, revision: 7 }, number: 2 };
        assert!(
            keys.parts_from(9) < keys.part(9, id, 0) && keys.part(9, id, 9) < keys.parts_from(10)
        );
    }
}
