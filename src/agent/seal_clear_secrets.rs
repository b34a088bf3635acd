//! Seals what an earlier version left in clear in the journal, at the first start of this one.
//!
//! The journal is written again as a new file with the sealed state alone. The history of events goes, and with it every
//! secret that a plugin's error or a job repeated there. A start where that fails, as on a full disk, goes on with the
//! old file, because releases matter more, and the next start tries again.

use std::path::PathBuf;
use std::sync::Arc;

use super::blocking::run_blocking;
use super::problems::{journal_problem, key_problem};
use nomad_csi_claims::state::{State, replay};
use nomad_csi_model::diagnostic::Diagnostics;
use nomad_csi_model::{SealedSecrets, SecretOwner};
use nomad_csi_server::store::{EmbeddedJournal, KeySealer};
use nomad_csi_server::{Journal as _, Sealer, with_sealed_secrets};

/// Replaces the journal of an earlier version by a sealed one.
///
/// # Errors
/// If the journal cannot be read, or the key is not the one of its secrets.
pub(super) async fn seal_clear_secrets(
    key_file: PathBuf,
    journal: &EmbeddedJournal,
) -> Result<(), Diagnostics> {
    if journal.is_sealed().await.map_err(|error| journal_problem(&error))? {
        return Ok(());
    }
    let held = journal.load().await.map_err(|error| journal_problem(&error))?;
    let Ok(state) = replay(held.snapshot, held.events) else {
        // The start reports a damaged journal.
        return Ok(());
    };
    let sample = any_sealed(&state);
    let open = move || {
        let sample = sample.as_ref().map(|(owner, secrets)| (owner, secrets));
        KeySealer::open(&key_file, sample)
    };
    let sealer = run_blocking(open).await?.map_err(|error| key_problem(&error))?;
    let sealer: Arc<dyn Sealer> = Arc::new(sealer);
    let snapshot = with_sealed_secrets(&state, &sealer);
    match journal.replace(snapshot).await {
        Ok(()) => tracing::info!(
            journal.file = %journal.place(),
            "the journal was written again, and what may be secret in it is sealed"
        ),
        Err(error) => tracing::warn!(
            journal.file = %journal.place(), %error, cause = %error.source,
            "secrets of an earlier version stay in clear in the journal until the next start"
        ),
    }
    Ok(())
}

#[cfg(test)]
mod tests;

/// Returns something sealed of the state, to test the key; `None` if there is nothing.
pub(super) fn any_sealed(state: &State) -> Option<(SecretOwner, SealedSecrets)> {
    let volume_secrets = state
        .records()
        .filter_map(|record| Some((SecretOwner::from(record.key()), record.sealed()?)));
    let variable_items =
        state.variables().map(|record| (SecretOwner::Variable(record.key.clone()), &record.items));
    let job_settings =
        state.jobs().map(|record| (SecretOwner::Job(record.key()), &record.current.settings));
    let mut sealed = volume_secrets.chain(variable_items).chain(job_settings);
    let sealed = sealed.find(|(_, sealed)| !sealed.is_empty());
    sealed.map(|(owner, sealed)| (owner, sealed.clone()))
}
