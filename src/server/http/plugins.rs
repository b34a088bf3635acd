//! Plugins: decode, call, encode (`nomad-http-api` 3.11, 3.12).

use super::blocking::hold;
use super::reply::Reply;
use super::router::Asked;
use crate::model::PluginId;
use crate::server::error::ServerError;
use crate::state::{PluginView, State, plugin, plugins};
use crate::wire::{PluginDocument, PluginStub, plugin_summary_to_wire, plugin_to_wire};

type Result = std::result::Result<Reply, ServerError>;

pub(super) async fn list(asked: &Asked) -> Result {
    match asked.parameters.get("type") {
        None => return Reply::json(&[(); 0], asked.pretty),
        Some("csi") => {}
        Some(_) => return Ok(Reply::empty()),
    }
    let wait = asked.parameters.wait()?;
    hold(&asked.services, wait, State::plugins_index).await;
    let prefix = asked.parameters.prefix();
    let (views, index) = asked
        .services
        .cell
        .read(|state| (plugins(state, prefix), state.plugins_index()));
    let stubs: Vec<_> = views.iter().map(stub).collect();
    Ok(Reply::json(&stubs, asked.pretty)?.at(index))
}

pub(super) async fn read(asked: &Asked, id: &str) -> Result {
    let wait = asked.parameters.wait()?;
    hold(&asked.services, wait, State::plugins_index).await;
    let id = PluginId::new(id);
    let (view, index) = asked
        .services
        .cell
        .read(|state| (plugin(state, &id), state.plugins_index()));
    let view = view.ok_or(ServerError::NoPluginToRead)?;
    Ok(Reply::json(&document(&view), asked.pretty)?.at(index))
}

fn stub(view: &PluginView) -> PluginStub {
    PluginStub {
        create_index: view.create_index,
        modify_index: view.modify_index,
        ..plugin_summary_to_wire(&view.plugin.summary)
    }
}

fn document(view: &PluginView) -> PluginDocument {
    PluginDocument {
        create_index: view.create_index,
        modify_index: view.modify_index,
        create_time: view.create_time,
        modify_time: view.modify_time,
        ..plugin_to_wire(&view.plugin)
    }
}
