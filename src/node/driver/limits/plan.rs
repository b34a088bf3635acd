//! Where the control groups of tasks are, and what is written to them. Pure.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::controller::Controller;
use nomad_csi_model::Resources;

/// How many processes and threads a task may have. Nomad's resources have no such value.
pub(super) const MAX_PROCESSES: u64 = 4096;
/// Nomad's smallest reservation of memory in MiB.
const LEAST_MEMORY_MB: i64 = 10;
/// The shares of a whole core in MHz: the weight of a task with `cores`.
const MHZ_OF_A_CORE: i64 = 1024;
/// The shares that the smallest and the largest weight stand for, as in version 1 of control groups.
const SHARES: (i64, i64) = (2, 262_144);
/// The largest weight.
const MAX_WEIGHT: i64 = 10_000;
/// More cores than a machine has. The kernel refuses a quota that is far larger.
const MAX_CORES: i64 = 1 << 16;
/// The period of `cpu.max` in microseconds.
const PERIOD: i64 = 100_000;
/// The name of the agent's group below the delegated one.
const AGENT: &str = "agent";

/// Why no group of a task can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unusable {
    #[error("control groups of version 2 are not mounted at `/sys/fs/cgroup`")]
    NotMounted,
    #[error("the control group of the agent is not visible at `{}`", .0.display())]
    NotVisible(PathBuf),
    #[error(
        "the agent is in the control group `{0}`, and not in a group `agent` below a delegated one; give its unit \
         `Delegate=cpu memory pids` and `DelegateSubgroup=agent` (systemd 254 or newer)"
    )]
    NotDelegated(String),
    #[error(
        "the agent is in the outermost control group of its container, and not in a group `agent` below a delegated one"
    )]
    Outermost,
}

/// Returns the agent's own group in version 2, from `/proc/self/cgroup`.
pub(super) fn own_group(membership: &str) -> Option<&Path> {
    let line = membership.lines().find_map(|line| line.strip_prefix("0::"));
    line.map(Path::new)
}

/// Returns the group, as a path below the mount, in which the groups of tasks may be. `is_machines` says that the agent is in
/// the outermost group of the machine, the only one that may have both processes and controllers. Any other group is someone's:
/// of systemd, or of what runs a container. That it is delegated shows the name of the agent's group in it. systemd could not
/// start the next agent beside tasks of this one otherwise.
pub(super) fn delegated_group(own: &Path, is_machines: bool) -> Result<&Path, Unusable> {
    let is_plain =
        own.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !own.is_absolute() || !is_plain {
        return Err(Unusable::NotVisible(own.to_owned()));
    }
    let Some(parent) = own.parent() else {
        return match is_machines {
            true => Ok(own),
            false => Err(Unusable::Outermost),
        };
    };
    let is_slice = parent.extension().is_some_and(|end| end == "slice");
    match own.file_name() {
        // systemd delegates no slice.
        Some(name) if name == AGENT && !is_slice => Ok(parent),
        Some(_) | None => Err(Unusable::NotDelegated(own.display().to_string())),
    }
}

/// One value of a control group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Setting {
    /// The file of the group.
    pub(super) file: String,
    pub(super) value: String,
    /// True if the kernel may have no such file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_optional: bool,
}

impl Setting {
    fn new(file: &str, value: &impl ToString) -> Self {
        Self { file: file.to_owned(), value: value.to_string(), is_optional: false }
    }
}

/// Returns the values of the group of a task with these resources, as far as there are controllers.
pub(super) fn settings(resources: &Resources, controllers: &BTreeSet<Controller>) -> Vec<Setting> {
    let mut settings = vec![];
    for controller in controllers {
        match controller {
            Controller::Cpu => {
                settings.push(Setting::new("cpu.weight", &cpu_weight(resources)));
                if resources.cores > 0 {
                    let quota = resources.cores.min(MAX_CORES) * PERIOD;
                    settings.push(Setting::new("cpu.max", &format!("{quota} {PERIOD}")));
                }
            }
            Controller::Memory => {
                settings.push(Setting::new("memory.max", &memory_bytes(resources)));
                // A kernel without swap has no such file.
                settings.push(Setting { is_optional: true, ..Setting::new("memory.swap.max", &0) });
            }
            Controller::Pids => settings.push(Setting::new("pids.max", &MAX_PROCESSES)),
        }
    }
    settings
}

/// Returns the limit of memory in bytes: `memory_max`, or else `memory`.
fn memory_bytes(resources: &Resources) -> i64 {
    let limit = resources.memory_mb.max(resources.memory_max_mb);
    limit.max(LEAST_MEMORY_MB).saturating_mul(1 << 20)
}

/// Returns the weight of a number of shares in MHz, by the conversion that container runtimes use.
fn cpu_weight(resources: &Resources) -> i64 {
    let shares = match resources.cores {
        1.. => resources.cores.saturating_mul(MHZ_OF_A_CORE),
        _ => resources.cpu,
    };
    let (min_shares, max_shares) = SHARES;
    let above = shares.clamp(min_shares, max_shares) - min_shares;
    1 + above * (MAX_WEIGHT - 1) / (max_shares - min_shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_tasks_is_beside_that_of_the_agent() {
        for (own, expected) in [
            ("/system.slice/nomad-csi.service/agent", Ok("/system.slice/nomad-csi.service")),
            (
                "/user.slice/user-7.slice/user@7.service/app.slice/a.service/agent",
                Ok("/user.slice/user-7.slice/user@7.service/app.slice/a.service"),
            ),
            ("/machine/agent", Ok("/machine")),
            ("/agent", Ok("/")),
        ] {
            let own = Path::new(own);
            for is_machines in [true, false] {
                let found = delegated_group(own, is_machines);
                assert_eq!(found, expected.clone().map(Path::new), "{own:?}");
            }
        }
        let root = Path::new("/");
        assert_eq!(delegated_group(root, true), Ok(root));
        assert_eq!(delegated_group(root, false), Err(Unusable::Outermost));
    }

    #[test]
    fn a_group_that_is_someone_elses_is_not_used() {
        for own in [
            "/system.slice/nomad-csi.service",
            "/user.slice/user-0.slice/session-1.scope",
            "/init.scope",
            "/system.slice",
            "/agent.service",
            "/docker/0123456789ab",
            // Beside the units of others.
            "/system.slice/agent",
        ] {
            let refused = delegated_group(Path::new(own), false);
            assert_eq!(refused, Err(Unusable::NotDelegated(own.to_owned())));
        }
        for own in ["/../agent", "/a/../b", "agent", ""] {
            let refused = delegated_group(Path::new(own), true);
            assert_eq!(refused, Err(Unusable::NotVisible(own.into())), "{own}");
        }
    }

    #[test]
    fn the_group_of_version_2_is_read_among_those_of_version_1() {
        let hybrid = "12:pids:/a\n1:name=systemd:/b\n0::/c/d\n";
        assert_eq!(own_group(hybrid), Some(Path::new("/c/d")));
        assert_eq!(own_group("0::/\n"), Some(Path::new("/")));
        assert_eq!(own_group("12:pids:/a\n"), None);
        assert_eq!(own_group(""), None);
    }

    fn values(resources: &Resources, controllers: &[Controller]) -> String {
        let settings = settings(resources, &controllers.iter().copied().collect());
        let shown = settings.iter().map(|it| {
            let mark = if it.is_optional { "?" } else { "" };
            format!("{}{mark}={}", it.file, it.value)
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn resources_become_the_values_of_a_group() {
        let all = Controller::ALL;
        let default = Resources::default();
        let expected = "cpu.weight=4 memory.max=314572800 memory.swap.max?=0 pids.max=4096";
        assert_eq!(values(&default, &all), expected);
        let cores =
            Resources { cores: 2, memory_mb: 64, memory_max_mb: 128, ..Resources::default() };
        let expected = "cpu.weight=79 cpu.max=200000 100000 memory.max=134217728 memory.swap.max?=0 pids.max=4096";
        assert_eq!(values(&cores, &all), expected);
        assert_eq!(values(&cores, &[Controller::Pids]), "pids.max=4096");
        assert_eq!(values(&cores, &[]), "");
    }

    /// Whatever a job says, the kernel accepts it, and nothing is unlimited.
    #[test]
    fn every_number_of_a_job_is_a_limit() {
        for number in [i64::MIN, -1, 0, 1, 3, 1 << 40, i64::MAX] {
            let resources =
                Resources { cpu: number, cores: number, memory_mb: number, memory_max_mb: number };
            for setting in settings(&resources, &Controller::ALL.into()) {
                let mut numbers = setting.value.split(' ');
                let first = numbers.next().and_then(|it| it.parse::<i64>().ok());
                let first = first.unwrap_or(-1);
                let range = match setting.file.as_str() {
                    "cpu.weight" => 1..=10_000,
                    "cpu.max" => 100_000..=6_553_600_000,
                    "memory.max" => 10 << 20..=i64::MAX,
                    "memory.swap.max" => 0..=0,
                    _ => 4096..=4096,
                };
                assert!(range.contains(&first), "{number}: {setting:?}");
            }
        }
    }
}
