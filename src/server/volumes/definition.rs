//! What a request asks, as it is recorded: mount flags are sealed on the way in, and opened for the
//! calls and comparisons that need them.

use super::desk::Desk;
use crate::model::{MountOptions, NamespacedId, Secrets, Volume, VolumeRequest};
use crate::server::error::ServerError;
use crate::state::{RecordedFlags, RecordedMountOptions, VolumeDefinition};

impl Desk {
    /// A new volume's definition.
    pub(super) fn definition(&self, request: &VolumeRequest) -> VolumeDefinition {
        let options = self.recorded(&request.key(), request.mount_options.as_ref());
        VolumeDefinition::new(request, options)
    }

    /// A volume's definition after an update; options that are as they `were` stay as they are
    /// recorded, if they are sealed.
    pub(super) fn updated_definition(
        &self,
        volume: &Volume,
        were: Option<&MountOptions>,
        recorded: &VolumeDefinition,
    ) -> VolumeDefinition {
        let is_sealed = |options: &RecordedMountOptions| match options.mount_flags {
            RecordedFlags::Sealed(_) => true,
            RecordedFlags::Clear(_) => false,
        };
        let same = volume.mount_options.as_ref() == were;
        let kept = recorded.mount_options.clone().filter(is_sealed);
        let options = match kept {
            Some(options) if same => Some(options),
            Some(_) | None => self.recorded(&volume.key(), volume.mount_options.as_ref()),
        };
        VolumeDefinition::of(volume, options)
    }

    /// Whether a request asks for exactly what is recorded.
    pub(super) fn asks_for(
        &self,
        request: &VolumeRequest,
        recorded: &VolumeDefinition,
    ) -> Result<bool, ServerError> {
        let wanted = VolumeDefinition::new(request, recorded.mount_options.clone());
        Ok(wanted == *recorded && request.mount_options == self.mount_options_of(recorded)?)
    }

    /// Recorded mount options, their flags in the clear.
    pub(super) fn mount_options_of(
        &self,
        definition: &VolumeDefinition,
    ) -> Result<Option<MountOptions>, ServerError> {
        let Some(options) = &definition.mount_options else {
            return Ok(None);
        };
        let mount_flags = match &options.mount_flags {
            RecordedFlags::Clear(flags) => flags.clone(),
            RecordedFlags::Sealed(sealed) => {
                let opened = self.open(&definition.key, sealed)?;
                opened.expose().map(|(_, flag)| flag.to_owned()).collect()
            }
        };
        Ok(Some(MountOptions {
            fs_type: options.fs_type.clone(),
            mount_flags,
        }))
    }

    /// Flags are sealed as secrets whose keys are their places: their order may matter to mount(8).
    fn recorded(
        &self,
        volume: &NamespacedId,
        options: Option<&MountOptions>,
    ) -> Option<RecordedMountOptions> {
        let options = options?;
        let flags = options.mount_flags.iter().enumerate();
        let flags: Secrets = flags
            .map(|(place, flag)| (format!("{place:08}"), flag.as_str()))
            .collect();
        Some(RecordedMountOptions {
            fs_type: options.fs_type.clone(),
            mount_flags: RecordedFlags::Sealed(self.seal(volume, &flags)),
        })
    }
}
