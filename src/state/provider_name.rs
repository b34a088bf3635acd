//! What a volume is called when its provider is asked to create it.

use sha2::{Digest as _, Sha256};

use super::record::VolumeRecord;
use super::tables::State;
use crate::model::hex;

/// How much of the ID the provider's name shows.
const READABLE: usize = 24;

/// The name that CreateVolume is sent with (W13).
///
/// For the provider it is the volume's identity: of one name there is one volume. So it is the same
/// for every attempt of one creation, and differs between namespaces, IDs, a volume and the one that
/// is created in its place later, and between agents that share a provider. It has the shape that
/// the strictest providers take: at most 63 bytes of `a-z`, `0-9` and `-`, a letter first; the ID
/// is in it as far as it can be, for people.
pub fn provider_name(state: &State, record: &VolumeRecord) -> String {
    let key = record.key();
    let generation = record.create_index.to_string();
    let mut hash = Sha256::new();
    for part in [
        &state.origin,
        key.namespace.as_str(),
        key.id.as_str(),
        &generation,
    ] {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    let unique: String = hex(&digest[..16]).collect();
    let readable = readable(key.id.as_str());
    if readable.is_empty() {
        format!("csi-{unique}")
    } else {
        format!("csi-{readable}-{unique}")
    }
}

fn readable(id: &str) -> String {
    let plain = |c: char| {
        let c = c.to_ascii_lowercase();
        if c.is_ascii_alphanumeric() { c } else { '-' }
    };
    let text: String = id.chars().map(plain).collect();
    let words: Vec<_> = text.split('-').filter(|word| !word.is_empty()).collect();
    let joined = words.join("-");
    let cut = &joined[..joined.len().min(READABLE)];
    cut.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests;
