//! The directories of the agent that no task may see or change, and the host volumes that would show them.
//!
//! What a host volume contains of them is hidden from a task by its path. Who may write to the volume could rename a parent,
//! so such a volume is only for reading. A host volume in one of them is never offered, and none that shows one of them by
//! another path, such as a bind mount: nothing would be hidden there.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nomad_csi_model::HostVolume;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};

/// Refuses host volumes that lead to one of these directories of the agent. All paths are without links.
///
/// # Errors
/// All such volumes.
pub(super) fn check_host_volumes(
    volumes: &BTreeMap<String, HostVolume>,
    own: &[PathBuf],
) -> Result<(), Diagnostics> {
    let mut problems = Diagnostics::default();
    for (name, volume) in volumes {
        let refused = |what: &str, directory: &PathBuf, help: String| {
            let message = format!(
                "cannot offer the host volume `{name}`: `{}` {what} `{}`, a directory of the agent",
                volume.path.display(),
                directory.display()
            );
            Diagnostic::error(Code::AgentBadHostVolume, message).help(help)
        };
        let inside = own.iter().find(|own| volume.path.starts_with(own));
        let around = own.iter().find(|own| own.starts_with(&volume.path));
        if inside.is_none() && around.is_none() {
            match shown_by(&volume.path, own) {
                Ok(None) => {}
                Ok(Some(directory)) => {
                    let help = "offer another directory, or unmount what shows it there".to_owned();
                    problems.push(refused("shows, by another mount,", directory, help));
                }
                Err(error) => problems.push(unreadable(name, &error)),
            }
        }
        match (inside, around.filter(|_| !volume.read_only)) {
            (Some(directory), _) => {
                let help = "offer a directory outside of it".to_owned();
                problems.push(refused("is in", directory, help));
            }
            (None, Some(directory)) => {
                let path = volume.path.display();
                let help = format!(
                    "use `--host-volume {name}={path}:ro`, or offer directories that do not contain it"
                );
                problems.push(refused("contains", directory, help));
            }
            (None, None) => {}
        }
    }
    match problems.has_errors() {
        true => Err(problems),
        false => Ok(()),
    }
}

/// Returns the directory that is in a volume, or around it, by another path. What does not exist is nowhere.
fn shown_by<'o>(volume: &Path, own: &'o [PathBuf]) -> io::Result<Option<&'o PathBuf>> {
    let Some(shown) = identity(volume)? else {
        return Ok(None);
    };
    let above_volume = identities_above(volume)?;
    for directory in own {
        let is_in_volume = identities_above(directory)?.contains(&shown);
        let is_around = identity(directory)?.is_some_and(|own| above_volume.contains(&own));
        if is_in_volume || is_around {
            return Ok(Some(directory));
        }
    }
    Ok(None)
}

/// The device and the number of a directory: the same by whatever path.
type Identity = (u64, u64);

fn identity(path: &Path) -> io::Result<Option<Identity>> {
    match std::fs::metadata(path) {
        Ok(found) => Ok(Some((found.dev(), found.ino()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The identities of a path and of every directory above it.
fn identities_above(path: &Path) -> io::Result<BTreeSet<Identity>> {
    let found = path.ancestors().map(identity);
    let found = found.filter_map(io::Result::transpose);
    found.collect()
}

fn unreadable(name: &str, error: &io::Error) -> Diagnostic {
    let message = format!(
        "cannot offer the host volume `{name}`: whether it shows a directory of the agent cannot be found out: {error}"
    );
    Diagnostic::error(Code::AgentBadHostVolume, message)
        .help("make the directory and those above it readable for the agent, or offer another one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_volume_shows_no_directory_of_the_agent_to_a_writer() {
        let own = ["/srv/agent", "/run/nomad-csi"].map(PathBuf::from);
        for (volume, expected) in [
            ("/srv", Some("`/srv` contains `/srv/agent`")),
            ("/", Some("`/` contains `/srv/agent`")),
            ("/run", Some("`/run` contains `/run/nomad-csi`")),
            ("/srv:ro", None),
            ("/srv/agent", Some("`/srv/agent` is in `/srv/agent`")),
            ("/srv/agent:ro", Some("`/srv/agent` is in `/srv/agent`")),
            ("/srv/agent/allocs:ro", Some("`/srv/agent/allocs` is in `/srv/agent`")),
            ("/srv/agents", None),
            ("/var/log", None),
        ] {
            let (name, parsed) = HostVolume::parse(&format!("x={volume}")).unwrap();
            let found = check_host_volumes(&[(name, parsed)].into(), &own).err();
            let message = found.map(|found| found.iter().next().unwrap().message.clone());
            let expected = expected.map(|text| {
                format!("cannot offer the host volume `x`: {text}, a directory of the agent")
            });
            assert_eq!(message, expected, "{volume}");
        }
    }

    /// By its identity, as a bind mount shows it: of a directory around the agent's, of the agent's, and of what is in it.
    #[test]
    fn a_host_volume_shows_no_directory_of_the_agent_by_another_mount() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        let own = [path("srv/agent")];
        std::fs::create_dir_all(path("srv/agent/allocs")).unwrap();
        std::fs::create_dir_all(path("other")).unwrap();
        let shown = |volume: &str| shown_by(&path(volume), &own).unwrap().is_some();
        assert!(shown("srv") && shown("srv/agent") && shown("srv/agent/allocs"));
        assert!(!shown("other") && !shown("missing"));
        // Two paths of one directory, as a bind mount makes them.
        std::os::unix::fs::symlink(path("srv"), path("bound")).unwrap();
        assert!(shown("bound") && shown("bound/agent") && shown("bound/agent/allocs"));
        // A file is no directory, so what is below it cannot be looked at.
        std::fs::write(path("file"), "").unwrap();
        assert!(shown_by(&path("file/below"), &own).is_err());
    }
}
