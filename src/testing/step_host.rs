//! The hosts of claim steps over a fake plugin: one node and its controllers, with call locks, and without
//! mounts and files of their own.

use std::collections::HashSet;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::backend::FakeBackend;
use super::plugin::{FakeCallLocks, FakePlugin, HeldCallLock};
use nomad_csi_model::retry::Verdict;
use nomad_csi_model::{
    AllocId, Bytes, ControllerCapabilities, ExternalNodeId, HostSession, MountRoot, PluginId,
    PublishContext, RemoteVolume, StagingPath, TargetPath, Term, VolumeStats,
};
use nomad_csi_ports::{
    CallOrder, Controller as _, ControllerHost, ControllerPublishRequest, ControllerPublishVolume,
    ControllerUnpublishRequest, ControllerUnpublishVolume, Delivery, HostError, HostOperation,
    NodeExpandRequest, NodeExpandVolume, NodeHost, NodeService as _, NodeVolumeStats, PluginError,
    PublishRequest, PublishVolume, StageRequest, StageVolume, StatsRequest, SweepOutcome,
    TermGuard, UnpublishRequest, UnstageRequest,
};

/// A node, or the machine of the controllers.
#[derive(Clone, Debug)]
pub struct FakeStepHost {
    backend: Arc<FakeBackend>,
    plugin: FakePlugin,
    plugin_id: PluginId,
    node: ExternalNodeId,
    session: HostSession,
    newest_term: Arc<Mutex<Term>>,
    root: MountRoot,
    busy: FakeCallLocks,
    kept: Option<KeptFiles>,
}

/// The files beside volumes, which a host names when all hosts of the barrier are asked for theirs.
#[derive(Clone, Debug)]
struct KeptFiles {
    paths: Vec<std::path::PathBuf>,
    all_are_asked: Arc<tokio::sync::Barrier>,
}

impl FakeStepHost {
    /// The host of a plugin on a node. Another session is another run of the host.
    ///
    /// # Panics
    /// Never: the root is an absolute path.
    #[expect(clippy::expect_used, reason = "the path is a constant")]
    pub fn new(
        backend: Arc<FakeBackend>,
        plugin_id: PluginId,
        node: Option<ExternalNodeId>,
        session: &str,
    ) -> Self {
        let root = Path::new("/fake");
        let plugin = match &node {
            Some(node) => FakePlugin::on_node(backend.clone(), node.clone()),
            None => FakePlugin::new(backend.clone()),
        };
        let own = || backend.settings().description.external_node_id;
        Self {
            node: node.unwrap_or_else(own),
            root: MountRoot::new(root, root).expect("invariant: an absolute path without dots"),
            session: HostSession::new(session),
            newest_term: Arc::default(),
            busy: Arc::default(),
            kept: None,
            backend,
            plugin,
            plugin_id,
        }
    }

    /// Lets the host name these files beside volumes, when all hosts of the barrier are asked for theirs.
    #[must_use]
    pub fn keeping(
        self,
        paths: Vec<std::path::PathBuf>,
        all_are_asked: Arc<tokio::sync::Barrier>,
    ) -> Self {
        Self { kept: Some(KeptFiles { paths, all_are_asked }), ..self }
    }

    /// The ports of the plugin, whose calls for a volume take the call locks of this host.
    pub fn serialized_plugin(&self) -> FakePlugin {
        self.plugin.clone().on_call_locks(self.busy.clone())
    }

    fn obey(&self, term: Term) -> Result<(), HostError> {
        let mut newest = self.newest_term.lock();
        if term < *newest {
            return Err(HostError::OldTerm { desired: term, newest: *newest });
        }
        *newest = term;
        Ok(())
    }

    fn staging(&self, volume: &RemoteVolume) -> StagingPath {
        self.root.staging(&volume.external_id)
    }

    /// Runs a call to its end under the call lock of its volume, also if its caller stops waiting. One whose time limit passed
    /// keeps the call lock until the plugin has ended it.
    async fn run<T: Send + 'static>(
        &self,
        order: &CallOrder,
        volume: &RemoteVolume,
        running: HostOperation,
        call: impl Future<Output = Result<T, HostError>> + Send + 'static,
    ) -> Result<T, HostError> {
        self.obey(order.term)?;
        if order.session != self.session {
            return Err(HostError::OtherSession {
                desired: order.session.clone(),
                own: self.session.clone(),
            });
        }
        let call_locks = self.busy.clone();
        let id = volume.external_id.clone();
        let is_free = call_locks.lock().insert(id.clone());
        if !is_free {
            let volume = volume.clone();
            return Err(HostError::Busy { volume, running });
        }
        let backend = self.backend.clone();
        let (sender, answer) = oneshot::channel();
        tokio::spawn(async move {
            let taken = HeldCallLock(call_locks, id);
            let answer = call.await;
            let held = is_unanswered(&answer).then_some(taken);
            drop(sender.send(answer));
            if let Some(HeldCallLock(_, id)) = &held {
                backend.wait_until_ended(id.as_str()).await;
            }
        });
        let lost = HostError::Lost { operation: running, volume: volume.external_id.clone() };
        answer.await.unwrap_or(Err(lost))
    }

    fn running(&self) -> Running {
        Running { backend: self.backend.clone(), plugin: self.plugin_id.clone() }
    }

    fn targets(&self, volume: &RemoteVolume) -> Vec<std::path::PathBuf> {
        let targets = self.backend.targets().into_keys();
        let own = targets.filter(|(node, id, _)| *node == self.node && *id == volume.external_id);
        own.map(|(_, _, path)| path).collect()
    }

    fn is_staged(&self, volume: &RemoteVolume) -> bool {
        let key = (self.node.clone(), volume.external_id.clone());
        self.backend.stagings().contains_key(&key)
    }
}

impl TermGuard for FakeStepHost {
    fn obey(&self, term: Term) -> Result<(), HostError> {
        Self::obey(self, term)
    }
}

fn is_unanswered<T>(answer: &Result<T, HostError>) -> bool {
    matches!(answer, Err(HostError::Plugin(error)) if error.delivery == Delivery::Unanswered)
}

/// The plugin's process that gets a call, asked when the call is sent.
struct Running {
    backend: Arc<FakeBackend>,
    plugin: PluginId,
}

impl Running {
    fn stages(&self) -> bool {
        let node = self.backend.settings().node.unwrap_or_default();
        node.stage_unstage_volume
    }

    fn controller(&self) -> ControllerCapabilities {
        self.backend.settings().controller.unwrap_or_default()
    }

    /// Refuses what the plugin does not advertise, as the hosts do.
    fn require(&self, is_there: bool, what: &'static str) -> Result<(), HostError> {
        let plugin = self.plugin.clone();
        is_there.then_some(()).ok_or(HostError::Unsupported { plugin, what: what.into() })
    }

    fn require_staging(&self) -> Result<(), HostError> {
        self.require(self.stages(), "STAGE_UNSTAGE_VOLUME")
    }

    fn require_attachment(&self) -> Result<(), HostError> {
        let attaches = self.controller().publish_unpublish_volume;
        self.require(attaches, "PUBLISH_UNPUBLISH_VOLUME")
    }

    /// Refuses what was decided for other capabilities, as the hosts do.
    fn require_same(&self, decided: bool, now: bool, what: &'static str) -> Result<(), HostError> {
        let plugin = self.plugin.clone();
        (decided == now).then_some(()).ok_or(HostError::Changed { plugin, what: what.into() })
    }

    fn require_attaches(&self, decided: bool) -> Result<(), HostError> {
        let needs_attachment = self.controller().publish_unpublish_volume && !decided;
        self.require_same(false, needs_attachment, "PUBLISH_UNPUBLISH_VOLUME")
    }
}

/// A teardown of what does not exist is done.
fn ignore_done(answer: Result<(), PluginError>) -> Result<(), HostError> {
    match answer {
        Err(error) if error.verdict == Verdict::AlreadyDone => Ok(()),
        answer => answer.map_err(HostError::Plugin),
    }
}

#[async_trait]
impl NodeHost for FakeStepHost {
    async fn stage(&self, order: CallOrder, request: StageRequest) -> Result<(), HostError> {
        let (plugin, running) = (self.plugin.clone(), self.running());
        let attaches = request.attaches;
        let call = StageVolume {
            external_id: request.volume.external_id.clone(),
            publish_context: request.publish_context,
            staging_path: self.staging(&request.volume).in_plugin().to_owned(),
            capability: request.usage.capability,
            mount_options: request.usage.mount_options,
            secrets: request.secrets,
            context: request.volume_context,
        };
        let call = async move {
            running.require_attaches(attaches)?;
            running.require_staging()?;
            let staged = plugin.stage_volume(call).await;
            staged.map_err(HostError::Plugin)
        };
        self.run(&order, &request.volume, HostOperation::Stage, call).await
    }

    async fn publish(
        &self,
        order: CallOrder,
        request: PublishRequest,
    ) -> Result<TargetPath, HostError> {
        let (plugin, running) = (self.plugin.clone(), self.running());
        let target = self.root.target(&request.volume.external_id, &request.alloc, &request.alias);
        let (attaches, stages) = (request.attaches, request.stages);
        let staging = self.staging(&request.volume).in_plugin().to_owned();
        let call = PublishVolume {
            external_id: request.volume.external_id.clone(),
            publish_context: request.publish_context,
            staging_path: stages.then_some(staging),
            target_path: target.in_plugin().to_owned(),
            capability: request.usage.capability,
            mount_options: request.usage.mount_options,
            read_only: request.read_only,
            secrets: request.secrets,
            context: request.volume_context,
        };
        let call = async move {
            running.require_attaches(attaches)?;
            running.require_same(stages, running.stages(), "STAGE_UNSTAGE_VOLUME")?;
            let published = plugin.publish_volume(call).await;
            published.map_err(HostError::Plugin)
        };
        self.run(&order, &request.volume, HostOperation::Publish, call).await?;
        Ok(target)
    }

    async fn unpublish(
        &self,
        order: CallOrder,
        request: UnpublishRequest,
    ) -> Result<(), HostError> {
        let plugin = self.plugin.clone();
        let target = self.root.target(&request.volume.external_id, &request.alloc, &request.alias);
        let id = request.volume.external_id.clone();
        let path = target.in_plugin().to_owned();
        let call = async move { ignore_done(plugin.unpublish_volume(id, path).await) };
        self.run(&order, &request.volume, HostOperation::Unpublish, call).await
    }

    async fn unstage(&self, order: CallOrder, request: UnstageRequest) -> Result<(), HostError> {
        let (plugin, running) = (self.plugin.clone(), self.running());
        let id = request.volume.external_id.clone();
        let path = self.staging(&request.volume).in_plugin().to_owned();
        let call = async move {
            running.require_staging()?;
            ignore_done(plugin.unstage_volume(id, path).await)
        };
        self.run(&order, &request.volume, HostOperation::Unstage, call).await
    }

    async fn expand(
        &self,
        order: CallOrder,
        request: NodeExpandRequest,
    ) -> Result<Bytes, HostError> {
        let plugin = self.plugin.clone();
        let staging = self.staging(&request.volume).in_plugin().to_owned();
        let target = request.target.as_ref();
        let target = target
            .map(|(alloc, alias)| self.root.target(&request.volume.external_id, alloc, alias));
        let path = target.map(|target| target.in_plugin().to_owned());
        let call = NodeExpandVolume {
            external_id: request.volume.external_id.clone(),
            volume_path: path.unwrap_or_else(|| staging.clone()),
            capacity: request.capacity,
            staging_path: Some(staging),
            capability: Some(request.usage.capability),
            mount_options: request.usage.mount_options,
            secrets: request.secrets,
        };
        let call = async move {
            let expanded = plugin.node_expand_volume(call).await;
            expanded.map_err(HostError::Plugin)
        };
        self.run(&order, &request.volume, HostOperation::ExpandOnNode, call).await
    }

    async fn stats(&self, _: &AllocId, request: StatsRequest) -> Result<VolumeStats, HostError> {
        let id = request.volume.external_id.clone();
        let call = NodeVolumeStats {
            staging_path: (self.running().stages() && request.is_staged)
                .then(|| self.staging(&request.volume).in_plugin().to_owned()),
            volume_path: request.target,
            external_id: id,
        };
        let stats = self.plugin.node_volume_stats(call).await;
        stats.map_err(HostError::Plugin)
    }

    async fn kept_files(&self, _: &RemoteVolume) -> Result<Vec<std::path::PathBuf>, HostError> {
        let Some(kept) = &self.kept else {
            return Ok(vec![]);
        };
        kept.all_are_asked.wait().await;
        Ok(kept.paths.clone())
    }

    async fn left_behind(&self, term: Term) -> Result<Vec<RemoteVolume>, HostError> {
        self.obey(term)?;
        let busy = self.busy.lock();
        let busy = busy.clone();
        let staged = self.backend.stagings().into_keys();
        let targets = self.backend.targets().into_keys();
        let found = staged.chain(targets.map(|(node, id, _)| (node, id)));
        let own = found.filter(|(node, _)| *node == self.node);
        let ids: HashSet<_> = own.map(|(_, id)| id).chain(busy).collect();
        let volumes = ids
            .into_iter()
            .map(|external_id| RemoteVolume { plugin_id: self.plugin_id.clone(), external_id });
        Ok(volumes.collect())
    }

    async fn sweep(
        &self,
        order: CallOrder,
        volume: RemoteVolume,
    ) -> Result<SweepOutcome, HostError> {
        let (targets, is_staged) = (self.targets(&volume), self.is_staged(&volume));
        let is_clean = targets.is_empty() && !is_staged;
        let (plugin, running) = (self.plugin.clone(), self.running());
        let id = volume.external_id.clone();
        let staging = self.staging(&volume).in_plugin().to_owned();
        let call = async move {
            for target in targets {
                ignore_done(plugin.unpublish_volume(id.clone(), target).await)?;
            }
            if is_staged {
                running.require_staging()?;
                ignore_done(plugin.unstage_volume(id, staging).await)?;
            }
            Ok(())
        };
        self.run(&order, &volume, HostOperation::Sweep, call).await?;
        Ok(if is_clean { SweepOutcome::NothingLeft } else { SweepOutcome::UndidSomething })
    }
}

#[async_trait]
impl ControllerHost for FakeStepHost {
    async fn publish(
        &self,
        order: CallOrder,
        request: ControllerPublishRequest,
    ) -> Result<PublishContext, HostError> {
        let (plugin, running) = (self.plugin.clone(), self.running());
        let capabilities = running.controller();
        let call = ControllerPublishVolume {
            external_id: request.volume.external_id.clone(),
            node_id: request.node,
            capability: request.usage.capability,
            mount_options: request.usage.mount_options,
            read_only: request.read_only && capabilities.publish_readonly,
            secrets: request.secrets,
            context: request.volume_context,
        };
        let call = async move {
            running.require_attachment()?;
            let attached = plugin.controller_publish_volume(call).await;
            attached.map_err(HostError::Plugin)
        };
        self.run(&order, &request.volume, HostOperation::Attach, call).await
    }

    async fn unpublish(
        &self,
        order: CallOrder,
        request: ControllerUnpublishRequest,
    ) -> Result<(), HostError> {
        let (plugin, running) = (self.plugin.clone(), self.running());
        let call = ControllerUnpublishVolume {
            external_id: request.volume.external_id.clone(),
            node_id: request.node,
            secrets: request.secrets,
        };
        let call = async move {
            running.require_attachment()?;
            ignore_done(plugin.controller_unpublish_volume(call).await)
        };
        self.run(&order, &request.volume, HostOperation::Detach, call).await
    }
}
