//! Plugins that an earlier start was given with `--plugin-endpoint`, and this one was not.
//!
//! An agent leaves them on record while their processes run, however it ends. No call can run in a process that has exited, so such an
//! instance is removed. One whose process still runs stays, unhealthy with this reason, because its calls may
//! still take effect. So does one whose process is not on record: only the operator knows whether it runs, and says so with one
//! start of the agent with the endpoint, on whose socket nothing listens any more. A restart of the machine ends all of them, also
//! the instances of allocations that an earlier version forgot, which are behind no endpoint (`node_registration`).

use super::blocking::run_blocking;
use super::directory::AgentDirs;
use super::plugin::HOSTPATH;
use nomad_csi_claims::state::{State, plugins};
use nomad_csi_model::diagnostic::Diagnostics;
use nomad_csi_model::{AllocId, Health, NodeId, PluginId, PluginInstance};
use nomad_csi_node::driver::{ProcessRecord, process_on_record};
use nomad_csi_ports::{Clock, PluginObserver};
use nomad_csi_server::StateCell;

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
        if used.contains(&instance.alloc_id) {
            continue;
        }
        let file = dirs.running_process(&instance.alloc_id);
        let process = run_blocking(move || process_on_record(&file)).await?;
        let alloc = instance.alloc_id.clone();
        let why = match process {
            Ok(ProcessRecord::None) if reports_its_end(cell, &plugin, &alloc) => continue,
            Ok(ProcessRecord::None) => Some(WITHOUT_RECORD.to_owned()),
            Ok(ProcessRecord::Exited) => None,
            Ok(ProcessRecord::Runs(pid)) => {
                Some(of_process(&format!("process {pid} may still be carrying out calls")))
            }
            Ok(ProcessRecord::Idle(pid)) => Some(of_process(&format!("process {pid} still runs"))),
            Err(error) => Some(of_process(&error.to_string())),
        };
        let reported = match why {
            None => observer.gone(&plugin, &alloc).await,
            Some(why) => {
                let health = Health { healthy: false, description: why };
                let changed = PluginInstance { health, updated_at: clock.now(), ..instance };
                observer.changed(&plugin, node, changed).await
            }
        };
        if let Err(error) = reported {
            tracing::warn!(plugin.id = %plugin, alloc.id = %alloc, %error, "an unused plugin was not reported");
        }
    }
    Ok(())
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

/// What is known of an instance without a record of its process, and how an operator ends it.
const WITHOUT_RECORD: &str = "the agent was started without the plugin's `--plugin-endpoint`, and it is not on record which \
     process it is; start the agent with the option, or end the process of the plugin, remove its socket, start the agent once \
     with the option and stop it with a signal; if the plugin was a task of a job, end its process and restart the machine";

fn of_process(why: &str) -> String {
    format!(
        "the agent was started without the plugin's `--plugin-endpoint`, and {why}; start the agent with the \
         option, or end the process of the plugin and restart the agent"
    )
}
