//! Seals what earlier versions recorded in clear: mount flags of volumes and jobs, publish contexts, volume contexts
//! with secrets, and secrets in the texts of plugins and drivers.
//!
//! A state is sealed as a whole, into a snapshot that replaces the journal. What cannot be opened with the key stays as it
//! is: its secrets are unknown, and the agent reports the key where it is used.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::jobs::JobSealer;
use super::sealing::VolumeSealer;
use crate::sealer::Sealer;
use nomad_csi_claims::state::{
    AllocRecord, ClaimsRecord, JobVersion, Shared, SnapshotChanges, State, StoredRecord,
    VolumeRecord,
};
use nomad_csi_model::{JobKey, MountOptions, RemoteVolume, SealedSecrets, SecretValues, Secrets};

/// Returns the state as a complete snapshot in which nothing that may be secret is in clear.
pub fn with_sealed_secrets(state: &State, sealer: &Arc<dyn Sealer>) -> SnapshotChanges {
    let mut snapshot = SnapshotChanges::complete(state);
    let mut objects = Objects {
        volumes: VolumeSealer::new(sealer.clone()),
        jobs: JobSealer::new(sealer.clone()),
        registrations: BTreeMap::new(),
        versions: HashMap::new(),
        settings: HashMap::new(),
    };
    for record in state.records() {
        objects.note_registration(record);
    }
    let records = snapshot.records.iter_mut();
    for record in records.filter_map(|(_, record)| record.as_mut()) {
        objects.seal(record);
    }
    snapshot
}

/// The values that are sent with the calls of a volume.
#[derive(Default)]
struct Sent {
    secrets: Secrets,
    options: MountOptions,
}

struct Objects {
    volumes: VolumeSealer,
    jobs: JobSealer,
    /// The values that the registrations of each external volume send.
    registrations: BTreeMap<RemoteVolume, Sent>,
    /// The new form of each recorded version: a job and its allocations share one.
    versions: HashMap<Vec<u8>, Shared<JobVersion>>,
    /// The settings that may be secret of the versions of each job, and sealed.
    settings: HashMap<JobKey, Vec<(Secrets, SealedSecrets)>>,
}

impl Objects {
    fn note_registration(&mut self, record: &VolumeRecord) {
        let Some(volume) = record.remote_volume() else {
            return;
        };
        let options = self.volumes.mount_options_of(&record.definition);
        let sent = self.registrations.entry(volume).or_default();
        if let Ok(secrets) = self.volumes.secrets_of(record) {
            sent.secrets = sent.secrets.merged_with(&secrets);
        }
        if let Ok(Some(options)) = options {
            sent.options.mount_flags.extend(options.mount_flags);
        }
    }

    fn seal(&mut self, record: &mut StoredRecord) {
        match record {
            StoredRecord::Alloc(_, record) => self.alloc(record),
            StoredRecord::Claims(record) => self.claims(Arc::make_mut(record)),
            StoredRecord::Job(record) => {
                let record = Arc::make_mut(record);
                record.current = self.version(&record.current);
                for earlier in &mut record.earlier {
                    earlier.version = self.version(&earlier.version);
                }
            }
            StoredRecord::Volume(record) => self.volume(Arc::make_mut(record)),
            StoredRecord::Acl(_)
            | StoredRecord::Namespace(_)
            | StoredRecord::Node(_)
            | StoredRecord::Plugin(..)
            | StoredRecord::Variable(_) => {}
        }
    }

    fn volume(&self, record: &mut VolumeRecord) {
        let volume = record.remote_volume();
        self.volumes.seal_clear_flags(&mut record.definition);
        if let Some(volume) = volume {
            let context = self.context(&volume, record.provided.context.to_map());
            if context != record.provided.context.to_map() {
                record.provided.context = context.into();
            }
        }
    }

    fn context(
        &self,
        volume: &RemoteVolume,
        context: BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        match self.registrations.get(volume) {
            Some(sent) => {
                let sent = (&sent.secrets, &sent.options);
                self.volumes.seal_clear_context(volume, context, sent)
            }
            None => context,
        }
    }

    fn claims(&self, record: &mut ClaimsRecord) {
        let mut values = SecretValues::default();
        if let Some(sent) = self.registrations.get(&record.volume) {
            sent.secrets.expose().for_each(|(_, value)| values.add(value));
            sent.options.mount_flags.iter().for_each(|flag| values.add(flag));
        }
        let volume = &record.volume;
        let seal = |context: &mut Option<BTreeMap<String, String>>| {
            *context = context.take().map(|context| self.context(volume, context));
        };
        let claims = &mut record.claims;
        for attachment in claims.attachments.values_mut() {
            attachment.context.values().for_each(|value| values.add(value));
            let context = std::mem::take(&mut attachment.context);
            attachment.context = self.volumes.seal_clear_publish_context(volume, context);
            seal(&mut attachment.volume_context);
        }
        for staging in claims.stagings.values_mut() {
            seal(&mut staging.volume_context);
        }
        for claim in claims.claims.values_mut() {
            seal(&mut claim.volume_context);
            if let Some(problem) = &mut claim.problem
                && let Some(hidden) = values.hidden_in(&problem.error)
            {
                problem.error = hidden;
            }
        }
    }

    fn alloc(&mut self, record: &mut AllocRecord) {
        let Some(placement) = &mut record.placement else {
            return;
        };
        placement.job = self.version(&placement.job);
        if let (Some(report), Ok(job)) = (&mut placement.report, self.jobs.open(&placement.job)) {
            report.hide(&job.secret_values());
        }
    }

    fn version(&mut self, version: &Shared<JobVersion>) -> Shared<JobVersion> {
        // A record has a JSON text, as it was read from one.
        let Ok(before) = serde_json::to_vec(&**version) else {
            return version.clone();
        };
        if let Some(known) = self.versions.get(&before) {
            return known.clone();
        }
        let sealed = match self.jobs.taken_again(version) {
            Ok(Some((job, settings))) => JobVersion {
                settings: self.sealed_settings(&version.key(), settings),
                job,
                version: version.version,
            }
            .into(),
            Ok(None) | Err(_) => version.clone(),
        };
        self.versions.insert(before, sealed.clone());
        sealed
    }

    /// Equal settings of a job are the same sealed bytes: a version with others would replace the allocations of this one.
    fn sealed_settings(&mut self, key: &JobKey, settings: Secrets) -> SealedSecrets {
        let known = self.settings.entry(key.clone()).or_default();
        if let Some((_, sealed)) = known.iter().find(|(other, _)| *other == settings) {
            return sealed.clone();
        }
        let sealed = self.jobs.seal(key, &settings);
        known.push((settings, sealed.clone()));
        sealed
    }
}
