//! Hashes of fields, which show that a value has changed without revealing it.
//!
//! Each hash is HMAC-SHA256, truncated to 128 bits, with a random key per set, over the volume's name,
//! the field's name and the canonical value. Equal values of two volumes have different hashes, and
//! hashes of two sets cannot be compared. The key is in the same ledger, so a reader of the ledger
//! can test guesses; only readers of the secrets should have access to it.
//!
//! The canonical form is the one that plans compare (`plan::diff`): sizes in bytes; capabilities,
//! topologies and mount flags as sets; absent equal to empty.

use std::collections::{BTreeMap, BTreeSet};

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Sha256;

use nomad_csi_model::{
    FieldRef, MountOptions, NamespacedId, Secrets, UnresolvedRequest, Volume, VolumeField,
    VolumeRequest, hex,
};

/// The key of a set's hashes.
#[derive(Clone, PartialEq, Eq)]
pub struct LedgerKey([u8; 32]);

impl LedgerKey {
    /// Returns a key of random bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the hash of a field's canonical value.
    fn hash(&self, volume: &NamespacedId, field: &str, value: &impl Serialize) -> FieldHash {
        // JSON can represent every value in this file.
        let value = serde_json::to_vec(value).unwrap_or_default();
        // HMAC pads a short key with zeros to the block size, so this key is equivalent.
        let mut block = [0; 64];
        block[..32].copy_from_slice(&self.0);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        let (namespace, id) = (volume.namespace.as_str(), volume.id.as_str());
        let texts = [namespace, id, field].map(str::as_bytes);
        for part in texts.into_iter().chain([value.as_slice()]) {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        let full = mac.finalize().into_bytes();
        let mut short = [0; 16];
        short.copy_from_slice(&full[..16]);
        FieldHash(short)
    }

    /// Returns the hash of secrets, as they were sent.
    pub fn of_secrets(&self, volume: &NamespacedId, secrets: &Secrets) -> FieldHash {
        let pairs: BTreeMap<&str, &str> = secrets.expose().collect();
        self.hash(volume, "secrets", &pairs)
    }

    /// Returns the hash of mount flags, as a set.
    pub fn of_mount_flags(&self, volume: &NamespacedId, flags: &[String]) -> FieldHash {
        let flags = FieldRef::MountFlags(flags);
        self.hash(volume, VolumeField::MountFlags.key(), &CanonicalValue(flags))
    }

    /// Returns the hashes of every field that a request specifies, including hidden ones.
    pub fn of_request(&self, request: &VolumeRequest) -> FieldHashes {
        let mut hashes = self.without_secrets(request);
        if let Some(secrets) = &request.secrets {
            let hash = self.of_secrets(&request.key(), secrets);
            hashes.insert("secrets".to_owned(), hash);
        }
        hashes
    }

    /// Returns the hashes of every field that a specification specifies, except its secrets, which
    /// are not resolved yet.
    pub fn of_desired(&self, request: &UnresolvedRequest) -> FieldHashes {
        self.without_secrets(request)
    }

    fn without_secrets<S>(&self, request: &VolumeRequest<S>) -> FieldHashes {
        let key = request.key();
        let given = |field: VolumeField| Some(self.field(&key, field, request.field(field)?));
        VolumeField::ALL.into_iter().filter_map(given).collect()
    }

    /// Returns the hashes of every field that a server shows: never `secrets`, and mount flags only
    /// if they are not redacted.
    pub fn of_volume(&self, volume: &Volume) -> FieldHashes {
        let key = volume.key();
        let options = volume.mount_options.as_ref();
        let are_redacted = options.is_some_and(MountOptions::are_redacted);
        let is_shown = |field: &VolumeField| *field != VolumeField::MountFlags || !are_redacted;
        let shown = VolumeField::ALL.into_iter().filter(is_shown);
        shown.map(|field| self.field(&key, field, volume.field(field))).collect()
    }

    /// Returns the key and the hash of a field. The hash of an absent field is that of an empty one.
    fn field(
        &self,
        volume: &NamespacedId,
        field: VolumeField,
        value: FieldRef<'_>,
    ) -> (String, FieldHash) {
        (field.key().to_owned(), self.hash(volume, field.key(), &CanonicalValue(value)))
    }
}

impl LedgerKey {
    /// Returns the hash of a volume's name.
    pub(super) fn of_name(&self, volume: &NamespacedId) -> FieldHash {
        self.hash(volume, "name", &serde_json::Value::Null)
    }

    /// Returns the hash of what the plan of a volume depends on.
    pub(crate) fn of_plan_inputs(
        &self,
        volume: &NamespacedId,
        inputs: &impl Serialize,
    ) -> FieldHash {
        self.hash(volume, "plan", inputs)
    }

    /// Returns the hashes of every field that a server shows, for a volume in which all are empty.
    pub fn of_empty(&self, volume: &Volume) -> FieldHashes {
        let key = volume.key();
        let empty = |field| self.field(&key, field, volume.field(field).emptied());
        VolumeField::ALL.into_iter().map(empty).collect()
    }
}

impl std::fmt::Debug for LedgerKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LedgerKey(hidden)")
    }
}

/// Hashes by the keys of a specification, with dots where they are nested.
pub type FieldHashes = BTreeMap<String, FieldHash>;

/// The hash of a value. It reveals only whether two values are equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldHash([u8; 16]);

impl std::fmt::Debug for FieldHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex(&self.0).collect::<String>())
    }
}

impl Serialize for FieldHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(&self.0).collect::<String>())
    }
}

impl<'de> Deserialize<'de> for FieldHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        bytes(deserializer).map(Self)
    }
}

impl Serialize for LedgerKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(&self.0).collect::<String>())
    }
}

impl<'de> Deserialize<'de> for LedgerKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        bytes(deserializer).map(Self)
    }
}

fn bytes<'de, const N: usize, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; N], D::Error> {
    deserializer.deserialize_str(HexVisitor)
}

/// Reads bytes as hexadecimal digits, without a copy of the text.
struct HexVisitor<const N: usize>;

impl<const N: usize> Visitor<'_> for HexVisitor<N> {
    type Value = [u8; N];

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} hexadecimal digits", 2 * N)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        let invalid = || E::custom(format!("expected {} hexadecimal digits", 2 * N));
        if text.len() != 2 * N || !text.is_ascii() {
            return Err(invalid());
        }
        let mut bytes = [0; N];
        for (byte, at) in bytes.iter_mut().zip((0..text.len()).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| invalid())?;
        }
        Ok(bytes)
    }
}

/// The value of a field in the form that is hashed. Mount flags are in it.
pub(crate) struct CanonicalValue<'v>(pub(crate) FieldRef<'v>);

impl Serialize for CanonicalValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fn set<T: Ord>(list: &[T]) -> BTreeSet<&T> {
            list.iter().collect()
        }
        match self.0 {
            FieldRef::Text(text) => text.serialize(serializer),
            FieldRef::Size(size) => size.to_wire().serialize(serializer),
            FieldRef::Capabilities(list) => set(list).serialize(serializer),
            FieldRef::MountFlags(flags) => set(flags).serialize(serializer),
            FieldRef::Topologies(list) => set(list).serialize(serializer),
            FieldRef::Map(map) => map.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{complete, complete_request};

    fn lines(hashes: &FieldHashes) -> Vec<String> {
        hashes.iter().map(|(key, hash)| format!("{key} {hash:?}")).collect()
    }

    /// A ledger of an earlier program stays comparable. The hashes are those of the program before the table of fields.
    #[test]
    fn stored_hashes_never_change() {
        let key = LedgerKey::new([7; 32]);
        let stored = [
            "capability ae21b84ecfce459ff4a61b92dcf97b2f",
            "capacity_max 5eb690e53aaf8bb797bcfb35882fc183",
            "capacity_min 66fb0296a8e3ca1632bc649e10e8a0ad",
            "clone_id 04d3abb040a9d8d2e693a5b19c4900b4",
            "context 7d58d6b4b11bbc2b39ca7489ebe55e3a",
            "external_id af609895e24072f28411abb72c64c0d0",
            "mount_options.fs_type 8e691670881d3652a75ca5cd6366754a",
            "mount_options.mount_flags e2c31b583dac566e457d3d3b55b3c77c",
            "name 0e50772360fd61ea14adaf9b53c68090",
            "parameters 37aa6a83d4b84207509ccf892a7dddd5",
            "plugin_id 2f77b81f28e6385ab7cc05fd61b3068c",
            "secrets 12e5b8ac03b514bbd5042f37fe38bcd1",
            "snapshot_id f5fe3b16915a2c3ef06ee86d3611f1a9",
            "topology_request.preferred 783c25dbc9c5c036535de914f29109f0",
            "topology_request.required f93b84a79726397a0d0d61315b5967e2",
        ];
        assert_eq!(lines(&key.of_request(&complete_request())), stored);
        let shown: Vec<_> =
            stored.into_iter().filter(|line| !line.starts_with("secrets")).collect();
        assert_eq!(lines(&key.of_volume(&complete())), shown);
        let empty = [
            "capability 5fa9b9bf8815e7d7e4fd797cbb699d4e",
            "capacity_max d85aa124b6ec5976f524ba8f73a4a658",
            "capacity_min 11d3b752989e147df8e1e40993813e15",
            "clone_id 2e4f4c86fc166628085dba2eb28cc62d",
            "context 0a3987d9ae9399e9027d05a87172efd0",
            "external_id 347f4ec8e40ba96becfcfe06e0cbf4b8",
            "mount_options.fs_type b83c6577a5514d7f397cc8b433839b77",
            "mount_options.mount_flags 3c47eb59f849a20acc421ac2fb0fba1f",
            "name e20beeb4ad957e3b0665ee198f882210",
            "parameters 7de598201ca04e0958deba2754fd6f5e",
            "plugin_id 456286b915adae2f59fc87d402536206",
            "snapshot_id 24ecb26fa3e1ef1ac8fe7c98f560ba7e",
            "topology_request.preferred 61cf5645820eb06b89acdaaeb025cba0",
            "topology_request.required 1d566f4bd556c320ac69deb07ccf5cbf",
        ];
        assert_eq!(lines(&key.of_empty(&complete())), empty);
    }
}
