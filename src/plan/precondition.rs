//! What a plugin has to be able to do before anything is sent (`users` 18, `csi-orchestration` 2.2).
//!
//! Read from the plugin's record. What cannot be known is not guessed: a plugin that may not be read
//! blocks nothing.

use super::inputs::{Observed, PluginState};
use super::rules::{CreateRule, MergeRules};
use crate::diagnostic::{Code, Diagnostic, nearest};
use crate::model::{
    ControllerCapabilities, ControllerInfo, Namespace, NamespacedId, Plugin, PluginId, Volume,
};
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
    /// CREATE_DELETE_SNAPSHOT.
    Snapshot,
    /// CREATE_DELETE_VOLUME, to delete.
    Deletion,
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

/// Why a new volume cannot have the size that it is to have, on servers before 1.6.3 (as 1.1.18 and
/// 1.3.16 answered). What comes after a removal has to be certain.
pub(super) fn missing_maximum(
    spec: &VolumeSpec,
    rules: MergeRules,
    after_removal: bool,
) -> Option<Diagnostic> {
    let wanted = spec.request.capacity;
    let is_missing = wanted.max.is_zero() && !wanted.min.is_zero();
    let is_needed = match rules.creates {
        CreateRule::AnyRange => false,
        CreateRule::WithMaximum => true,
        CreateRule::PerhapsWithMaximum => after_removal,
    };
    (is_missing && is_needed).then(|| {
        let message = format!(
            "volume {} cannot be created: before Nomad 1.6.3 that needs `capacity_max` wherever there is `capacity_min`",
            spec.key()
        );
        Diagnostic::error(Code::VolumeCapacity, message)
            .label(spec.field_span("capacity_min"), "")
            .note("the server would say: LimitBytes cannot be less than RequiredBytes")
            .help("give `capacity_max`, too: at least as much")
    })
}

/// What a plugin is asked to do with a volume.
#[derive(Clone, Copy)]
pub(super) struct Demand<'a> {
    volume: &'a NamespacedId,
    plugin: &'a PluginId,
    spec: Option<&'a VolumeSpec>,
    needs: Needs,
}

/// Why the plugin of a specification cannot do it.
pub(super) fn plugin_problem(
    spec: &VolumeSpec,
    observed: &Observed,
    needs: Needs,
) -> Option<Diagnostic> {
    let demand = Demand {
        volume: &spec.key(),
        plugin: &spec.request.plugin_id,
        spec: Some(spec),
        needs,
    };
    demand.problem(observed)
}

/// Why the plugin of a volume that exists cannot do it; `spec` is the volume's if a file names it,
/// which may be written for another plugin.
pub(super) fn present_plugin_problem(
    existing: &Volume,
    spec: Option<&VolumeSpec>,
    observed: &Observed,
    needs: Needs,
) -> Option<Diagnostic> {
    let demand = Demand {
        volume: &existing.key(),
        plugin: &existing.plugin_id,
        spec,
        needs,
    };
    demand.problem(observed)
}

impl Demand<'_> {
    fn problem(self, observed: &Observed) -> Option<Diagnostic> {
        match observed.plugins.get(self.plugin) {
            None | Some(PluginState::Unknown) => None,
            Some(PluginState::Missing) => Some(missing_plugin(self, observed)),
            Some(PluginState::Known(plugin)) => unable_plugin(self, plugin),
        }
    }

    /// A problem at the place in the file that asks for it.
    fn told(self, code: Code, message: String) -> Diagnostic {
        let problem = Diagnostic::error(code, message);
        let field = match self.needs {
            Needs::Expansion => "capacity_min",
            Needs::Registration | Needs::Create => "plugin_id",
            Needs::Snapshot | Needs::Deletion => "id",
        };
        match self.spec {
            Some(spec) => problem.label(spec.field_span(field), ""),
            None => problem,
        }
    }
}

fn missing_plugin(demand: Demand<'_>, observed: &Observed) -> Diagnostic {
    let (key, id) = (demand.volume, demand.plugin.as_str());
    let (what, text) = match demand.needs {
        Needs::Registration | Needs::Create | Needs::Expansion => (
            format!("volume {key} wants plugin {id}"),
            format!("no CSI plugin named: {id} could be found"),
        ),
        Needs::Snapshot => (
            format!("a snapshot of volume {key} needs plugin {id}"),
            format!("no such plugin \"{id}\""),
        ),
        Needs::Deletion => (
            format!("to delete volume {key} needs plugin {id}"),
            format!("plugin not found: {id}"),
        ),
    };
    let message = format!("{what}, which the server does not have");
    let problem = demand
        .told(Code::PluginUnknown, message)
        .note(format!("the server would say: {text}"));
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

fn unable_plugin(demand: Demand<'_>, plugin: &Plugin) -> Option<Diagnostic> {
    let (key, id) = (demand.volume, demand.plugin);
    if plugin.summary.controller_required && plugin.summary.controllers.healthy == 0 {
        let message = format!("plugin {id} of volume {key} has no healthy controller");
        return Some(
            demand
                .told(Code::PluginUnhealthy, message)
                .note(format!(
                    "the server would say: no healthy controllers for CSI plugin: {id}"
                ))
                .help(format!(
                    "see why with `nomad-csi plugin status {id}`, and try again when it is well"
                )),
        );
    }
    let controllers = known_controllers(plugin)?;
    let able = |can: fn(&ControllerCapabilities) -> bool| {
        controllers.iter().any(|info| can(&info.capabilities))
    };
    let lack = match demand.needs {
        Needs::Create if controllers.is_empty() => Lack {
            code: Code::PluginNoController,
            message: format!("plugin {id} cannot create volume {key}: it has no controller"),
            note: "the server would say: plugin has no controller".to_owned(),
            help: BY_HAND,
        },
        Needs::Create if !able(|can| can.create_delete_volume) => Lack {
            code: Code::PluginUnsupported,
            message: format!("plugin {id} cannot create volume {key}: it does not create volumes"),
            note: "the server would say: plugin does not support creating volumes".to_owned(),
            help: BY_HAND,
        },
        Needs::Expansion if !able(|can| can.expand_volume) => Lack {
            code: Code::PluginUnsupported,
            message: format!("plugin {id} cannot expand volume {key}"),
            note: "the server would say: expand is not implemented by this controller plugin".to_owned(),
            help: "leave `capacity_min` at what the volume has, or expand it with the storage provider's own tools",
        },
        Needs::Snapshot if !able(|can| can.create_delete_snapshot) => Lack {
            code: Code::PluginUnsupported,
            message: format!("plugin {id} cannot take a snapshot of volume {key}"),
            note: format!("the server would say: plugin \"{id}\" does not support snapshot"),
            help: "copy the data with the storage provider's own tools, then leave out `--snapshot-first`",
        },
        Needs::Deletion if controllers.is_empty() => Lack {
            code: Code::PluginNoController,
            message: format!("plugin {id} cannot delete volume {key}: it has no controller"),
            note: format!("the server would say: plugin \"{id}\" for volume \"{}\" not found", key.id),
            help: DELETED_BY_HAND,
        },
        Needs::Deletion if !able(|can| can.create_delete_volume) => Lack {
            code: Code::PluginUnsupported,
            message: format!("plugin {id} cannot delete volume {key}: it does not delete volumes"),
            note: "the plugin does not report CREATE_DELETE_VOLUME, and the server would ask it all the same".to_owned(),
            help: DELETED_BY_HAND,
        },
        Needs::Registration
        | Needs::Create
        | Needs::Expansion
        | Needs::Snapshot
        | Needs::Deletion => return None,
    };
    let problem = demand.told(lack.code, lack.message);
    Some(problem.note(lack.note).help(lack.help))
}

/// What a plugin lacks.
struct Lack {
    code: Code,
    message: String,
    note: String,
    help: &'static str,
}

const DELETED_BY_HAND: &str =
    "deregister the volume, then delete its data with the storage provider's own tools";

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
