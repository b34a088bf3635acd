//! Wanted and observed, to a plan.
//!
//! What a server would refuse is found here, before anything is sent: Nomad's merge rules are
//! predicted by [`super::merge::merge`], the same code that our agent runs; whether the plugin is
//! there and able is read from its record. What cannot be known is not guessed: a plugin that may
//! not be read blocks nothing, and secrets, which no server shows, are no difference by themselves.
//!
//! A plan is level-triggered: it depends on what is wanted and what is there, never on an earlier
//! run.

use std::collections::BTreeMap;

use super::action::{Action, Plan, Planned, Update};
use super::diff::diff;
use super::merge::{Expansion, MergeRules, Refusal, SecretsChange, TopologyRule, merge};
use super::pin::Pin;
use crate::diagnostic::{Code, Diagnostic, nearest};
use crate::model::{
    ControllerInfo, NamespacedId, Plugin, PluginId, TopologyRequest, Volume, VolumeRequest,
};
use crate::spec::{Purpose, VolumeSpec};

/// What was found on the server.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Volumes of the wanted names, as far as they exist.
    pub volumes: BTreeMap<NamespacedId, Volume>,
    /// Plugins of the wanted volumes.
    pub plugins: BTreeMap<PluginId, PluginState>,
    /// IDs of all plugins, for "did you mean"; empty if they may not be listed.
    pub plugin_ids: Vec<PluginId>,
}

/// What is known of a plugin.
#[derive(Clone, Debug)]
pub enum PluginState {
    /// Its record.
    Known(Box<Plugin>),
    /// There is none of that ID.
    Missing,
    /// It may not be read.
    Unknown,
}

/// Makes the plan.
///
/// A volume that exists and is as wanted is left alone, unless somebody said `create` or `register`
/// ([`Purpose::Create`], [`Purpose::Register`]): then it is sent again, perhaps to give it new
/// secrets.
pub fn build(
    wanted: Vec<VolumeSpec>,
    observed: &Observed,
    rules: MergeRules,
    purpose: Purpose,
) -> Plan {
    let volumes = wanted
        .into_iter()
        .map(|spec| planned(spec, observed, rules, purpose))
        .collect();
    Plan { volumes }
}

fn planned(spec: VolumeSpec, observed: &Observed, rules: MergeRules, purpose: Purpose) -> Planned {
    let existing = observed.volumes.get(&spec.key());
    let pin = Pin::of(existing);
    let (request, action, warnings) = match existing {
        None => (
            spec.request.clone(),
            new_volume(&spec, observed, purpose),
            vec![],
        ),
        Some(existing) => update(&spec, existing, observed, rules, purpose),
    };
    Planned {
        spec,
        request,
        action,
        pin,
        warnings,
    }
}

fn new_volume(spec: &VolumeSpec, observed: &Observed, purpose: Purpose) -> Action {
    let is_create = purpose.creates(spec);
    let needs = if is_create {
        Needs::Create
    } else {
        Needs::Registration
    };
    match plugin_problem(spec, observed, needs) {
        Some(problem) => Action::Blocked(vec![problem]),
        None if is_create => Action::Create,
        None => Action::Register,
    }
}

fn update(
    spec: &VolumeSpec,
    existing: &Volume,
    observed: &Observed,
    rules: MergeRules,
    purpose: Purpose,
) -> (VolumeRequest, Action, Vec<Diagnostic>) {
    let request = comparable(&spec.request, existing, rules);
    let merged = match merge(existing, &request, rules) {
        Ok(merged) => merged,
        Err(refusals) => {
            let reasons = refusals.iter().map(|refusal| refused(spec, refusal));
            return (request, Action::Blocked(reasons.collect()), vec![]);
        }
    };
    let changes = diff(existing, &merged.volume);
    let needed = matches!(merged.expansion, Expansion::Needed { .. });
    let ignored = ignored_topology_request(spec, existing, rules);
    if changes.is_empty() && !needed && purpose == Purpose::ByExternalId {
        return (request, Action::Unchanged, ignored.into_iter().collect());
    }
    let needs = if needed {
        Needs::Expansion
    } else {
        Needs::Registration
    };
    if let Some(problem) = plugin_problem(spec, observed, needs) {
        return (request, Action::Blocked(vec![problem]), vec![]);
    }
    let erased = erased_secrets(spec, merged.secrets);
    let update = Update {
        changes,
        secrets: merged.secrets,
        expansion: merged.expansion,
    };
    (
        request,
        Action::Update(update),
        ignored.into_iter().chain(erased).collect(),
    )
}

/// The request in the shape that a server compares without surprise: where one takes absent and
/// empty, or another order, for a difference, what it has stored is sent back to it
/// (`nomad-http-api` 10.1, item 7; W21).
fn comparable(request: &VolumeRequest, existing: &Volume, rules: MergeRules) -> VolumeRequest {
    let mut request = request.clone();
    if rules.topologies == TopologyRule::ByPosition {
        let nothing = TopologyRequest::default();
        let stored = existing.topology_request.as_ref().unwrap_or(&nothing);
        if request
            .topology_request
            .as_ref()
            .unwrap_or(&nothing)
            .same_as(stored)
        {
            request
                .topology_request
                .clone_from(&existing.topology_request);
        }
    }
    request
}

/// Fields in which a volume still differs from what was asked for; empty if it is as wanted.
pub fn remaining(
    request: &VolumeRequest,
    existing: &Volume,
    rules: MergeRules,
) -> Vec<&'static str> {
    match merge(existing, &comparable(request, existing, rules), rules) {
        Ok(merged) => {
            let mut fields: Vec<_> = diff(existing, &merged.volume)
                .into_iter()
                .map(|change| change.field)
                .collect();
            if matches!(merged.expansion, Expansion::Needed { .. }) {
                fields.push("capacity");
            }
            fields
        }
        Err(refusals) => refusals.into_iter().map(|refusal| refusal.field).collect(),
    }
}

fn refused(spec: &VolumeSpec, refusal: &Refusal) -> Diagnostic {
    let (code, help) = match refusal.field {
        "capability" => (
            Code::VolumeInUse,
            "keep the capability that is in use among the others, or stop the allocations that use the volume",
        ),
        "mount_options" => (
            Code::VolumeInUse,
            "stop the allocations that use the volume, or leave its mount options as they are",
        ),
        "topology_request" => (
            Code::VolumeImmutableField,
            "write the topology request that the volume was created with; to move it, create another volume and copy the data",
        ),
        "capacity_min" | "capacity_max" => (
            Code::VolumeCapacity,
            "raise `capacity_max`, or remove it: then only `capacity_min` counts",
        ),
        _ => (
            Code::VolumeImmutableField,
            "write what the volume has, or create another volume with another ID",
        ),
    };
    Diagnostic::error(
        code,
        format!(
            "volume {} cannot be updated: {}",
            spec.key(),
            refusal.reason
        ),
    )
    .label(spec.field_span(refusal.field), "")
    .note(format!("the server would say: {}", refusal.text))
    .help(help)
}

/// Nomad keeps no topology request for a volume that has no topologies yet, and says nothing (W21).
fn ignored_topology_request(
    spec: &VolumeSpec,
    existing: &Volume,
    rules: MergeRules,
) -> Option<Diagnostic> {
    let nothing = TopologyRequest::default();
    let wanted = spec.request.topology_request.as_ref().unwrap_or(&nothing);
    let stored = existing.topology_request.as_ref().unwrap_or(&nothing);
    let ignored = rules.topologies == TopologyRule::ByPosition
        && existing.topologies.is_empty()
        && !wanted.same_as(stored);
    ignored.then(|| {
        Diagnostic::warning(
            Code::PlanIgnoredField,
            format!(
                "the server will ignore the new topology request of volume {}",
                spec.key()
            ),
        )
        .label(spec.field_span("topology_request"), "")
        .note("Nomad stores a topology request when it creates a volume, and later never")
    })
}

/// Nomad forgets the stored secrets of a volume whose update has none (W20).
fn erased_secrets(spec: &VolumeSpec, secrets: SecretsChange) -> Option<Diagnostic> {
    let unasked = secrets == SecretsChange::Clear && spec.request.secrets.is_none();
    unasked.then(|| {
        Diagnostic::warning(
            Code::PlanErasesSecrets,
            format!("the update of volume {} erases its secrets, if it has any", spec.key()),
        )
        .label(spec.span, "there is no `secrets` block here")
        .note("Nomad replaces the stored secrets by those of the update, also by none")
        .help("if the volume has secrets, add them to the specification; if it has none, `secrets {}` says so")
    })
}

/// What a step asks of a plugin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Registration,
    Create,
    Expansion,
}

fn plugin_problem(spec: &VolumeSpec, observed: &Observed, needs: Needs) -> Option<Diagnostic> {
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

#[cfg(test)]
mod tests;
