//! The sealed data of a state, sealed again with another key.
//!
//! Equal sealed data stays equal, because a job and its allocations share it.

use std::collections::HashMap;
use std::sync::Arc;

use super::claims_record::{AllocRecord, ClaimsRecord};
use super::job_record::{JobRecord, JobVersion};
use super::record::{VolumeDefinition, VolumeRecord};
use super::recorded_options::RecordedFlags;
use super::shared::Shared;
use super::snapshot::SnapshotChanges;
use super::stored_record::StoredRecord;
use super::tables::State;
use super::variable::VariableRecord;
use crate::claim::{ClaimUsage, SealedFlags};
use nomad_csi_model::{NamespacedId, SealedSecrets, SecretOwner};

/// Opens with one key what a state has sealed, and seals it with another.
pub trait Reseal {
    /// Why something cannot be opened.
    type Error;

    /// Seals secrets again.
    ///
    /// # Errors
    /// If they cannot be opened.
    fn secrets(
        &self,
        owner: &SecretOwner,
        sealed: &SealedSecrets,
    ) -> Result<SealedSecrets, Self::Error>;

    /// Seals the mount flags of a claim again, with the fingerprint that the other key gives them.
    ///
    /// # Errors
    /// If they cannot be opened.
    fn flags(&self, owner: &SecretOwner, flags: &SealedFlags) -> Result<SealedFlags, Self::Error>;
}

/// A complete snapshot in which everything is sealed again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResealedState {
    /// The snapshot.
    pub snapshot: SnapshotChanges,
    /// How many sealed secrets and mount flags it has.
    pub sealed: usize,
}

impl ResealedState {
    /// Seals everything again.
    ///
    /// # Errors
    /// If something cannot be opened.
    pub fn new<R: Reseal>(state: &State, reseal: &R) -> Result<Self, R::Error> {
        let mut snapshot = SnapshotChanges::complete(state);
        let mut objects = Objects { reseal, done: HashMap::new(), flags: 0 };
        let records = snapshot.records.iter_mut();
        for record in records.filter_map(|(_, record)| record.as_mut()) {
            objects.record(record)?;
        }
        let sealed = objects.done.len() + objects.flags;
        Ok(Self { snapshot, sealed })
    }
}

/// Seals the objects of a state again.
struct Objects<'a, R> {
    reseal: &'a R,
    /// The new sealed data of each owner.
    done: HashMap<(String, Vec<u8>), SealedSecrets>,
    /// How many mount flags of claims and stagings were sealed.
    flags: usize,
}

impl<R: Reseal> Objects<'_, R> {
    fn record(&mut self, record: &mut StoredRecord) -> Result<(), R::Error> {
        match record {
            StoredRecord::Alloc(_, record) => self.alloc(record),
            StoredRecord::Claims(record) => self.claims(Arc::make_mut(record)),
            StoredRecord::Job(record) => self.job(Arc::make_mut(record)),
            StoredRecord::Variable(record) => self.variable(Arc::make_mut(record)),
            StoredRecord::Volume(record) => self.volume(Arc::make_mut(record)),
            StoredRecord::Acl(_)
            | StoredRecord::Namespace(_)
            | StoredRecord::Node(_)
            | StoredRecord::Plugin(..) => Ok(()),
        }
    }

    fn alloc(&mut self, record: &mut AllocRecord) -> Result<(), R::Error> {
        match &mut record.placement {
            Some(placement) => self.job_version(&mut placement.job),
            None => Ok(()),
        }
    }

    fn claims(&mut self, record: &mut ClaimsRecord) -> Result<(), R::Error> {
        let claims = &mut record.claims;
        let owner = SecretOwner::External(record.volume.clone());
        for claim in claims.claims.values_mut() {
            self.usage(&claim.volume, &mut claim.usage)?;
            self.context(&owner, claim.volume_context.iter_mut().flatten())?;
        }
        for staging in claims.stagings.values_mut() {
            self.usage(&staging.volume, &mut staging.usage)?;
            self.context(&owner, staging.volume_context.iter_mut().flatten())?;
        }
        for attachment in claims.attachments.values_mut() {
            if let Some(made_for) = &mut attachment.made_for {
                self.usage(&made_for.volume, &mut made_for.usage)?;
            }
            self.context(&owner, attachment.volume_context.iter_mut().flatten())?;
            self.context(&owner, &mut attachment.context)?;
        }
        for tombstone in &mut claims.tombstones {
            self.secrets(&(&tombstone.volume).into(), &mut tombstone.secrets)?;
        }
        Ok(())
    }

    fn job(&mut self, record: &mut JobRecord) -> Result<(), R::Error> {
        self.job_version(&mut record.current)?;
        record.earlier.iter_mut().try_for_each(|earlier| self.job_version(&mut earlier.version))
    }

    fn variable(&mut self, record: &mut VariableRecord) -> Result<(), R::Error> {
        let owner = SecretOwner::Variable(record.key.clone());
        self.secrets(&owner, &mut record.items)
    }

    fn volume(&mut self, record: &mut VolumeRecord) -> Result<(), R::Error> {
        let owner = SecretOwner::from(record.key());
        self.secrets(&owner, &mut record.secrets)?;
        if let Some(volume) = record.remote_volume() {
            let mut context = record.provided.context.to_map();
            self.context(&SecretOwner::External(volume), &mut context)?;
            if context != record.provided.context.to_map() {
                record.provided.context = context.into();
            }
        }
        // They have the fingerprints of the old key, which the next request would not equal.
        let controllers =
            [&mut record.settling_by, &mut record.expanding_by, &mut record.modifying_by];
        for controller in controllers.into_iter().flatten() {
            controller.request = None;
        }
        self.definition(&owner, &mut record.definition)?;
        for earlier in &mut record.earlier_creates {
            self.secrets(&owner, &mut earlier.secrets)?;
            self.definition(&owner, &mut earlier.definition)?;
        }
        Ok(())
    }

    fn definition(
        &mut self,
        owner: &SecretOwner,
        definition: &mut VolumeDefinition,
    ) -> Result<(), R::Error> {
        match &mut definition.mount_options {
            Some(options) => match &mut options.mount_flags {
                RecordedFlags::Sealed(flags) => self.secrets(owner, flags),
                RecordedFlags::Clear(_) => Ok(()),
            },
            None => Ok(()),
        }
    }

    fn job_version(&mut self, version: &mut Shared<JobVersion>) -> Result<(), R::Error> {
        let mut resealed = (**version).clone();
        let owner = SecretOwner::Job(resealed.key());
        self.secrets(&owner, &mut resealed.settings)?;
        *version = resealed.into();
        Ok(())
    }

    /// Seals the sealed values of a context again.
    fn context<'m>(
        &mut self,
        owner: &SecretOwner,
        context: impl IntoIterator<Item = (&'m String, &'m mut String)>,
    ) -> Result<(), R::Error> {
        for (_, value) in context {
            // A damaged value stays as it is: no key opens it.
            if let Some(Ok(mut sealed)) = SealedSecrets::from_text(value) {
                self.secrets(owner, &mut sealed)?;
                *value = sealed.to_text();
            }
        }
        Ok(())
    }

    fn usage(&mut self, volume: &NamespacedId, usage: &mut ClaimUsage) -> Result<(), R::Error> {
        if !usage.flags.sealed.is_empty() {
            usage.flags = self.reseal.flags(&volume.into(), &usage.flags)?;
            self.flags += 1;
        }
        Ok(())
    }

    fn secrets(&mut self, owner: &SecretOwner, sealed: &mut SealedSecrets) -> Result<(), R::Error> {
        if sealed.is_empty() {
            return Ok(());
        }
        let before = (owner.to_string(), sealed.as_bytes().to_vec());
        *sealed = match self.done.get(&before) {
            Some(done) => done.clone(),
            None => {
                let after = self.reseal.secrets(owner, sealed)?;
                self.done.insert(before, after.clone());
                after
            }
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
