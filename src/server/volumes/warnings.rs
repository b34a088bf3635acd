//! Warnings of a successful create or register: what was ignored, what is still pending.

use crate::error::UpdateOrigin;
use nomad_csi_claims::state::{State, VolumeRecord, VolumeView, volumes_sharing};
use nomad_csi_model::{AttachmentMode, ExternalId, NamespacedId, VolumeRequest};

/// Warns of fields that were accepted and have no effect.
pub(super) fn ignored_field_warnings(request: &VolumeRequest, origin: UpdateOrigin) -> Vec<String> {
    let mut warnings = vec![];
    let given = |map: Option<&std::collections::BTreeMap<_, _>>| map.is_some_and(|m| !m.is_empty());
    match origin {
        UpdateOrigin::Create if given(request.context.as_ref()) => warnings.push(format!(
            "volume {}: the context of the request was ignored; the plugin gives a new volume its context",
            request.key().quoted()
        )),
        UpdateOrigin::Create | UpdateOrigin::Register => {}
    }
    let is_block = |mode| mode == AttachmentMode::BlockDevice;
    let only_blocks =
        request.capabilities.iter().all(|capability| is_block(capability.attachment_mode));
    let options = request.mount_options.as_ref();
    if only_blocks && options.is_some_and(|options| !options.is_empty()) {
        warnings.push(format!(
            "volume {}: mount options have no effect on a volume that is only used as a block device",
            request.key().quoted()
        ));
    }
    warnings
}

/// Warns if the plugin's volumes are not accessible everywhere, and the volume does not say from where
/// (B92).
pub(super) fn topology_warning(state: &State, view: &VolumeView) -> Option<String> {
    let plugin = &view.record.definition.plugin_id;
    let mut instances = state.plugin_record(plugin)?.allocs.values();
    let has_topology = instances.any(|alloc| alloc.instance.requires_topologies);
    (has_topology && view.record.provided.topologies.is_empty()).then(|| {
        format!(
            "volume {}: plugin `{plugin}` has topologies, and the volume has none, so a job can be placed on a node that cannot reach it; name them in `topology_request`",
            view.record.key().quoted()
        )
    })
}

/// Warns if the provider's volume is registered under another ID too.
pub(super) fn shared_warning(state: &State, view: &VolumeView) -> Option<String> {
    let external_id = view.record.remote_id()?;
    let plugin = &view.record.definition.plugin_id;
    shared_with(view.record.key(), &external_id, &volumes_sharing(state, plugin, &external_id))
}

/// Two registrations of one external volume are allowed, and dangerous.
fn shared_with(
    key: &NamespacedId,
    external_id: &ExternalId,
    registered: &[NamespacedId],
) -> Option<String> {
    let others: Vec<_> =
        registered.iter().filter(|other| *other != key).map(NamespacedId::quoted).collect();
    (!others.is_empty()).then(|| {
        format!(
            "volume {}: external volume `{external_id}` is also registered as {}; they share their claims, and neither volume can be deleted while the other is registered",
            key.quoted(),
            others.join(", ")
        )
    })
}

/// Warns of an expansion whose outcome is unknown, or that a node has to complete.
pub(super) fn expansion_warnings(record: &VolumeRecord) -> impl Iterator<Item = String> {
    let unknown = record.expanding.map(|to| {
        format!(
            "volume {}: an expansion to {} was started and its outcome is unknown; the next request for the volume asks the plugin again",
            record.key().quoted(),
            to.min
        )
    });
    let pending = record.node_expansion_pending.then(|| {
        format!(
            "volume {}: the provider expanded it; the plugin also requires expansion on the nodes, which is pending",
            record.key().quoted()
        )
    });
    unknown.into_iter().chain(pending)
}
