//! Work on the data directory of an agent that is not running.
//!
//! The lock of the directory is held in the meantime, so the directory of a running agent is refused, and no agent
//! starts during the work.

use std::path::Path;

use super::config::LockConflict;
use super::data_dir_lock::{LockResult, acquire_lock};
use super::directory::journal_file;
use super::problems::journal_problem;
use nomad_csi_claims::state::{ReplayError, State, replay, violations};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_ports::{Clock as _, SystemClock};
use nomad_csi_server::Journal as _;
use nomad_csi_server::store::EmbeddedJournal;

/// How much of the history a journal keeps while someone works on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum History {
    /// As much as an agent keeps.
    Kept,
    /// Nothing, from the next snapshot on.
    Dropped,
}

/// Opens the journal of a data directory, does the work, and closes the journal.
///
/// # Errors
/// If the directory has no journal, an agent uses it, or its journal cannot be opened. The headline has
/// `action`: "check".
pub(super) async fn with_journal<T>(
    data: &Path,
    action: &str,
    history: History,
    work: impl AsyncFnOnce(&EmbeddedJournal) -> Result<T, Diagnostics>,
) -> Result<T, Diagnostics> {
    let path = journal_file(data);
    if !path.exists() {
        return Err(no_journal(data, action));
    }
    let locked = acquire_lock(data, SystemClock.now(), LockConflict::FailOffline).await?;
    let journal = match history {
        History::Kept => EmbeddedJournal::open(path).await,
        History::Dropped => EmbeddedJournal::open_without_history(path).await,
    };
    let journal = journal.map_err(|error| journal_problem(&error))?;
    let done = work(&journal).await;
    let closed = journal.close().await;
    match locked {
        LockResult::Acquired(lock) => drop(lock),
        LockResult::ServedBy(_) => {}
    }
    let done = done?;
    closed.map_err(|error| journal_problem(&error))?;
    Ok(done)
}

/// Reads the state as a start of the agent does, and tests every invariant.
///
/// # Errors
/// If the journal cannot be read. Otherwise every violation is an error.
pub(super) async fn read_state(
    data: &Path,
    journal: &EmbeddedJournal,
) -> Result<State, Diagnostics> {
    let held = journal.load().await;
    let held = held.map_err(|error| journal_problem(&error))?;
    let state = replay(held.snapshot, held.events).map_err(|error| inconsistent(data, &error))?;
    let problem = |violation| {
        let headline = format!("the state in `{}` is wrong: {violation}", data.display());
        Diagnostic::error(Code::JournalDamaged, headline)
    };
    let problems: Diagnostics = violations(&state).into_iter().map(problem).collect();
    match problems.has_errors() {
        true => Err(problems),
        false => Ok(state),
    }
}

fn inconsistent(data: &Path, error: &ReplayError) -> Diagnostics {
    let headline = format!("the journal in `{}` is wrong: {error}", data.display());
    let problem = Diagnostic::error(Code::JournalDamaged, headline);
    problem.note(error.conflict.to_string()).into()
}

fn no_journal(data: &Path, action: &str) -> Diagnostics {
    let headline = format!("cannot {action} `{}`: it has no journal", data.display());
    Diagnostic::error(Code::JournalUnavailable, headline)
        .help("specify the data directory of an agent with `--data-dir DIR`")
        .into()
}
