//! Secrets and mount flags: sealed before they are recorded, opened for calls and comparisons.
//!
//! Of a volume context, the values are sealed that contain a secret which was sent with the call. Every value of a
//! publish context is sealed. A sealed value is a text in the same map ([`SealedSecrets::to_text`]), so that
//! records keep their form; a clear one of an earlier version stays readable.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::ServerError;
use crate::sealer::{SealError, Sealer};
use nomad_csi_claims::claim::{ClaimUsage, SealedFlags};
use nomad_csi_claims::state::{
    RecordedFlags, RecordedMountOptions, VolumeDefinition, VolumeRecord,
};
use nomad_csi_model::{
    MountOptions, NamespacedId, PublishContext, RemoteVolume, SealedSecrets, SecretOwner,
    SecretValues, Secrets, Usage, Volume, VolumeRequest,
};

/// Seals and opens what is secret of a volume. A clone uses the same key.
#[derive(Clone)]
pub(crate) struct VolumeSealer(Arc<dyn Sealer>);

impl VolumeSealer {
    pub(crate) fn new(sealer: Arc<dyn Sealer>) -> Self {
        Self(sealer)
    }

    pub(crate) fn seal(&self, key: &NamespacedId, secrets: &Secrets) -> SealedSecrets {
        self.0.seal(&key.into(), secrets)
    }

    fn open(&self, volume: &NamespacedId, sealed: &SealedSecrets) -> Result<Secrets, ServerError> {
        let owner = SecretOwner::from(volume);
        let secrets = self.0.open(&owner, sealed);
        secrets.map_err(|error| ServerError::Secrets { owner, error })
    }

    /// The recorded secrets of a volume.
    pub(crate) fn secrets_of(&self, record: &VolumeRecord) -> Result<Secrets, ServerError> {
        self.open(record.key(), &record.secrets)
    }

    /// The definition of a new volume.
    pub(crate) fn definition(&self, request: &VolumeRequest) -> VolumeDefinition {
        let options = self.seal_mount_options(&request.key(), request.mount_options.as_ref());
        VolumeDefinition::new(request, options)
    }

    /// The definition of an updated volume. Sealed mount options that did not change from `before`
    /// keep their sealed form.
    pub(crate) fn updated_definition(
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

    /// Returns whether a request has exactly the recorded definition.
    pub(crate) fn is_definition_of(
        &self,
        request: &VolumeRequest,
        recorded: &VolumeDefinition,
    ) -> Result<bool, ServerError> {
        let desired = VolumeDefinition::new(request, recorded.mount_options.clone());
        Ok(desired == *recorded && request.mount_options == self.mount_options_of(recorded)?)
    }

    /// The recorded mount options with their flags opened.
    pub(crate) fn mount_options_of(
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
        Ok(Some(MountOptions { fs_type: options.fs_type.clone(), mount_flags }))
    }

    /// Seals the flags of a claim so that they can be compared.
    pub(crate) fn seal_flags(&self, volume: &NamespacedId, flags: &[String]) -> SealedFlags {
        let flags = keyed_by_position(flags);
        SealedFlags { sealed: self.seal(volume, &flags), fingerprint: self.0.fingerprint(&flags) }
    }

    /// Returns the keyed fingerprint of a request for a volume: equal only for requests that send the same for the same one.
    /// The names and texts of facts are stored in effect: another text passes for another request.
    pub(crate) fn request_fingerprint(
        &self,
        volume: &NamespacedId,
        facts: impl IntoIterator<Item = (String, String)>,
        secrets: &Secrets,
    ) -> String {
        let NamespacedId { namespace, id } = volume;
        let own = [("namespace", namespace.to_string()), ("ID", id.to_string())];
        let own = own.map(|(name, value)| (format!("volume {name}"), value));
        let facts = facts.into_iter().map(|(name, value)| (format!("fact {name}"), value));
        let secrets = secrets.expose();
        let secrets = secrets.map(|(name, value)| (format!("secret {name}"), value.to_owned()));
        self.0.fingerprint(&own.into_iter().chain(facts).chain(secrets).collect())
    }

    /// The usage of a claim with its flags opened.
    pub(crate) fn open_usage(
        &self,
        volume: &NamespacedId,
        usage: &ClaimUsage,
    ) -> Result<Usage, ServerError> {
        let flags = self.open(volume, &usage.flags.sealed)?;
        let mount_flags = flags.expose().map(|(_, flag)| flag.to_owned()).collect();
        Ok(Usage {
            capability: usage.capability,
            mount_options: MountOptions { fs_type: usage.fs_type.clone(), mount_flags },
        })
    }

    /// Secrets that were sealed for a volume.
    pub(crate) fn open_secrets(
        &self,
        volume: &NamespacedId,
        sealed: &SealedSecrets,
    ) -> Result<Secrets, ServerError> {
        self.open(volume, sealed)
    }

    /// Seals the values of a volume context that contain a secret of the call, or look sealed.
    pub(crate) fn seal_volume_context(
        &self,
        volume: &RemoteVolume,
        context: BTreeMap<String, String>,
        sent: (&Secrets, &MountOptions),
    ) -> BTreeMap<String, String> {
        let mut values = SecretValues::default();
        let (secrets, options) = sent;
        secrets.expose().for_each(|(_, value)| values.add(value));
        options.mount_flags.iter().for_each(|flag| values.add(flag));
        let is_secret =
            |value: &str| SealedSecrets::is_text(value) || values.hidden_in(value).is_some();
        self.seal_values(volume, context, is_secret)
    }

    /// Seals the values of a recorded volume context that are in clear and contain a secret.
    pub(crate) fn seal_clear_context(
        &self,
        volume: &RemoteVolume,
        context: BTreeMap<String, String>,
        sent: (&Secrets, &MountOptions),
    ) -> BTreeMap<String, String> {
        let (sealed, clear) = split_sealed(context);
        let mut context = self.seal_volume_context(volume, clear, sent);
        context.extend(sealed);
        context
    }

    /// Seals the values of a recorded publish context that are in clear.
    pub(crate) fn seal_clear_publish_context(
        &self,
        volume: &RemoteVolume,
        context: PublishContext,
    ) -> PublishContext {
        let (sealed, clear) = split_sealed(context);
        let mut context = self.seal_publish_context(volume, clear);
        context.extend(sealed);
        context
    }

    /// Seals mount flags that the first versions recorded in clear.
    pub(crate) fn seal_clear_flags(&self, definition: &mut VolumeDefinition) {
        if let Some(options) = &mut definition.mount_options
            && let RecordedFlags::Clear(flags) = &options.mount_flags
        {
            let flags = keyed_by_position(flags);
            options.mount_flags = RecordedFlags::Sealed(self.seal(&definition.key, &flags));
        }
    }

    /// Seals a publish context.
    pub(crate) fn seal_publish_context(
        &self,
        volume: &RemoteVolume,
        context: PublishContext,
    ) -> PublishContext {
        self.seal_values(volume, context, |_| true)
    }

    fn seal_values(
        &self,
        volume: &RemoteVolume,
        context: BTreeMap<String, String>,
        is_secret: impl Fn(&str) -> bool,
    ) -> BTreeMap<String, String> {
        let owner = SecretOwner::External(volume.clone());
        let entries = context.into_iter().map(|(key, value)| {
            let value = match is_secret(&value) {
                true => {
                    let one = Secrets::from_iter([(key.as_str(), value)]);
                    self.0.seal(&owner, &one).to_text()
                }
                false => value,
            };
            (key, value)
        });
        entries.collect()
    }

    /// Opens the sealed values of a context.
    pub(crate) fn open_context(
        &self,
        volume: &RemoteVolume,
        context: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, ServerError> {
        let owner = SecretOwner::External(volume.clone());
        let failed = |error| ServerError::Secrets { owner: owner.clone(), error };
        let entries = context.iter().map(|(key, value)| {
            let value = match SealedSecrets::from_text(value) {
                None => value.clone(),
                Some(sealed) => {
                    let sealed = sealed.map_err(|_| failed(SealError))?;
                    let opened = self.0.open(&owner, &sealed).map_err(failed)?;
                    let found = opened.expose().find(|(sealed_for, _)| sealed_for == key);
                    let (_, value) = found.ok_or_else(|| failed(SealError))?;
                    value.to_owned()
                }
            };
            Ok((key.clone(), value))
        });
        entries.collect()
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

/// The sealed values of a context, and those in clear.
fn split_sealed(
    context: BTreeMap<String, String>,
) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let entries = context.into_iter();
    entries.partition(|(_, value)| SealedSecrets::is_text(value))
}

fn keyed_by_position(flags: &[String]) -> Secrets {
    let flags = flags.iter().enumerate();
    flags.map(|(position, flag)| (format!("{position:08}"), flag.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeSealer;

    /// Otherwise equal fingerprints tell who reads the state which volumes have the same secrets.
    #[test]
    fn equal_requests_for_two_volumes_have_different_fingerprints() {
        let sealer = VolumeSealer::new(Arc::new(FakeSealer::default()));
        let secrets: Secrets = [("token".to_owned(), "s3cret")].into_iter().collect();
        let of = |namespace: &str, id: &str, topology: &str| {
            let key = NamespacedId { namespace: namespace.into(), id: id.into() };
            let facts = [("topology".to_owned(), topology.to_owned())];
            sealer.request_fingerprint(&key, facts, &secrets)
        };
        let one = of("default", "db", "true");
        assert_eq!(one, of("default", "db", "true"));
        for other in
            [of("default", "web", "true"), of("prod", "db", "true"), of("default", "db", "false")]
        {
            assert_ne!(one, other);
        }
    }
}
