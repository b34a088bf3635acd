//! Checks that must pass before a request is sent: the namespace, the size and the plugin.
//!
//! The plugin's abilities come from its record. A plugin that the token cannot read blocks nothing.

use super::creation_limits::creation_limit;
use super::inputs::{ObservedState, PluginState};
use super::plugin_snapshots::PluginSnapshot;
use super::rules::{CreateRule, MergeRules};
use nomad_csi_model::diagnostic::{Code, Diagnostic, closest_match};
use nomad_csi_model::{
    ControllerCapabilities, ControllerInfo, Namespace, NamespacedId, Plugin, PluginId, Volume,
    shell_quoted,
};
use nomad_csi_spec::VolumeSpec;

/// An operation that needs the plugin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PluginOperation {
    /// Register or update a volume; needs only a healthy plugin.
    Register,
    /// Create a volume; needs CREATE_DELETE_VOLUME.
    Create,
    /// Expand a volume; needs EXPAND_VOLUME.
    Expand,
    /// Take a snapshot; needs CREATE_DELETE_SNAPSHOT.
    CreateSnapshot,
    /// Delete a volume; needs CREATE_DELETE_VOLUME.
    Delete,
}

impl PluginOperation {
    /// The verb of the operation, before "volume".
    const fn verb(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::Create => "create",
            Self::Expand => "expand",
            Self::CreateSnapshot => "take a snapshot of",
            Self::Delete => "delete",
        }
    }
}

/// Checks that the namespace of a new volume exists. Creating a volume in a missing namespace on
/// Nomad leaves its data at the provider without a registration.
pub(super) fn unknown_namespace(spec: &VolumeSpec, observed: &ObservedState) -> Option<Diagnostic> {
    let namespaces = observed.namespaces.as_ref()?;
    let desired = &spec.request.namespace;
    if namespaces.contains(desired) {
        return None;
    }
    let message =
        format!("cannot create volume `{}`: namespace `{desired}` does not exist", spec.request.id);
    let problem = Diagnostic::error(Code::VolumeUnknownNamespace, message)
        .label(spec.field_span("namespace"), "");
    let names = namespaces.iter().map(Namespace::as_str);
    Some(match closest_match(desired.as_str(), names) {
        Some(similar) => problem.help(format!("did you mean namespace `{similar}`?")),
        None => problem
            .help(format!("run `nomad-csi namespace create {}` first", shell_quoted(desired))),
    })
}

/// Checks that a new volume has a maximum size if it has a minimum, which Nomad requires before
/// 1.6.3. After a removal the check also applies to servers of unknown version.
pub(super) fn missing_maximum(
    spec: &VolumeSpec,
    rules: MergeRules,
    after_removal: bool,
) -> Option<Diagnostic> {
    let desired = spec.request.capacity;
    let is_missing = desired.max.is_zero() && !desired.min.is_zero();
    let is_needed = match rules.creates {
        CreateRule::AnyRange => false,
        CreateRule::WithMaximum => true,
        CreateRule::MaybeWithMaximum => after_removal,
    };
    (is_missing && is_needed).then(|| {
        let message = format!(
            "cannot create volume {}: before Nomad 1.6.3 `capacity_min` requires `capacity_max`",
            spec.key().quoted()
        );
        Diagnostic::error(Code::VolumeCapacity, message)
            .label(spec.field_span("capacity_min"), "")
            .note("the server would return: LimitBytes cannot be less than RequiredBytes")
            .help("set `capacity_max` to at least `capacity_min`")
    })
}

/// The check whether a plugin can perform an operation on a volume.
#[derive(Clone, Copy)]
pub(super) struct PluginCheck<'a> {
    volume: &'a NamespacedId,
    plugin: &'a PluginId,
    spec: Option<&'a VolumeSpec>,
    operation: PluginOperation,
}

/// Returns why the plugin of a specification cannot perform an operation.
pub(super) fn plugin_problem(
    spec: &VolumeSpec,
    observed: &ObservedState,
    operation: PluginOperation,
) -> Option<Diagnostic> {
    let check = PluginCheck {
        volume: &spec.key(),
        plugin: &spec.request.plugin_id,
        spec: Some(spec),
        operation,
    };
    check.problem(observed)
}

/// Returns why the plugin of a specification cannot perform an operation, as a file says.
pub(super) fn snapshot_problem(
    spec: &VolumeSpec,
    snapshot: &PluginSnapshot,
    operation: PluginOperation,
) -> Option<Diagnostic> {
    let check = PluginCheck {
        volume: &spec.key(),
        plugin: &spec.request.plugin_id,
        spec: Some(spec),
        operation,
    };
    check.problem_of_snapshot(snapshot)
}

/// Returns why the plugin of an existing volume cannot perform an operation. `spec` is the volume's
/// specification, if a file names it; it may name another plugin.
pub(super) fn present_plugin_problem(
    existing: &Volume,
    spec: Option<&VolumeSpec>,
    observed: &ObservedState,
    operation: PluginOperation,
) -> Option<Diagnostic> {
    let check =
        PluginCheck { volume: &existing.key(), plugin: &existing.plugin_id, spec, operation };
    check.problem(observed)
}

impl PluginCheck<'_> {
    fn problem(self, observed: &ObservedState) -> Option<Diagnostic> {
        match observed.plugins.get(self.plugin) {
            None => None,
            Some(PluginState::Unknown) => {
                self.problem_of_snapshot(observed.plugin_snapshots.get(self.plugin)?)
            }
            Some(PluginState::Missing) => Some(missing_plugin(self, observed)),
            Some(PluginState::Known(plugin)) => {
                unable_plugin(self, plugin, None).or_else(|| self.refused_creation(plugin))
            }
        }
    }

    fn problem_of_snapshot(self, snapshot: &PluginSnapshot) -> Option<Diagnostic> {
        let plugin = &snapshot.plugin;
        unable_plugin(self, plugin, Some(snapshot)).or_else(|| {
            let refused = self.refused_creation(plugin);
            refused.map(|problem| problem.note(snapshot.said()))
        })
    }

    /// Returns what the plugin refuses of the volume that it would create.
    fn refused_creation(self, plugin: &Plugin) -> Option<Diagnostic> {
        let spec = self.spec.filter(|_| self.operation == PluginOperation::Create)?;
        let controllers = known_controllers(plugin);
        creation_limit(spec, plugin, controllers.as_deref())
    }

    /// Returns an error at the field of the file that needs the operation.
    fn error(self, code: Code, message: String) -> Diagnostic {
        let problem = Diagnostic::error(code, message);
        let field = match self.operation {
            PluginOperation::Expand => "capacity_min",
            PluginOperation::Register | PluginOperation::Create => "plugin_id",
            PluginOperation::CreateSnapshot | PluginOperation::Delete => "id",
        };
        match self.spec {
            Some(spec) => problem.label(spec.field_span(field), ""),
            None => problem,
        }
    }
}

fn missing_plugin(check: PluginCheck<'_>, observed: &ObservedState) -> Diagnostic {
    let (key, id) = (check.volume.quoted(), check.plugin.as_str());
    let text = match check.operation {
        PluginOperation::Register | PluginOperation::Create | PluginOperation::Expand => {
            format!("no CSI plugin named: {id} could be found")
        }
        PluginOperation::CreateSnapshot => format!("no such plugin \"{id}\""),
        PluginOperation::Delete => format!("plugin not found: {id}"),
    };
    let message =
        format!("cannot {} volume {key}: the server has no plugin `{id}`", check.operation.verb());
    let problem =
        check.error(Code::PluginUnknown, message).note(format!("the server would return: {text}"));
    let ids = observed.plugin_ids.iter().map(PluginId::as_str);
    match closest_match(id, ids.clone()) {
        Some(similar) => problem.help(format!("did you mean plugin `{similar}`?")),
        None if observed.plugin_ids.is_empty() => {
            problem.help("run the plugin's job and try again")
        }
        None => {
            let all = ids.collect::<Vec<_>>().join(", ");
            problem.help(format!("run the plugin's job, or use one of these plugins: {all}"))
        }
    }
}

/// `snapshot` is the file that says so; `None` if the server does.
fn unable_plugin(
    check: PluginCheck<'_>,
    plugin: &Plugin,
    snapshot: Option<&PluginSnapshot>,
) -> Option<Diagnostic> {
    let missing = missing_ability(check, plugin)?;
    let message = format!(
        "cannot {} volume {}: plugin `{}` {}",
        missing.verb,
        check.volume.quoted(),
        check.plugin,
        missing.reason
    );
    let problem = check.error(missing.code, message);
    let note = snapshot.map_or(missing.note, PluginSnapshot::said);
    Some(problem.note(note).help(missing.help))
}

/// Returns what the plugin lacks for the operation; `None` if nothing is known to be missing.
fn missing_ability(check: PluginCheck<'_>, plugin: &Plugin) -> Option<MissingAbility> {
    let (volume, id) = (&check.volume.id, check.plugin);
    let unhealthy = |note: String| MissingAbility {
        code: Code::PluginUnhealthy,
        // The same for every operation, so that a replacement reports it once.
        verb: "change",
        reason: "has no healthy controller",
        note,
        help: format!("run `nomad-csi plugin status {}` to find the cause", shell_quoted(id)),
    };
    let counts = &plugin.summary.controllers;
    if plugin.summary.controller_required && counts.healthy == 0 {
        let returned = format!("no healthy controllers for CSI plugin: {id}");
        return Some(unhealthy(would_return(&returned)));
    }
    if check.operation == PluginOperation::Create && counts.healthy == 0 && counts.expected > 0 {
        // Until its first fingerprint, the server does not know that it requires one.
        let note = "its job runs a controller, which has not reported yet";
        return Some(unhealthy(note.to_owned()));
    }
    let controllers = known_controllers(plugin)?;
    let able = |can: fn(&ControllerCapabilities) -> bool| {
        controllers.iter().any(|info| can(&info.capabilities))
    };
    let (code, reason, note, help) = match check.operation {
        PluginOperation::Create if controllers.is_empty() => (
            Code::PluginNoController,
            "has no controller",
            would_return("plugin has no controller"),
            CREATE_BY_HAND,
        ),
        PluginOperation::Create if !able(|can| can.create_delete_volume) => (
            Code::PluginUnsupported,
            "does not create volumes",
            would_return("plugin does not support creating volumes"),
            CREATE_BY_HAND,
        ),
        PluginOperation::Expand if !able(|can| can.expand_volume) => (
            Code::PluginUnsupported,
            "does not expand volumes",
            would_return("expand is not implemented by this controller plugin"),
            EXPAND_BY_HAND,
        ),
        PluginOperation::CreateSnapshot if !able(|can| can.create_delete_snapshot) => (
            Code::PluginUnsupported,
            "does not take snapshots",
            would_return(&format!("plugin \"{id}\" does not support snapshot")),
            COPY_BY_HAND,
        ),
        PluginOperation::Delete if controllers.is_empty() => (
            Code::PluginNoController,
            "has no controller",
            would_return(&format!("plugin \"{id}\" for volume \"{volume}\" not found")),
            DELETE_BY_HAND,
        ),
        PluginOperation::Delete if !able(|can| can.create_delete_volume) => (
            Code::PluginUnsupported,
            "does not delete volumes",
            "the plugin does not report CREATE_DELETE_VOLUME; the server would call it anyway"
                .to_owned(),
            DELETE_BY_HAND,
        ),
        PluginOperation::Register
        | PluginOperation::Create
        | PluginOperation::Expand
        | PluginOperation::CreateSnapshot
        | PluginOperation::Delete => return None,
    };
    Some(MissingAbility { code, verb: check.operation.verb(), reason, note, help: help.to_owned() })
}

fn would_return(text: &str) -> String {
    format!("the server would return: {text}")
}

/// The missing ability of a plugin for an operation, as the parts of a diagnostic.
struct MissingAbility {
    code: Code,
    /// The verb before "volume".
    verb: &'static str,
    /// A clause that follows the plugin's name.
    reason: &'static str,
    note: String,
    help: String,
}

const EXPAND_BY_HAND: &str =
    "set `capacity_min` to the current size, or expand the volume with the provider's own tools";

const COPY_BY_HAND: &str =
    "copy the data with the provider's own tools, then omit `--snapshot-first`";

const DELETE_BY_HAND: &str =
    "deregister the volume, then delete its data with the provider's own tools";

const CREATE_BY_HAND: &str =
    "create the volume with the provider's own tools, then set its `external_id` in the file";

/// Returns the controllers of a plugin with their capabilities; `None` if they are unknown.
///
/// Until its first fingerprint Nomad reports a plugin without controllers. Nomad before 1.3 reports
/// most capabilities as missing; those versions also report no provider for an instance.
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
