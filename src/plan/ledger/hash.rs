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
    Bytes, CapacityRange, MountOptions, NamespacedId, PluginId, Secrets, Topology,
    UnresolvedRequest, Volume, VolumeRequest, hex,
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
        let flags: BTreeSet<&String> = flags.iter().collect();
        self.hash(volume, "mount_options.mount_flags", &flags)
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
        let mut hashes: FieldHashes = VisibleFields::of_request(request)
            .0
            .iter()
            .map(|(field, value)| ((*field).to_owned(), self.hash(&key, field, value)))
            .collect();
        if let Some(options) = &request.mount_options {
            let hash = self.of_mount_flags(&key, &options.mount_flags);
            hashes.insert("mount_options.mount_flags".to_owned(), hash);
        }
        hashes
    }

    /// Returns the hashes of every field that a server shows: never `secrets`, and mount flags only
    /// if they are not redacted.
    pub fn of_volume(&self, volume: &Volume) -> FieldHashes {
        let key = volume.key();
        let mut hashes: FieldHashes = VisibleFields::of_volume(volume)
            .0
            .iter()
            .map(|(field, value)| ((*field).to_owned(), self.hash(&key, field, value)))
            .collect();
        let options = volume.mount_options.as_ref();
        if !options.is_some_and(MountOptions::are_redacted) {
            let flags = options.map_or(&[][..], |options| &options.mount_flags);
            let hash = self.of_mount_flags(&key, flags);
            hashes.insert("mount_options.mount_flags".to_owned(), hash);
        }
        hashes
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
        self.of_volume(&Volume {
            name: String::new(),
            plugin_id: PluginId::new(""),
            external_id: None,
            snapshot_id: None,
            clone_id: None,
            requested_capacity: CapacityRange::default(),
            capabilities: vec![],
            mount_options: None,
            topology_request: None,
            parameters: BTreeMap::new(),
            context: BTreeMap::new(),
            ..volume.clone()
        })
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

/// The fields that are not hidden, in their canonical form.
struct VisibleFields(Vec<(&'static str, serde_json::Value)>);

impl VisibleFields {
    /// The fields that a request specifies; omitted fields are not included.
    fn of_request<S>(request: &VolumeRequest<S>) -> Self {
        let size = |bytes: Bytes| (!bytes.is_zero()).then(|| value(&bytes.to_wire()));
        let topology = request.topology_request.as_ref();
        let capabilities: BTreeSet<_> = request.capabilities.iter().collect();
        let fields = [
            ("name", request.name.as_ref().map(value)),
            ("plugin_id", Some(value(&request.plugin_id))),
            ("external_id", request.external_id.as_ref().map(value)),
            ("snapshot_id", request.snapshot_id.as_ref().map(value)),
            ("clone_id", request.clone_id.as_ref().map(value)),
            ("capacity_min", size(request.capacity.min)),
            ("capacity_max", size(request.capacity.max)),
            ("capability", Some(value(&capabilities))),
            ("mount_options.fs_type", request.mount_options.as_ref().map(|o| value(&o.fs_type))),
            ("topology_request.required", topology.map(|topology| topologies(&topology.required))),
            (
                "topology_request.preferred",
                topology.map(|topology| topologies(&topology.preferred)),
            ),
            ("parameters", request.parameters.as_ref().map(value)),
            ("context", request.context.as_ref().map(value)),
        ];
        let specified = |(field, value): (_, Option<_>)| value.map(|value| (field, value));
        Self(fields.into_iter().filter_map(specified).collect())
    }

    /// The fields that a server shows, with absent fields as empty ones.
    fn of_volume(volume: &Volume) -> Self {
        let options = volume.mount_options.as_ref();
        let topology = volume.topology_request.as_ref();
        let capabilities: BTreeSet<_> = volume.capabilities.iter().collect();
        let text = |text: Option<&String>| value(&text.map_or("", String::as_str));
        let external = volume.external_id.as_ref().map_or("", |id| id.as_str());
        Self(vec![
            ("name", value(&volume.name)),
            ("plugin_id", value(&volume.plugin_id)),
            ("external_id", value(&external)),
            ("snapshot_id", text(volume.snapshot_id.as_ref())),
            ("clone_id", text(volume.clone_id.as_ref())),
            ("capacity_min", value(&volume.requested_capacity.min.to_wire())),
            ("capacity_max", value(&volume.requested_capacity.max.to_wire())),
            ("capability", value(&capabilities)),
            ("mount_options.fs_type", text(options.map(|options| &options.fs_type))),
            (
                "topology_request.required",
                topologies(topology.map_or(&[], |topology| &topology.required)),
            ),
            (
                "topology_request.preferred",
                topologies(topology.map_or(&[], |topology| &topology.preferred)),
            ),
            ("parameters", value(&volume.parameters)),
            ("context", value(&volume.context)),
        ])
    }
}

fn topologies(list: &[Topology]) -> serde_json::Value {
    value(&list.iter().collect::<BTreeSet<_>>())
}

/// Returns a value as JSON; every value in this file can be converted.
fn value(of: &impl Serialize) -> serde_json::Value {
    serde_json::to_value(of).unwrap_or_default()
}
