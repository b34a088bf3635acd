//! The endpoints of plugins.

use super::blocking::wait_for_index;
use super::filtering::Paging;
use super::reply::Reply;
use super::request::IncomingRequest;
use crate::error::ServerError;
use nomad_csi_claims::state::{PluginView, State, Subject, Table, Topic, plugin, plugins};
use nomad_csi_model::PluginId;
use nomad_csi_wire::{
    PluginDocument, PluginStub, capacity_to_wire, plugin_summary_to_wire, plugin_to_wire,
};

type Result = std::result::Result<Reply, ServerError>;

pub(super) async fn list(request: &IncomingRequest) -> Result {
    match request.parameters.get("type") {
        None => return Reply::json(&[(); 0], request.pretty),
        Some("csi") => {}
        Some(_) => return Ok(Reply::empty()),
    }
    let page = Paging::of(&request.parameters)?;
    let wait = request.parameters.wait()?;
    let prefix = request.parameters.prefix();
    let topics = |_: &State| vec![Topic::with_prefix(Table::Plugins, prefix)];
    wait_for_index(request, wait, topics, State::plugins_index).await?;
    let (views, index) =
        request.services.cell.read(|state| (plugins(state, prefix), state.plugins_index()));
    let stubs = views.iter().map(stub).collect();
    let (stubs, next) = page.page(stubs, |plugin: &PluginStub| plugin.id.clone())?;
    let reply = Reply::json(&stubs, request.pretty)?;
    Ok(reply.with_index(index).with_next_token(next))
}

pub(super) async fn read(request: &IncomingRequest, id: &str) -> Result {
    let wait = request.parameters.wait()?;
    let id = PluginId::new(id);
    let topics = |_: &State| vec![Topic::Object(Subject::Plugin(id.clone()))];
    wait_for_index(request, wait, topics, State::plugins_index).await?;
    let (view, index) =
        request.services.cell.read(|state| (plugin(state, &id), state.plugins_index()));
    let view = view.ok_or(ServerError::NoPluginToRead)?;
    Ok(Reply::json(&document(&view), request.pretty)?.with_index(index))
}

/// Returns what the provider of a plugin can still provide, as the plugin reports it now.
pub(super) async fn read_capacity(request: &IncomingRequest, id: &str) -> Result {
    let volumes = &request.services.volumes;
    let report = volumes.capacity(PluginId::new(id)).await?;
    Reply::json(&capacity_to_wire(&report), request.pretty)
}

/// Returns whether a controller of the plugin reports capacity.
fn reports_capacity(view: &PluginView) -> bool {
    let controllers = view.plugin.controllers.values();
    let mut controllers = controllers.filter_map(|instance| instance.controller.as_ref());
    controllers.any(|controller| controller.capabilities.get_capacity)
}

pub(super) fn stub(view: &PluginView) -> PluginStub {
    PluginStub {
        create_index: view.create_index,
        modify_index: view.modify_index,
        ..plugin_summary_to_wire(&view.plugin.summary)
    }
}

pub(super) fn document(view: &PluginView) -> PluginDocument {
    PluginDocument {
        create_index: view.create_index,
        modify_index: view.modify_index,
        create_time: view.create_time,
        modify_time: view.modify_time,
        reports_capacity: reports_capacity(view),
        ..plugin_to_wire(&view.plugin)
    }
}
