//! A fake server in memory: merges updates as a real server does, with injected failures.
//!
//! It refuses what a server refuses: an unknown plugin, an update that cannot be merged, a volume in
//! use. It records every call, so a test can check what was sent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};

use crate::ports::document::Document;
use crate::ports::provider_api::{ProviderReader, SnapshotApi, SnapshotRequest};
use crate::ports::volume_api::{
    ApiError, ServerKind, VolumeApi, VolumeQuery, VolumeReader, WithDocument, WriteReply,
};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{
    Alloc, AllocId, Bytes, ExternalId, ExternalVolume, HealthCount, Namespace, NamespacedId,
    NodeId, Plugin, PluginId, PluginSummary, Secrets, ServerVersion, Snapshot, SnapshotId, Volume,
    VolumeRequest, VolumeSummary,
};
use nomad_csi_plan::{MergeRules, merge};
use nomad_csi_wire as wire;

/// A fault of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallFault {
    /// The server does nothing and returns an error.
    Refused,
    /// The server cannot reach the plugin's node.
    PluginUnreachable,
    /// The server makes the change, and the reply is lost.
    ReplyLost,
    /// The request is lost, which the client cannot detect.
    RequestLost,
}

/// A server in memory. Clones share their state.
#[derive(Clone, Debug)]
pub(crate) struct FakeServer(Arc<Mutex<Content>>);

#[derive(Debug)]
struct Content {
    kind: ServerKind,
    rules: MergeRules,
    index: u64,
    volumes: BTreeMap<NamespacedId, Volume>,
    plugins: BTreeMap<PluginId, Plugin>,
    faults: VecDeque<(&'static str, Option<CallFault>)>,
    calls: Vec<String>,
    delete_secrets: Vec<usize>,
    has_recovered: bool,
}

impl FakeServer {
    /// Creates an empty server with these merge rules.
    pub(crate) fn new(rules: MergeRules) -> Self {
        Self(Arc::new(Mutex::new(Content {
            kind: if rules == MergeRules::AGENT {
                ServerKind::Agent
            } else {
                ServerKind::Nomad(ServerVersion::new(2, 0, 5))
            },
            rules,
            index: 10,
            volumes: BTreeMap::new(),
            plugins: BTreeMap::new(),
            faults: VecDeque::new(),
            calls: vec![],
            delete_secrets: vec![],
            has_recovered: false,
        })))
    }

    /// Adds a healthy plugin with one controller and without visible instances.
    pub(crate) fn add_plugin(&self, id: &str) {
        let one = HealthCount { healthy: 1, expected: 1 };
        let summary = PluginSummary {
            id: PluginId::new(id),
            provider: "csi.example".into(),
            controller_required: true,
            controllers: one,
            nodes: one,
        };
        let plugin = Plugin {
            summary,
            version: "1".into(),
            controllers: BTreeMap::new(),
            nodes: BTreeMap::new(),
            allocs: vec![],
        };
        self.content().plugins.insert(PluginId::new(id), plugin);
    }

    /// Changes a volume without a call, as another operator or an allocation would.
    pub(crate) fn change(&self, key: &NamespacedId, change: impl FnOnce(&mut Volume)) {
        let mut content = self.content();
        content.index += 1;
        let index = content.index;
        if let Some(volume) = content.volumes.get_mut(key) {
            change(volume);
            volume.modify_index = index;
            volume.spec_index = index;
        }
    }

    /// Moves the index of a volume as a claim and its release do on the agent: that of its specification stays.
    pub(crate) fn use_and_release(&self, key: &NamespacedId) {
        let mut content = self.content();
        content.index += 2;
        let index = content.index;
        if let Some(volume) = content.volumes.get_mut(key) {
            volume.modify_index = index;
        }
    }

    /// Removes a volume without a call.
    pub(crate) fn remove(&self, key: &NamespacedId) {
        self.content().volumes.remove(key);
    }

    /// Registers the data of a volume under another ID too, without a call.
    pub(crate) fn alias(&self, key: &NamespacedId, other: &NamespacedId) {
        let mut content = self.content();
        if let Some(volume) = content.volumes.get(key) {
            let alias = Volume {
                namespace: other.namespace.clone(),
                id: other.id.clone(),
                external_id: Some(volume.remote_id()),
                ..volume.clone()
            };
            content.volumes.insert(other.clone(), alias);
        }
    }

    /// Returns the number of secrets in each deletion.
    pub(crate) fn delete_secrets(&self) -> Vec<usize> {
        self.content().delete_secrets.clone()
    }

    /// Makes the next call of this name (`create`, `register`, `read`, …) fail. Faults queue up.
    pub(crate) fn fail_next(&self, call: &'static str, fault: CallFault) {
        self.content().faults.push_back((call, Some(fault)));
    }

    /// Makes the server one that stopped responding and responds again.
    pub(crate) fn recover(&self) {
        self.content().has_recovered = true;
    }

    /// Makes the next call of this name succeed, before the faults that are queued after it.
    pub(crate) fn pass_next(&self, call: &'static str) {
        self.content().faults.push_back((call, None));
    }

    /// Returns every call so far: `create db`, `read db`.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.content().calls.clone()
    }

    /// Returns the calls that could have changed something.
    pub(crate) fn writes(&self) -> Vec<String> {
        let is_write = |call: &String| !call.starts_with("read") && !call.starts_with("list");
        self.calls().into_iter().filter(is_write).collect()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock()
    }

    fn call<T>(
        &self,
        name: &'static str,
        on: &str,
        act: impl FnOnce(&mut Content) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let mut content = self.content();
        content.calls.push(format!("{name} {on}"));
        let position = content.faults.iter().position(|(call, _)| *call == name);
        let next = position.and_then(|at| content.faults.remove(at));
        match next.and_then(|(_, fault)| fault) {
            None => act(&mut content),
            Some(CallFault::Refused) => Err(refusal(Code::ApiServerError, "it failed")),
            Some(CallFault::PluginUnreachable) => {
                let text = "controller create volume: No path to node";
                Err(refusal(Code::PluginUnreachable, text))
            }
            Some(CallFault::RequestLost) => Err(connection_lost()),
            Some(CallFault::ReplyLost) => act(&mut content).and_then(|_| Err(connection_lost())),
        }
    }
}

/// Returns whether a filter of the form `FIELD == "VALUE" or …` selects a volume.
fn is_selected(filter: &str, volume: &Volume) -> bool {
    let external_id = volume.external_id.as_ref().map_or("", |id| id.as_str());
    let terms = [format!("ExternalID == \"{external_id}\""), format!("ID == \"{}\"", volume.id)];
    filter.split(" or ").any(|term| terms.iter().any(|of_volume| of_volume == term))
}

fn connection_lost() -> ApiError {
    ApiError::new(Code::ApiOutcomeUnknown, "the connection ended before the answer")
}

fn refusal(code: Code, text: &str) -> ApiError {
    ApiError::new(code, text).status(500).server_text(text)
}

impl Content {
    fn write(&mut self, request: &VolumeRequest, created: bool) -> Result<WriteReply, ApiError> {
        if !self.plugins.contains_key(&request.plugin_id) {
            let text = format!("no CSI plugin named: {} could be found", request.plugin_id);
            return Err(refusal(Code::PluginUnknown, &text));
        }
        self.index += 1;
        let volume = match self.volumes.get(&request.key()) {
            None => new_volume(request, self.index, created),
            Some(existing) => {
                let merged =
                    merge(existing, &request.to_unresolved(), self.rules).map_err(|refusals| {
                        let texts: Vec<_> =
                            refusals.into_iter().map(|refusal| refusal.text).collect();
                        refusal(Code::VolumeImmutableField, &texts.join("; "))
                    })?;
                Volume { modify_index: self.index, spec_index: self.index, ..merged.volume }
            }
        };
        let document = Document::of(&wire::volume_to_wire(&volume));
        self.volumes.insert(request.key(), volume);
        Ok(WriteReply { document: Some(document), warnings: vec![] })
    }

    fn remove_volume(&mut self, key: &NamespacedId) -> Result<(), ApiError> {
        let Some(volume) = self.volumes.get(key) else {
            return Err(refusal(Code::VolumeNotFound, &format!("volume not found: {}", key.id)));
        };
        if volume.is_claimed() {
            return Err(refusal(Code::VolumeInUse, &format!("volume in use: {}", key.id)));
        }
        self.volumes.remove(key);
        Ok(())
    }
}

fn new_volume(request: &VolumeRequest, index: u64, created: bool) -> Volume {
    let one = HealthCount { healthy: 1, expected: 1 };
    let external_id = if created {
        Some(ExternalId::new(format!("ext-{}", request.id)))
    } else {
        request.external_id.clone()
    };
    let required = request.topology_request.iter().flat_map(|desired| desired.required.clone());
    Volume {
        external_id,
        provider: "csi.example".into(),
        provider_version: "1".into(),
        capacity: if created { request.capacity.min } else { Bytes::ZERO },
        topologies: required.collect(),
        mount_options: Some(request.mount_options.clone().unwrap_or_default()),
        schedulable: true,
        controller_required: true,
        controllers: one,
        nodes: one,
        create_index: index,
        modify_index: index,
        spec_index: index,
        ..Volume::of_request(request.clone())
    }
}

fn volume_with_document(volume: &Volume) -> WithDocument<Volume> {
    let mut wire = wire::volume_to_wire(volume);
    // The agent says it where a use has moved the other index.
    wire.spec_index = (volume.spec_index != volume.modify_index).then_some(volume.spec_index);
    WithDocument { value: wire::volume_from_wire(&wire), document: Document::of(&wire) }
}

#[async_trait]
impl VolumeReader for FakeServer {
    fn name(&self) -> &str {
        "the fake server"
    }

    fn has_recovered(&self) -> bool {
        self.content().has_recovered
    }

    async fn is_agent(&self) -> Result<bool, ApiError> {
        Ok(self.content().kind == ServerKind::Agent)
    }

    async fn server(&self) -> Result<ServerKind, ApiError> {
        Ok(self.content().kind.clone())
    }

    async fn namespace_names(&self) -> Result<BTreeSet<Namespace>, ApiError> {
        Ok([Namespace::default()].into())
    }

    async fn list_volumes(
        &self,
        query: &VolumeQuery,
    ) -> Result<Vec<WithDocument<VolumeSummary>>, ApiError> {
        self.call("list", query.namespace.as_str(), |content| {
            let matches = |volume: &&Volume| {
                let everywhere = query.namespace.as_str() == Namespace::ALL;
                let prefix = query.prefix.as_deref().unwrap_or_default();
                (everywhere || volume.namespace == query.namespace)
                    && volume.id.as_str().starts_with(prefix)
                    && query.plugin.as_ref().is_none_or(|plugin| *plugin == volume.plugin_id)
                    && query.filter.as_deref().is_none_or(|filter| is_selected(filter, volume))
            };
            let listed = content.volumes.values().filter(matches).map(|volume| {
                let stub = wire::stub_to_wire(volume);
                WithDocument {
                    value: wire::summary_from_wire(&stub),
                    document: Document::of(&stub),
                }
            });
            Ok(listed.collect())
        })
    }

    async fn summarize_volumes(
        &self,
        namespace: &Namespace,
        limit: usize,
    ) -> Result<Option<Vec<VolumeSummary>>, ApiError> {
        let query = VolumeQuery::of_namespace(namespace.clone());
        let listed = self.list_volumes(&query).await?;
        let listed: Vec<_> = listed.into_iter().map(|one| one.value).collect();
        Ok(Some(listed).filter(|listed| listed.len() <= limit))
    }

    async fn read_volume(
        &self,
        key: &NamespacedId,
    ) -> Result<Option<WithDocument<Volume>>, ApiError> {
        self.call("read", key.id.as_str(), |content| {
            Ok(content.volumes.get(key).map(volume_with_document))
        })
    }

    async fn list_plugins(
        &self,
        prefix: Option<&str>,
    ) -> Result<Vec<WithDocument<PluginSummary>>, ApiError> {
        self.call("list", "plugins", |content| {
            let prefix = prefix.unwrap_or_default();
            let matching = content
                .plugins
                .values()
                .filter(|plugin| plugin.summary.id.as_str().starts_with(prefix));
            let listed = matching.map(|plugin| {
                let stub = wire::plugin_summary_to_wire(&plugin.summary);
                WithDocument { value: plugin.summary.clone(), document: Document::of(&stub) }
            });
            Ok(listed.collect())
        })
    }

    async fn read_plugin(
        &self,
        id: &PluginId,
        _namespace: &Namespace,
    ) -> Result<Option<WithDocument<Plugin>>, ApiError> {
        self.call("read-plugin", id.as_str(), |content| {
            let read = |plugin: &Plugin| WithDocument {
                value: plugin.clone(),
                document: Document::of(&wire::plugin_to_wire(plugin)),
            };
            Ok(content.plugins.get(id).map(read))
        })
    }
}

#[async_trait]
impl VolumeApi for FakeServer {
    async fn create_volume(&self, request: &VolumeRequest) -> Result<WriteReply, ApiError> {
        self.call("create", request.id.as_str(), |content| content.write(request, true))
    }

    async fn register_volume(&self, request: &VolumeRequest) -> Result<WriteReply, ApiError> {
        self.call("register", request.id.as_str(), |content| content.write(request, false))
    }

    async fn deregister_volume(&self, key: &NamespacedId, _force: bool) -> Result<(), ApiError> {
        self.call("deregister", key.id.as_str(), |content| content.remove_volume(key))
    }

    async fn delete_volume(&self, key: &NamespacedId, secrets: &Secrets) -> Result<(), ApiError> {
        self.call("delete", key.id.as_str(), |content| {
            content.delete_secrets.push(secrets.expose().count());
            content.remove_volume(key)
        })
    }

    async fn detach_volume(&self, key: &NamespacedId, node: &NodeId) -> Result<(), ApiError> {
        self.call("detach", &format!("{} {node}", key.id), |content| {
            let Some(volume) = content.volumes.get(key) else {
                return Err(refusal(Code::VolumeNotFound, "no such volume"));
            };
            let on_node = |alloc: &&Alloc| alloc.node_id == *node;
            let gone: Vec<AllocId> =
                volume.allocs.iter().filter(on_node).map(|alloc| alloc.id.clone()).collect();
            content.index += 1;
            let index = content.index;
            if let Some(volume) = content.volumes.get_mut(key) {
                volume.allocs.retain(|alloc| !gone.contains(&alloc.id));
                volume.read_allocs.retain(|id| !gone.contains(id));
                volume.write_allocs.retain(|id| !gone.contains(id));
                volume.modify_index = index;
                volume.spec_index = index;
            }
            Ok(())
        })
    }
}

#[async_trait]
impl ProviderReader for FakeServer {
    async fn list_external_volumes(
        &self,
        plugin: &PluginId,
        _namespace: &Namespace,
    ) -> Result<Vec<ExternalVolume>, ApiError> {
        self.call("list", plugin.as_str(), |_| Ok(vec![]))
    }

    async fn list_snapshots(
        &self,
        plugin: &PluginId,
        _namespace: &Namespace,
        _secrets: &Secrets,
    ) -> Result<Vec<Snapshot>, ApiError> {
        self.call("list", plugin.as_str(), |_| Ok(vec![]))
    }
}

#[async_trait]
impl SnapshotApi for FakeServer {
    async fn create_snapshot(&self, request: &SnapshotRequest) -> Result<Snapshot, ApiError> {
        self.call("snapshot", &request.name, |content| {
            let volume = content.volumes.get(&request.volume).ok_or_else(|| {
                let text = format!("volume not found: {}", request.volume.id);
                refusal(Code::VolumeNotFound, &text)
            })?;
            Ok(Snapshot {
                id: SnapshotId::new(format!("snap-{}", request.name)),
                source: volume.remote_id(),
                size: volume.capacity,
                create_time: 0,
                is_ready: true,
            })
        })
    }

    async fn delete_snapshot(
        &self,
        _plugin: &PluginId,
        _namespace: &Namespace,
        id: &SnapshotId,
        _secrets: &Secrets,
    ) -> Result<(), ApiError> {
        self.call("delete-snapshot", id.as_str(), |_| Ok(()))
    }
}
