//! Where the host volumes of an allocation are: what the configuration of this node says now.
//!
//! The scheduler has checked the same before it placed the allocation. The agent may have started again with
//! other volumes since: what runs then keeps what it has mounted, and what starts needs what is there.

use std::collections::BTreeMap;

use super::task_mounts::MountTargets;
use nomad_csi_model::{HostVolume, JobVolume, JobVolumeKind, TaskGroup};

/// Returns whether a volume of a group is a host volume.
pub(super) fn is_host_volume(volume: &JobVolume) -> bool {
    matches!(volume.kind, JobVolumeKind::Host { .. })
}

/// Returns the paths of the host volumes of one allocation of a group, or why one cannot be mounted: this node does
/// not have it, or it can only be read and the group writes.
pub(super) fn host_mounts(
    group: &TaskGroup,
    index: u32,
    host_volumes: &BTreeMap<String, HostVolume>,
) -> MountTargets {
    let of_host = group.volumes.iter().filter(|(_, volume)| is_host_volume(volume));
    let mounts = of_host.map(|(alias, volume)| {
        let name = volume.source_of(index);
        let found = match host_volumes.get(name.as_str()) {
            None => Err(format!(
                "this node has no host volume `{name}`; start the agent with `--host-volume {name}=PATH`"
            )),
            Some(host) if host.read_only && !volume.read_only => Err(format!(
                "host volume `{name}` can only be read on this node; set `read_only = true` in the `volume` block"
            )),
            Some(host) => Ok(host.path.clone()),
        };
        (alias.clone(), found)
    });
    mounts.collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use nomad_csi_model::{JobType, VolumeAlias};

    fn mounts(source: &str, read_only: bool, per_alloc: bool) -> Result<Vec<PathBuf>, String> {
        let mut group = TaskGroup::new("g", JobType::Service);
        let volume = JobVolume {
            source: source.to_owned(),
            read_only,
            per_alloc,
            sticky: false,
            kind: JobVolumeKind::Host {
                access_mode: None,
                attachment_mode: None,
                has_mount_options: false,
            },
        };
        group.volumes.insert(VolumeAlias::new("data"), volume);
        let volumes = ["logs=/var/log:ro", "data=/srv/data", "data[1]=/srv/1"];
        let volumes = volumes.map(|text| match text.split_once("[1]=") {
            Some((name, path)) => {
                let (_, volume) = HostVolume::parse(&format!("x={path}")).unwrap();
                (format!("{name}[1]"), volume)
            }
            None => HostVolume::parse(text).unwrap(),
        });
        let found = host_mounts(&group, 1, &volumes.into());
        found.into_values().collect()
    }

    #[test]
    fn a_host_volume_is_found_by_its_name() {
        assert_eq!(mounts("data", false, false), Ok(vec!["/srv/data".into()]));
        assert_eq!(mounts("data", false, true), Ok(vec!["/srv/1".into()]));
        assert_eq!(mounts("logs", true, false), Ok(vec!["/var/log".into()]));
    }

    #[test]
    fn a_missing_or_read_only_host_volume_is_refused() {
        let refused = mounts("other", false, false).unwrap_err();
        assert!(refused.contains("no host volume `other`"), "{refused}");
        let refused = mounts("logs", false, false).unwrap_err();
        assert!(refused.contains("can only be read"), "{refused}");
    }
}
