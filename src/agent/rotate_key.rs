//! Replaces the key of an agent that is not running, and seals everything with the new one.
//!
//! The old key stays until the state has been read back and opens with the new key alone, so a crash at any
//! moment leaves a directory whose agent starts, and the start or the next rotation goes on. The journal's history is
//! dropped, because its events have secrets that are sealed with the old key.

use std::path::Path;
use std::sync::Arc;

use super::blocking::run_blocking;
use super::directory::key_file;
use super::offline::{History, read_state, with_journal};
use super::problems::{journal_problem, key_problem};
use nomad_csi_claims::state::{Event, EventKind, Reseal, ResealedState, State, apply};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_ports::{Clock as _, SystemClock};
use nomad_csi_server::Journal as _;
use nomad_csi_server::store::{
    EmbeddedJournal, KeyError, KeyRotation, KeySealer, KeyVerification, ResealError,
};

/// The result of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotatedKey {
    /// How many secrets and mount flags are sealed with the new key.
    pub sealed: usize,
}

/// Rotates the key of a data directory.
///
/// # Errors
/// If the directory has no journal or no key, an agent uses it, something cannot be read or written, or the
/// key does not open everything. The agent starts in every case, and the old key is still there.
pub async fn rotate_key(data: &Path) -> Result<RotatedKey, Diagnostics> {
    let work = async |journal: &EmbeddedJournal| {
        let state = read_state(data, journal).await?;
        let file = key_file(data);
        let opened = run_blocking(move || KeySealer::open_existing(&file)).await?;
        let sealer = opened.map_err(|error| key_problem(&error))?;
        let sealer = sealer.ok_or_else(|| no_key(data))?;
        sealed_again(data, &state, &KeyVerification::of_opening(&sealer))?;
        let file = key_file(data);
        let begun = run_blocking(move || KeyRotation::begin(&file)).await?;
        let rotation = begun.map_err(|error| key_problem(&error))?;
        let rotated = reseal(data, journal, state, &rotation).await?;
        let finished = run_blocking(move || rotation.finish()).await?;
        finished.map_err(|error| key_problem(&error))?;
        Ok(rotated)
    };
    with_journal(data, "rotate the key of", History::Dropped, work).await
}

/// Removes the old key of a rotation that was interrupted after its last other step: the state is sealed with
/// the new key, so fingerprints are compared with those of the new key again. Returns whether it did. Blocks.
///
/// # Errors
/// If the key file cannot be used.
pub(super) fn finish_if_resealed(path: &Path, state: &State) -> Result<bool, KeyError> {
    let rotation = KeyRotation::begin(path)?;
    match ResealedState::new(state, &rotation.verification()) {
        Ok(_) => rotation.finish().map(|()| true),
        Err(_) => Ok(false),
    }
}

/// Makes a state durable in which everything is sealed with the new key, and reads it back.
async fn reseal(
    data: &Path,
    journal: &EmbeddedJournal,
    mut state: State,
    rotation: &KeyRotation,
) -> Result<RotatedKey, Diagnostics> {
    let event = Event::new(SystemClock.now(), EventKind::KeyRotationStarted);
    apply(&mut state, &event);
    let appended = journal.append(state.index(), Arc::new([event])).await;
    appended.map_err(|error| journal_problem(&error))?;
    let resealed = sealed_again(data, &state, rotation)?;
    let written = journal.write_snapshot(resealed.snapshot).await;
    written.map_err(|error| journal_problem(&error))?;
    let read_back = read_state(data, journal).await?;
    let verified = sealed_again(data, &read_back, &rotation.verification())?;
    Ok(RotatedKey { sealed: verified.sealed })
}

fn sealed_again(
    data: &Path,
    state: &State,
    reseal: &impl Reseal<Error = ResealError>,
) -> Result<ResealedState, Diagnostics> {
    ResealedState::new(state, reseal).map_err(|error| {
        let headline = format!("cannot rotate the key of `{}`: {error}", data.display());
        Diagnostic::error(Code::KeyWrong, headline)
            .note(error.source.to_string())
            .help("write these secrets again with their source, and then rotate the key")
            .into()
    })
}

fn no_key(data: &Path) -> Diagnostics {
    let headline = format!("cannot rotate the key of `{}`: it has no key", data.display());
    Diagnostic::error(Code::KeyMissing, headline)
        .help("start the agent once; it creates the key")
        .into()
}

#[cfg(test)]
mod tests;
