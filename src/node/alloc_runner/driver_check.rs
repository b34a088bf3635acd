//! Decides whether the drivers of this node can run the tasks of a group, before any volume is claimed (B77 to B79).

use std::collections::BTreeMap;

use super::super::task_program::driver_names;
use nomad_csi_model::{JobVolume, MountConfig, TaskGroup};

/// Returns why this node cannot run the group: a driver that it does not have, or one that cannot mount volumes.
pub(super) fn driver_problems(
    group: &TaskGroup,
    drivers: &BTreeMap<String, MountConfig>,
) -> Vec<String> {
    let mut problems = vec![];
    for task in &group.tasks {
        let (name, driver) = (&task.name, &task.driver);
        match drivers.get(driver) {
            None => problems.push(format!(
                "task `{name}` uses driver `{driver}`, which this agent does not have; it has {}",
                driver_names(drivers)
            )),
            Some(MountConfig::None) if !task.volume_mounts.is_empty() => problems.push(format!(
                "task driver \"{driver}\" for \"{name}\" does not support {}; use driver `exec`",
                group.kind_of_mounts(task)
            )),
            Some(MountConfig::None | MountConfig::All) => {}
        }
    }
    let has_csi_volume = group.volumes.values().any(JobVolume::is_csi);
    let can_mount = |name: &str| drivers.get(name) == Some(&MountConfig::All);
    let is_supported = group.tasks.iter().any(|task| can_mount(&task.driver));
    if problems.is_empty() && has_csi_volume && !is_supported {
        let group = &group.name;
        problems.push(format!(
            "no task supports CSI, and group `{group}` has volumes; use driver `exec`"
        ));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::{
        JobType, JobVolumeKind, PropagationMode, RestartPolicy, Task, VolumeMount,
    };

    fn group(tasks: &[(&str, bool)], has_volume: bool) -> TaskGroup {
        let mut group = TaskGroup::new("g", JobType::Service);
        if has_volume {
            let volume = JobVolume {
                source: "db".to_owned(),
                read_only: false,
                per_alloc: false,
                sticky: false,
                kind: JobVolumeKind::Csi {
                    access_mode: None,
                    attachment_mode: None,
                    mount_options: None,
                },
            };
            group.volumes.insert("data".into(), volume);
        }
        for (driver, mounts) in tasks {
            let policy = RestartPolicy::of_type(JobType::Service);
            let mut task = Task::new("web", *driver, policy);
            task.volume_mounts.extend(mounts.then(|| VolumeMount {
                volume: "data".into(),
                destination: "/data".to_owned(),
                read_only: false,
                propagation_mode: PropagationMode::Private,
                selinux_label: None,
            }));
            group.tasks.push(task);
        }
        group
    }

    fn check(tasks: &[(&str, bool)], has_volume: bool) -> Vec<String> {
        let drivers = [
            ("exec", MountConfig::All),
            // B77: a driver that does not say what it can mount.
            ("other", MountConfig::default()),
            ("raw_exec", MountConfig::None),
        ];
        let drivers = drivers.map(|(name, mounts)| (name.to_owned(), mounts));
        driver_problems(&group(tasks, has_volume), &drivers.into())
    }

    /// B77, B78, B79: an answer of a driver counts, and no answer means that it can mount.
    #[test]
    fn a_driver_that_cannot_mount_is_refused_if_the_group_has_volumes() {
        let by_name =
            "task driver \"raw_exec\" for \"web\" does not support CSI; use driver `exec`";
        let by_group = "no task supports CSI, and group `g` has volumes; use driver `exec`";
        for (tasks, has_volume, expected) in [
            (&[("exec", true)][..], true, vec![]),
            (&[("other", true)], true, vec![]),
            (&[("raw_exec", false)], false, vec![]),
            (&[("raw_exec", false), ("exec", true)], true, vec![]),
            (&[("raw_exec", false)], true, vec![by_group]),
            (&[("raw_exec", true), ("exec", true)], true, vec![by_name]),
        ] {
            assert_eq!(check(tasks, has_volume), expected, "{tasks:?} {has_volume}");
        }
    }

    /// B79: the text for host volumes is another one.
    #[test]
    fn a_host_volume_needs_a_driver_that_can_mount_as_well() {
        let mut group = group(&[("raw_exec", true)], true);
        for volume in group.volumes.values_mut() {
            volume.kind = JobVolumeKind::Host {
                access_mode: None,
                attachment_mode: None,
                has_mount_options: false,
            };
        }
        let drivers = [("raw_exec".to_owned(), MountConfig::None)];
        let expected =
            "task driver \"raw_exec\" for \"web\" does not support host volumes; use driver `exec`";
        assert_eq!(driver_problems(&group, &drivers.into()), [expected]);
    }

    #[test]
    fn a_driver_that_the_agent_does_not_have_is_named_with_those_it_has() {
        let expected = "task `web` uses driver `docker`, which this agent does not have; it has `exec`, `other`, \
                        `raw_exec`";
        assert_eq!(check(&[("docker", false)], false), [expected]);
    }
}
