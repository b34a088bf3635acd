//! The field table: every key that a specification may have, what kind of value it takes, whether it
//! can change, and one line of documentation. Decoding, "did you mean", and whoever explains or
//! completes fields read this and nothing else (`nomad-http-api` 5.3, `csi-orchestration` 1.2).

/// What kind of value a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A text; numbers are taken as text.
    Text,
    /// A size: `10GiB`, `20G`, a number of bytes.
    Size,
    /// `true` or `false`.
    Boolean,
    /// A list of texts.
    TextList,
    /// A block with keys of its own, at most once.
    Block,
    /// A block with keys of its own, any number of times.
    Blocks,
    /// Any keys, each with a text; repeated blocks are merged.
    TextMap,
}

/// Whether a field of an existing volume can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutability {
    /// It is part of the volume's name: another value is another volume.
    Identity,
    /// Never.
    Immutable,
    /// Only in ways that fit the volume as it is: capabilities keep the one in use, sizes grow.
    Restricted,
    /// While nobody uses the volume.
    WhileUnused,
    /// At any time.
    Mutable,
    /// It concerns the file, not the volume.
    None,
}

/// Where a key may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a flat file and in a `volume` block.
    Anywhere,
    /// In a `volume` block only.
    VolumeBlock,
}

/// One key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its word in a file.
    pub key: &'static str,
    /// Its name in Nomad's API, empty if it has none.
    pub api: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Whether it can change.
    pub mutability: Mutability,
    /// Where it may stand.
    pub place: Place,
    /// One sentence on what it says.
    pub doc: &'static str,
}

const fn field(
    key: &'static str,
    api: &'static str,
    kind: Kind,
    mutability: Mutability,
    doc: &'static str,
) -> Field {
    Field {
        key,
        api,
        kind,
        mutability,
        place: Place::Anywhere,
        doc,
    }
}

/// The keys of a volume.
#[rustfmt::skip]
pub const VOLUME: &[Field] = &[
    field("id", "ID", Kind::Text, Mutability::Identity, "What jobs call the volume; unique in its namespace."),
    field("namespace", "Namespace", Kind::Text, Mutability::Identity, "The namespace it lives in."),
    field("name", "Name", Kind::Text, Mutability::Immutable, "What people and the provider call it; a new volume needs one."),
    field("type", "", Kind::Text, Mutability::None, "The type of volume: `csi`."),
    field("plugin_id", "PluginID", Kind::Text, Mutability::Immutable, "The plugin that provides it."),
    field("external_id", "ExternalID", Kind::Text, Mutability::Immutable, "The provider's own ID of a volume that exists already."),
    field("snapshot_id", "SnapshotID", Kind::Text, Mutability::Immutable, "A snapshot to restore, by the provider's ID."),
    field("clone_id", "CloneID", Kind::Text, Mutability::Immutable, "A volume to copy, by the provider's ID."),
    field("capacity_min", "RequestedCapacityMin", Kind::Size, Mutability::Restricted, "The least that will do: `10GiB`."),
    field("capacity_max", "RequestedCapacityMax", Kind::Size, Mutability::Restricted, "The most that will do: `20G`."),
    field("capability", "RequestedCapabilities", Kind::Blocks, Mutability::Restricted, "One way in which it may be used; at least one."),
    field("mount_options", "MountOptions", Kind::Block, Mutability::WhileUnused, "How its file system is made and mounted."),
    field("topology_request", "RequestedTopologies", Kind::Blocks, Mutability::Immutable, "Where it shall be reachable from."),
    field("secrets", "Secrets", Kind::TextMap, Mutability::Mutable, "What the provider wants to see; shown nowhere."),
    field("parameters", "Parameters", Kind::TextMap, Mutability::Immutable, "The provider's own settings for a new volume."),
    field("context", "Context", Kind::TextMap, Mutability::Mutable, "The provider's own data on a volume that exists already."),
    field("protect", "", Kind::Boolean, Mutability::None, "Whether it is kept from being removed with its set; kept in the ledger, never sent."),
    field("ignore", "", Kind::TextList, Mutability::None, "Fields whose drift is ignored: `[\"context\"]`."),
    Field { place: Place::VolumeBlock, ..field("source", "ID", Kind::Text, Mutability::Identity, "The volume's ID, if it is not the block's label.") },
    Field { place: Place::VolumeBlock, ..field("read_only", "", Kind::Boolean, Mutability::None, "Whether its users only read; held against the access modes, never sent.") },
];

/// The keys of a file, beside its volumes.
pub const FILE: &[Field] = &[field(
    "set",
    "",
    Kind::Text,
    Mutability::None,
    "The set that all volumes of the run belong to.",
)];

/// The keys of a `capability` block.
#[rustfmt::skip]
pub const CAPABILITY: &[Field] = &[
    field("access_mode", "AccessMode", Kind::Text, Mutability::Restricted, "Who may use it: `single-node-writer`."),
    field("attachment_mode", "AttachmentMode", Kind::Text, Mutability::Restricted, "As what: `file-system` or `block-device`."),
];

/// The keys of a `mount_options` block.
#[rustfmt::skip]
pub const MOUNT_OPTIONS: &[Field] = &[
    field("fs_type", "FSType", Kind::Text, Mutability::WhileUnused, "The type of file system: `ext4`."),
    field("mount_flags", "MountFlags", Kind::TextList, Mutability::WhileUnused, "Flags for mount(8); shown nowhere."),
];

/// The keys of a `topology_request` block.
#[rustfmt::skip]
pub const TOPOLOGY_REQUEST: &[Field] = &[
    field("required", "Required", Kind::Blocks, Mutability::Immutable, "At least one of these places."),
    field("preferred", "Preferred", Kind::Blocks, Mutability::Immutable, "Rather these places, in this order."),
];

/// The key of the set at the top level of a file.
pub(super) const SET: &str = "set";

/// All fields whose drift can be seen, dotted where they are nested: what `ignore` may name.
pub fn drifting() -> impl Iterator<Item = String> {
    let nested = |field: &'static Field| match field.key {
        "mount_options" => MOUNT_OPTIONS,
        "topology_request" => TOPOLOGY_REQUEST,
        _ => &[],
    };
    let told =
        |field: &&Field| !field.api.is_empty() && !matches!(field.mutability, Mutability::Identity);
    VOLUME.iter().filter(told).flat_map(move |field| {
        let inner = nested(field).iter();
        let dotted = inner.map(|inner| format!("{}.{}", field.key, inner.key));
        std::iter::once(field.key.to_owned()).chain(dotted)
    })
}

/// What Nomad takes at the top level by its API's name although only a server may set it
/// (`nomad-http-api` 5.5, W22).
pub(super) const SERVER_FIELDS: &[&str] = &[
    "AccessMode",
    "Allocations",
    "AttachmentMode",
    "Capacity",
    "ControllerRequired",
    "ControllersExpected",
    "ControllersHealthy",
    "CreateIndex",
    "CreateTime",
    "ModifyIndex",
    "ModifyTime",
    "NodesExpected",
    "NodesHealthy",
    "Provider",
    "ProviderVersion",
    "ReadAllocs",
    "ResourceExhausted",
    "Schedulable",
    "Topologies",
    "WriteAllocs",
];

/// The field of that key, in any case: Nomad does not tell cases apart at the top level.
pub(super) fn volume_field(key: &str) -> Option<&'static Field> {
    VOLUME
        .iter()
        .find(|field| field.key.eq_ignore_ascii_case(key))
}

/// Whether a key is one that a specification may have, spelled as it should be.
pub(super) fn is_key(key: &str) -> bool {
    if matches!(key, "volume" | "topology" | "segments") {
        return true;
    }
    let tables = [FILE, VOLUME, CAPABILITY, MOUNT_OPTIONS, TOPOLOGY_REQUEST];
    let mut fields = tables.into_iter().flatten();
    fields.any(|field| field.key == key)
}

/// The key that was meant by a field's name in the API, in any spelling: `PluginID`, `pluginId`.
pub(super) fn by_api_name(fields: &'static [Field], key: &str) -> Option<&'static str> {
    let plain = key.replace(['_', '-'], "");
    let same = |field: &&Field| {
        let key = field.key.replace('_', "");
        plain.eq_ignore_ascii_case(&key)
            || !field.api.is_empty() && plain.eq_ignore_ascii_case(field.api)
    };
    fields.iter().find(same).map(|field| field.key)
}
