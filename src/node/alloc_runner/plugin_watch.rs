//! The plugin of a task, as its runner watches it.
//!
//! A plugin that is not healthy in time is stopped, and its task is restarted by its policy (B63). A plugin that an
//! earlier agent started is stopped, and started again at once, unless it is known to be idle
//! ([`super::super::plugin_tasks`]).

use tokio_util::sync::CancellationToken;

use super::super::plugin_tasks::{HealthChange, PluginSupervision};
use super::super::process_run::ProcessRun;
use super::task_events::Occurrence;
use super::task_runner::{ComingRun, RunnerState, TaskRunner};
use crate::task_run::RunStatus;
use nomad_csi_model::GoDuration;

/// Why a plugin is restarted when the agent has started.
const SURVIVED: &str =
    "The agent was restarted, and a call of the earlier agent may still run in the plugin";
/// Why a plugin is started that an agent ended.
const INTERRUPTED: &str = "The agent was restarted, and starts its plugin again";

impl TaskRunner {
    /// Watches the plugin of a run that is about to start. Returns when the plugin has failed.
    pub(super) async fn watch_plugin(
        &self,
        plugin: Option<&mut PluginSupervision>,
        process: &ProcessRun,
        started: &CancellationToken,
    ) {
        let Some(plugin) = plugin else {
            return std::future::pending().await;
        };
        started.cancelled().await;
        let (id, limit) = (plugin.config().id.clone(), plugin.config().health_timeout);
        let note = |change: HealthChange<'_>| {
            let occurrence = match change {
                HealthChange::Healthy => Occurrence::PluginHealthy(&id),
                HealthChange::Unhealthy(reason) => Occurrence::PluginUnhealthy(reason),
            };
            self.update(|task, now| task.push(&occurrence, now));
        };
        let reason = plugin.watch(process, note).await;
        let reason = format!("CSI plugin failed probe: {reason}");
        let limit = GoDuration(super::restart::nanoseconds(limit));
        let restart =
            format!("CSI plugin did not become healthy before configured {limit} health timeout");
        self.update(|task, now| {
            task.push(&Occurrence::PluginUnhealthy(&reason), now);
            task.push(&Occurrence::RestartSignaled(&restart), now);
        });
    }

    /// Ends the plugin that an earlier agent left running, unless it has no call under way. The next run does not count
    /// as a restart by the policy.
    pub(super) async fn end_survivor(&self, state: &mut RunnerState) {
        let Some(plugin) = &mut state.plugin else {
            return;
        };
        let number = match self.coming_run(&state.record).await {
            ComingRun::Existing(number) => number,
            ComingRun::New(number) if number > 1 => {
                return self
                    .update(|task, now| task.push(&Occurrence::RestartSignaled(INTERRUPTED), now));
            }
            ComingRun::New(_) | ComingRun::Begun(_) => return,
        };
        let process = plugin.begin_run(&self.directory, number).await;
        let run = self.directory.run(number);
        let status = self.repeat("examine", async || self.driver.status(&run).await);
        let is_over = matches!(status.await, None | Some(RunStatus::Ended(_)));
        if is_over {
            return process.end().await;
        }
        // The record holds for one agent: a later one must not find it when this one is killed.
        let was_idle = state.record.idle_run.take() == Some(number);
        if self.stop.is_cancelled() {
            return;
        }
        if was_idle && self.write(&state.record).await {
            state.adopted_run = Some(number);
            return;
        }
        self.update(|task, now| task.push(&Occurrence::RestartSignaled(SURVIVED), now));
        self.repeat("stop", async || self.driver.stop(&run).await).await;
        let end = self.repeat_wait(&run).await;
        process.end().await;
        if let Some(end) = end {
            self.update(|task, now| task.push(&Occurrence::Ended(&end), now));
        }
        state.record.decided_run = number;
        self.write(&state.record).await;
    }
}
