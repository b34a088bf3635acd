//! What a plugin has to be able to do before anything is sent (`users` 18, `csi-orchestration` 2.2).
//!
//! Read from the plugin's record. What cannot be known is not guessed: a plugin that may not be read
//! blocks nothing.

use super::inputs::{Observed, PluginState};
use crate::diagnostic::{Code, Diagnostic, nearest};
use crate::model::{ControllerInfo, Namespace, Plugin, PluginId};
use crate::spec::VolumeSpec;

/// What a step asks of a plugin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// Nothing but its health.
    Registration,
    /// CREATE_DELETE_VOLUME.
    Create,
    /// EXPAND_VOLUME.
    Expansion,
}

/// Why a new volume cannot be there: a create into a namespace that does not exist leaves its data in
/// the provider, and nothing that names it, on Nomad.
pub(super) fn unknown_namespace(spec: &VolumeSpec, observed: &Observed) -> Option<Diagnostic> {
    let namespaces = observed.namespaces.as_ref()?;
    let wanted = &spec.request.namespace;
    if namespaces.contains(wanted) {
        return None;
    }
    let message = format!(
        "volume {} wants namespace {wanted}, which the server does not have",
        spec.request.id
    );
    let problem = Diagnostic::error(Code::VolumeUnknownNamespace, message)
        .label(spec.field_span("namespace"), "");
    let names = namespaces.iter().map(Namespace::as_str);
    Some(match nearest(wanted.as_str(), names) {
        Some(similar) => problem.help(format!("there is a namespace {similar}; is it meant?")),
        None => problem.help(format!("make it first: `nomad namespace apply {wanted}`")),
    })
}

/// Why the plugin of a specification cannot do it.
pub(super) fn plugin_problem(
    spec: &VolumeSpec,
    observed: &Observed,
    needs: Needs,
) -> Option<Diagnostic> {
    let id = &spec.request.plugin_id;
    match observed.plugins.get(id) {
        None | Some(PluginState::Unknown) => None,
        Some(PluginState::Missing) => Some(missing_plugin(spec, observed)),
        Some(PluginState::Known(plugin)) => unable_plugin(spec, plugin, needs),
    }
}

fn missing_plugin(spec: &VolumeSpec, observed: &Observed) -> Diagnostic {
    let id = spec.request.plugin_id.as_str();
    let message = format!(
        "volume {} wants plugin {id}, which the server does not have",
        spec.key()
    );
    let problem = Diagnostic::error(Code::PluginUnknown, message)
        .label(spec.field_span("plugin_id"), "")
        .note(format!(
            "the server would say: no CSI plugin named: {id} could be found"
        ));
    let ids = observed.plugin_ids.iter().map(PluginId::as_str);
    match nearest(id, ids.clone()) {
        Some(similar) => problem.help(format!("there is a plugin {similar}; is it meant?")),
        None if observed.plugin_ids.is_empty() => {
            problem.help("run the plugin's job, then try again")
        }
        None => {
            let all = ids.collect::<Vec<_>>().join(", ");
            problem.help(format!("run the plugin's job, or name one of: {all}"))
        }
    }
}

fn unable_plugin(spec: &VolumeSpec, plugin: &Plugin, needs: Needs) -> Option<Diagnostic> {
    let id = &plugin.summary.id;
    let key = spec.key();
    let field = match needs {
        Needs::Expansion => "capacity_min",
        Needs::Registration | Needs::Create => "plugin_id",
    };
    let problem = |code, message: String, text: String, help: &str| {
        Diagnostic::error(code, message)
            .label(spec.field_span(field), "")
            .note(format!("the server would say: {text}"))
            .help(help)
    };
    if plugin.summary.controller_required && plugin.summary.controllers.healthy == 0 {
        return Some(problem(
            Code::PluginUnhealthy,
            format!("plugin {id} of volume {key} has no healthy controller"),
            format!("no healthy controllers for CSI plugin: {id}"),
            &format!("see why with `nomad-csi plugin status {id}`, and try again when it is well"),
        ));
    }
    let controllers = known_controllers(plugin)?;
    let able = |needed: fn(&ControllerInfo) -> bool| controllers.iter().any(|info| needed(info));
    match needs {
        Needs::Create if controllers.is_empty() => Some(problem(
            Code::PluginNoController,
            format!("plugin {id} cannot create volume {key}: it has no controller"),
            "plugin has no controller".to_owned(),
            BY_HAND,
        )),
        Needs::Create if !able(|info| info.capabilities.create_delete_volume) => Some(problem(
            Code::PluginUnsupported,
            format!("plugin {id} cannot create volume {key}: it does not create volumes"),
            "plugin does not support creating volumes".to_owned(),
            BY_HAND,
        )),
        Needs::Expansion if !able(|info| info.capabilities.expand_volume) => Some(problem(
            Code::PluginUnsupported,
            format!("plugin {id} cannot expand volume {key}"),
            "expand is not implemented by this controller plugin".to_owned(),
            "leave `capacity_min` at what the volume has, or expand it with the storage provider's own tools",
        )),
        Needs::Registration | Needs::Create | Needs::Expansion => None,
    }
}

const BY_HAND: &str =
    "create the volume with the storage provider's own tools, then give its `external_id` here";

/// What the controllers can do, and none if the plugin has none; `None` where that is not known.
///
/// Before its first report a plugin looks as if it had no controller (`nomad-http-api` 3.12), and
/// servers that do not name the provider of an instance (before 1.3) report most capabilities as
/// missing (4.5).
fn known_controllers(plugin: &Plugin) -> Option<Vec<&ControllerInfo>> {
    let reported = !plugin.nodes.is_empty() || !plugin.controllers.is_empty();
    if !plugin.summary.controller_required {
        return reported.then(Vec::new);
    }
    let known: Vec<_> = plugin
        .controllers
        .values()
        .filter(|instance| !instance.provider.is_empty())
        .filter_map(|instance| instance.controller.as_ref())
        .collect();
    (!known.is_empty()).then_some(known)
}
