//! A volume, its desired state and its plugin, for the tests of this crate.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::action::{Action, PlannedVolume};
use super::build::build_plan;
use super::diff::Change;
use super::inputs::{ObservedState, PlanInputs, PlanOptions, PluginState};
use super::provider_list::ProviderList;
use super::rules::MergeRules;
use nomad_csi_model::diagnostic::SourceMap;
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, Bytes, Capability, CapacityRange, ControllerCapabilities,
    ControllerInfo, ExternalId, ExternalVolume, Health, HealthCount, MountOptions, Namespace,
    NamespacedId, NodeId, Plugin, PluginId, PluginInstance, PluginSummary, Secrets, Topology,
    TopologyRequest, UnresolvedRequest, Volume, VolumeId, VolumeRequest,
};
use nomad_csi_spec::{Purpose, VolumeSpec};

pub(super) const WRITER: Capability = Capability {
    access_mode: AccessMode::SingleNodeWriter,
    attachment_mode: AttachmentMode::FileSystem,
};
pub(super) const READERS: Capability = Capability {
    access_mode: AccessMode::MultiNodeReaderOnly,
    attachment_mode: AttachmentMode::FileSystem,
};

pub(super) fn bytes(bytes: u64) -> Bytes {
    Bytes::new(bytes).unwrap()
}

pub(super) fn place(zone: &str) -> Topology {
    Topology { segments: [("zone".to_owned(), zone.to_owned())].into() }
}

pub(super) fn places(zones: &[&str]) -> Option<TopologyRequest> {
    Some(TopologyRequest {
        required: zones.iter().map(|zone| place(zone)).collect(),
        preferred: vec![],
    })
}

/// The list of a provider that has these volumes.
pub(super) fn listed(ids: &[&str]) -> ProviderList {
    let volume = |id: &&str| ExternalVolume {
        health: None,
        external_id: ExternalId::new(*id),
        capacity: bytes(0),
        context: [].into(),
        clone_id: None,
        snapshot_id: None,
        published_nodes: vec![],
        condition: None,
    };
    let volumes = ids.iter().map(volume);
    ProviderList::Listed(volumes.map(|one| (one.external_id.clone(), one)).collect())
}

pub(super) fn desired() -> UnresolvedRequest {
    let key = NamespacedId::new(Namespace::default(), VolumeId::new("db"));
    UnresolvedRequest {
        name: Some("database".into()),
        capacity: CapacityRange { min: bytes(1000), max: bytes(2000) },
        topology_request: places(&["a", "b"]),
        ..UnresolvedRequest::new(key, PluginId::new("hostpath"), vec![WRITER, READERS])
    }
}

pub(super) fn spec(request: UnresolvedRequest) -> VolumeSpec {
    let mut sources = SourceMap::default();
    let id = sources.add("volume.hcl", "id = \"db\"\ncapacity_max = 1");
    let fields = [("capacity_max", SourceMap::span(id, 10..26))];
    VolumeSpec {
        request,
        namespace_given: false,
        read_only: None,
        protect: None,
        ignore: vec![],
        unknown: [].into(),
        set: None,
        span: SourceMap::span(id, 0..9),
        fields: fields.into(),
        capability_spans: vec![],
        secret_spans: [].into(),
        origin: None,
    }
}

/// The volume that [`desired`] makes.
pub(super) fn existing() -> Volume {
    Volume {
        namespace: Namespace::default(),
        id: VolumeId::new("db"),
        name: "database".into(),
        external_id: Some(ExternalId::new("vol-1")),
        plugin_id: PluginId::new("hostpath"),
        provider: "csi.example".into(),
        provider_version: "1".into(),
        capabilities: vec![READERS, WRITER],
        requested_capacity: CapacityRange { min: bytes(1000), max: bytes(2000) },
        capacity: bytes(1000),
        topology_request: places(&["b", "a"]),
        topologies: vec![place("a")],
        clone_id: None,
        snapshot_id: None,
        mount_options: Some(MountOptions::default()),
        parameters: BTreeMap::new(),
        context: BTreeMap::new(),
        access_mode: None,
        attachment_mode: None,
        read_allocs: [].into(),
        write_allocs: [].into(),
        allocs: vec![],
        schedulable: true,
        controller_required: true,
        controllers: HealthCount { healthy: 1, expected: 1 },
        nodes: HealthCount { healthy: 1, expected: 1 },
        create_index: 7,
        modify_index: 9,
        spec_index: 9,
        create_time: 0,
        modify_time: 0,
        kept_files: vec![],
    }
}

/// A volume with every field, lists in an order of their own.
pub(super) fn complete() -> Volume {
    let map =
        |value: &str| [("b".to_owned(), value.to_owned()), ("a".to_owned(), "1".to_owned())].into();
    let topologies = |zones| places(zones).unwrap().required;
    Volume {
        capabilities: vec![READERS, WRITER],
        requested_capacity: CapacityRange { min: bytes(1000), max: bytes(2000) },
        topology_request: Some(TopologyRequest {
            required: topologies(&["b", "a"]),
            preferred: topologies(&["d", "c"]),
        }),
        clone_id: Some("vol-0".into()),
        snapshot_id: Some("snap-0".into()),
        mount_options: Some(MountOptions {
            fs_type: "ext4".into(),
            mount_flags: vec!["ro".into(), "noatime".into()],
        }),
        parameters: map("parameter"),
        context: map("context"),
        ..existing()
    }
}

/// The request of [`complete`], with secrets.
pub(super) fn complete_request() -> VolumeRequest {
    let volume = complete();
    VolumeRequest {
        name: Some(volume.name),
        external_id: volume.external_id,
        capacity: volume.requested_capacity,
        topology_request: volume.topology_request,
        clone_id: volume.clone_id,
        snapshot_id: volume.snapshot_id,
        mount_options: volume.mount_options,
        secrets: Some(Secrets::from_iter([("user", "u"), ("password", "p")])),
        parameters: Some(volume.parameters),
        context: Some(volume.context),
        ..VolumeRequest::new(
            NamespacedId::new(volume.namespace, volume.id),
            volume.plugin_id,
            volume.capabilities,
        )
    }
}

pub(super) fn plugin(change: impl FnOnce(&mut Plugin)) -> PluginState {
    let instance = PluginInstance {
        alloc_id: AllocId::new("a1"),
        health: Health { healthy: true, description: "healthy".into() },
        updated_at: 0,
        provider: "csi.example".into(),
        provider_version: "1".into(),
        process: None,
        requires_controller: true,
        requires_topologies: false,
        controller: Some(ControllerInfo {
            capabilities: ControllerCapabilities {
                create_delete_volume: true,
                create_delete_snapshot: true,
                clone_volume: true,
                expand_volume: true,
                ..ControllerCapabilities::default()
            },
        }),
        node: None,
    };
    let mut plugin = Plugin {
        summary: PluginSummary {
            id: PluginId::new("hostpath"),
            provider: "csi.example".into(),
            controller_required: true,
            controllers: HealthCount { healthy: 1, expected: 1 },
            nodes: HealthCount { healthy: 1, expected: 1 },
        },
        version: "1".into(),
        controllers: [(NodeId::new("n1"), instance.clone())].into(),
        nodes: [(NodeId::new("n1"), instance)].into(),
        allocs: vec![],
    };
    change(&mut plugin);
    PluginState::Known(Box::new(plugin))
}

pub(super) fn observed(volume: Option<Volume>, plugin: PluginState) -> ObservedState {
    ObservedState {
        volumes: volume.map(|volume| (volume.key(), volume)).into_iter().collect(),
        plugins: [(PluginId::new("hostpath"), plugin)].into(),
        plugin_ids: vec![PluginId::new("hostpath")],
        ..ObservedState::default()
    }
}

pub(super) fn inputs(
    desired: Vec<VolumeSpec>,
    observed: &ObservedState,
    rules: MergeRules,
    purpose: Purpose,
) -> PlanInputs<'_> {
    static NOTHING: LazyLock<PlanOptions> = LazyLock::new(PlanOptions::default);
    PlanInputs { desired, purpose, observed, rules, owned: None, options: &NOTHING }
}

pub(super) fn one(
    request: UnresolvedRequest,
    observed: &ObservedState,
    rules: MergeRules,
    purpose: Purpose,
) -> PlannedVolume {
    let inputs = inputs(vec![spec(request)], observed, rules, purpose);
    build_plan(inputs).volumes.remove(0)
}

pub(super) fn against(
    request: UnresolvedRequest,
    volume: Volume,
    rules: MergeRules,
) -> PlannedVolume {
    one(request, &observed(Some(volume), plugin(|_| {})), rules, Purpose::ByExternalId)
}

pub(super) fn changes(planned: &PlannedVolume) -> &[Change] {
    match &planned.action {
        Action::Update(update) | Action::Expand(update) => &update.changes,
        other => panic!("{other:?}"),
    }
}

pub(super) fn sent(planned: &PlannedVolume) -> &UnresolvedRequest {
    planned.request().expect("something is sent")
}

pub(super) fn codes(planned: &PlannedVolume) -> Vec<&'static str> {
    match &planned.action {
        Action::Blocked(reasons) => reasons.iter().map(|reason| reason.code.as_str()).collect(),
        other => panic!("{other:?}"),
    }
}
