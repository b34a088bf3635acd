//! The directories of the agent that no task may see or change, and the host volumes that would show them.
//!
//! What a host volume contains of them is hidden from a task by its path. Who may write to the volume could rename a parent,
//! so such a volume is only for reading. A host volume in one of them is never offered.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::model::HostVolume;

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
            (
                "/srv/agent/allocs:ro",
                Some("`/srv/agent/allocs` is in `/srv/agent`"),
            ),
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
}
