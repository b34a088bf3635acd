//! Which checks are carried out, and why the others are not: pure.

use super::case::{Case, Effect, Need};
use super::profile::{Profile, controller_names, node_names};
use super::setup::Setup;
use crate::csi::proto::group_controller_service_capability::rpc::Type as GroupRpc;
use crate::csi::proto::plugin_capability::service::Type as Service;

/// What a person chose.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Areas, checks and patterns with `*`; all if empty.
    pub only: Vec<String>,
    /// The same, left out.
    pub skip: Vec<String>,
    /// Whether something may be created.
    pub destructive: bool,
}

/// Whether a check is carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It is.
    Run,
    /// It is not, for this reason.
    Skip(String),
    /// It is not part of what was asked for, and not worth a line.
    Leave,
}

impl Selection {
    /// Whether `case` is carried out against a plugin of that profile.
    pub fn choose(&self, case: &Case, profile: &Profile, setup: &Setup) -> Choice {
        let is_meant = self.only.is_empty() || self.only.iter().any(|word| names(word, case));
        if !is_meant || self.skip.iter().any(|word| names(word, case)) {
            return Choice::Leave;
        }
        for need in case.needs {
            if let Err(reason) = met(*need, profile, setup) {
                return Choice::Skip(reason);
            }
        }
        match case.effect {
            Effect::Creates if !self.destructive => {
                Choice::Skip("it may change something: add `--destructive`".to_owned())
            }
            Effect::Creates | Effect::Reads => Choice::Run,
        }
    }

    /// Words of `--only` and `--skip` that name no check.
    pub fn unknown<'a>(&'a self, cases: &[Case]) -> Vec<&'a str> {
        let words = self.only.iter().chain(&self.skip);
        words
            .filter(|word| !cases.iter().any(|case| names(word, case)))
            .map(String::as_str)
            .collect()
    }
}

/// Whether `word` is the check's name, its area, or a pattern that matches its name.
fn names(word: &str, case: &Case) -> bool {
    word == case.area.as_str() || matches(word, case.id)
}

/// `*` stands for anything.
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
/// What is missing, as a reason.
fn met(need: Need, profile: &Profile, setup: &Setup) -> Result<(), String> {
    let advertised = |has: bool, name: &str| {
        has.then_some(())
            .ok_or_else(|| format!("the plugin does not advertise {name}"))
    };
    match need {
        Need::Controller => advertised(
            profile.has(Service::ControllerService),
            Service::ControllerService.as_str_name(),
        ),
        Need::Can(kind) => advertised(profile.controller_has(kind), &controller_names(kind.into())),
        Need::Node => profile
            .node
            .as_ref()
            .map(drop)
            .ok_or_else(|| "the plugin has no node service".to_owned()),
        Need::NodeInfo => profile
            .node_info
            .as_ref()
            .map(drop)
            .ok_or_else(|| "the plugin does not have NodeGetInfo".to_owned()),
        Need::NodeCan(kind) => advertised(profile.node_has(kind), &node_names(kind.into())),
        Need::Topology => {
            let service = Service::VolumeAccessibilityConstraints;
            advertised(profile.has(service), service.as_str_name())?;
            profile
                .described_node()
                .and_then(|node| node.accessible_topology.as_ref())
                .map(drop)
                .ok_or_else(|| "the plugin does not say where its node is".to_owned())
        }
        Need::GroupSnapshots => {
            let kind = GroupRpc::CreateDeleteGetVolumeGroupSnapshot;
            advertised(profile.group_has(kind), kind.as_str_name())
        }
        Need::SnapshotMetadata => {
            let service = Service::SnapshotMetadataService;
            advertised(profile.has(service), service.as_str_name())
        }
        Need::Block => given(setup.block, "`--block` is not given"),
        Need::Log => given(setup.log.is_some(), "no log is given with `--log`"),
        Need::Mutable => given(
            !setup.mutable.is_empty(),
            "no parameters that can be changed are given with `--mutable-parameters`",
        ),
        Need::Secrets => given(
            !setup.secrets.is_empty(),
            "no secrets are given with `--secrets`",
        ),
    }
}

fn given(is_given: bool, reason: &str) -> Result<(), String> {
    is_given.then_some(()).ok_or_else(|| reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_anything() {
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
