//! The name of a volume in CreateVolume.

use sha2::{Digest as _, Sha256};

use super::record::VolumeRecord;
use super::tables::State;
use nomad_csi_model::hex;

/// The maximum length of the ID in the name.
const READABLE: usize = 24;

/// Returns the name for CreateVolume (W13: Nomad sends a name that several volumes may share).
///
/// Drivers identify a volume by its name, so every attempt of one creation sends the same name (CSI
/// 1.12, CreateVolume). The name differs between namespaces, IDs, generations of one ID, and agents
/// that share a provider. It has the form that the strictest providers accept: at most 63 bytes of
/// `a-z`, `0-9` and `-`, a letter first. It contains the ID as far as possible.
pub fn provider_name(state: &State, record: &VolumeRecord) -> String {
    let key = record.key();
    let generation = record.create_index.to_string();
    let mut hash = Sha256::new();
    for part in [&state.origin, key.namespace.as_str(), key.id.as_str(), &generation] {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    let unique: String = hex(&digest[..16]).collect();
    let readable = readable(key.id.as_str());
    if readable.is_empty() { format!("csi-{unique}") } else { format!("csi-{readable}-{unique}") }
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
