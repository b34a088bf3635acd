//! Plugins behind an endpoint that an earlier start was given, and this one was not.
//!
//! An agent leaves them on record while their processes run, however it ends. No call can run in a process that has exited, so such an
//! instance is removed. One whose process still runs stays, unhealthy with this reason, because its calls may
//! still take effect. So does one whose process is not on record: only the operator knows whether it runs, and says so with one
//! start of the agent with the endpoint, on whose socket nothing listens any more. A restart of the machine ends all of them, also
//! the instances of allocations that an earlier version forgot, which are behind no endpoint (`node_registration`).
//!
//! An agent of one machine finds them in its state. A node has its own record of them (`endpoint_instances`), and its server may
//! refuse a report, or not be there yet.

use std::time::Duration;

use tokio::time::sleep;

use super::blocking::run_blocking;
use super::directory::AgentDirs;
use super::plugin::HOSTPATH;
use nomad_csi_claims::state::{State, plugins};
use nomad_csi_model::diagnostic::Diagnostics;
use nomad_csi_model::retry::RetryPolicy;
use nomad_csi_model::{AllocId, Health, NodeId, PluginId, PluginInstance};
use nomad_csi_node::driver::{ProcessRecord, process_on_record};
use nomad_csi_ports::{Clock, IdSource, PluginObserver, ReportRefused};
use nomad_csi_server::StateCell;

/// The pauses between reports that are refused.
const REPORT_AGAIN: RetryPolicy =
    RetryPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(60) };

/// Who was started without an endpoint, and how it is given again.
#[derive(Clone, Copy)]
struct Started {
    without: &'static str,
    with: &'static str,
    once: &'static str,
    it: &'static str,
}

const AGENT: Started = Started {
    without: "the agent was started without the plugin's `--plugin-endpoint`",
    with: "start the agent with the option",
    once: "start the agent once with the option",
    it: "the agent",
};

const NODE: Started = Started {
    without: "the node was started without the plugin in its `plugin_endpoints`",
    with: "start the node with it",
    once: "start the node once with it",
    it: "the node",
};

/// Removes or marks the instances on this node that ran behind an endpoint and are not `used` now.
///
/// # Errors
/// If the agent stops in the meantime.
pub(super) async fn report_unused_endpoints(
    (dirs, cell, node): (&AgentDirs, &StateCell, &NodeId),
    used: &[AllocId],
    observer: &dyn PluginObserver,
    clock: &dyn Clock,
) -> Result<(), Diagnostics> {
    for (plugin, instance) in cell.read(|state| instances_on(state, node)) {
        let alloc = instance.alloc_id.clone();
        if used.contains(&alloc) {
            continue;
        }
        let process = process_of(dirs, &alloc).await?;
        if matches!(process, Ok(ProcessRecord::None)) && reports_its_end(cell, &plugin, &alloc) {
            continue;
        }
        let to = (observer, node, clock);
        if let Err(error) = report(to, (&plugin, instance), why_it_stays(AGENT, process)).await {
            tracing::warn!(plugin.id = %plugin, alloc.id = %alloc, %error, "an unused plugin was not reported");
        }
    }
    Ok(())
}

/// Reports the `unused` instances of a node until its server has accepted each report.
pub(super) async fn report_unused_of_node(
    dirs: AgentDirs,
    (observer, mut unused): (&dyn PluginObserver, Vec<(PluginId, PluginInstance)>),
    node: NodeId,
    (clock, ids): (&dyn Clock, &dyn IdSource),
) {
    let mut failures = 0;
    loop {
        let mut refused = vec![];
        for (plugin, instance) in unused {
            let alloc = &instance.alloc_id;
            // It may have exited since the last report.
            let Ok(process) = process_of(&dirs, alloc).await else {
                return;
            };
            let why = why_it_stays(NODE, process);
            let reported = report((observer, &node, clock), (&plugin, instance.clone()), why);
            if let Err(error) = reported.await {
                tracing::warn!(plugin.id = %plugin, alloc.id = %alloc, %error, "an unused plugin was not reported; trying again");
                refused.push((plugin, instance));
            }
        }
        if refused.is_empty() {
            return;
        }
        unused = refused;
        sleep(REPORT_AGAIN.delay(failures, ids.jitter())).await;
        failures = failures.saturating_add(1);
    }
}

/// Returns what is on record of the process of an instance.
async fn process_of(
    dirs: &AgentDirs,
    alloc: &AllocId,
) -> Result<std::io::Result<ProcessRecord>, Diagnostics> {
    let file = dirs.running_process(alloc);
    run_blocking(move || process_on_record(&file)).await
}

/// Returns why an unused instance stays on record; `None` if its process has certainly ended.
fn why_it_stays(started: Started, process: std::io::Result<ProcessRecord>) -> Option<String> {
    let of_process = |why: &str| {
        let Started { without, with, it, once: _ } = started;
        format!("{without}, and {why}; {with}, or end the process of the plugin and restart {it}")
    };
    match process {
        Ok(ProcessRecord::Exited) => None,
        Ok(ProcessRecord::None) => Some(without_record(started)),
        Ok(ProcessRecord::Runs(pid)) => {
            Some(of_process(&format!("process {pid} may still be carrying out calls")))
        }
        Ok(ProcessRecord::Idle(pid)) => Some(of_process(&format!("process {pid} still runs"))),
        Err(error) => Some(of_process(&error.to_string())),
    }
}

/// Returns what is known of an instance without a record of its process, and how an operator ends it.
fn without_record(Started { without, with, once, it: _ }: Started) -> String {
    format!(
        "{without}, and it is not on record which process it is; {with}, or end the process of the plugin, remove its socket, \
         {once} and stop it with a signal; if the plugin was a task of a job, end its process and restart the \
         machine"
    )
}

/// Reports an unused instance: gone, or unhealthy because of `why`.
async fn report(
    (observer, node, clock): (&dyn PluginObserver, &NodeId, &dyn Clock),
    (plugin, instance): (&PluginId, PluginInstance),
    why: Option<String>,
) -> Result<(), ReportRefused> {
    match why {
        None => observer.gone(plugin, &instance.alloc_id).await,
        Some(description) => {
            let health = Health { healthy: false, description };
            let changed = PluginInstance { health, updated_at: clock.now(), ..instance };
            observer.changed(plugin, node, changed).await
        }
    }
}

/// Returns whether the instance is the task of a job or the embedded plugin, which is never behind an endpoint.
fn reports_its_end(cell: &StateCell, plugin: &PluginId, alloc: &AllocId) -> bool {
    plugin.as_str() == HOSTPATH || cell.read(|state| state.alloc(alloc).is_some())
}

/// Returns every instance of a plugin on the node.
fn instances_on(state: &State, node: &NodeId) -> Vec<(PluginId, PluginInstance)> {
    let ids = plugins(state, "").into_iter();
    let ids = ids.map(|view| view.plugin.summary.id);
    ids.flat_map(|id| {
        let record = state.plugin_record(&id);
        let allocs = record.into_iter().flat_map(|record| record.allocs.values());
        let here = allocs.filter(|alloc| alloc.node == *node);
        let here: Vec<_> = here.map(|alloc| (id.clone(), alloc.instance.clone())).collect();
        here
    })
    .collect()
}
