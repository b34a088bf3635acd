//! The fields of a volume and of a request by their keys in a specification, ready to be printed.
//!
//! The keys are those of `plan::ledger::hash`, so every field whose hash differs can be printed.
//! Secrets are not included, and of mount flags only their presence is.

use super::diff::{FieldValue, map, size, topologies};
use nomad_csi_model::{ExternalId, MountOptions, Volume, VolumeRequest};

/// Returns every field that a server shows, including absent ones.
pub(super) fn volume_fields(volume: &Volume) -> Vec<(&'static str, FieldValue)> {
    let options = volume.mount_options.as_ref();
    let topology = volume.topology_request.as_ref();
    let external = volume.external_id.as_ref().map(ExternalId::as_str);
    let requested = volume.requested_capacity;
    vec![
        ("name", text(Some(&volume.name))),
        ("plugin_id", text(Some(volume.plugin_id.as_str()))),
        ("external_id", text(external)),
        ("snapshot_id", text(volume.snapshot_id.as_deref())),
        ("clone_id", text(volume.clone_id.as_deref())),
        ("capacity_min", size(requested.min)),
        ("capacity_max", size(requested.max)),
        ("capability", FieldValue::Capabilities(volume.capabilities.iter().copied().collect())),
        ("mount_options.fs_type", fs_type(options)),
        (MOUNT_FLAGS, flags(options)),
        ("topology_request.required", topologies(topology.map(|topology| &*topology.required))),
        ("topology_request.preferred", topologies(topology.map(|topology| &*topology.preferred))),
        ("parameters", map(&volume.parameters)),
        ("context", map(&volume.context)),
    ]
}

/// Returns the fields that a request specifies.
pub(super) fn request_fields<S>(request: &VolumeRequest<S>) -> Vec<(&'static str, FieldValue)> {
    let options = request.mount_options.as_ref();
    let topology = request.topology_request.as_ref();
    let of_text = |one: Option<&str>| one.map(|one| text(Some(one)));
    let external = request.external_id.as_ref().map(ExternalId::as_str);
    let sizes = [request.capacity.min, request.capacity.max];
    let [min, max] = sizes.map(|bytes| (!bytes.is_zero()).then(|| size(bytes)));
    let fields = [
        ("name", of_text(request.name.as_deref())),
        ("plugin_id", of_text(Some(request.plugin_id.as_str()))),
        ("external_id", of_text(external)),
        ("snapshot_id", of_text(request.snapshot_id.as_deref())),
        ("clone_id", of_text(request.clone_id.as_deref())),
        ("capacity_min", min),
        ("capacity_max", max),
        (
            "capability",
            Some(FieldValue::Capabilities(request.capabilities.iter().copied().collect())),
        ),
        ("mount_options.fs_type", options.map(|options| fs_type(Some(options)))),
        ("mount_options.mount_flags", options.map(|options| flags(Some(options)))),
        (
            "topology_request.required",
            topology.map(|topology| topologies(Some(&topology.required))),
        ),
        (
            "topology_request.preferred",
            topology.map(|topology| topologies(Some(&topology.preferred))),
        ),
        ("parameters", request.parameters.as_ref().map(map)),
        ("context", request.context.as_ref().map(map)),
    ];
    let specified = |(field, value): (_, Option<_>)| value.map(|value| (field, value));
    fields.into_iter().filter_map(specified).collect()
}

/// The key of the mount flags.
pub(super) const MOUNT_FLAGS: &str = "mount_options.mount_flags";

fn text(text: Option<&str>) -> FieldValue {
    match text {
        Some(text) if !text.is_empty() => FieldValue::Text(text.to_owned()),
        Some(_) | None => FieldValue::Absent,
    }
}

fn fs_type(options: Option<&MountOptions>) -> FieldValue {
    text(options.map(|options| options.fs_type.as_str()))
}

fn flags(options: Option<&MountOptions>) -> FieldValue {
    if options.is_some_and(|options| !options.mount_flags.is_empty()) {
        FieldValue::Hidden
    } else {
        FieldValue::Absent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::LedgerKey;
    use crate::samples::{desired, existing};
    use nomad_csi_model::SecretRefs;

    #[test]
    fn every_field_with_a_hash_can_be_printed() {
        let key = LedgerKey::new([7; 32]);
        let of_volume: Vec<_> = key.of_volume(&existing()).into_keys().collect();
        let mut keys: Vec<_> = volume_fields(&existing()).iter().map(|(key, _)| *key).collect();
        keys.sort_unstable();
        assert_eq!(of_volume, keys);
        let mut request = desired();
        request.mount_options = Some(MountOptions::default());
        request.secrets =
            Some(SecretRefs::from_iter([("k", nomad_csi_model::SecretRef::Env("K".into()))]));
        let of_request: Vec<_> = key.of_desired(&request).into_keys().collect();
        let mut keys: Vec<_> = request_fields(&request).iter().map(|(key, _)| *key).collect();
        keys.sort_unstable();
        assert_eq!(of_request, keys);
    }
}
