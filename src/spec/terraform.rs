//! Converts volumes in Terraform's state to specifications.
//!
//! Reads resources `nomad_csi_volume`, `nomad_csi_volume_registration` and `nomad_volume` of state
//! version 4 (Terraform 0.12 and later). Terraform stores secrets in clear text; this module never
//! decodes them. A volume with secrets gets `secrets = unknown`, and so do mount flags that look
//! like passwords.

use std::collections::{BTreeMap, BTreeSet};

use hcl::expr::Variable;
use hcl::structure::{Block, Body};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::encode::WritableSpec;
use super::schema::{self, Kind};
use nomad_csi_model::{
    AccessMode, AttachmentMode, Bytes, Capability, FieldRef, HiddenField, MountOptions, Namespace,
    NamespacedId, PluginId, Topology, TopologyRequest, UnresolvedRequest, VolumeField, VolumeId,
    is_invisible,
};

/// The types of volume resources.
const RESOURCE_TYPES: [&str; 3] =
    ["nomad_csi_volume", "nomad_csi_volume_registration", "nomad_volume"];

/// The volumes of a state.
#[derive(Debug, Default)]
pub struct TerraformVolumes {
    /// The volumes.
    pub volumes: Vec<WritableSpec>,
    /// Addresses of the completely converted resources: `module.a.nomad_csi_volume.b`.
    pub addresses: BTreeSet<String>,
    /// One sentence per resource that cannot be converted.
    pub problems: Vec<String>,
}

/// Reads the volumes of a state.
///
/// # Errors
/// If the text is not a state of version 4. The message contains none of the text.
pub fn read_terraform_state(text: &str) -> Result<TerraformVolumes, String> {
    // serde's messages could quote a value, which may be a secret.
    let version: Version = serde_json::from_str(text).map_err(|error| {
        format!(
            "expected a JSON object with a `version` (line {}, column {})",
            error.line(),
            error.column()
        )
    })?;
    if version.version != 4 {
        return Err(format!("unsupported version {}: expected 4", version.version));
    }
    let state: State = serde_json::from_str(text).map_err(|error| {
        format!("unexpected content (line {}, column {})", error.line(), error.column())
    })?;
    let mut found = TerraformVolumes::default();
    let volumes = state.resources.into_iter();
    for resource in
        volumes.filter(|one| one.mode == "managed" && RESOURCE_TYPES.contains(&&*one.kind))
    {
        let prefix = resource.module.as_deref();
        let prefix = prefix.map_or_else(String::new, |module| format!("{module}."));
        let address = format!("{prefix}{}.{}", resource.kind, resource.name);
        if !resource.module.as_deref().is_none_or(is_module) || !is_identifier(&resource.name) {
            found.problems.push(format!(
                "cannot import `{address}`: a name in this address is none that Terraform takes"
            ));
            continue;
        }
        let creates = resource.kind == "nomad_csi_volume";
        let volumes = resource.instances.into_iter().map(|one| one.attributes);
        let volumes = volumes.filter(Attributes::is_csi);
        let written: Result<Vec<WritableSpec>, String> =
            volumes.map(|attributes| attributes.into_spec(&address, creates)).collect();
        match written {
            Ok(volumes) if volumes.is_empty() => {}
            Ok(volumes) => {
                found.volumes.extend(volumes);
                found.addresses.insert(address);
            }
            Err(why) => found.problems.push(format!("cannot import `{address}`: {why}")),
        }
    }
    Ok(found)
}

/// Returns whether a text is the name of a resource or a module in Terraform's language.
fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    let is_first = |c: char| c.is_alphabetic() || c == '_';
    let is_next = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    chars.next().is_some_and(is_first) && chars.all(is_next)
}

/// Returns whether a text is the address of a module: `module.a["key"].module.b[0]`. An address is written as it is, so a key
/// has no character that could end it.
fn is_module(address: &str) -> bool {
    let mut rest = address;
    loop {
        let Some(named) = rest.strip_prefix("module.") else {
            return false;
        };
        let end = named.find(['.', '[']).unwrap_or(named.len());
        if !is_identifier(&named[..end]) {
            return false;
        }
        rest = &named[end..];
        if let Some(keyed) = rest.strip_prefix('[') {
            let Some(after) = after_key(keyed) else {
                return false;
            };
            rest = after;
        }
        match rest.strip_prefix('.') {
            Some(next) => rest = next,
            None => return rest.is_empty(),
        }
    }
}

/// Returns what follows the key of an instance and its `]`.
fn after_key(text: &str) -> Option<&str> {
    let Some(quoted) = text.strip_prefix('"') else {
        let (digits, rest) = text.split_once(']')?;
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        return is_number.then_some(rest);
    };
    let (key, rest) = quoted.split_once("\"]")?;
    let is_special = |c: char| matches!(c, '"' | '\\' | '$' | '%') || is_invisible(c);
    (!key.contains(is_special)).then_some(rest)
}

/// Returns the blocks that remove volumes from Terraform's state without destroying them (Terraform
/// 1.7 and later).
pub fn removed_blocks(addresses: &BTreeSet<String>) -> String {
    let block = |address: &String| {
        let lifecycle = Block::builder("lifecycle").add_attribute(("destroy", false));
        Block::builder("removed")
            .add_attribute(("from", Variable::unchecked(address.as_str())))
            .add_block(lifecycle.build())
            .build()
    };
    let blocks: Vec<Block> = addresses.iter().map(block).collect();
    // Writing to memory cannot fail.
    hcl::format::to_string(&Body::from(blocks)).unwrap_or_default()
}

#[derive(Deserialize)]
struct Version {
    version: u64,
}

#[derive(Deserialize)]
struct State {
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    module: Option<String>,
    #[serde(default)]
    mode: String,
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    instances: Vec<Instance>,
}

#[derive(Deserialize)]
struct Instance {
    #[serde(default)]
    attributes: Attributes,
}

/// The attributes of a volume. Resources of other types may have none of them.
#[derive(Default)]
struct Attributes {
    volume_id: Option<String>,
    namespace: Option<String>,
    kind: Option<String>,
    single: CapabilityAttributes,
    capability: Vec<CapabilityAttributes>,
    mount_options: Vec<MountAttributes>,
    topology_request: Vec<TopologyAttributes>,
    has_secrets: bool,
    /// The texts that are named like a field of a specification.
    texts: BTreeMap<VolumeField, String>,
    /// The sizes that are named like a field of a specification.
    sizes: BTreeMap<VolumeField, String>,
    /// The maps that are named like a field of a specification.
    maps: BTreeMap<VolumeField, BTreeMap<String, String>>,
}

impl<'de> Deserialize<'de> for Attributes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self::default())
    }
}

impl<'de> Visitor<'de> for Attributes {
    type Value = Self;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the attributes of a resource")
    }

    /// Decodes the attributes that a volume has, and skips all others without a copy.
    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "volume_id" => self.volume_id = text(map.next_value()?),
                "namespace" => self.namespace = text(map.next_value()?),
                "type" => {
                    if let Some(Text::Value(kind)) = map.next_value()? {
                        self.kind = Some(kind);
                    }
                }
                "access_mode" => self.single.access_mode = map.next_value()?,
                "attachment_mode" => self.single.attachment_mode = map.next_value()?,
                "capability" => self.capability = list(map.next_value()?),
                "mount_options" => self.mount_options = list(map.next_value()?),
                "topology_request" => self.topology_request = list(map.next_value()?),
                "secrets" => {
                    let secrets = map.next_value::<Option<Names>>()?;
                    self.has_secrets =
                        matches!(secrets, Some(Names::Value(names)) if !names.is_empty());
                }
                key => self.field(key, &mut map)?,
            }
        }
        Ok(self)
    }
}

impl Attributes {
    /// Decodes an attribute that is named like a field of a specification.
    fn field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let row = schema::VOLUME.iter().find(|row| row.key == key);
        let (Some(field), Some(row)) = (VolumeField::of_key(key), row) else {
            map.next_value::<IgnoredAny>()?;
            return Ok(());
        };
        match row.kind {
            Kind::Text => self.texts.extend(text(map.next_value()?).map(|text| (field, text))),
            Kind::Size => self.sizes.extend(text(map.next_value()?).map(|size| (field, size))),
            Kind::TextMap => self.maps.extend(pairs(map.next_value()?).map(|map| (field, map))),
            Kind::Boolean | Kind::TextList | Kind::Block | Kind::Blocks => {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

#[derive(Default, Deserialize)]
struct CapabilityAttributes {
    access_mode: Option<Text>,
    attachment_mode: Option<Text>,
}

#[derive(Deserialize)]
struct MountAttributes {
    fs_type: Option<Text>,
    #[serde(default, deserialize_with = "items")]
    mount_flags: Vec<Text>,
}

#[derive(Deserialize)]
struct TopologyAttributes {
    #[serde(default, deserialize_with = "items")]
    required: Vec<TopologyBlock>,
    #[serde(default, deserialize_with = "items")]
    preferred: Vec<TopologyBlock>,
}

#[derive(Deserialize)]
struct TopologyBlock {
    #[serde(default, deserialize_with = "items")]
    topology: Vec<Segments>,
}

#[derive(Deserialize)]
struct Segments {
    segments: Option<BTreeMap<String, String>>,
}

/// A text, or any other value in a resource of another type.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Value(String),
    Other(IgnoredAny),
}

/// Keys whose values are not decoded.
#[derive(Deserialize)]
#[serde(untagged)]
enum Names {
    Value(BTreeMap<String, IgnoredAny>),
    Other(IgnoredAny),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Pairs {
    Value(BTreeMap<String, String>),
    Other(IgnoredAny),
}

/// A list; any other value is an empty list.
#[derive(Deserialize)]
#[serde(untagged)]
enum List<T> {
    Items(Vec<T>),
    Other(IgnoredAny),
}

fn list<T>(list: List<T>) -> Vec<T> {
    match list {
        List::Items(items) => items,
        List::Other(_) => vec![],
    }
}

/// Decodes a list of a block.
fn items<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    List::deserialize(deserializer).map(list)
}

fn text(text: Option<Text>) -> Option<String> {
    match text {
        Some(Text::Value(text)) if !text.is_empty() => Some(text),
        Some(Text::Value(_) | Text::Other(_)) | None => None,
    }
}

fn pairs(pairs: Option<Pairs>) -> Option<BTreeMap<String, String>> {
    match pairs {
        Some(Pairs::Value(pairs)) if !pairs.is_empty() => Some(pairs),
        Some(Pairs::Value(_) | Pairs::Other(_)) | None => None,
    }
}

impl Attributes {
    fn is_csi(&self) -> bool {
        self.kind.as_ref().is_none_or(|kind| kind.eq_ignore_ascii_case("csi"))
    }

    fn into_spec(self, address: &str, creates: bool) -> Result<WritableSpec, String> {
        let id = self.volume_id.ok_or("`volume_id` is missing")?;
        if !self.texts.contains_key(&VolumeField::PluginId) {
            return Err("`plugin_id` is missing".to_owned());
        }
        let mut capabilities = capabilities(self.capability)?;
        if capabilities.is_empty() {
            capabilities = capabilities_of_one(self.single)?;
        }
        let mut unknown = BTreeSet::new();
        if self.has_secrets {
            unknown.insert(HiddenField::Secrets);
        }
        let (mount_options, hidden_flags) = mount_options(self.mount_options);
        if hidden_flags {
            unknown.insert(HiddenField::MountFlags);
        }
        let namespace = self.namespace.map_or_else(Namespace::default, Namespace::new);
        let key = NamespacedId::new(namespace, VolumeId::new(id));
        let mut request = UnresolvedRequest::new(key, PluginId::new(""), capabilities);
        request.mount_options = mount_options;
        request.topology_request = topology_request(self.topology_request);
        for (field, text) in &self.texts {
            request.set_field(*field, FieldRef::Text(text));
        }
        for (field, text) in &self.sizes {
            request.set_field(*field, FieldRef::Size(size(text)?));
        }
        for (field, map) in &self.maps {
            request.set_field(*field, FieldRef::Map(map));
        }
        let registers = request.external_id.is_some();
        if registers {
            (request.clone_id, request.snapshot_id) = (None, None);
        }
        let request = if registers && !creates { request } else { request.for_create() };
        Ok(WritableSpec {
            comments: comments(address, &unknown),
            unknown,
            protect: Some(true),
            ..WritableSpec::new(request)
        })
    }
}

fn comments(address: &str, unknown: &BTreeSet<HiddenField>) -> Vec<String> {
    let secrets = "Terraform's state has secrets, which are not imported: add them";
    let flags = "Terraform's state has mount flags that may contain passwords: add them";
    let dropped = unknown.iter().map(|field| match field {
        HiddenField::Secrets => secrets.to_owned(),
        HiddenField::MountFlags => flags.to_owned(),
    });
    std::iter::once(format!("from {address}")).chain(dropped).collect()
}

fn size(size: &str) -> Result<Bytes, String> {
    let plain = size.replace(' ', "");
    Bytes::parse(&plain).map_err(|_| format!("invalid size `{size}`"))
}

fn capabilities(modes: Vec<CapabilityAttributes>) -> Result<Vec<Capability>, String> {
    let lists: Result<Vec<_>, String> = modes.into_iter().map(capabilities_of_one).collect();
    Ok(lists?.concat())
}

/// Returns no capability if a mode is missing.
fn capabilities_of_one(mode: CapabilityAttributes) -> Result<Vec<Capability>, String> {
    let (access, attachment) = (text(mode.access_mode), text(mode.attachment_mode));
    let (Some(access), Some(attachment)) = (access, attachment) else {
        return Ok(vec![]);
    };
    let parsed = (AccessMode::parse(&access), AttachmentMode::parse(&attachment));
    let (Some(access_mode), Some(attachment_mode)) = parsed else {
        return Err(format!("invalid capability `{access}`, `{attachment}`"));
    };
    Ok(vec![Capability { access_mode, attachment_mode }])
}

/// Returns the options, and whether their flags may contain passwords.
fn mount_options(options: Vec<MountAttributes>) -> (Option<MountOptions>, bool) {
    let Some(options) = options.into_iter().next() else {
        return (None, false);
    };
    let flags = options.mount_flags.into_iter();
    let flags: Vec<String> = flags.filter_map(|flag| text(Some(flag))).collect();
    let secret = |flag: &String| {
        let flag = flag.to_lowercase();
        ["pass", "secret", "cred", "key", "token"].iter().any(|word| flag.contains(word))
    };
    let hidden = flags.iter().any(secret);
    let options = MountOptions {
        fs_type: text(options.fs_type).unwrap_or_default(),
        mount_flags: if hidden { vec![] } else { flags },
    };
    let is_set = hidden || !options.is_empty();
    (is_set.then_some(options), hidden)
}

fn topology_request(requests: Vec<TopologyAttributes>) -> Option<TopologyRequest> {
    let request = requests.into_iter().next()?;
    let list = |blocks: Vec<TopologyBlock>| {
        let topologies = blocks.into_iter().flat_map(|block| block.topology);
        let segments = topologies.filter_map(|one| one.segments);
        let segments = segments.filter(|segments| !segments.is_empty());
        segments.map(|segments| Topology { segments }).collect()
    };
    let request =
        TopologyRequest { required: list(request.required), preferred: list(request.preferred) };
    let is_empty = request.required.is_empty() && request.preferred.is_empty();
    (!is_empty).then_some(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_address_of_terraform_is_written_as_one() {
        for (module, name, is_accepted) in [
            ("", "db", true),
            ("", "_db-0", true),
            ("", "dätä", true),
            ("", "0db", false),
            ("", "", false),
            ("", "x\" }\nresource \"evil\" \"y\" {", false),
            ("", "x\n}", false),
            ("", "x y", false),
            ("", "x.y", false),
            ("", "x[0]", false),
            ("module.a", "db", true),
            ("module.a[0].module.b[\"eu-1 x.y\"]", "db", true),
            ("module.a[\"x\"]", "db", true),
            ("module.a[\"x\"]y", "db", false),
            ("module.a[\"x\\\"]", "db", false),
            ("module.a[\"${x}\"]", "db", false),
            ("module.a[\"x\n\"]", "db", false),
            ("module.a[x]", "db", false),
            ("module.a[]", "db", false),
            ("module.a[0", "db", false),
            ("module.a.", "db", false),
            ("module.", "db", false),
            ("a", "db", false),
            ("module.a }\nresource", "db", false),
        ] {
            let state = serde_json::json!({"version": 4, "resources": [{
                "module": (!module.is_empty()).then_some(module),
                "mode": "managed", "type": "nomad_csi_volume", "name": name,
                "instances": [{"attributes": {"volume_id": "db", "plugin_id": "ebs0"}}],
            }]});
            let found = read_terraform_state(&state.to_string()).unwrap();
            let counts = (found.addresses.len(), found.volumes.len(), found.problems.len());
            let expected = if is_accepted { (1, 1, 0) } else { (0, 0, 1) };
            assert_eq!(counts, expected, "{module:?} {name:?}");
            let blocks = removed_blocks(&found.addresses);
            assert_eq!(blocks.matches("removed").count(), counts.0, "{blocks}");
        }
    }
}
