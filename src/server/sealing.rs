//! Secrets and mount flags: sealed before they are recorded, opened for calls and comparisons.

use std::sync::Arc;

use crate::claim::{ClaimUsage, SealedFlags};
use crate::model::{
    MountOptions, NamespacedId, SealedSecrets, SecretOwner, Secrets, Usage, Volume, VolumeRequest,
};
use crate::ports::Sealer;
use crate::server::error::ServerError;
use crate::state::{RecordedFlags, RecordedMountOptions, VolumeDefinition, VolumeRecord};

/// Seals and opens what is secret of a volume. A clone uses the same key.
#[derive(Clone)]
pub(in crate::server) struct VolumeSealer(Arc<dyn Sealer>);

impl VolumeSealer {
    pub(in crate::server) fn new(sealer: Arc<dyn Sealer>) -> Self {
        Self(sealer)
    }

    pub(in crate::server) fn seal(&self, key: &NamespacedId, secrets: &Secrets) -> SealedSecrets {
        self.0.seal(&key.into(), secrets)
    }

    fn open(&self, volume: &NamespacedId, sealed: &SealedSecrets) -> Result<Secrets, ServerError> {
        let owner = SecretOwner::from(volume);
        let secrets = self.0.open(&owner, sealed);
        secrets.map_err(|error| ServerError::Secrets { owner, error })
    }

    /// The recorded secrets of a volume.
    pub(in crate::server) fn secrets_of(
        &self,
        record: &VolumeRecord,
    ) -> Result<Secrets, ServerError> {
        self.open(record.key(), &record.secrets)
    }

    /// The definition of a new volume.
    pub(in crate::server) fn definition(&self, request: &VolumeRequest) -> VolumeDefinition {
        let options = self.seal_mount_options(&request.key(), request.mount_options.as_ref());
        VolumeDefinition::new(request, options)
    }

    /// The definition of an updated volume. Sealed mount options that did not change from `before`
    /// keep their sealed form.
    pub(in crate::server) fn updated_definition(
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
    pub(in crate::server) fn is_definition_of(
        &self,
        request: &VolumeRequest,
        recorded: &VolumeDefinition,
    ) -> Result<bool, ServerError> {
        let wanted = VolumeDefinition::new(request, recorded.mount_options.clone());
        Ok(wanted == *recorded && request.mount_options == self.mount_options_of(recorded)?)
    }

    /// The recorded mount options with their flags opened.
    pub(in crate::server) fn mount_options_of(
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

    /// Seals the flags of a claim so that they can be compared.
    pub(in crate::server) fn seal_flags(
        &self,
        volume: &NamespacedId,
        flags: &[String],
    ) -> SealedFlags {
        let flags = keyed_by_position(flags);
        SealedFlags {
            sealed: self.seal(volume, &flags),
            fingerprint: self.0.fingerprint(&flags),
        }
    }

    /// The usage of a claim with its flags opened.
    pub(in crate::server) fn open_usage(
        &self,
        volume: &NamespacedId,
        usage: &ClaimUsage,
    ) -> Result<Usage, ServerError> {
        let flags = self.open(volume, &usage.flags.sealed)?;
        let mount_flags = flags.expose().map(|(_, flag)| flag.to_owned()).collect();
        Ok(Usage {
            capability: usage.capability,
            mount_options: MountOptions {
                fs_type: usage.fs_type.clone(),
                mount_flags,
            },
        })
    }

    /// Secrets that were sealed for a volume.
    pub(in crate::server) fn open_secrets(
        &self,
        volume: &NamespacedId,
        sealed: &SealedSecrets,
    ) -> Result<Secrets, ServerError> {
        self.open(volume, sealed)
    }

    /// Seals flags as secrets that are keyed by position, because `mount(8)` may depend on the order.
    fn seal_mount_options(
        &self,
        volume: &NamespacedId,
        options: Option<&MountOptions>,
    ) -> Option<RecordedMountOptions> {
        let options = options?;
        let flags = keyed_by_position(&options.mount_flags);
        Some(RecordedMountOptions {
            fs_type: options.fs_type.clone(),
            mount_flags: RecordedFlags::Sealed(self.seal(volume, &flags)),
        })
    }
}

fn keyed_by_position(flags: &[String]) -> Secrets {
    let flags = flags.iter().enumerate();
    flags
        .map(|(position, flag)| (format!("{position:08}"), flag.as_str()))
        .collect()
}
