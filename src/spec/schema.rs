//! The table of all fields of a specification: value, mutability and a line of documentation.
//!
//! Decoding, suggestions, `explain` and completion use this table.

use super::syntax::Syntax;

/// The kind of value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A text; numbers count as text.
    Text,
    /// A size: `10GiB`, `20G`, a number of bytes.
    Size,
    /// `true` or `false`.
    Boolean,
    /// A list of texts.
    TextList,
    /// A block with its own fields, at most once.
    Block,
    /// A block with its own fields, any number of times.
    Blocks,
    /// A map of texts; repeated blocks are merged.
    TextMap,
}

/// When a field of an existing volume can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutability {
    /// It identifies the volume: another value means another volume.
    Identity,
    /// Never.
    Immutable,
    /// Only as the volume permits: capabilities keep the one in use, and sizes grow.
    Restricted,
    /// While no allocation claims the volume.
    WhileUnused,
    /// At any time.
    Mutable,
    /// It belongs to the file, not to the volume.
    None,
}

/// Where a field is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldPlacement {
    /// In a flat file and in a `volume` block.
    Anywhere,
    /// In a `volume` block only.
    VolumeBlock,
}

/// One field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its key in a file.
    pub key: &'static str,
    /// Its name in Nomad's API; empty if none.
    pub api: &'static str,
    /// The kind of its value.
    pub kind: Kind,
    /// When it can change.
    pub mutability: Mutability,
    /// The value that applies without it.
    pub default: &'static str,
    /// Where it is allowed.
    pub place: FieldPlacement,
    /// One sentence of documentation.
    pub doc: &'static str,
}

const fn field(
    key: &'static str,
    api: &'static str,
    kind: Kind,
    mutability: Mutability,
    default: &'static str,
    doc: &'static str,
) -> Field {
    Field { key, api, kind, mutability, default, place: FieldPlacement::Anywhere, doc }
}

/// The fields of a volume.
#[rustfmt::skip]
pub const VOLUME: &[Field] = &[
    field("id", "ID", Kind::Text, Mutability::Identity, "required", "ID of the volume in jobs, unique in its namespace."),
    field("namespace", "Namespace", Kind::Text, Mutability::Identity, "the command's namespace, then `default`", "Namespace of the volume."),
    field("name", "Name", Kind::Text, Mutability::Immutable, "none; required to create", "Name at the provider; required to create a volume."),
    field("type", "", Kind::Text, Mutability::None, "required", "Type of the volume: `csi`."),
    field("plugin_id", "PluginID", Kind::Text, Mutability::Immutable, "required", "ID of the plugin that provides the volume."),
    field("external_id", "ExternalID", Kind::Text, Mutability::Immutable, "none", "Provider's ID of an existing volume."),
    field("snapshot_id", "SnapshotID", Kind::Text, Mutability::Immutable, "none", "Snapshot to restore, by the provider's ID."),
    field("clone_id", "CloneID", Kind::Text, Mutability::Immutable, "none", "Volume to clone, by the provider's ID."),
    field("capacity_min", "RequestedCapacityMin", Kind::Size, Mutability::Restricted, "none", "Minimum size, such as `10GiB`."),
    field("capacity_max", "RequestedCapacityMax", Kind::Size, Mutability::Restricted, "none: no limit", "Maximum size, such as `20G`."),
    field("capability", "RequestedCapabilities", Kind::Blocks, Mutability::Restricted, "required", "Access mode and attachment mode; at least one."),
    field("mount_options", "MountOptions", Kind::Block, Mutability::WhileUnused, "the plugin's", "File system and mount flags."),
    field("topology_request", "RequestedTopologies", Kind::Blocks, Mutability::Immutable, "none: any topology", "Topologies from which the volume must be accessible."),
    field("secrets", "Secrets", Kind::TextMap, Mutability::Mutable, "none", "Secrets for the plugin, never shown: values, or references: `env(\"NAME\")`, `file(\"PATH\")`, `nomad_var(\"PATH\", \"KEY\")`."),
    field("parameters", "Parameters", Kind::TextMap, Mutability::Immutable, "none", "Plugin-specific parameters of a new volume."),
    field("context", "Context", Kind::TextMap, Mutability::Mutable, "none", "Plugin-specific context of an existing volume."),
    field("protect", "", Kind::Boolean, Mutability::None, "`false`", "Protects the volume from removal with its set; stored in the ledger, never sent."),
    field("ignore", "", Kind::TextList, Mutability::None, "none", "Fields that drift and plans leave as the server has them, such as `[\"context\"]`."),
    Field { place: FieldPlacement::VolumeBlock, ..field("source", "ID", Kind::Text, Mutability::Identity, "the block's label", "ID of the volume, if not the block's label.") },
    Field { place: FieldPlacement::VolumeBlock, ..field("read_only", "", Kind::Boolean, Mutability::None, "`false`", "Whether jobs only read; checked against the access modes, never sent.") },
];

/// The fields of a file, beside its volumes.
#[rustfmt::skip]
pub const FILE: &[Field] = &[field("set", "", Kind::Text, Mutability::None, "none",
    "Set of all volumes of the command.",
)];

/// The fields of a `capability` block.
#[rustfmt::skip]
pub const CAPABILITY: &[Field] = &[
    field("access_mode", "AccessMode", Kind::Text, Mutability::Restricted, "required", "How many nodes and writers may use the volume, such as `single-node-writer`."),
    field("attachment_mode", "AttachmentMode", Kind::Text, Mutability::Restricted, "required", "`file-system` or `block-device`."),
];

/// The fields of a `mount_options` block.
#[rustfmt::skip]
pub const MOUNT_OPTIONS: &[Field] = &[
    field("fs_type", "FSType", Kind::Text, Mutability::WhileUnused, "the plugin's", "Type of the file system, such as `ext4`."),
    field("mount_flags", "MountFlags", Kind::TextList, Mutability::WhileUnused, "none", "Flags for mount(8); never shown."),
];

/// The fields of a `topology_request` block.
#[rustfmt::skip]
pub const TOPOLOGY_REQUEST: &[Field] = &[
    field("required", "Required", Kind::Blocks, Mutability::Immutable, "none", "Topologies of which at least one is required."),
    field("preferred", "Preferred", Kind::Blocks, Mutability::Immutable, "none", "Preferred topologies, in this order."),
];

/// Returns every field with the block that contains it: `volume`, `capability`. The file is no block.
pub fn located_fields() -> impl Iterator<Item = (Option<&'static str>, &'static Field)> {
    let tables = [
        (None, FILE),
        (Some("volume"), VOLUME),
        (Some("capability"), CAPABILITY),
        (Some("mount_options"), MOUNT_OPTIONS),
        (Some("topology_request"), TOPOLOGY_REQUEST),
    ];
    let rows = tables.into_iter();
    rows.flat_map(|(block, fields)| fields.iter().map(move |field| (block, field)))
}

impl std::fmt::Display for Kind {
    /// A noun: `a list of texts`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Text => "a text",
            Self::Size => "a size: `10GiB`, `20G`, or a number of bytes",
            Self::Boolean => "`true` or `false`",
            Self::TextList => "a list of texts",
            Self::Block => "a block",
            Self::Blocks => "a block, repeatable",
            Self::TextMap => "a map of texts",
        })
    }
}

impl std::fmt::Display for Mutability {
    /// When the field of an existing volume can change.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Identity => "never: another value names another volume",
            Self::Immutable => "never, except with `--replace`",
            Self::Restricted => "within the limits of the volume",
            Self::WhileUnused => "while no allocation claims the volume",
            Self::Mutable => "at any time",
            Self::None => "at any time: it is never sent to a server",
        })
    }
}

/// The block of a class at the top level of a file, and the key of a volume that takes one.
pub(super) const CLASS: &str = "class";

/// The block of fields for all volumes of a file.
pub(super) const DEFAULTS: &str = "defaults";

/// The block of a variable, and that of local values.
pub(super) const VARIABLE: &str = "variable";
pub(super) const LOCALS: &str = "locals";

/// The fields of a variable.
pub(super) const VARIABLE_FIELDS: [&str; 5] =
    ["type", "default", "description", "sensitive", "validation"];

/// The fields of a validation of a variable.
pub(super) const VALIDATION_FIELDS: [&str; 2] = ["condition", "error_message"];

/// The keys of a `volume` block with several volumes.
pub(super) const COUNT: &str = "count";
pub(super) const FOR_EACH: &str = "for_each";

/// The key of a `volume` block that says whether it declares any volume.
pub(super) const ENABLED: &str = "enabled";

/// The keys of a `volume` block that are not fields of its volumes.
pub(super) const VOLUME_BLOCK: [&str; 4] = [COUNT, FOR_EACH, ENABLED, CLASS];

/// The keys that only a `volume` block can have: with a class, several volumes would have them.
pub(super) const NOT_INHERITABLE: [&str; 6] =
    ["id", "source", "external_id", COUNT, FOR_EACH, ENABLED];

/// The field that every volume needs.
pub(super) const REQUIRED: &str = "plugin_id";

/// The key of the set at the top level of a file.
pub(super) const SET: &str = "set";

/// The beginning of top-level keys that declare nothing, in YAML and JSON. They hold what their author refers to with anchors.
pub(super) const EXTENSION: &str = "x-";

/// Returns whether a top-level key declares nothing: that of a comment, which JSON writes as `//`, or one with `x-`.
pub(super) fn declares_nothing(key: &str, syntax: Syntax) -> bool {
    match syntax {
        Syntax::Hcl => false,
        Syntax::Yaml => key.starts_with(EXTENSION),
        Syntax::Json => key == "//" || key.starts_with(EXTENSION),
    }
}

/// The keys of a `volume` block that decide which volumes it declares, each with a line of documentation.
pub(super) const INSTANCE_WORDS: [(&str, &str); 4] = [
    (CLASS, "Class whose fields the volume takes; null for none."),
    (ENABLED, "Whether the volume is declared."),
    (COUNT, "Number of volumes; `count.index` distinguishes them."),
    (FOR_EACH, "Map, or list of distinct texts: one volume for each item."),
];

/// The blocks at the top level of a file, each with a line of documentation.
pub(super) const BLOCK_WORDS: [(&str, &str); 5] = [
    ("volume", "Volumes by their labels."),
    (CLASS, "Fields that volumes take by the name of the class."),
    (DEFAULTS, "Fields of every volume of this file that does not have them."),
    (VARIABLE, "Values that the command line or its files give."),
    (LOCALS, "Named values of the run."),
];

/// The class that `defaults` choose.
pub(super) const DEFAULT_CLASS_DOC: &str = "Class of the volumes that name none.";

/// The fields of a variable, each with a line of documentation.
pub(super) const VARIABLE_WORDS: [(&str, &str); 5] = [
    ("type", "`string`, `number`, `bool`, `list(T)`, `map(T)`, `object({…})` or `any`."),
    ("description", "What the value is for."),
    ("default", "Value of a variable that is given none."),
    ("sensitive", "Whether the value may only reach secrets and mount flags."),
    ("validation", "Condition that the value must meet."),
];

/// The fields of a validation, each with a line of documentation.
pub(super) const VALIDATION_WORDS: [(&str, &str); 2] = [
    ("condition", "Whether the value is valid."),
    ("error_message", "Reason of a refusal, for a message."),
];

/// Returns the fields that drift can check, which `ignore` may name. Nested fields are dotted.
pub fn drift_fields() -> impl Iterator<Item = String> {
    let nested = |field: &'static Field| match field.key {
        "mount_options" => MOUNT_OPTIONS,
        "topology_request" => TOPOLOGY_REQUEST,
        _ => &[],
    };
    let is_checked =
        |field: &&Field| !field.api.is_empty() && !matches!(field.mutability, Mutability::Identity);
    VOLUME.iter().filter(is_checked).flat_map(move |field| {
        let inner = nested(field).iter();
        let dotted = inner.map(|inner| format!("{}.{}", field.key, inner.key));
        std::iter::once(field.key.to_owned()).chain(dotted)
    })
}

/// Fields that only a server may set, but that Nomad accepts in a file by their API names (W22).
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

/// Returns the field of a key, in any case: Nomad ignores case at the top level.
pub(super) fn volume_field(key: &str) -> Option<&'static Field> {
    VOLUME.iter().find(|field| field.key.eq_ignore_ascii_case(key))
}

/// Returns whether a specification may have this key, in this exact spelling.
pub(super) fn is_key(key: &str) -> bool {
    if matches!(key, "volume" | "topology" | "segments") {
        return true;
    }
    let tables = [FILE, VOLUME, CAPABILITY, MOUNT_OPTIONS, TOPOLOGY_REQUEST];
    let mut fields = tables.into_iter().flatten();
    fields.any(|field| field.key == key)
}

/// Returns the key of a field's API name, in any spelling: `PluginID`, `pluginId`.
pub(super) fn by_api_name(fields: &'static [Field], key: &str) -> Option<&'static str> {
    let plain = key.replace(['_', '-'], "");
    let same = |field: &&Field| {
        let key = field.key.replace('_', "");
        plain.eq_ignore_ascii_case(&key)
            || !field.api.is_empty() && plain.eq_ignore_ascii_case(field.api)
    };
    fields.iter().find(same).map(|field| field.key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::{
        FieldRef, Namespace, NamespacedId, PluginId, UnresolvedRequest, Volume, VolumeField,
        VolumeId,
    };

    /// A value of another kind would be decoded as empty.
    #[test]
    fn the_kind_of_a_row_is_that_of_its_field() {
        let key = NamespacedId::new(Namespace::default(), VolumeId::new("db"));
        let request = UnresolvedRequest::new(key, PluginId::new("ebs"), vec![]);
        let volume = Volume::of_request(request);
        for row in VOLUME {
            let kind = VolumeField::of_key(row.key).map(|field| match volume.field(field) {
                FieldRef::Text(_) => Kind::Text,
                FieldRef::Size(_) => Kind::Size,
                FieldRef::Map(_) => Kind::TextMap,
                FieldRef::MountFlags(_) => Kind::TextList,
                FieldRef::Capabilities(_) | FieldRef::Topologies(_) => Kind::Blocks,
            });
            assert!(kind.is_none_or(|kind| kind == row.kind), "{}: {kind:?}", row.key);
        }
    }

    #[test]
    fn a_field_of_a_server_has_a_row_and_a_row_of_a_server_has_a_field() {
        let blocks = ["mount_options", "topology_request"];
        let rows: Vec<String> = drift_fields()
            .filter(|key| !blocks.contains(&key.as_str()) && key != "secrets")
            .collect();
        let mut keys: Vec<&str> = VolumeField::ALL.iter().map(|field| field.key()).collect();
        keys.sort_by_key(|key| rows.iter().position(|row| row == key));
        assert_eq!(rows, keys);
    }
}
