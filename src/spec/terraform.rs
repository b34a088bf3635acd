//! Terraform's state to specifications, for whoever leaves it.
//!
//! Read are resources `nomad_csi_volume`, `nomad_csi_volume_registration` and `nomad_volume` of a state
//! of version 4, the format since Terraform 0.12. Terraform keeps secrets in its state in the clear;
//! they are not even read: of their values nothing reaches this program's memory but the text of the
//! file. A volume that had some gets `secrets = unknown`, as do mount flags that look like passwords.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::encode::Written;
use crate::model::{
    AccessMode, AttachmentMode, Bytes, Capability, CapacityRange, ExternalId, HiddenField,
    MountOptions, Namespace, PluginId, Topology, TopologyRequest, VolumeId, WantedRequest,
};

/// The kinds of resources that are volumes.
const KINDS: [&str; 3] = [
    "nomad_csi_volume",
    "nomad_csi_volume_registration",
    "nomad_volume",
];

/// What a state says of volumes.
#[derive(Debug, Default)]
pub struct TerraformVolumes {
    /// The volumes.
    pub volumes: Vec<Written>,
    /// Addresses of the resources that they come from, `module.a.nomad_csi_volume.b`; none of which
    /// anything is left out.
    pub addresses: BTreeSet<String>,
    /// What cannot be written down, a sentence each.
    pub problems: Vec<String>,
}

/// Reads a state.
///
/// # Errors
/// A sentence for people, without any of the text, if it is none of version 4.
pub fn read_terraform_state(text: &str) -> Result<TerraformVolumes, String> {
    // serde's own words could quote a value, and values may be secrets.
    let version: Version = serde_json::from_str(text).map_err(|error| {
        format!(
            "it is no JSON object with a `version` (line {}, column {})",
            error.line(),
            error.column()
        )
    })?;
    if version.version != 4 {
        return Err(format!(
            "it has version {}, and only version 4 is read",
            version.version
        ));
    }
    let state: State = serde_json::from_str(text).map_err(|error| {
        format!(
            "it is not as Terraform writes it (line {}, column {})",
            error.line(),
            error.column()
        )
    })?;
    let mut found = TerraformVolumes::default();
    let volumes = state.resources.into_iter();
    for resource in volumes.filter(|one| one.mode == "managed" && KINDS.contains(&&*one.kind)) {
        let module = resource
            .module
            .map_or_else(String::new, |module| module + ".");
        let address = format!("{module}{}.{}", resource.kind, resource.name);
        let creates = resource.kind == "nomad_csi_volume";
        let volumes = resource.instances.into_iter().map(|one| one.attributes);
        let volumes = volumes.filter(Attributes::is_csi);
        let written: Result<Vec<Written>, String> = volumes
            .map(|attributes| attributes.written(&address, creates))
            .collect();
        match written {
            Ok(volumes) if volumes.is_empty() => {}
            Ok(volumes) => {
                found.volumes.extend(volumes);
                found.addresses.insert(address);
            }
            Err(why) => found.problems.push(format!("{address} is left out: {why}")),
        }
    }
    Ok(found)
}

/// Blocks that make Terraform forget its volumes without removing them (Terraform 1.7).
pub fn removed_blocks(addresses: &BTreeSet<String>) -> String {
    let block = |address: &String| {
        format!("removed {{\n  from = {address}\n\n  lifecycle {{\n    destroy = false\n  }}\n}}\n")
    };
    let blocks: Vec<String> = addresses.iter().map(block).collect();
    blocks.join("\n")
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

/// What is read of a volume; of another resource, nothing is required.
#[derive(Default, Deserialize)]
struct Attributes {
    volume_id: Option<Text>,
    namespace: Option<Text>,
    name: Option<Text>,
    #[serde(rename = "type")]
    kind: Option<Text>,
    plugin_id: Option<Text>,
    external_id: Option<Text>,
    snapshot_id: Option<Text>,
    clone_id: Option<Text>,
    capacity_min: Option<Text>,
    capacity_max: Option<Text>,
    access_mode: Option<Text>,
    attachment_mode: Option<Text>,
    #[serde(default, deserialize_with = "list")]
    capability: Vec<Mode>,
    #[serde(default, deserialize_with = "list")]
    mount_options: Vec<Options>,
    #[serde(default, deserialize_with = "list")]
    topology_request: Vec<Places>,
    secrets: Option<Names>,
    parameters: Option<Pairs>,
    context: Option<Pairs>,
}

#[derive(Deserialize)]
struct Mode {
    access_mode: Option<Text>,
    attachment_mode: Option<Text>,
}

#[derive(Deserialize)]
struct Options {
    fs_type: Option<Text>,
    #[serde(default, deserialize_with = "list")]
    mount_flags: Vec<Text>,
}

#[derive(Deserialize)]
struct Places {
    #[serde(default, deserialize_with = "list")]
    required: Vec<Place>,
    #[serde(default, deserialize_with = "list")]
    preferred: Vec<Place>,
}

#[derive(Deserialize)]
struct Place {
    #[serde(default, deserialize_with = "list")]
    topology: Vec<Segments>,
}

#[derive(Deserialize)]
struct Segments {
    segments: Option<BTreeMap<String, String>>,
}

/// What is expected where a resource of another kind may have anything.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Said(String),
    Other(IgnoredAny),
}

/// Keys with values that are not read.
#[derive(Deserialize)]
#[serde(untagged)]
enum Names {
    Said(BTreeMap<String, IgnoredAny>),
    Other(IgnoredAny),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Pairs {
    Said(BTreeMap<String, String>),
    Other(IgnoredAny),
}

/// A list; whatever else stands there is an empty one.
fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either<T> {
        List(Vec<T>),
        Other(IgnoredAny),
    }
    Ok(match Either::deserialize(deserializer)? {
        Either::List(list) => list,
        Either::Other(_) => vec![],
    })
}

fn text(text: Option<Text>) -> Option<String> {
    match text {
        Some(Text::Said(text)) if !text.is_empty() => Some(text),
        Some(Text::Said(_) | Text::Other(_)) | None => None,
    }
}

fn pairs(pairs: Option<Pairs>) -> Option<BTreeMap<String, String>> {
    match pairs {
        Some(Pairs::Said(pairs)) if !pairs.is_empty() => Some(pairs),
        Some(Pairs::Said(_) | Pairs::Other(_)) | None => None,
    }
}

impl Attributes {
    fn is_csi(&self) -> bool {
        match &self.kind {
            Some(Text::Said(kind)) => kind.eq_ignore_ascii_case("csi"),
            Some(Text::Other(_)) | None => true,
        }
    }

    fn written(self, address: &str, creates: bool) -> Result<Written, String> {
        let id = text(self.volume_id).ok_or("it has no `volume_id`")?;
        let plugin_id = text(self.plugin_id).ok_or("it has no `plugin_id`")?;
        let single = Mode {
            access_mode: self.access_mode,
            attachment_mode: self.attachment_mode,
        };
        let mut capabilities = capabilities(self.capability)?;
        if capabilities.is_empty() {
            capabilities = capabilities_of_one(single)?;
        }
        let mut unknown = BTreeSet::new();
        let had_secrets = matches!(self.secrets, Some(Names::Said(names)) if !names.is_empty());
        if had_secrets {
            unknown.insert(HiddenField::Secrets);
        }
        let (mount_options, hidden_flags) = mount_options(self.mount_options);
        if hidden_flags {
            unknown.insert(HiddenField::MountFlags);
        }
        let external_id = text(self.external_id).map(ExternalId::new);
        let registers = external_id.is_some();
        let request = WantedRequest {
            namespace: text(self.namespace).map_or_else(Namespace::default, Namespace::new),
            id: VolumeId::new(id),
            name: text(self.name),
            external_id,
            plugin_id: PluginId::new(plugin_id),
            capabilities,
            capacity: CapacityRange {
                min: size(self.capacity_min)?,
                max: size(self.capacity_max)?,
            },
            topology_request: places(self.topology_request),
            clone_id: text(self.clone_id).filter(|_| !registers),
            snapshot_id: text(self.snapshot_id).filter(|_| !registers),
            mount_options,
            secrets: None,
            parameters: pairs(self.parameters),
            context: pairs(self.context).filter(|_| registers && !creates),
        };
        Ok(Written {
            request,
            remarks: remarks(address, &unknown),
            unknown,
            protect: Some(true),
        })
    }
}

fn remarks(address: &str, unknown: &BTreeSet<HiddenField>) -> Vec<String> {
    let secrets = "Terraform's state had secrets, which are not taken over: give them";
    let flags = "Terraform's state had mount flags that may be passwords: give them";
    let dropped = unknown.iter().map(|field| match field {
        HiddenField::Secrets => secrets.to_owned(),
        HiddenField::MountFlags => flags.to_owned(),
    });
    std::iter::once(format!("from {address}"))
        .chain(dropped)
        .collect()
}

fn size(size: Option<Text>) -> Result<Bytes, String> {
    let Some(size) = text(size) else {
        return Ok(Bytes::default());
    };
    let plain = size.replace(' ', "");
    Bytes::parse(&plain).map_err(|_| format!("`{size}` is no size"))
}

fn capabilities(modes: Vec<Mode>) -> Result<Vec<Capability>, String> {
    let lists: Result<Vec<_>, String> = modes.into_iter().map(capabilities_of_one).collect();
    Ok(lists?.concat())
}

/// None if it says nothing.
fn capabilities_of_one(mode: Mode) -> Result<Vec<Capability>, String> {
    let (access, attachment) = (text(mode.access_mode), text(mode.attachment_mode));
    let (Some(access), Some(attachment)) = (access, attachment) else {
        return Ok(vec![]);
    };
    let parsed = (
        AccessMode::parse(&access),
        AttachmentMode::parse(&attachment),
    );
    let (Some(access_mode), Some(attachment_mode)) = parsed else {
        return Err(format!("`{access}`, `{attachment}` is no capability"));
    };
    Ok(vec![Capability {
        access_mode,
        attachment_mode,
    }])
}

/// Beside them, whether there are flags that nobody should read in a file.
fn mount_options(options: Vec<Options>) -> (Option<MountOptions>, bool) {
    let Some(options) = options.into_iter().next() else {
        return (None, false);
    };
    let flags = options.mount_flags.into_iter();
    let flags: Vec<String> = flags.filter_map(|flag| text(Some(flag))).collect();
    let secret = |flag: &String| {
        let flag = flag.to_lowercase();
        ["pass", "secret", "cred", "key", "token"]
            .iter()
            .any(|word| flag.contains(word))
    };
    let hidden = flags.iter().any(secret);
    let options = MountOptions {
        fs_type: text(options.fs_type).unwrap_or_default(),
        mount_flags: if hidden { vec![] } else { flags },
    };
    let is_said = hidden || !options.is_empty();
    (is_said.then_some(options), hidden)
}

fn places(requests: Vec<Places>) -> Option<TopologyRequest> {
    let request = requests.into_iter().next()?;
    let list = |places: Vec<Place>| {
        let topologies = places.into_iter().flat_map(|place| place.topology);
        let segments = topologies.filter_map(|one| one.segments);
        let segments = segments.filter(|segments| !segments.is_empty());
        segments.map(|segments| Topology { segments }).collect()
    };
    let request = TopologyRequest {
        required: list(request.required),
        preferred: list(request.preferred),
    };
    let is_empty = request.required.is_empty() && request.preferred.is_empty();
    (!is_empty).then_some(request)
}
