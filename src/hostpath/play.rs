//! Which plugin it plays: what it can do, how it fails, where it is.
//!
//! An orchestrator meets plugins of every kind; this one can be each of them (`plugin serve --help`).
//! Everything is checked at the start, all of it at once.

use super::abilities::{Abilities, Ability};
use super::faults::Fault;
use super::parameters::BackingChoice;
use super::topology::{self, Segments};

/// What the command line says of the plugin's kind, word for word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlayOptions {
    /// `--backing`.
    pub backing: Option<String>,
    /// `--overcommit`.
    pub overcommit: bool,
    /// `--without`, each.
    pub without: Vec<String>,
    /// `--attach`.
    pub attach: bool,
    /// `--attach-limit`.
    pub attach_limit: Option<u32>,
    /// `--topology`, each.
    pub topology: Vec<String>,
    /// `--fault`, each.
    pub fault: Vec<String>,
}

impl PlayOptions {
    /// The same as words of a command line.
    pub fn arguments(&self) -> Vec<String> {
        let mut words = vec![];
        let mut add = |flag: &str, value: &str| words.push(format!("--{flag}={value}"));
        if let Some(backing) = &self.backing {
            add("backing", backing);
        }
        if let Some(limit) = self.attach_limit {
            add("attach-limit", &limit.to_string());
        }
        for (flag, values) in [
            ("without", &self.without),
            ("topology", &self.topology),
            ("fault", &self.fault),
        ] {
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

/// Which plugin it plays. Built by [`Play::parse`], so it is always valid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Play {
    pub(super) abilities: Abilities,
    pub(super) backing: BackingChoice,
    /// Volumes may be promised more than there is.
    pub(super) overcommit: bool,
    /// How many volumes may be attached at once.
    pub(super) attach_limit: Option<u32>,
    pub(super) topology: Segments,
    pub(super) faults: Vec<Fault>,
}

impl Play {
    /// Reads what was said.
    ///
    /// # Errors
    /// Every word that cannot be used, with the reason.
    pub fn parse(options: &PlayOptions) -> Result<Self, Vec<String>> {
        let mut problems = vec![];
        let mut keep = |problem: String| problems.push(problem);
        let backing = options.backing.as_deref().unwrap_or("auto");
        let backing = BackingChoice::parse(backing).unwrap_or_else(|| {
            keep(format!(
                "--backing {backing:?} is not known: write auto, image or directory"
            ));
            BackingChoice::Auto
        });
        let mut abilities = Abilities {
            attaches: options.attach || options.attach_limit.is_some(),
            has_topology: !options.topology.is_empty(),
            ..Abilities::default()
        };
        for name in &options.without {
            match Ability::ALL.iter().find(|ability| ability.name() == name) {
                Some(ability) => drop(abilities.without.insert(*ability)),
                None => keep(format!(
                    "--without {name:?} is no capability of this plugin; it has {}",
                    Ability::names().join(", ")
                )),
            }
        }
        if !abilities.has(Ability::Controller) && !abilities.has(Ability::Node) {
            keep("a plugin without CONTROLLER_SERVICE and without NODE_SERVICE is none".to_owned());
        }
        if options.attach_limit == Some(0) {
            keep("--attach-limit 0 would let no volume be attached: write 1 or more".to_owned());
        }
        let topology = topology::parse_all(&options.topology).unwrap_or_else(|problem| {
            keep(format!("--topology: {problem}"));
            Segments::new()
        });
        let mut faults = vec![];
        for text in &options.fault {
            match Fault::parse(text) {
                Ok(fault) => faults.push(fault),
                Err(problem) => keep(format!("--fault {text:?}: {problem}")),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self {
            abilities,
            backing,
            overcommit: options.overcommit,
            attach_limit: options.attach_limit,
            topology,
            faults,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_can_be_asked_for_and_every_mistake_is_told_at_once() {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let options = PlayOptions {
            backing: Some("directory".to_owned()),
            overcommit: true,
            without: texts(&["STAGE_UNSTAGE_VOLUME", "LIST_VOLUMES"]),
            attach: false,
            attach_limit: Some(3),
            topology: texts(&["t.x/zone=a", "t.x/rack=b"]),
            fault: texts(&["NodeStageVolume:UNAVAILABLE:2"]),
        };
        let play = Play::parse(&options).unwrap();
        assert!(play.abilities.attaches && play.abilities.has_topology);
        assert!(!play.abilities.answers("NodeStageVolume"));
        assert!(!play.abilities.answers("ListVolumes"));
        assert!(play.abilities.answers("NodePublishVolume"));
        assert!(play.abilities.has(Ability::PublishReadOnly));
        let wrong = PlayOptions {
            backing: Some("tape".to_owned()),
            without: texts(&["FLYING", "CONTROLLER_SERVICE", "NODE_SERVICE"]),
            attach_limit: Some(0),
            topology: texts(&["nowhere"]),
            fault: texts(&["NodeStage:UNAVAILABLE"]),
            ..PlayOptions::default()
        };
        let problems = Play::parse(&wrong).unwrap_err();
        for said in [
            "auto, image or directory",
            "CREATE_DELETE_VOLUME",
            "is none",
            "write 1 or more",
            "KEY=VALUE",
            "NodeStageVolume",
        ] {
            assert!(
                problems.iter().any(|text| text.contains(said)),
                "{problems:?}: {said}"
            );
        }
    }
}
