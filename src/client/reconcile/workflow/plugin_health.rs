//! Waits for plugins before a plan is made.
//!
//! A plugin that was just started, or is moving, has no healthy controller for a moment, and a plan
//! made then is blocked. So the plan is made again when the plugin changes, for two minutes at most.
//! If anything else blocks the plan, nothing is waited for.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::plan_request::{PlanRequest, PreparedPlan};
use super::prepare::prepare_plan;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{Namespace, PluginId};
use nomad_csi_plan::{Plan, PluginState};

/// How long a plugin is waited for.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(120);
/// The pause between two reads of a plugin.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Makes the plan once the plugins that it needs are healthy.
///
/// # Errors
/// Those of [`prepare_plan`].
pub(super) async fn prepare_plan_when_healthy(
    context: &WorkflowContext<'_>,
    request: &PlanRequest<'_>,
    keep_going: bool,
) -> Result<PreparedPlan, WorkflowError> {
    let end = Instant::now() + HEALTH_TIMEOUT;
    let mut reported = vec![];
    loop {
        let prepared = prepare_plan(context, request).await?;
        let unhealthy = unhealthy_plugins(&prepared.plan, keep_going);
        if unhealthy.is_empty() || Instant::now() >= end {
            return Ok(prepared);
        }
        let reasons: Vec<_> = unhealthy.values().cloned().collect();
        if reasons != reported {
            for reason in &reasons {
                context.reporter.status(&format!("waiting: {reason}"));
            }
            reported = reasons;
        }
        let change = plugin_change(context, &prepared, unhealthy.keys(), end);
        context.unless_interrupted(change).await?;
    }
}

/// Returns the unhealthy plugins that alone block the plan, each with its reason.
fn unhealthy_plugins(plan: &Plan, keep_going: bool) -> BTreeMap<PluginId, String> {
    let mut unhealthy = BTreeMap::new();
    for planned in &plan.volumes {
        let reasons = planned.action.reasons();
        if reasons.is_empty() {
            continue;
        }
        let is_health = |code: Code| code == Code::PluginUnhealthy;
        let only_health = reasons.iter().all(|reason| is_health(reason.code));
        if let Some(spec) = planned.spec.as_ref().filter(|_| only_health) {
            let plugin = spec.request.plugin_id.clone();
            let reason = format!("plugin {plugin} has no healthy controller");
            unhealthy.insert(plugin, reason);
        } else if !keep_going {
            return BTreeMap::new();
        }
    }
    unhealthy
}

/// Resolves when one of the plugins changes, or at `end`.
async fn plugin_change(
    context: &WorkflowContext<'_>,
    prepared: &PreparedPlan,
    plugins: impl Iterator<Item = &PluginId>,
    end: Instant,
) {
    let observed = &prepared.observation.observed.plugins;
    let before: Vec<_> = plugins
        .map(|id| match observed.get(id) {
            Some(PluginState::Known(plugin)) => (id, Some(plugin.summary.controllers)),
            Some(PluginState::Missing | PluginState::Unknown) | None => (id, None),
        })
        .collect();
    while Instant::now() < end {
        sleep(POLL_INTERVAL).await;
        for (id, then) in &before {
            // A server that is briefly unreachable says nothing about the plugin.
            let namespace = Namespace::default();
            let Ok(found) = context.api.read_plugin(id, &namespace).await else {
                continue;
            };
            let now = found.map(|reading| reading.value.summary.controllers);
            if now != *then {
                return;
            }
        }
    }
}
