//! The embedded plugin: this program again, as `plugin serve`, in a process of its own.

use std::ffi::OsString;

use super::config::AgentConfig;
use super::directory::Workplace;
use crate::model::{AllocId, NodeId, PluginId};
use crate::node::PluginTask;
use crate::ports::{IdSource, TaskCommand};
use crate::server::StateCell;

/// Its ID.
pub(super) const HOSTPATH: &str = "hostpath";

/// How it is started and supervised.
pub(super) fn hostpath_task(
    config: &AgentConfig,
    place: &Workplace,
    cell: &StateCell,
    node: NodeId,
    ids: &dyn IdSource,
) -> PluginTask {
    let plugin = PluginId::new(HOSTPATH);
    let recorded = cell.read(|state| {
        let record = state.plugin_record(&plugin)?;
        record.instances.get(&node).cloned()
    });
    PluginTask {
        plugin,
        task: AllocId::new(ids.uuid()),
        command: command(config, place),
        socket: place.plugin_socket(),
        health_timeout: PluginTask::HEALTH_TIMEOUT,
        recorded,
        node,
    }
}

/// Ends when its standard input does: it does not outlive the agent.
fn command(config: &AgentConfig, place: &Workplace) -> TaskCommand {
    let mut endpoint = OsString::from("unix://");
    endpoint.push(place.plugin_socket());
    let mut arguments = vec![
        "plugin".into(),
        "serve".into(),
        "--endpoint".into(),
        endpoint,
        "--state-dir".into(),
        place.plugin_state().into(),
        "--exit-on-stdin-eof".into(),
    ];
    arguments.extend(config.plugin_play.arguments().into_iter().map(Into::into));
    TaskCommand {
        name: HOSTPATH.to_owned(),
        program: config.plugin_program.clone(),
        arguments,
        environment: vec![],
    }
}
