//! Which checks run, and why the others do not: pure functions.

use super::case::{Case, Effect, Need};
use super::options::CheckOptions;
use super::probed_plugin::{ProbedPlugin, controller_capability_name, node_capability_name};
use nomad_csi_proto::group_controller_service_capability::rpc::Type as GroupRpc;
use nomad_csi_proto::plugin_capability::service::Type as Service;

/// The selection of the user.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Areas, checks and patterns with `*`; all if empty.
    pub only: Vec<String>,
    /// Areas, checks and patterns to leave out.
    pub skip: Vec<String>,
    /// True if checks may create anything.
    pub destructive: bool,
}

/// The decision about a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The check runs.
    Run,
    /// The check is skipped for this reason.
    Skip(String),
    /// The check is not selected and does not appear in the report.
    Exclude,
}

impl Selection {
    /// Decides whether `case` runs against `plugin`.
    pub fn choose(&self, case: &Case, plugin: &ProbedPlugin, options: &CheckOptions) -> Choice {
        let is_included =
            self.only.is_empty() || self.only.iter().any(|word| is_selected_by(word, case));
        if !is_included || self.skip.iter().any(|word| is_selected_by(word, case)) {
            return Choice::Exclude;
        }
        for need in case.needs {
            if let Err(reason) = check_need(*need, plugin, options) {
                return Choice::Skip(reason);
            }
        }
        match case.effect {
            Effect::Creates if !self.destructive => {
                Choice::Skip("the check may change data: add `--destructive`".to_owned())
            }
            Effect::Creates | Effect::Reads => Choice::Run,
        }
    }

    /// Returns the words of `--only` and `--skip` that match no check.
    pub fn unknown_words<'a>(&'a self, cases: &[Case]) -> Vec<&'a str> {
        let words = self.only.iter().chain(&self.skip);
        words
            .filter(|word| !cases.iter().any(|case| is_selected_by(word, case)))
            .map(String::as_str)
            .collect()
    }
}

/// Returns whether `word` is the ID or the area of the check, or a pattern that matches the ID.
fn is_selected_by(word: &str, case: &Case) -> bool {
    word == case.area.as_str() || matches(word, case.id)
}

/// Matches `text` against a pattern in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => {
            let Some(after) = text.strip_prefix(start) else {
                return false;
            };
            let ends = after.char_indices().map(|(at, _)| at).chain([after.len()]);
            ends.into_iter().any(|at| matches(rest, &after[at..]))
        }
    }
}

/// # Errors
/// Returns what is missing.
fn check_need(need: Need, plugin: &ProbedPlugin, options: &CheckOptions) -> Result<(), String> {
    let advertised = |has: bool, name: &str| {
        has.then_some(()).ok_or_else(|| format!("the plugin does not advertise {name}"))
    };
    match need {
        Need::ControllerService => advertised(
            plugin.has_service(Service::ControllerService),
            Service::ControllerService.as_str_name(),
        ),
        Need::ControllerCapability(kind) => {
            advertised(plugin.controller_has(kind), &controller_capability_name(kind.into()))
        }
        Need::NodeService => plugin
            .node
            .as_ref()
            .map(drop)
            .ok_or_else(|| "the plugin has no node service".to_owned()),
        Need::NodeInfo => plugin
            .node_info
            .as_ref()
            .map(drop)
            .ok_or_else(|| "the plugin does not implement NodeGetInfo".to_owned()),
        Need::NodeCapability(kind) => {
            advertised(plugin.node_has(kind), &node_capability_name(kind.into()))
        }
        Need::Topology => {
            let service = Service::VolumeAccessibilityConstraints;
            advertised(plugin.has_service(service), service.as_str_name())?;
            plugin
                .described_node()
                .and_then(|node| node.accessible_topology.as_ref())
                .map(drop)
                .ok_or_else(|| "the plugin does not report the topology of its node".to_owned())
        }
        Need::SnapshotTopology => {
            let service = Service::SnapshotAccessibilityConstraints;
            advertised(plugin.has_service(service), service.as_str_name())?;
            check_need(Need::Topology, plugin, options)
        }
        Need::GroupSnapshots => {
            let kind = GroupRpc::CreateDeleteGetVolumeGroupSnapshot;
            advertised(plugin.group_has(kind), kind.as_str_name())
        }
        Need::SnapshotMetadata => {
            let service = Service::SnapshotMetadataService;
            advertised(plugin.has_service(service), service.as_str_name())
        }
        Need::BlockVolumes => given(options.block_volumes, "`--block` is not given"),
        Need::Log => given(options.log.is_some(), "`--log` is not given"),
        Need::MutableParameters => {
            given(!options.mutable_parameters.is_empty(), "`--mutable-parameters` is not given")
        }
        Need::Secrets => given(!options.secrets.is_empty(), "`--secrets` is not given"),
    }
}

fn given(is_given: bool, reason: &str) -> Result<(), String> {
    is_given.then_some(()).ok_or_else(|| reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_matches_any_text() {
        for (pattern, text, expected) in [
            ("create/name", "create/name", true),
            ("create/name", "create/names", false),
            ("create/*", "create/name", true),
            ("*/name", "create/name", true),
            ("*a*e", "create/name", true),
            ("*x*", "create/name", false),
            ("", "create/name", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
