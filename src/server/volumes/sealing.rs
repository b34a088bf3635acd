//! Secrets and mount flags: sealed before they are recorded, opened for calls and comparisons.

use std::sync::Arc;

use crate::model::{
    MountOptions, NamespacedId, SealedSecrets, SecretOwner, Secrets, Volume, VolumeRequest,
};
use crate::ports::Sealer;
use crate::server::error::ServerError;
use crate::state::{RecordedFlags, RecordedMountOptions, VolumeDefinition, VolumeRecord};

/// Seals and opens what is secret of a volume. A clone uses the same key.
#[derive(Clone)]
pub(super) struct VolumeSealer(Arc<dyn Sealer>);

impl VolumeSealer {
    pub(super) fn new(sealer: Arc<dyn Sealer>) -> Self {
        Self(sealer)
    }

    pub(super) fn seal(&self, key: &NamespacedId, secrets: &Secrets) -> SealedSecrets {
        self.0.seal(&key.into(), secrets)
    }

    fn open(&self, volume: &NamespacedId, sealed: &SealedSecrets) -> Result<Secrets, ServerError> {
        let owner = SecretOwner::from(volume);
        let secrets = self.0.open(&owner, sealed);
        secrets.map_err(|error| ServerError::Secrets { owner, error })
    }

    /// The recorded secrets of a volume.
    pub(super) fn secrets_of(&self, record: &VolumeRecord) -> Result<Secrets, ServerError> {
        self.open(record.key(), &record.secrets)
    }

    /// The definition of a new volume.
    pub(super) fn definition(&self, request: &VolumeRequest) -> VolumeDefinition {
        let options = self.seal_mount_options(&request.key(), request.mount_options.as_ref());
        VolumeDefinition::new(request, options)
    }

    /// The definition of an updated volume. Sealed mount options that did not change from `before`
    /// keep their sealed form.
    pub(super) fn updated_definition(
        &self,
        volume: &Volume,
        before: Option<&MountOptions>,
        recorded: &VolumeDefinition,
    ) -> VolumeDefinition {
        let is_sealed = |options: &RecordedMountOptions| match options.mount_flags {
            RecordedFlags::Sealed(_) => true,
            RecordedFlags::Clear(_) => false,
        };
        let is_same = volume.mount_options.as_ref() == before;
        let sealed = recorded.mount_options.clone().filter(is_sealed);
        let options = match sealed {
            Some(options) if is_same => Some(options),
            Some(_) | None => self.seal_mount_options(&volume.key(), volume.mount_options.as_ref()),
        };
        VolumeDefinition::of(volume, options)
    }

    /// Whether a request has exactly the recorded definition.
    pub(super) fn is_definition_of(
        &self,
        request: &VolumeRequest,
        recorded: &VolumeDefinition,
    ) -> Result<bool, ServerError> {
        let wanted = VolumeDefinition::new(request, recorded.mount_options.clone());
        Ok(wanted == *recorded && request.mount_options == self.mount_options_of(recorded)?)
    }

    /// The recorded mount options with their flags opened.
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

    /// Seals flags as secrets that are keyed by position, because `mount(8)` may depend on the order.
    fn seal_mount_options(
        &self,
        volume: &NamespacedId,
        options: Option<&MountOptions>,
    ) -> Option<RecordedMountOptions> {
        let options = options?;
        let flags = options.mount_flags.iter().enumerate();
        let flags: Secrets = flags
            .map(|(position, flag)| (format!("{position:08}"), flag.as_str()))
            .collect();
        Some(RecordedMountOptions {
            fs_type: options.fs_type.clone(),
            mount_flags: RecordedFlags::Sealed(self.seal(volume, &flags)),
        })
    }
}
