//! The answers of servers to the change of one field: the merge rules, applied to an example.

use super::merge::{Expansion, merge};
use super::rules::MergeRules;
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, Bytes, Capability, CapacityRange, ExternalId,
    MountOptions, Namespace, NamespacedId, PluginId, SecretRefs, ServerVersion, Topology,
    TopologyRequest, UnresolvedRequest, Volume, VolumeId,
};

/// The answers of servers to a change of a field of a volume that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateAnswers {
    /// The change: `another value`.
    pub change: &'static str,
    /// The answer of each group of servers: a clause without a full stop.
    pub answers: Vec<(&'static str, String)>,
}

/// Returns what servers answer to a change of this field. `None` for a field that is never sent, or that
/// names the volume.
pub fn update_answers(field: &str) -> Option<UpdateAnswers> {
    let (change, request) = changed(field)?;
    let of_nomad = |minor, patch| MergeRules::of_nomad(&ServerVersion::new(1, minor, patch));
    let answers = [
        ("Nomad 1.6.3 and later", MergeRules::NOMAD),
        ("Nomad 1.3 to 1.6.2", of_nomad(6, 2)),
        ("Nomad 1.1 and 1.2", of_nomad(2, 0)),
        ("The agent", MergeRules::AGENT),
    ]
    .map(|(servers, rules)| (servers, answer(&request, rules)));
    Some(UpdateAnswers { change, answers: answers.into() })
}

fn answer(request: &UnresolvedRequest, rules: MergeRules) -> String {
    let unused = example_volume();
    let mut claimed = unused.clone();
    claimed.write_allocs.insert(AllocId::new("allocation"));
    let refusal = |volume: &Volume| {
        let refusals = merge(volume, request, rules).err()?;
        refusals.into_iter().next().map(|refusal| refusal.text)
    };
    if let Some(text) = refusal(&unused) {
        return format!("refuses: {text}");
    }
    if let Some(text) = refusal(&claimed) {
        return format!("accepts; while allocations claim the volume, refuses: {text}");
    }
    let merged = merge(&unused, request, rules);
    let expands = |merged| matches!(merged, Expansion::Needed { .. });
    if merged.is_ok_and(|merged| expands(merged.expansion)) {
        return "accepts; the plugin expands the volume".to_owned();
    }
    "accepts".to_owned()
}

const WRITER: Capability = Capability {
    access_mode: AccessMode::SingleNodeWriter,
    attachment_mode: AttachmentMode::FileSystem,
};
const READER: Capability = Capability {
    access_mode: AccessMode::MultiNodeReaderOnly,
    attachment_mode: AttachmentMode::FileSystem,
};

/// Returns a change of a field, and the example's request with it.
fn changed(field: &str) -> Option<(&'static str, UnresolvedRequest)> {
    let mut request = example_request();
    let other = || Some("other".to_owned());
    let map = || Some([("key".to_owned(), "other".to_owned())].into());
    match field {
        "name" => request.name = other(),
        "plugin_id" => request.plugin_id = PluginId::new("other"),
        "external_id" => request.external_id = Some(ExternalId::new("other")),
        "clone_id" => request.clone_id = other(),
        "snapshot_id" => request.snapshot_id = other(),
        "capacity_min" => request.capacity.min = bytes(15),
        "capacity_max" => {
            request.capacity = CapacityRange { min: Bytes::ZERO, max: bytes(5) };
        }
        "capability" | "access_mode" | "attachment_mode" => request.capabilities = vec![READER],
        "mount_options" | "fs_type" => request.mount_options = options("xfs"),
        "mount_flags" => {
            let flags = &mut request.mount_options.as_mut()?.mount_flags;
            flags.push("noatime".to_owned());
        }
        "topology_request" | "required" | "preferred" => request.topology_request = zone("b"),
        "secrets" => request.secrets = Some(SecretRefs::default()),
        "parameters" => request.parameters = map(),
        "context" => request.context = map(),
        _ => return None,
    }
    let change = match field {
        "capacity_min" => "a minimum above the size",
        "capacity_max" => "a maximum below the size",
        "capability" | "access_mode" | "attachment_mode" => "the removal of the mode in use",
        _ => "another value",
    };
    Some((change, request))
}

fn bytes(count: u64) -> Bytes {
    Bytes::new(count << 30).unwrap_or_default()
}

fn options(fs_type: &str) -> Option<MountOptions> {
    Some(MountOptions { fs_type: fs_type.to_owned(), mount_flags: vec![] })
}

fn zone(name: &str) -> Option<TopologyRequest> {
    Some(TopologyRequest { required: vec![topology(name)], preferred: vec![] })
}

fn topology(zone: &str) -> Topology {
    Topology { segments: [("zone".to_owned(), zone.to_owned())].into() }
}

/// Returns a request that changes nothing of [`example_volume`].
fn example_request() -> UnresolvedRequest {
    let key = NamespacedId::new(Namespace::default(), VolumeId::new("db"));
    UnresolvedRequest {
        name: Some("db".to_owned()),
        external_id: Some(ExternalId::new("vol-1")),
        capacity: CapacityRange { min: bytes(10), max: bytes(20) },
        topology_request: zone("a"),
        mount_options: options("ext4"),
        ..UnresolvedRequest::new(key, PluginId::new("ebs"), vec![WRITER])
    }
}

/// Returns a volume of 10 GiB that no allocation claims.
fn example_volume() -> Volume {
    let request = example_request();
    Volume {
        capacity: request.capacity.min,
        topologies: vec![topology("a")],
        access_mode: Some(WRITER.access_mode),
        attachment_mode: Some(WRITER.attachment_mode),
        ..Volume::of_request(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_spec::schema::{Mutability, located_fields};

    #[test]
    fn the_example_itself_changes_nothing() {
        for rules in [MergeRules::NOMAD, MergeRules::AGENT] {
            assert_eq!(answer(&example_request(), rules), "accepts");
        }
    }

    /// The column of the schema and the merge rules say the same.
    #[test]
    fn answers_agree_with_the_schema() {
        for (_, field) in located_fields() {
            let answers = update_answers(field.key);
            let newest = answers.as_ref().map(|found| found.answers[0].1.as_str());
            let agrees = match field.mutability {
                Mutability::Identity | Mutability::None => newest.is_none(),
                Mutability::Immutable => newest.is_some_and(|text| text.starts_with("refuses")),
                Mutability::Restricted => newest.is_some(),
                Mutability::WhileUnused => {
                    newest.is_some_and(|text| text.starts_with("accepts; while allocations"))
                }
                Mutability::Mutable => newest == Some("accepts"),
            };
            assert!(agrees, "{}: {answers:?}", field.key);
        }
    }
}
