//! Decodes the volumes of a group. The type decides the access modes.

use super::fields::{FieldReader, Fields, Named};
use super::values::WordSet;
use crate::job::place::JobPlace;
use crate::job::schema;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{
    AccessMode, AttachmentMode, HostAccessMode, JobVolume, JobVolumeKind, MountOptions,
};

/// The type of a volume.
#[derive(Clone, Copy)]
enum VolumeType {
    Csi,
    Host,
}

impl<'t, 'a> FieldReader<'_> {
    /// Decodes a volume; `None` if its type is unknown (W51: Nomad drops such a volume).
    pub(super) fn volume(&mut self, named: &Named<'t, 'a>, place: JobPlace) -> Option<JobVolume> {
        let fields = self.fields(named.object, schema::VOLUME, "a volume of a group", place);
        let volume_type = self.volume_type(&fields, named);
        let (access_mode, host_mode) = match volume_type {
            Some(VolumeType::Csi) => (self.access_mode(&fields), None),
            Some(VolumeType::Host) => (None, self.host_mode(&fields)),
            None => (None, None),
        };
        let attachment_mode = self.attachment_mode(&fields);
        let mount_options = self.mount_options(&fields);
        let kind = match volume_type? {
            VolumeType::Csi => JobVolumeKind::Csi { access_mode, attachment_mode, mount_options },
            VolumeType::Host => JobVolumeKind::Host {
                access_mode: host_mode,
                attachment_mode,
                has_mount_options: mount_options.is_some(),
            },
        };
        Some(JobVolume {
            source: self.text(&fields, "source").unwrap_or_default(),
            read_only: self.boolean(&fields, "read_only").unwrap_or_default(),
            per_alloc: self.boolean(&fields, "per_alloc").unwrap_or_default(),
            sticky: self.boolean(&fields, "sticky").unwrap_or_default(),
            kind,
        })
    }

    fn volume_type(
        &mut self,
        fields: &Fields<'t, 'a>,
        named: &Named<'t, 'a>,
    ) -> Option<VolumeType> {
        if fields.all("type").is_empty() {
            let name = &named.name;
            self.diagnostics.push(
                Diagnostic::error(
                    Code::SpecMissingField,
                    format!("`type` of volume `{name}` is missing"),
                )
                .label(named.header, "add `type = \"csi\"` or `type = \"host\"`")
                .note("Nomad drops a volume without a type and reports nothing"),
            );
            return None;
        }
        let set = WordSet {
            code: Code::JobUnknownWord,
            kind: "volume type",
            words: vec![("csi", VolumeType::Csi), ("host", VolumeType::Host)],
        };
        self.word(fields, "type", &set)
    }

    fn access_mode(&mut self, fields: &Fields<'t, 'a>) -> Option<AccessMode> {
        let set = WordSet::of(
            Code::SpecUnknownAccessMode,
            "access mode",
            &AccessMode::ALL,
            AccessMode::as_str,
        );
        self.word(fields, "access_mode", &set)
    }

    fn host_mode(&mut self, fields: &Fields<'t, 'a>) -> Option<HostAccessMode> {
        let set = WordSet::of(
            Code::JobVolumeMode,
            "access mode of a host volume",
            HostAccessMode::ALL,
            HostAccessMode::as_str,
        );
        self.word(fields, "access_mode", &set)
    }

    fn attachment_mode(&mut self, fields: &Fields<'t, 'a>) -> Option<AttachmentMode> {
        let set = WordSet::of(
            Code::SpecUnknownAttachmentMode,
            "attachment mode",
            &AttachmentMode::ALL,
            AttachmentMode::as_str,
        );
        self.word(fields, "attachment_mode", &set)
    }

    fn mount_options(&mut self, fields: &Fields<'t, 'a>) -> Option<MountOptions> {
        let object = self.single_block(fields, "mount_options")?;
        let place = fields.place.clone();
        let options = self.fields(object, schema::MOUNT_OPTIONS, "`mount_options`", place);
        Some(MountOptions {
            fs_type: self.text(&options, "fs_type").unwrap_or_default(),
            mount_flags: self.text_list(&options, "mount_flags").unwrap_or_default(),
        })
    }
}
