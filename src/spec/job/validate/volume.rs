//! The rules of a group's volume.

use super::rules::{GroupAt, Rules, first_reference};
use crate::job::place::JobPlace;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{
    AccessMode, AttachmentMode, HostAccessMode, JobVolume, JobVolumeKind, MountOptions, VolumeAlias,
};

impl<'j> Rules<'j> {
    pub(super) fn volume(
        &mut self,
        at: GroupAt<'j, '_>,
        alias: &VolumeAlias,
        volume: &'j JobVolume,
    ) {
        let place = at.place.block("volume", alias.as_str());
        if volume.source.is_empty() {
            let text = "volume has an empty source";
            let label = "add `source`";
            self.error(Code::JobVolumeSource, place.field("source"), text, label);
        }
        if let Some(reference) = first_reference(&volume.source) {
            let text = format!(
                "`source` has the reference `{reference}`, and no node replaces one there, as the volume is claimed before \
                 the task starts"
            );
            let label = "write the ID out, or use `per_alloc` for a volume of each allocation";
            self.error(Code::JobVolumeSource, place.field("source"), text, label);
        }
        self.per_alloc(at, volume, &place);
        match &volume.kind {
            JobVolumeKind::Csi { access_mode, attachment_mode, mount_options } => {
                self.attachment(*attachment_mode, mount_options.as_ref(), &place);
                if mount_options.as_ref().is_some_and(MountOptions::are_redacted) {
                    self.redacted(&place.field("mount_options"), "mount_flags");
                }
                match access_mode {
                    Some(mode) => self.access(at, volume, *mode, &place),
                    None => {
                        let text = "CSI volumes must have an access mode";
                        let place = place.field("access_mode");
                        self.error(Code::JobVolumeMode, place, text, "add `access_mode`");
                    }
                }
                if volume.sticky {
                    let text = "only host volumes can be sticky";
                    let label = "no effect on a CSI volume";
                    self.warning(Code::JobVolumeMode, place.field("sticky"), text, label);
                }
            }
            JobVolumeKind::Host { access_mode, has_mount_options, .. } => {
                self.host(volume, *access_mode, *has_mount_options, &place);
            }
        }
    }

    fn per_alloc(&mut self, at: GroupAt<'_, '_>, volume: &JobVolume, place: &JobPlace) {
        if !volume.per_alloc {
            return;
        }
        let rules = [
            (
                self.job.job_type.is_per_node(),
                "volume cannot be per_alloc for system or sysbatch jobs",
            ),
            (at.group.canaries > 0, "volume cannot be per_alloc when canaries are in use"),
            (volume.sticky, "volume cannot be per_alloc and sticky at the same time"),
        ];
        for (_, text) in rules.into_iter().filter(|(is_broken, _)| *is_broken) {
            self.error(Code::JobPerAlloc, place.field("per_alloc"), text, "");
        }
    }

    fn attachment(
        &mut self,
        mode: Option<AttachmentMode>,
        options: Option<&MountOptions>,
        place: &JobPlace,
    ) {
        match mode {
            None => {
                let text = "CSI volumes must have an attachment mode";
                let place = place.field("attachment_mode");
                self.error(Code::JobVolumeMode, place, text, "add `attachment_mode`");
            }
            Some(AttachmentMode::BlockDevice) if options.is_some() => {
                let text = "block devices cannot have mount options";
                let place = place.field("mount_options");
                self.error(Code::JobVolumeOptions, place, text, "remove this block");
            }
            Some(AttachmentMode::BlockDevice | AttachmentMode::FileSystem) => {}
        }
    }

    /// The number of allocations and their way of use, against the access mode.
    fn access(
        &mut self,
        at: GroupAt<'_, '_>,
        volume: &JobVolume,
        mode: AccessMode,
        place: &JobPlace,
    ) {
        if !mode.allows_writes() && !volume.read_only {
            self.must_be_read_only(mode.as_str(), place);
        }
        let limit = match mode {
            AccessMode::SingleNodeReaderOnly => "one reader",
            AccessMode::SingleNodeWriter => "one reader or writer",
            AccessMode::MultiNodeSingleWriter if !volume.read_only => "one writer",
            AccessMode::MultiNodeSingleWriter
            | AccessMode::MultiNodeReaderOnly
            | AccessMode::MultiNodeMultiWriter => return,
        };
        if volume.per_alloc {
            return;
        }
        let place = place.field("access_mode");
        if at.group.count > 1 {
            let text = format!("volume with {mode} access mode allows only {limit}");
            let label = format!("the group has {} allocations", at.group.count);
            self.error(Code::JobTooManyUsers, place, text, &label);
        } else if at.group.canaries > 0 {
            let text = format!(
                "volume with {mode} access mode allows only {limit}, and a canary would be another"
            );
            let label = "the canary could never start beside the allocation that it replaces";
            self.error(Code::JobTooManyUsers, place, text, label);
        }
    }

    fn must_be_read_only(&mut self, mode: &str, place: &JobPlace) {
        let text = format!("{mode} volumes must be read-only");
        let place = place.field("access_mode");
        self.error(Code::JobVolumeMode, place, text, "add `read_only = true`");
    }

    fn host(
        &mut self,
        volume: &JobVolume,
        mode: Option<HostAccessMode>,
        has_mount_options: bool,
        place: &JobPlace,
    ) {
        if mode == Some(HostAccessMode::SingleNodeReaderOnly) && !volume.read_only {
            self.must_be_read_only(HostAccessMode::SingleNodeReaderOnly.as_str(), place);
        }
        if has_mount_options {
            let text = "host volumes cannot have mount options";
            let place = place.field("mount_options");
            self.error(Code::JobVolumeOptions, place, text, "remove this block");
        }
    }
}
