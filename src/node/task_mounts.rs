//! The mounts of a task: one for each of its `volume_mount`s (B81).
//!
//! A mount is read-only if the group's volume or the `volume_mount` says so. The target path of a block volume is a
//! device node, which a task can write to on a read-only mount, so `read_only` on a block volume is refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::interpolation::Interpolation;
use crate::task_run::TaskMount;
use nomad_csi_model::{
    AttachmentMode, JobVolume, JobVolumeKind, SHARED_DIRECTORY, Task, TaskGroup, VolumeAlias,
    VolumeMount, shared_mount_around,
};
use nomad_csi_ports::SourceIdentity;

/// Returns why the mounts of a task can never be made, if so.
pub(super) fn mount_problem(task: &Task, group: &TaskGroup) -> Option<String> {
    let problem = |mount: &VolumeMount| {
        let Some(volume) = group.volumes.get(&mount.volume) else {
            return Some(format!(
                "task `{}` mounts volume `{}`, which group `{}` does not have",
                task.name, mount.volume, group.name
            ));
        };
        (is_block_device(volume) && is_read_only(volume, mount)).then(|| {
            format!(
                "task `{}` mounts block volume `{}` with `read_only`, but a task can write to a block device on a \
                 read-only mount; remove `read_only` from the volume and its `volume_mount`",
                task.name, mount.volume
            )
        })
    };
    task.volume_mounts.iter().find_map(problem)
}

/// Returns why a volume would be mounted where other tasks can take it away, if so.
pub(super) fn nested_mount_problem(task: &Task, interpolation: &Interpolation) -> Option<String> {
    let mounts = task.volume_mounts.iter();
    let destinations: Vec<_> =
        mounts.map(|mount| absolute(&interpolation.text(&mount.destination))).collect();
    let problem = |(mount, destination): (&VolumeMount, &PathBuf)| {
        let others = destinations.iter().map(PathBuf::as_path);
        let around = others.chain([Path::new(SHARED_DIRECTORY)]);
        let around = shared_mount_around(destination, around)?;
        let (volume, destination, around) =
            (&mount.volume, destination.display(), around.display());
        Some(format!(
            "volume `{volume}` cannot be mounted at `{destination}`: it is inside of `{around}`, which other tasks can \
             change, and one that removes its directory there unmounts the volume; choose a destination outside of \
             `{around}`, such as `/data`"
        ))
    };
    task.volume_mounts.iter().zip(&destinations).find_map(problem)
}

/// Where the volumes of an allocation are mounted, or why one is not.
pub(super) type MountTargets = BTreeMap<VolumeAlias, Result<PathBuf, String>>;

/// The identities of the mounts at the targets of the CSI volumes of a task.
pub(super) type MountSources = BTreeMap<VolumeAlias, SourceIdentity>;

/// The volumes of a task, as it starts with them.
#[derive(Clone, Copy)]
pub(super) struct MountedVolumes<'a> {
    /// Where they are.
    pub(super) targets: &'a MountTargets,
    /// The identities that the sources must have.
    pub(super) sources: &'a MountSources,
}

/// Returns the mounts of a task whose volumes are mounted like this.
///
/// # Errors
/// If a volume of the task is not mounted.
pub(super) fn task_mounts(
    task: &Task,
    group: &TaskGroup,
    mounted: &MountedVolumes<'_>,
    interpolation: &Interpolation,
) -> Result<Vec<TaskMount>, String> {
    let mounts = task.volume_mounts.iter().map(|mount| {
        let found = group.volumes.get(&mount.volume).zip(mounted.targets.get(&mount.volume));
        let (volume, target) = found
            .ok_or_else(|| format!("No CSI Mount Point found for volume: {}", mount.volume))?;
        Ok(TaskMount {
            source: target.clone()?,
            destination: absolute(&interpolation.text(&mount.destination)),
            read_only: is_read_only(volume, mount),
            propagation: mount.propagation_mode,
            identity: mounted.sources.get(&mount.volume).cloned(),
        })
    });
    mounts.collect()
}

/// Returns a destination as an absolute path: a relative one starts at the root of the task.
fn absolute(destination: &str) -> PathBuf {
    Path::new("/").join(destination)
}

fn is_read_only(volume: &JobVolume, mount: &VolumeMount) -> bool {
    volume.read_only || mount.read_only
}

fn is_block_device(volume: &JobVolume) -> bool {
    let attachment_mode = match &volume.kind {
        JobVolumeKind::Csi { attachment_mode, .. }
        | JobVolumeKind::Host { attachment_mode, .. } => attachment_mode,
    };
    *attachment_mode == Some(AttachmentMode::BlockDevice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::{JobType, PropagationMode, RestartPolicy};

    fn group(attachment_mode: AttachmentMode, read_only: bool) -> TaskGroup {
        let mut group = TaskGroup::new("g", JobType::Service);
        for (alias, read_only) in [("data", read_only), ("unused", false)] {
            let volume = JobVolume {
                source: "db".to_owned(),
                read_only,
                per_alloc: false,
                sticky: false,
                kind: JobVolumeKind::Csi {
                    access_mode: None,
                    attachment_mode: Some(attachment_mode),
                    mount_options: None,
                },
            };
            group.volumes.insert(alias.into(), volume);
        }
        group
    }

    fn task(mounts: &[(&str, bool)]) -> Task {
        let mut task = Task::new("web", "exec", RestartPolicy::of_type(JobType::Service));
        task.volume_mounts = mounts
            .iter()
            .map(|(destination, read_only)| VolumeMount {
                volume: "data".into(),
                destination: (*destination).to_owned(),
                read_only: *read_only,
                propagation_mode: PropagationMode::HostToTask,
                selinux_label: None,
            })
            .collect();
        task
    }

    fn mounts_of(
        task: &Task,
        group: &TaskGroup,
        targets: &MountTargets,
        interpolation: &Interpolation,
    ) -> Result<Vec<TaskMount>, String> {
        let mounted = MountedVolumes { targets, sources: &sources() };
        task_mounts(task, group, &mounted, interpolation)
    }

    fn sources() -> MountSources {
        let source = SourceIdentity { mount: None, device_node: Some("8:1".to_owned()) };
        [("data".into(), source)].into()
    }

    fn targets() -> MountTargets {
        [("data", "/targets/data"), ("unused", "/targets/unused")]
            .map(|(alias, path)| (alias.into(), Ok(path.into())))
            .into()
    }

    /// B81: one mount for each `volume_mount`, none for a volume that the task does not use, and the same ones again.
    #[test]
    fn every_volume_mount_becomes_one_mount_and_read_only_is_the_or_of_both() {
        let index = ("NOMAD_ALLOC_INDEX".to_owned(), "2".to_owned());
        let interpolation = Interpolation::new([index]);
        for volume_read_only in [false, true] {
            let group = group(AttachmentMode::FileSystem, volume_read_only);
            let task = task(&[("/one/${NOMAD_ALLOC_INDEX}", false), ("two", true)]);
            let mounts = mounts_of(&task, &group, &targets(), &interpolation);
            let expected =
                [("/one/2", volume_read_only), ("/two", true)].map(|(destination, read_only)| {
                    TaskMount {
                        source: "/targets/data".into(),
                        destination: destination.into(),
                        read_only,
                        propagation: PropagationMode::HostToTask,
                        identity: sources().get(&VolumeAlias::from("data")).cloned(),
                    }
                });
            assert_eq!(mounts, Ok(expected.to_vec()));
            let again = mounts_of(&task, &group, &targets(), &interpolation);
            assert_eq!(again, mounts);
            assert_eq!(mount_problem(&task, &group), None);
        }
    }

    /// B81: a volume that is not mounted has Nomad's text, unless the reason is known.
    #[test]
    fn a_volume_that_is_not_mounted_is_named() {
        let group = group(AttachmentMode::FileSystem, false);
        let refused = Err("this node has it no longer".to_owned());
        for (targets, expected) in [
            (MountTargets::new(), "No CSI Mount Point found for volume: data"),
            ([("data".into(), refused)].into(), "this node has it no longer"),
        ] {
            let task = task(&[("/data", false)]);
            let mounts = mounts_of(&task, &group, &targets, &Interpolation::default());
            assert_eq!(mounts, Err(expected.to_owned()));
        }
    }

    #[test]
    fn read_only_on_a_block_volume_is_refused_in_words() {
        for (volume, mount, is_refused) in
            [(false, false, false), (true, false, true), (false, true, true)]
        {
            let group = group(AttachmentMode::BlockDevice, volume);
            let problem = mount_problem(&task(&[("/dev/data", mount)]), &group);
            let expected = "task `web` mounts block volume `data` with `read_only`, but a task can write to a block \
                            device on a read-only mount; remove `read_only` from the volume and its `volume_mount`";
            assert_eq!(problem, is_refused.then(|| expected.to_owned()));
        }
    }

    #[test]
    fn a_volume_in_a_directory_of_other_tasks_is_refused_in_words() {
        let shared = ("NOMAD_ALLOC_DIR".to_owned(), "/alloc".to_owned());
        let values = Interpolation::new([shared]);
        for (destinations, refused) in [
            (["/data", "${NOMAD_ALLOC_DIR}/data/db"], Some(("/alloc/data/db", "/alloc"))),
            (["/data", "data/./db/"], Some(("/data/./db/", "/data"))),
            (["/data", "/database"], None),
            (["/local/db", "/secrets/db"], None),
        ] {
            let task = task(&destinations.map(|one| (one, false)));
            let problem = nested_mount_problem(&task, &values);
            let expected = refused.map(|(destination, around)| {
                format!(
                    "volume `data` cannot be mounted at `{destination}`: it is inside of `{around}`, which other tasks can \
                     change, and one that removes its directory there unmounts the volume; choose a destination \
                     outside of `{around}`, such as `/data`"
                )
            });
            assert_eq!(problem, expected);
        }
    }

    #[test]
    fn a_volume_that_the_group_does_not_have_is_named() {
        let group = TaskGroup::new("g", JobType::Service);
        let problem = mount_problem(&task(&[("/data", false)]), &group);
        let expected = "task `web` mounts volume `data`, which group `g` does not have";
        assert_eq!(problem.as_deref(), Some(expected));
    }
}
