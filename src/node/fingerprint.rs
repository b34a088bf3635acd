//! What a plugin is and how it is, asked anew each time (`csi-orchestration` 6.4, W44).
//!
//! [`examine`] asks; [`Fingerprint`] turns what was found into the instance as the server half knows
//! it and has it recorded when it differs. What was found when the plugin was last well stays with an
//! instance that is unwell, so that its volumes keep their capabilities. A plugin that was never well
//! has no instance at all (1.11).
//!
//! A report that was refused is not lost: the next finding is compared with what was recorded.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::model::{AllocId, ControllerInfo, Health, NodeId, NodeInfo, PluginId, PluginInstance};
use crate::ports::{
    Clock, PluginCapabilities, PluginConnection, PluginError, PluginInfo, PluginObserver,
    StatusCode,
};

/// How long a Probe may take.
const PROBE_LIMIT: Duration = Duration::from_secs(5);
/// How long all questions together may take.
const ROUND_LIMIT: Duration = Duration::from_secs(30);

/// What one round found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// Every question was answered.
    Well(Box<Facts>),
    /// Why it cannot be used.
    Unwell(String),
}

/// What a plugin says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    info: PluginInfo,
    capabilities: PluginCapabilities,
    controller: Option<ControllerInfo>,
    node: Option<NodeInfo>,
}

/// Asks everything once. Never waits longer than 30 s.
pub(super) async fn examine(connection: &PluginConnection) -> Finding {
    match timeout(ROUND_LIMIT, ask(connection)).await {
        Ok(Ok(facts)) => Finding::Well(Box::new(facts)),
        Ok(Err(reason)) => Finding::Unwell(reason),
        Err(_) => Finding::Unwell(format!(
            "failed fingerprinting with error: no answer within {} s",
            ROUND_LIMIT.as_secs()
        )),
    }
}

async fn ask(connection: &PluginConnection) -> Result<Facts, String> {
    match timeout(PROBE_LIMIT, connection.identity.probe()).await {
        Ok(Ok(true)) => {}
        Ok(Ok(false)) => return Err("the plugin says that it is not ready".to_owned()),
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => {
            return Err(format!(
                "Probe was not answered within {} s",
                PROBE_LIMIT.as_secs()
            ));
        }
    }
    facts(connection)
        .await
        .map_err(|error| format!("failed fingerprinting with error: {error}"))
}

async fn facts(connection: &PluginConnection) -> Result<Facts, PluginError> {
    let info = connection.identity.plugin_info().await?;
    let capabilities = connection.identity.plugin_capabilities().await?;
    let controller = if capabilities.controller_service {
        let capabilities = connection.controller.controller_capabilities().await?;
        Some(ControllerInfo { capabilities })
    } else {
        None
    };
    let node = match node_info(connection).await {
        Ok(node) => Some(node),
        // A plugin that is a controller only.
        Err(error) if error.code == StatusCode::Unimplemented && controller.is_some() => None,
        Err(error) => return Err(error),
    };
    Ok(Facts {
        info,
        capabilities,
        controller,
        node,
    })
}

async fn node_info(connection: &PluginConnection) -> Result<NodeInfo, PluginError> {
    let description = connection.node.node_info().await?;
    Ok(NodeInfo {
        capabilities: connection.node.node_capabilities().await?,
        external_node_id: description.external_node_id,
        max_volumes: description.max_volumes,
        accessible_topology: description.accessible_topology,
    })
}

/// One plugin's instance on one node, and who is told of it.
pub(super) struct Fingerprint {
    pub(super) plugin: PluginId,
    pub(super) node: NodeId,
    pub(super) task: AllocId,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) observer: Arc<dyn PluginObserver>,
    /// What was recorded last; at first what an earlier run of the agent left behind.
    pub(super) recorded: Option<PluginInstance>,
}

impl Fingerprint {
    /// Has the finding recorded if it says something new.
    pub(super) async fn record(&mut self, finding: &Finding) {
        let now = self.clock.now();
        let Some(instance) = next(self.recorded.as_ref(), &self.task, finding, now) else {
            return;
        };
        if instance.health.healthy {
            tracing::info!(plugin.id = %self.plugin, "plugin is healthy");
        } else {
            let reason = &instance.health.description;
            tracing::warn!(plugin.id = %self.plugin, reason, "plugin is unhealthy");
        }
        // Counted as recorded first: whoever gives up waiting here must later tell of its end.
        let before = self.recorded.replace(instance.clone());
        if let Err(error) = self
            .observer
            .changed(&self.plugin, &self.node, instance)
            .await
        {
            tracing::warn!(plugin.id = %self.plugin, %error, "plugin's state was not recorded");
            self.recorded = before;
        }
    }

    /// Has it recorded that the plugin no longer runs here.
    pub(super) async fn record_gone(&mut self) {
        if self.recorded.is_none() {
            return;
        }
        let told = self.observer.gone(&self.plugin, &self.node).await;
        match told {
            Ok(()) => self.recorded = None,
            Err(error) => {
                tracing::warn!(plugin.id = %self.plugin, %error, "plugin's end was not recorded");
            }
        }
    }
}

/// The instance to record, or nothing if it is recorded already.
fn next(
    recorded: Option<&PluginInstance>,
    task: &AllocId,
    finding: &Finding,
    now: i64,
) -> Option<PluginInstance> {
    let found = match finding {
        Finding::Well(facts) => instance(facts, task, now),
        Finding::Unwell(reason) => PluginInstance {
            alloc_id: task.clone(),
            health: Health {
                healthy: false,
                description: reason.clone(),
            },
            updated_at: now,
            ..recorded?.clone()
        },
    };
    let same = recorded.is_some_and(|recorded| {
        PluginInstance {
            updated_at: now,
            ..recorded.clone()
        } == found
    });
    (!same).then_some(found)
}

fn instance(facts: &Facts, task: &AllocId, now: i64) -> PluginInstance {
    PluginInstance {
        alloc_id: task.clone(),
        health: Health {
            healthy: true,
            description: "healthy".to_owned(),
        },
        updated_at: now,
        provider: facts.info.name.clone(),
        provider_version: facts.info.vendor_version.clone(),
        requires_controller: facts.capabilities.controller_service,
        requires_topologies: facts.capabilities.volume_accessibility_constraints,
        controller: facts.controller.clone(),
        node: facts.node.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::fakes::{Answer, FakePlugin, RecordingObserver};

    async fn find(plugin: FakePlugin) -> Finding {
        examine(&Arc::new(plugin).connection()).await
    }

    fn facts(finding: Finding) -> Facts {
        match finding {
            Finding::Well(facts) => *facts,
            Finding::Unwell(reason) => panic!("unwell: {reason}"),
        }
    }

    /// B67 and B68: what the plugin says, and only the services that it has.
    #[tokio::test]
    async fn a_plugin_is_what_it_says_about_itself() {
        let both = facts(find(FakePlugin::named("fake.csi.example")).await);
        assert_eq!(both.info.name, "fake.csi.example");
        assert_eq!(both.node.unwrap().external_node_id.as_str(), "node-1");
        assert!(both.controller.unwrap().capabilities.create_delete_volume);

        let controller_only = FakePlugin {
            has_node: false,
            ..FakePlugin::named("c")
        };
        assert_eq!(facts(find(controller_only).await).node, None);

        let node_only = FakePlugin {
            has_controller: false,
            ..FakePlugin::named("n")
        };
        let node_only = facts(find(node_only).await);
        assert_eq!(
            (node_only.controller, node_only.node.is_some()),
            (None, true)
        );
    }

    /// B72: every way to be unwell is said in words.
    #[tokio::test(start_paused = true)]
    async fn an_unwell_plugin_says_why() {
        for (probe, expected) in [
            (Answer::NotReady, "the plugin says that it is not ready"),
            (
                Answer::Unavailable,
                "Probe failed with Unavailable: no connection",
            ),
            (Answer::Hang, "Probe was not answered within 5 s"),
        ] {
            let plugin = FakePlugin::named("p");
            plugin.now_answers(probe);
            assert_eq!(find(plugin).await, Finding::Unwell(expected.to_owned()));
        }
        let neither = FakePlugin {
            has_controller: false,
            has_node: false,
            ..FakePlugin::named("p")
        };
        assert_eq!(
            find(neither).await,
            Finding::Unwell(
                "failed fingerprinting with error: NodeGetInfo failed with Unimplemented: no node service".to_owned()
            )
        );
    }

    fn fingerprint(observer: &Arc<RecordingObserver>) -> Fingerprint {
        Fingerprint {
            plugin: "p".into(),
            node: "here".into(),
            task: "task".into(),
            clock: Arc::new(crate::ports::SystemClock),
            observer: observer.clone(),
            recorded: None,
        }
    }

    /// B64 and 1.11: transitions only, and none before the plugin was well once.
    #[tokio::test]
    async fn only_changes_are_recorded() {
        let observer = Arc::new(RecordingObserver::default());
        let mut fingerprint = fingerprint(&observer);
        let well = find(FakePlugin::named("p")).await;
        let unwell = Finding::Unwell("why".to_owned());
        for finding in [&unwell, &well, &well, &unwell, &unwell, &well] {
            fingerprint.record(finding).await;
        }
        fingerprint.record_gone().await;
        fingerprint.record_gone().await;
        assert_eq!(observer.told(), ["healthy", "why", "healthy", "gone"]);
    }

    /// W44: an upgrade in place or a moved node is seen.
    #[tokio::test]
    async fn facts_that_changed_are_recorded_although_health_did_not() {
        let observer = Arc::new(RecordingObserver::default());
        let mut fingerprint = fingerprint(&observer);
        fingerprint
            .record(&find(FakePlugin::named("p")).await)
            .await;
        let moved = FakePlugin {
            max_volumes: Some(7),
            ..FakePlugin::named("p")
        };
        fingerprint.record(&find(moved).await).await;
        let recorded = fingerprint.recorded.unwrap();
        assert_eq!(recorded.node.unwrap().max_volumes, Some(7));
        assert_eq!(observer.told(), ["healthy", "healthy"]);
    }

    #[tokio::test]
    async fn an_unwell_instance_keeps_what_is_known_of_it() {
        let observer = Arc::new(RecordingObserver::default());
        let mut fingerprint = fingerprint(&observer);
        fingerprint
            .record(&find(FakePlugin::named("p")).await)
            .await;
        fingerprint
            .record(&Finding::Unwell("died".to_owned()))
            .await;
        let recorded = fingerprint.recorded.unwrap();
        assert_eq!(recorded.provider, "p");
        assert!(!recorded.health.healthy && recorded.controller.is_some());
    }

    #[tokio::test]
    async fn a_refused_report_is_made_again() {
        let observer = Arc::new(RecordingObserver::default());
        let mut fingerprint = fingerprint(&observer);
        let well = find(FakePlugin::named("p")).await;
        observer.refuse(true);
        fingerprint.record(&well).await;
        observer.refuse(false);
        fingerprint.record(&well).await;
        assert_eq!(observer.told(), ["healthy"]);
    }
}
