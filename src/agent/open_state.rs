//! Opens the state of a server and the key of its secrets.

use std::path::Path;
use std::sync::Arc;

use super::blocking;
use super::config::AgentConfig;
use super::data_role::DataRole;
use super::directory::{AgentDirs, moved_journal_file};
use super::measured_journal::MeasuredJournal;
use super::problems::{journal_problem, key_problem};
use super::rotate_key::finish_if_resealed;
use super::seal_clear_secrets::{any_sealed, seal_clear_secrets};
use crate::telemetry::AgentMetrics;
use nomad_csi_claims::state::State;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_ports::SentSecretsReader;
use nomad_csi_server::store::{EmbeddedJournal, KeySealer};
use nomad_csi_server::{CellOptions, Journal, RecordedSecrets, Sealer, StateCell};

/// Opens the state that the journal of the directory has.
///
/// # Errors
/// If the journal is missing, damaged or of a later version.
pub(super) async fn open_cell(
    config: &AgentConfig,
    (dirs, role): (&AgentDirs, DataRole),
    metrics: &Arc<AgentMetrics>,
) -> Result<StateCell, Diagnostics> {
    let checked = dirs.clone();
    blocking::run_blocking(move || require_journal(&checked, role)).await??;
    let journal = EmbeddedJournal::open(dirs.journal()).await;
    let journal = journal.map_err(|error| journal_problem(&error))?;
    seal_clear_secrets(dirs.key_file(), &journal).await?;
    open_cell_over(config, journal, metrics).await
}

/// Opens the state that is in another journal than that of the directory.
///
/// # Errors
/// If the journal cannot be read, is damaged or of a later version.
pub(super) async fn open_cell_over(
    config: &AgentConfig,
    journal: impl Journal + 'static,
    metrics: &Arc<AgentMetrics>,
) -> Result<StateCell, Diagnostics> {
    let journal = MeasuredJournal::new(journal, metrics.clone());
    let options = CellOptions { limits: config.state_limits, ..CellOptions::default() };
    let cell = StateCell::open(Arc::new(journal), options).await;
    cell.map_err(|error| journal_problem(&error))
}

/// Refuses a directory whose journal is gone: the first start creates the journal before the key and
/// the catalogue, so a new journal would forget what the old one recorded. A server has no catalogue.
fn require_journal(dirs: &AgentDirs, role: DataRole) -> Result<(), Diagnostics> {
    let exists = |path: &Path| path.symlink_metadata().is_ok();
    let (has_key, has_catalog) = (exists(&dirs.key_file()), exists(&dirs.plugin_catalog()));
    let (was_there, proof) = match role {
        DataRole::Machine => {
            (has_key && has_catalog, "the key of its secrets and the catalogue of its plugin exist")
        }
        DataRole::Server | DataRole::Node => (has_key, "the key of its secrets exists"),
    };
    let journal = dirs.journal();
    if exists(&journal) {
        return Ok(());
    }
    let moved = moved_journal_file(dirs.data());
    if exists(&moved) {
        let message = format!("the agent's journal `{}` was moved to etcd", journal.display());
        let note = format!(
            "`{}` is what it was then; with it, everything since would be forgotten",
            moved.display()
        );
        let help = "start `agent server` with the section `[etcd]` of its configuration, and nodes of their own";
        return Err(Diagnostic::error(Code::JournalMissing, message).note(note).help(help).into());
    }
    if !was_there {
        return Ok(());
    }
    let message = format!("the agent's journal `{}` is missing", journal.display());
    let code = Code::JournalMissing;
    Err(Diagnostic::error(code, message).note(proof).help(code.advice()).into())
}

/// Returns what reads the secrets that plugins were sent.
pub(super) fn sent_secrets(
    cell: &StateCell,
    sealer: &Arc<dyn Sealer>,
) -> Arc<dyn SentSecretsReader> {
    Arc::new(RecordedSecrets::new(cell.clone(), sealer.clone()))
}

/// Opens the key. With another key the agent must not start. Finishes a rotation of the key of which only the
/// last step is left.
pub(super) async fn open_sealer(
    dirs: &AgentDirs,
    cell: &StateCell,
) -> Result<KeySealer, Diagnostics> {
    let sealer = open_key(dirs, cell).await?;
    if !sealer.is_in_rotation() {
        return Ok(sealer);
    }
    let (file, state) = (dirs.key_file(), cell.read(State::clone));
    let finished = blocking::run_blocking(move || finish_if_resealed(&file, &state)).await?;
    if finished.map_err(|error| key_problem(&error))? {
        return open_key(dirs, cell).await;
    }
    tracing::warn!(
        key.file = %dirs.key_file().display(),
        "a rotation of the key was interrupted; stop the agent and run `nomad-csi agent key rotate`"
    );
    Ok(sealer)
}

/// Opens the key and verifies it on a recorded secret.
async fn open_key(dirs: &AgentDirs, cell: &StateCell) -> Result<KeySealer, Diagnostics> {
    let (file, sealed) = (dirs.key_file(), cell.read(any_sealed));
    let open = move || {
        let sample = sealed.as_ref().map(|(owner, secrets)| (owner, secrets));
        KeySealer::open(&file, sample)
    };
    let sealer = blocking::run_blocking(open).await?;
    sealer.map_err(|error| key_problem(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::DataDirSetting;
    use crate::agent::directory::DataDir;

    #[test]
    fn a_journal_that_is_gone_is_missed_where_its_key_or_catalogue_is() {
        let key: [fn(&AgentDirs) -> std::path::PathBuf; 1] = [AgentDirs::key_file];
        let both = [key[0], AgentDirs::plugin_catalog];
        for (role, there, note) in [
            (DataRole::Machine, &[][..], None),
            (DataRole::Machine, &key, None),
            (
                DataRole::Machine,
                &both,
                Some("the key of its secrets and the catalogue of its plugin exist"),
            ),
            (DataRole::Server, &[], None),
            (DataRole::Server, &key, Some("the key of its secrets exists")),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let setting = DataDirSetting::Persistent(directory.path().to_owned());
            let dirs = AgentDirs::create_dirs(DataDir::prepare(&setting).unwrap(), None).unwrap();
            for file in there {
                std::fs::write(file(&dirs), "").unwrap();
            }
            let checked = require_journal(&dirs, role);
            let notes = checked.err().into_iter().flatten().flat_map(|problem| problem.notes);
            assert_eq!(notes.collect::<Vec<_>>(), Vec::from_iter(note), "{role:?}");
            let moved = moved_journal_file(dirs.data());
            std::fs::write(&moved, "").unwrap();
            let refused = require_journal(&dirs, role).unwrap_err();
            let message = &refused.iter().next().unwrap().message;
            assert!(message.ends_with("was moved to etcd"), "{role:?}: {message}");
            std::fs::write(dirs.journal(), "").unwrap();
            assert!(require_journal(&dirs, role).is_ok(), "{role:?}");
        }
    }
}
