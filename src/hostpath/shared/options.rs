//! The options of the command line that say where a process keeps its state, and which part of the plugin it is. Pure.

use std::path::PathBuf;

/// The part of the plugin that a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It owns the catalogue, and attaches volumes to nodes.
    Controller,
    /// It stages and publishes volumes on one node.
    Node,
    /// Both.
    All,
}

impl Role {
    const ALL: [Self; 3] = [Self::Controller, Self::Node, Self::All];

    /// Parses the value of `--role`.
    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }

    /// The value of `--role`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Node => "node",
            Self::All => "all",
        }
    }

    /// Returns whether the process owns the catalogue.
    pub(crate) const fn has_controller(self) -> bool {
        match self {
            Self::Controller | Self::All => true,
            Self::Node => false,
        }
    }

    /// Returns whether the process stages and publishes volumes.
    pub(crate) const fn has_node(self) -> bool {
        match self {
            Self::Node | Self::All => true,
            Self::Controller => false,
        }
    }
}

/// The options, unparsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementOptions {
    /// `--state-dir`.
    pub state_dir: Option<PathBuf>,
    /// `--shared`.
    pub shared: Option<PathBuf>,
    /// `--role`.
    pub role: Option<String>,
    /// `--detach-cuts`.
    pub detach_cuts: bool,
    /// `--backing`, which `--detach-cuts` depends on.
    pub backing: Option<String>,
}

/// How a process uses a shared directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedConfig {
    pub(crate) directory: PathBuf,
    pub(crate) role: Role,
    /// True if a volume that is detached while it is staged becomes read-only on the node.
    pub(crate) detach_cuts: bool,
}

/// Where a process keeps its state, and the directory that it shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The directory of its state.
    pub state_dir: PathBuf,
    /// The shared directory; `None` if one process is the whole plugin.
    pub shared: Option<SharedConfig>,
}

impl Placement {
    /// Parses the options.
    ///
    /// # Errors
    /// Reports every option that is not valid, with the reason and what to do.
    pub fn parse(options: &PlacementOptions) -> Result<Self, Vec<String>> {
        let mut problems = vec![];
        let mut report = |problem: &str| problems.push(problem.to_owned());
        let role = match options.role.as_deref() {
            None => Role::All,
            Some(name) => Role::parse(name).unwrap_or_else(|| {
                report(&format!("--role {name:?} is not known: use controller, node or all"));
                Role::All
            }),
        };
        if options.shared.is_none() && options.role.is_some() {
            report(
                "--role requires --shared: without a shared directory one process is the whole plugin; add --shared, or remove --role",
            );
        }
        if options.detach_cuts && (options.shared.is_none() || !role.has_node()) {
            report(
                "--detach-cuts requires --shared, and --role node or all: only a node of a shared directory can lose a volume that it has staged",
            );
        }
        if options.detach_cuts && options.backing.as_deref() != Some("directory") {
            report(
                "--detach-cuts requires --backing directory: this plugin cannot cut a node off from an image or a block device",
            );
        }
        let state_dir = match (&options.shared, &options.state_dir) {
            (Some(shared), None) if role.has_controller() => shared.join("controller"),
            (Some(_), Some(_)) if role.has_controller() => {
                report(&format!(
                    "--state-dir has no effect with --shared and --role {}, whose state is in the shared directory; remove --state-dir",
                    role.name()
                ));
                PathBuf::new()
            }
            (Some(_) | None, Some(state_dir)) => state_dir.clone(),
            (Some(_), None) => {
                report(
                    "--role node requires --state-dir: the node keeps there what it has staged; use a directory of its own for each node",
                );
                PathBuf::new()
            }
            (None, None) => {
                report("--state-dir is missing: name the directory of the volumes");
                PathBuf::new()
            }
        };
        if !problems.is_empty() {
            return Err(problems);
        }
        let detach_cuts = options.detach_cuts;
        let shared = options.shared.clone();
        let shared = shared.map(|directory| SharedConfig { directory, role, detach_cuts });
        Ok(Self { state_dir, shared })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Placement, Vec<String>> {
        let mut options = PlacementOptions::default();
        for word in words {
            match word.split_once('=') {
                Some(("state-dir", path)) => options.state_dir = Some(path.into()),
                Some(("shared", path)) => options.shared = Some(path.into()),
                Some(("role", role)) => options.role = Some(role.to_owned()),
                Some(("backing", kind)) => options.backing = Some(kind.to_owned()),
                _ => options.detach_cuts = true,
            }
        }
        Placement::parse(&options)
    }

    #[test]
    fn a_controller_keeps_its_state_in_the_shared_directory_and_a_node_in_its_own() {
        let alone = parse(&["state-dir=/s"]).unwrap();
        assert_eq!(alone, Placement { state_dir: "/s".into(), shared: None });
        for (words, state_dir, role) in [
            (&["shared=/d"][..], "/d/controller", Role::All),
            (&["shared=/d", "role=all"], "/d/controller", Role::All),
            (&["shared=/d", "role=controller"], "/d/controller", Role::Controller),
            (&["shared=/d", "role=node", "state-dir=/n"], "/n", Role::Node),
        ] {
            let placed = parse(words).unwrap();
            let directory = "/d".into();
            let shared = Some(SharedConfig { directory, role, detach_cuts: false });
            assert_eq!(placed, Placement { state_dir: state_dir.into(), shared });
        }
        let cuts = ["shared=/d", "role=node", "state-dir=/n", "backing=directory", "detach-cuts"];
        assert!(parse(&cuts).unwrap().shared.unwrap().detach_cuts);
    }

    #[test]
    fn each_option_that_does_not_fit_is_reported() {
        let node = ["shared=/d", "role=node", "state-dir=/n", "detach-cuts"];
        for (words, reasons) in [
            (&[][..], &["--state-dir is missing"][..]),
            (&["state-dir=/s", "role=node"], &["--role requires --shared"]),
            (&["shared=/d", "role=tape"], &["use controller, node or all"]),
            (&["shared=/d", "role=node"], &["requires --state-dir"]),
            (&["shared=/d", "state-dir=/s"], &["remove --state-dir"]),
            (&["shared=/d", "role=controller", "state-dir=/s"], &["remove --state-dir"]),
            (&node, &["--backing directory"]),
            (&["state-dir=/s", "detach-cuts"], &["requires --shared", "--backing directory"]),
            (
                &["shared=/d", "role=controller", "backing=directory", "detach-cuts"],
                &["--role node or all"],
            ),
            (&["state-dir=/s", "backing=directory", "detach-cuts"], &["requires --shared"]),
        ] {
            let problems = parse(words).unwrap_err();
            assert_eq!(problems.len(), reasons.len(), "{words:?}: {problems:?}");
            for (problem, reason) in problems.iter().zip(reasons) {
                assert!(problem.contains(reason), "{words:?}: {problem}");
            }
        }
    }
}
