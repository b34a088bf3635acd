//! Fingerprints a plugin: its identity, capabilities and health.
//!
//! [`fingerprint_plugin`] calls the plugin; [`FingerprintRecorder`] reports the instance if it changed.
//! An unhealthy instance keeps its last known capabilities. A plugin that was never healthy has no
//! instance. A refused report is made again, because results are compared with what was recorded.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use nomad_csi_model::{
    AllocId, ControllerCapabilities, ControllerInfo, CsiPluginType, Health, NodeCapabilities,
    NodeId, NodeInfo, PluginId, PluginInstance, Secrets, StorageStatus,
};
use nomad_csi_ports::{
    Clock, PluginCapabilities, PluginConnection, PluginError, PluginInfo, PluginObserver,
    StatusCode,
};

/// How long a Probe may take.
const PROBE_LIMIT: Duration = Duration::from_secs(5);
/// How long all calls together may take.
const FINGERPRINT_LIMIT: Duration = Duration::from_secs(30);

/// The result of one fingerprint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FingerprintResult {
    /// The plugin answered every call.
    Healthy(Box<PluginFacts>),
    /// The reason why the plugin cannot be used.
    Unhealthy(String),
}

/// The identity and capabilities of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PluginFacts {
    info: PluginInfo,
    capabilities: PluginCapabilities,
    controller: Option<ControllerInfo>,
    node: Option<NodeInfo>,
    plugin_type: CsiPluginType,
}

impl PluginFacts {
    /// The controller's capabilities, if the plugin serves a controller.
    pub(super) fn controller(&self) -> Option<ControllerCapabilities> {
        Some(self.controller.as_ref()?.capabilities)
    }

    /// The node's capabilities, if the plugin serves a node.
    pub(super) fn node(&self) -> Option<NodeCapabilities> {
        Some(self.node.as_ref()?.capabilities)
    }

    /// Returns the health description. A plugin that advertises a controller and has none is a node
    /// plugin: many drivers report the same capabilities in both of their modes.
    fn description(&self) -> &'static str {
        let may_have_controller = self.plugin_type == CsiPluginType::Monolith;
        if may_have_controller && self.capabilities.controller_service && self.controller.is_none()
        {
            "healthy as a node plugin: it reports CONTROLLER_SERVICE, but does not implement \
             ControllerGetCapabilities"
        } else {
            "healthy"
        }
    }
}

/// Calls the plugin once, for at most 30 s. Only the services of its type are asked.
pub(super) async fn fingerprint_plugin(
    connection: &PluginConnection,
    plugin_type: CsiPluginType,
) -> FingerprintResult {
    match timeout(FINGERPRINT_LIMIT, query(connection, plugin_type)).await {
        Ok(Ok(facts)) => FingerprintResult::Healthy(Box::new(facts)),
        Ok(Err(reason)) => FingerprintResult::Unhealthy(reason),
        Err(_) => FingerprintResult::Unhealthy(format!(
            "failed fingerprinting with error: no answer within {} s",
            FINGERPRINT_LIMIT.as_secs()
        )),
    }
}

async fn query(
    connection: &PluginConnection,
    plugin_type: CsiPluginType,
) -> Result<PluginFacts, String> {
    match timeout(PROBE_LIMIT, connection.identity.probe()).await {
        Ok(Ok(true)) => {}
        Ok(Ok(false)) => return Err("the plugin reports that it is not ready".to_owned()),
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => {
            return Err(format!("Probe was not answered within {} s", PROBE_LIMIT.as_secs()));
        }
    }
    facts(connection, plugin_type)
        .await
        .map_err(|error| format!("failed fingerprinting with error: {error}"))
}

async fn facts(
    connection: &PluginConnection,
    plugin_type: CsiPluginType,
) -> Result<PluginFacts, PluginError> {
    let info = connection.identity.plugin_info().await?;
    let capabilities = connection.identity.plugin_capabilities().await?;
    let (controller, node) = match plugin_type {
        CsiPluginType::Controller => (Some(controller_info(connection).await?), None),
        CsiPluginType::Node => (None, Some(node_info(connection).await?)),
        CsiPluginType::Monolith => services(connection, capabilities).await?,
    };
    Ok(PluginFacts { info, capabilities, controller, node, plugin_type })
}

/// Returns the services that the plugin has, of which there is at least one.
async fn services(
    connection: &PluginConnection,
    capabilities: PluginCapabilities,
) -> Result<(Option<ControllerInfo>, Option<NodeInfo>), PluginError> {
    let controller = match capabilities.controller_service {
        true => implemented(controller_info(connection).await)?,
        false => None,
    };
    let node = node_info(connection).await;
    let node = match controller {
        Some(_) => implemented(node)?,
        None => Some(node?),
    };
    Ok((controller, node))
}

/// Returns `None` if the plugin does not implement the service.
fn implemented<T>(answer: Result<T, PluginError>) -> Result<Option<T>, PluginError> {
    match answer {
        Ok(info) => Ok(Some(info)),
        Err(error) if error.code == StatusCode::Unimplemented => Ok(None),
        Err(error) => Err(error),
    }
}

async fn controller_info(connection: &PluginConnection) -> Result<ControllerInfo, PluginError> {
    let capabilities = connection.controller.controller_capabilities().await?;
    Ok(ControllerInfo { capabilities })
}

async fn node_info(connection: &PluginConnection) -> Result<NodeInfo, PluginError> {
    let description = connection.node.node_info().await?;
    let capabilities = connection.node.node_capabilities().await?;
    Ok(NodeInfo {
        storage: storage_health(connection, capabilities).await,
        capabilities,
        external_node_id: description.external_node_id,
        max_volumes: description.max_volumes,
        accessible_topology: description.accessible_topology,
    })
}

/// Returns the conditions of the storage. A plugin that cannot report them is not unhealthy for that.
async fn storage_health(
    connection: &PluginConnection,
    capabilities: NodeCapabilities,
) -> Vec<StorageStatus> {
    if !capabilities.get_storage_health {
        return vec![];
    }
    match connection.node.storage_health(Secrets::default()).await {
        Ok(statuses) => statuses,
        Err(error) => {
            tracing::debug!(%error, "the health of the storage is unknown");
            vec![]
        }
    }
}

/// Reports one plugin's instance on one node to the observer.
pub(super) struct FingerprintRecorder {
    pub(super) plugin: PluginId,
    pub(super) node: NodeId,
    pub(super) task: AllocId,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) observer: Arc<dyn PluginObserver>,
    /// The process that is fingerprinted, by a text that no other one of the task has; `None` before the first.
    pub(super) process: Option<String>,
    /// The instance that was recorded last, possibly by an earlier run of the agent.
    pub(super) recorded: Option<PluginInstance>,
}

impl FingerprintRecorder {
    /// Reports the result if the instance changed.
    pub(super) async fn record(&mut self, result: &FingerprintResult) {
        let now = self.clock.now();
        let own = (&self.task, &self.process);
        let Some(instance) = next(self.recorded.as_ref(), own, result, now) else {
            return;
        };
        if instance.health.healthy {
            let health = &instance.health.description;
            tracing::info!(plugin.id = %self.plugin, health, "plugin is healthy");
        } else {
            let reason = &instance.health.description;
            tracing::warn!(plugin.id = %self.plugin, reason, "plugin is unhealthy");
        }
        // Set before the report: if this future is dropped, `record_gone` still has to report.
        let before = self.recorded.replace(instance.clone());
        if let Err(error) = self.observer.changed(&self.plugin, &self.node, instance).await {
            tracing::warn!(plugin.id = %self.plugin, %error, "the state of the plugin was not recorded");
            self.recorded = before;
        }
    }

    /// Reports that the plugin no longer runs here.
    pub(super) async fn record_gone(&mut self) {
        if self.recorded.is_none() {
            return;
        }
        let reported = self.observer.gone(&self.plugin, &self.task).await;
        match reported {
            Ok(()) => self.recorded = None,
            Err(error) => {
                tracing::warn!(plugin.id = %self.plugin, %error, "the removal of the plugin was not recorded");
            }
        }
    }
}

/// Returns the instance to record, or `None` if it is already recorded.
fn next(
    recorded: Option<&PluginInstance>,
    (task, process): (&AllocId, &Option<String>),
    result: &FingerprintResult,
    now: i64,
) -> Option<PluginInstance> {
    let found = match result {
        FingerprintResult::Healthy(facts) => instance(facts, (task, process), now),
        FingerprintResult::Unhealthy(reason) => PluginInstance {
            alloc_id: task.clone(),
            health: Health { healthy: false, description: reason.clone() },
            updated_at: now,
            ..recorded?.clone()
        },
    };
    let is_same = recorded.is_some_and(|recorded| {
        let recorded = PluginInstance { updated_at: now, ..recorded.clone() };
        without_storage_messages(recorded) == without_storage_messages(found.clone())
    });
    (!is_same).then_some(found)
}

/// A message may have a number that changes all the time, such as the free bytes.
fn without_storage_messages(mut instance: PluginInstance) -> PluginInstance {
    for status in instance.node.iter_mut().flat_map(|node| &mut node.storage) {
        status.message.clear();
    }
    instance
}

fn instance(
    facts: &PluginFacts,
    (task, process): (&AllocId, &Option<String>),
    now: i64,
) -> PluginInstance {
    PluginInstance {
        alloc_id: task.clone(),
        health: Health { healthy: true, description: facts.description().to_owned() },
        updated_at: now,
        provider: facts.info.name.clone(),
        provider_version: facts.info.vendor_version.clone(),
        process: process.clone(),
        requires_controller: facts.capabilities.controller_service,
        requires_topologies: facts.capabilities.volume_accessibility_constraints,
        controller: facts.controller.clone(),
        node: facts.node.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{FakeObserver, ProbeResponse, connection, plugin_named, set_probe_response};
    use nomad_csi_model::StorageStatusKind;
    use nomad_csi_testing::{FakeBackend, PluginSettings};

    async fn fingerprint_of(plugin: Arc<FakeBackend>) -> FingerprintResult {
        fingerprint_plugin(&connection(&plugin), CsiPluginType::Monolith).await
    }

    fn plugin_with(change: impl FnOnce(&mut PluginSettings)) -> Arc<FakeBackend> {
        let plugin = plugin_named("p");
        plugin.update_settings(change);
        plugin
    }

    fn facts(result: FingerprintResult) -> PluginFacts {
        match result {
            FingerprintResult::Healthy(facts) => *facts,
            FingerprintResult::Unhealthy(reason) => panic!("unhealthy: {reason}"),
        }
    }

    /// B67: the record of an instance has every fact that the plugin reports: the node's ID, limit, topology and
    /// capabilities, each of the controller's capabilities, the provider and the health.
    #[tokio::test]
    async fn every_fact_of_a_plugin_is_recorded() {
        use nomad_csi_model::{ControllerCapabilities, ExternalNodeId, NodeCapabilities, Topology};
        let flags = serde_json::to_value(ControllerCapabilities::default()).unwrap();
        let flags: Vec<String> = flags.as_object().unwrap().keys().cloned().collect();
        assert!(flags.len() >= 12, "{flags:?}");
        let node_flags = serde_json::to_value(NodeCapabilities::default()).unwrap();
        let node_flags: Vec<String> = node_flags.as_object().unwrap().keys().cloned().collect();
        let only = |all: &[String], flag: Option<&String>| {
            let value = all.iter().map(|one| (one.clone(), Some(one) == flag));
            serde_json::to_value(value.collect::<std::collections::BTreeMap<_, _>>()).unwrap()
        };
        let longest = flags.len().max(node_flags.len());
        for at in 0..=longest {
            let mut settings = PluginSettings::default();
            let controller = only(&flags, flags.get(at));
            let node = only(&node_flags, node_flags.get(at));
            let controller: ControllerCapabilities = serde_json::from_value(controller).unwrap();
            let node: NodeCapabilities = serde_json::from_value(node).unwrap();
            settings.controller = Some(controller);
            settings.node = Some(node);
            settings.plugin.volume_accessibility_constraints = at % 2 == 0;
            settings.info.name = format!("provider-{at}");
            settings.info.vendor_version = format!("v{at}");
            settings.description.external_node_id = ExternalNodeId::new(format!("i-{at}"));
            settings.description.max_volumes = (at > 0).then_some(at as u64);
            let place = Topology { segments: [("zone".to_owned(), format!("z{at}"))].into() };
            settings.description.accessible_topology = (at % 2 == 0).then_some(place);
            let found = fingerprint_of(FakeBackend::new(settings.clone())).await;
            let recorded = instance(&facts(found), (&"a1".into(), &None), 7);
            assert!(recorded.health.healthy);
            assert_eq!(recorded.health.description, "healthy");
            assert_eq!(recorded.updated_at, 7);
            assert_eq!(recorded.provider, settings.info.name);
            assert_eq!(recorded.provider_version, settings.info.vendor_version);
            assert_eq!(recorded.requires_controller, settings.plugin.controller_service);
            assert_eq!(
                recorded.requires_topologies,
                settings.plugin.volume_accessibility_constraints
            );
            assert_eq!(recorded.controller.unwrap().capabilities, controller, "flag {at}");
            let node_info = recorded.node.unwrap();
            assert_eq!(node_info.capabilities, node, "flag {at}");
            assert_eq!(node_info.external_node_id, settings.description.external_node_id);
            assert_eq!(node_info.max_volumes, settings.description.max_volumes);
            assert_eq!(node_info.accessible_topology, settings.description.accessible_topology);
        }
    }

    /// The plugin describes itself; only the services that it has are called (B68).
    #[tokio::test]
    async fn the_result_has_what_the_plugin_reports() {
        let both = facts(fingerprint_of(plugin_named("fake.csi.example")).await);
        assert_eq!(both.info.name, "fake.csi.example");
        assert_eq!(both.node.unwrap().external_node_id.as_str(), "fake-node");
        assert!(both.controller.unwrap().capabilities.create_delete_volume);

        let controller_only = plugin_with(|settings| settings.node = None);
        assert_eq!(facts(fingerprint_of(controller_only).await).node, None);

        let node_only = plugin_with(|settings| {
            settings.plugin.controller_service = false;
            settings.controller = None;
        });
        let node_only = facts(fingerprint_of(node_only).await);
        assert_eq!((node_only.controller, node_only.node.is_some()), (None, true));
    }

    /// B68: the type of a plugin task decides which services are asked, and which must answer.
    #[tokio::test]
    async fn only_the_services_of_the_type_are_asked() {
        use CsiPluginType::{Controller, Node};
        for (plugin_type, has_controller, has_node, is_healthy) in [
            (Controller, true, false, true),
            (Controller, false, true, false),
            (Node, false, true, true),
            (Node, true, false, false),
        ] {
            let plugin = plugin_with(|settings| {
                settings.controller = settings.controller.filter(|_| has_controller);
                settings.node = settings.node.filter(|_| has_node);
            });
            match fingerprint_plugin(&connection(&plugin), plugin_type).await {
                FingerprintResult::Healthy(facts) => {
                    assert!(is_healthy, "{plugin_type:?}");
                    assert_eq!(facts.controller.is_some(), plugin_type == Controller);
                    assert_eq!(facts.node.is_some(), plugin_type == Node);
                    assert_eq!(facts.description(), "healthy");
                }
                FingerprintResult::Unhealthy(reason) => {
                    assert!(!is_healthy && reason.contains("Unimplemented"), "{reason}");
                }
            }
        }
    }

    /// B68: many drivers report CONTROLLER_SERVICE in node mode too, where no controller answers.
    #[tokio::test]
    async fn a_node_plugin_that_advertises_a_missing_controller_is_healthy() {
        let node_mode = plugin_with(|settings| settings.controller = None);
        let observer = Arc::new(FakeObserver::default());
        let mut fingerprint = fingerprint(&observer);
        fingerprint.record(&fingerprint_of(node_mode).await).await;
        let recorded = fingerprint.recorded.unwrap();
        assert!(recorded.health.healthy && recorded.node.is_some());
        assert_eq!(recorded.controller, None);
        assert!(
            recorded.requires_controller,
            "the plugin requires a controller that another allocation runs (W18)"
        );
        assert_eq!(
            observer.reports(),
            ["healthy as a node plugin: it reports CONTROLLER_SERVICE, but does not implement \
                 ControllerGetCapabilities"]
        );
    }

    /// B72: every kind of failure has a reason.
    #[tokio::test(start_paused = true)]
    async fn an_unhealthy_plugin_has_a_reason() {
        for (probe, expected) in [
            (ProbeResponse::NotReady, "the plugin reports that it is not ready"),
            (ProbeResponse::Unavailable, "Probe failed with Unavailable: scripted Unavailable"),
            (ProbeResponse::Hang, "Probe was not answered within 5 s"),
        ] {
            let plugin = plugin_named("p");
            set_probe_response(&plugin, probe);
            assert_eq!(
                fingerprint_of(plugin).await,
                FingerprintResult::Unhealthy(expected.to_owned())
            );
        }
        let without_services = |settings: &mut PluginSettings| {
            (settings.controller, settings.node) = (None, None);
        };
        let neither = plugin_with(without_services);
        neither.update_settings(|settings| settings.plugin.controller_service = false);
        assert_eq!(
            fingerprint_of(neither).await,
            FingerprintResult::Unhealthy(
                "failed fingerprinting with error: NodeGetInfo failed with Unimplemented: the plugin has no such service".to_owned()
            )
        );
        let without_service = fingerprint_of(plugin_with(without_services)).await;
        assert!(matches!(without_service, FingerprintResult::Unhealthy(_)));
    }

    fn fingerprint(observer: &Arc<FakeObserver>) -> FingerprintRecorder {
        FingerprintRecorder {
            plugin: "p".into(),
            node: "here".into(),
            task: "task".into(),
            clock: Arc::new(nomad_csi_ports::SystemClock),
            observer: observer.clone(),
            process: Some("run 1".to_owned()),
            recorded: None,
        }
    }

    /// A plugin that was started again may be another build of the same version.
    #[tokio::test]
    async fn another_process_is_reported_although_nothing_else_changed() {
        let observer = Arc::new(FakeObserver::default());
        let mut fingerprint = fingerprint(&observer);
        let healthy = fingerprint_of(plugin_named("p")).await;
        fingerprint.record(&healthy).await;
        fingerprint.process = Some("run 2".to_owned());
        fingerprint.record(&healthy).await;
        fingerprint.record(&healthy).await;
        assert_eq!(observer.reports(), ["healthy", "healthy"]);
    }

    /// B64: only changes are reported, and none before the plugin was healthy once.
    #[tokio::test]
    async fn only_changes_are_recorded() {
        let observer = Arc::new(FakeObserver::default());
        let mut fingerprint = fingerprint(&observer);
        let healthy = fingerprint_of(plugin_named("p")).await;
        let unhealthy = FingerprintResult::Unhealthy("why".to_owned());
        let other = FingerprintResult::Unhealthy("another reason".to_owned());
        for result in
            [&unhealthy, &healthy, &healthy, &unhealthy, &unhealthy, &other, &other, &healthy]
        {
            fingerprint.record(result).await;
        }
        fingerprint.record_gone().await;
        fingerprint.record_gone().await;
        assert_eq!(observer.reports(), ["healthy", "why", "another reason", "healthy", "gone"]);
    }

    /// W44: an upgrade in place or a moved node is detected.
    #[tokio::test]
    async fn changed_facts_are_recorded_while_health_is_unchanged() {
        let observer = Arc::new(FakeObserver::default());
        let mut fingerprint = fingerprint(&observer);
        fingerprint.record(&fingerprint_of(plugin_named("p")).await).await;
        let moved = plugin_with(|settings| settings.description.max_volumes = Some(7));
        fingerprint.record(&fingerprint_of(moved).await).await;
        let recorded = fingerprint.recorded.unwrap();
        assert_eq!(recorded.node.unwrap().max_volumes, Some(7));
        assert_eq!(observer.reports(), ["healthy", "healthy"]);
    }

    /// The message of a status may have a number that changes all the time.
    #[tokio::test]
    async fn storage_health_is_recorded_when_a_status_changes_and_not_its_message() {
        let observer = Arc::new(FakeObserver::default());
        let mut fingerprint = fingerprint(&observer);
        let status = |reason: &str, message: &str| StorageStatus {
            kind: StorageStatusKind::Degraded,
            reason: reason.to_owned(),
            message: message.to_owned(),
            attachment_mode: None,
        };
        for (reported, reports) in [
            (None, 1),
            (Some(vec![]), 2),
            (Some(vec![status("NoSpace", "1 byte is free")]), 3),
            (Some(vec![status("NoSpace", "2 bytes are free")]), 3),
            (Some(vec![status("Slow", "2 bytes are free")]), 4),
        ] {
            let plugin = plugin_with(|settings| {
                let node = settings.node.as_mut().unwrap();
                node.get_storage_health = reported.is_some();
            });
            plugin.set_storage_health(reported.unwrap_or_default());
            fingerprint.record(&fingerprint_of(plugin).await).await;
            assert_eq!(observer.reports().len(), reports);
        }
        let node = fingerprint.recorded.unwrap().node.unwrap();
        assert_eq!(node.storage, [status("Slow", "2 bytes are free")]);
    }

    #[tokio::test]
    async fn an_unhealthy_instance_keeps_its_capabilities() {
        let observer = Arc::new(FakeObserver::default());
        let mut fingerprint = fingerprint(&observer);
        fingerprint.record(&fingerprint_of(plugin_named("p")).await).await;
        fingerprint.record(&FingerprintResult::Unhealthy("died".to_owned())).await;
        let recorded = fingerprint.recorded.unwrap();
        assert_eq!(recorded.provider, "p");
        assert!(!recorded.health.healthy && recorded.controller.is_some());
    }

    #[tokio::test]
    async fn a_refused_report_is_repeated() {
        let observer = Arc::new(FakeObserver::default());
        let mut fingerprint = fingerprint(&observer);
        let healthy = fingerprint_of(plugin_named("p")).await;
        observer.refuse(true);
        fingerprint.record(&healthy).await;
        observer.refuse(false);
        fingerprint.record(&healthy).await;
        assert_eq!(observer.reports(), ["healthy"]);
    }
}
