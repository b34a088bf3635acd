//! The task of the embedded plugin: this program as `plugin serve` in another process.

use std::ffi::OsString;

use super::config::AgentConfig;
use super::directory::AgentDirs;
use nomad_csi_model::{AllocId, NodeId, PluginId};
use nomad_csi_node::{PluginTask, TaskCommand};
use nomad_csi_ports::IdSource;
use nomad_csi_server::StateCell;

/// The ID of the embedded plugin.
pub(super) const HOSTPATH: &str = "hostpath";

/// The task that the supervisor runs. After a crash it continues the allocation that is on record.
pub(super) fn hostpath_task(
    dirs: &AgentDirs,
    cell: &StateCell,
    node: NodeId,
    ids: &dyn IdSource,
) -> PluginTask {
    let plugin = PluginId::new(HOSTPATH);
    let recorded = cell.read(|state| {
        let alloc = state.plugin_record(&plugin)?.newest_on(&node)?;
        Some(alloc.instance.clone())
    });
    let known = recorded.as_ref().map(|instance| instance.alloc_id.clone());
    PluginTask {
        plugin,
        task: known.unwrap_or_else(|| AllocId::new(ids.uuid())),
        socket: dirs.plugin_socket(),
        health_timeout: Some(PluginTask::HEALTH_TIMEOUT),
        recorded,
        node,
    }
}

/// The command of the plugin. It exits with its standard input, so it does not outlive the agent.
pub(super) fn hostpath_command(config: &AgentConfig, dirs: &AgentDirs) -> TaskCommand {
    let mut endpoint = OsString::from("unix://");
    endpoint.push(dirs.plugin_socket());
    let mut arguments = hostpath_arguments(config, dirs, endpoint);
    arguments.push("--exit-on-stdin-eof".into());
    TaskCommand {
        name: HOSTPATH.to_owned(),
        program: config.plugin_program.clone(),
        arguments,
        environment: vec![],
        process_file: dirs.plugin_process(),
        kill_timeout: PluginTask::KILL_TIMEOUT,
    }
}

/// The arguments with which this program is the plugin.
pub(super) fn hostpath_arguments(
    config: &AgentConfig,
    dirs: &AgentDirs,
    endpoint: OsString,
) -> Vec<OsString> {
    let mut arguments = vec![
        "plugin".into(),
        "serve".into(),
        "--endpoint".into(),
        endpoint,
        "--state-dir".into(),
        dirs.plugin_state().into(),
    ];
    if config.allows_core_dumps {
        arguments.push("--allow-core-dumps".into());
    }
    arguments.extend(config.plugin_profile.arguments().into_iter().map(Into::into));
    arguments
}
