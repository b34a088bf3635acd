//! `plugin wait`: waits until a plugin can serve volumes.
//!
//! A plugin is healthy if it has a healthy node, and a healthy controller where it requires one. A
//! plugin that does not exist is waited for too: it appears after its job is registered.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::context::WorkflowContext;
use super::error::WorkflowError;
use crate::reconcile::wait::is_temporary;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{HealthCount, Namespace, PluginId, PluginSummary};

/// The pause between two reads of the plugin.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Waits until a plugin is healthy, and reports why it is not. `timeout_text` is the timeout as the
/// user wrote it.
///
/// # Errors
/// If the timeout passes (blocked), the server cannot be read, or the user interrupts.
pub async fn wait_for_plugin(
    context: &WorkflowContext<'_>,
    scope: &Namespace,
    id: &PluginId,
    (timeout, timeout_text): (Duration, &str),
) -> Result<(), WorkflowError> {
    let end = Instant::now() + timeout;
    let waiting = async {
        let mut has_answered = false;
        let mut reported = String::new();
        loop {
            let why = match context.api.read_plugin(id, scope).await {
                Ok(found) => {
                    has_answered = true;
                    why_unhealthy(found.as_ref().map(|reading| &reading.value.summary))
                }
                Err(error) if has_answered && is_temporary(&error) => Some(Unhealthy {
                    code: error.code,
                    reason: format!("the server cannot be reached: {}", error.message),
                }),
                Err(error) => return Err(error.into()),
            };
            let Some(why) = why else {
                context.reporter.status(&format!("plugin {id}: healthy"));
                return Ok(());
            };
            if why.reason != reported {
                let line = format!("plugin {id}: not healthy: {}", why.reason);
                context.reporter.status(&line);
                reported.clone_from(&why.reason);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let problem = timed_out(id, timeout_text, why);
                return Err(WorkflowError::blocked([problem]));
            }
            sleep(POLL_INTERVAL.min(left)).await;
        }
    };
    context.unless_interrupted(waiting).await?
}

/// Why a plugin is not healthy.
#[derive(Debug, PartialEq, Eq)]
struct Unhealthy {
    code: Code,
    reason: String,
}

fn why_unhealthy(plugin: Option<&PluginSummary>) -> Option<Unhealthy> {
    let Some(plugin) = plugin else {
        return Some(Unhealthy {
            code: Code::PluginNotFound,
            reason: "the server does not have it".to_owned(),
        });
    };
    let none = |kind: &str, count: HealthCount| {
        let (healthy, expected) = (count.healthy, count.expected);
        (healthy == 0).then(|| Unhealthy {
            code: Code::PluginUnhealthy,
            reason: format!("no {kind} is healthy ({healthy} of {expected})"),
        })
    };
    let controllers = none("controller", plugin.controllers);
    let controllers = controllers.filter(|_| plugin.controller_required);
    controllers.or_else(|| none("node", plugin.nodes))
}

fn timed_out(id: &PluginId, timeout: &str, why: Unhealthy) -> Diagnostic {
    let message = format!("timed out after {timeout}: plugin `{id}` is not healthy");
    let problem = Diagnostic::error(why.code, message).note(why.reason);
    problem.help("check the jobs that run the plugin, and the logs of their tasks")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_requires_a_node_and_its_controller() {
        let count = |healthy| HealthCount { healthy, expected: 2 };
        let plugin = |controller_required, controllers, nodes| PluginSummary {
            id: PluginId::new("p"),
            provider: String::new(),
            controller_required,
            controllers: count(controllers),
            nodes: count(nodes),
        };
        for (found, expected) in [
            (None, Some("the server does not have it")),
            (Some(plugin(true, 0, 2)), Some("no controller is healthy (0 of 2)")),
            (Some(plugin(true, 1, 0)), Some("no node is healthy (0 of 2)")),
            (Some(plugin(false, 0, 0)), Some("no node is healthy (0 of 2)")),
            (Some(plugin(false, 0, 1)), None),
            (Some(plugin(true, 1, 1)), None),
        ] {
            let why = why_unhealthy(found.as_ref());
            let why = why.map(|why| why.reason);
            assert_eq!(why.as_deref(), expected, "{found:?}");
        }
    }
}
