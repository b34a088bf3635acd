//! The profile of the plugin: its capabilities, its faults and its topology.
//!
//! Tests use profiles to imitate plugins of every kind (`plugin serve --help`). All options are
//! checked at start, and every mistake is reported together.

use super::capabilities::{PluginCapabilities, PluginCapability};
use super::faults::{self, Fault};
use crate::health::HealthFault;
use crate::topology::{self, Segments};

/// The options of the command line that select a profile, unparsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileOptions {
    /// `--backing`.
    pub backing: Option<String>,
    /// `--overcommit`.
    pub overcommit: bool,
    /// `--without`, each value.
    pub without: Vec<String>,
    /// `--attach`.
    pub attach: bool,
    /// `--attach-limit`.
    pub attach_limit: Option<u32>,
    /// `--topology`, each value.
    pub topology: Vec<String>,
    /// `--fault`, each value.
    pub fault: Vec<String>,
}

impl ProfileOptions {
    /// Returns the options as arguments of a command line.
    pub fn arguments(&self) -> Vec<String> {
        let mut words = vec![];
        let mut add = |flag: &str, value: &str| words.push(format!("--{flag}={value}"));
        if let Some(backing) = &self.backing {
            add("backing", backing);
        }
        if let Some(limit) = self.attach_limit {
            add("attach-limit", &limit.to_string());
        }
        for (flag, values) in
            [("without", &self.without), ("topology", &self.topology), ("fault", &self.fault)]
        {
            for value in values {
                add(flag, value);
            }
        }
        for (flag, is_set) in [("--overcommit", self.overcommit), ("--attach", self.attach)] {
            if is_set {
                words.push(flag.to_owned());
            }
        }
        words
    }
}

/// The backing of volumes with a file system, if the parameter `backing` is not given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DefaultBacking {
    /// Images if loop devices are available and the request has a size or a file system; otherwise
    /// directories. A size that no caller requested is not enforced.
    #[default]
    Auto,
    /// Images, which enforce a size.
    Image,
    /// Directories, which have no size.
    Directory,
}

impl DefaultBacking {
    /// Parses the value of `--backing`.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "image" => Some(Self::Image),
            "directory" => Some(Self::Directory),
            _ => None,
        }
    }
}

/// A valid profile, built by [`PluginProfile::parse`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginProfile {
    pub(crate) capabilities: PluginCapabilities,
    pub(crate) backing: DefaultBacking,
    /// True if volumes may be larger together than the file system.
    pub(crate) overcommit: bool,
    /// How many volumes may be attached at the same time.
    pub(crate) attach_limit: Option<u32>,
    pub(crate) topology: Segments,
    pub(crate) faults: Vec<Fault>,
    /// Conditions that are reported although they do not exist.
    pub(crate) health_faults: Vec<HealthFault>,
}

impl PluginProfile {
    /// Parses the options.
    ///
    /// # Errors
    /// Reports every option that is not valid, with the reason.
    pub fn parse(options: &ProfileOptions) -> Result<Self, Vec<String>> {
        let mut problems = vec![];
        let mut report = |problem: String| problems.push(problem);
        let backing = options.backing.as_deref().unwrap_or("auto");
        let backing = DefaultBacking::parse(backing).unwrap_or_else(|| {
            report(format!("--backing {backing:?} is not known: use auto, image or directory"));
            DefaultBacking::Auto
        });
        let mut capabilities = PluginCapabilities {
            requires_attachment: options.attach || options.attach_limit.is_some(),
            has_topology: !options.topology.is_empty(),
            ..PluginCapabilities::default()
        };
        for name in &options.without {
            match PluginCapability::ALL.iter().find(|capability| capability.name() == name) {
                Some(capability) => drop(capabilities.without.insert(*capability)),
                None => report(format!(
                    "--without {name:?} is not a capability of this plugin; it has {}",
                    PluginCapability::names().join(", ")
                )),
            }
        }
        if !capabilities.has(PluginCapability::Controller)
            && !capabilities.has(PluginCapability::Node)
        {
            report("a plugin needs CONTROLLER_SERVICE or NODE_SERVICE: remove one of them from --without".to_owned());
        }
        if options.attach_limit == Some(0) {
            report("--attach-limit 0 lets no volume be attached: use 1 or more".to_owned());
        }
        let topology = topology::parse_all(&options.topology).unwrap_or_else(|problem| {
            report(format!("--topology: {problem}"));
            Segments::new()
        });
        let (mut faults, mut health_faults) = (vec![], vec![]);
        for text in &options.fault {
            let parsed = match faults::health_condition(text) {
                Some(condition) => {
                    faults::parse_health(condition).map(|fault| health_faults.push(fault))
                }
                None => Fault::parse(text).map(|fault| faults.push(fault)),
            };
            if let Err(problem) = parsed {
                report(format!("--fault {text:?}: {problem}"));
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self {
            capabilities,
            backing,
            overcommit: options.overcommit,
            attach_limit: options.attach_limit,
            topology,
            faults,
            health_faults,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_can_be_selected_and_every_mistake_is_reported_together() {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let options = ProfileOptions {
            backing: Some("directory".to_owned()),
            overcommit: true,
            without: texts(&["STAGE_UNSTAGE_VOLUME", "LIST_VOLUMES"]),
            attach: false,
            attach_limit: Some(3),
            topology: texts(&["t.x/zone=a", "t.x/rack=b"]),
            fault: texts(&["NodeStageVolume:UNAVAILABLE:2", "health:no-space"]),
        };
        let profile = PluginProfile::parse(&options).unwrap();
        assert!(profile.capabilities.requires_attachment && profile.capabilities.has_topology);
        assert!(!profile.capabilities.supports_rpc("NodeStageVolume"));
        assert!(!profile.capabilities.supports_rpc("ListVolumes"));
        assert!(profile.capabilities.supports_rpc("NodePublishVolume"));
        assert!(profile.capabilities.has(PluginCapability::PublishReadOnly));
        assert_eq!(profile.faults.len(), 1);
        assert_eq!(profile.health_faults, [HealthFault::NoSpace]);
        let wrong = ProfileOptions {
            backing: Some("tape".to_owned()),
            without: texts(&["FLYING", "CONTROLLER_SERVICE", "NODE_SERVICE"]),
            attach_limit: Some(0),
            topology: texts(&["nowhere"]),
            fault: texts(&["NodeStage:UNAVAILABLE", "health:data-lost"]),
            ..ProfileOptions::default()
        };
        let problems = PluginProfile::parse(&wrong).unwrap_err();
        for reason in [
            "auto, image or directory",
            "CREATE_DELETE_VOLUME",
            "needs CONTROLLER_SERVICE or NODE_SERVICE",
            "use 1 or more",
            "KEY=VALUE",
            "NodeStageVolume",
            "use data-missing",
        ] {
            assert!(problems.iter().any(|text| text.contains(reason)), "{problems:?}: {reason}");
        }
    }
}
