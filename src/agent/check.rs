//! Checks the data directory of an agent that is not running.
//!
//! The check reads the journal as a start of the agent does, and then tests every invariant of the
//! state. It changes no data.

use std::path::Path;

use super::offline::{History, read_state, with_journal};
use nomad_csi_model::diagnostic::Diagnostics;

/// The result of a check that found no problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedState {
    /// The index of the last event.
    pub index: u64,
    /// The number of volumes, in any phase.
    pub volumes: usize,
    /// The number of variables.
    pub variables: usize,
}

/// Checks a data directory.
///
/// # Errors
/// If it has no journal, an agent uses it, or its journal cannot be read. Otherwise every violation is
/// an error.
pub async fn check_data_directory(data: &Path) -> Result<CheckedState, Diagnostics> {
    let work = async |journal: &_| read_state(data, journal).await;
    let state = with_journal(data, "check", History::Kept, work).await?;
    Ok(CheckedState {
        index: state.index(),
        volumes: state.records().len(),
        variables: state.variables().len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::directory::journal_file;
    use nomad_csi_claims::state::samples::{key, registered, started};
    use nomad_csi_claims::state::{Event, EventKind};
    use nomad_csi_server::Journal as _;
    use nomad_csi_server::store::{DataLock, EmbeddedJournal, LockOwner};

    fn headline(problems: &Diagnostics) -> String {
        let problems: Vec<_> = problems.iter().map(|problem| &problem.message).collect();
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems[0].clone()
    }

    async fn fill(data: &Path, kinds: Vec<EventKind>) {
        let journal = EmbeddedJournal::open(journal_file(data)).await.unwrap();
        let events: Vec<_> = kinds.into_iter().map(|kind| Event::new(1, kind)).collect();
        journal.append(2, events.into()).await.unwrap();
        journal.close().await.unwrap();
    }

    #[tokio::test]
    async fn an_intact_directory_has_no_problems() {
        let data = tempfile::tempdir().unwrap();
        let db = key("default", "db");
        fill(data.path(), vec![started(), registered(&db, "1")]).await;
        let checked = check_data_directory(data.path()).await.unwrap();
        let expected = CheckedState { index: 3, volumes: 1, variables: 0 };
        assert_eq!(checked, expected);
    }

    #[tokio::test]
    async fn a_contradiction_and_a_missing_journal_are_named() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().display().to_string();
        let missing = check_data_directory(data.path()).await.unwrap_err();
        let text = headline(&missing);
        assert!(text.contains(&format!("cannot check `{path}`: it has no journal")), "{text}");
        let deleted = EventKind::VolumeDeleted { key: key("default", "db") };
        fill(data.path(), vec![started(), deleted]).await;
        let wrong = check_data_directory(data.path()).await.unwrap_err();
        let text = headline(&wrong);
        assert!(text.contains("event 3 contradicts earlier events"), "{text}");
    }

    #[tokio::test]
    async fn the_directory_of_a_running_agent_is_refused() {
        let data = tempfile::tempdir().unwrap();
        fill(data.path(), vec![started()]).await;
        let owner = LockOwner { pid: std::process::id(), socket: None, started_at: 1 };
        let lock = DataLock::acquire(data.path(), &owner).unwrap();
        let refused = check_data_directory(data.path()).await.unwrap_err();
        let text = headline(&refused);
        assert!(text.contains("holds the lock of the data directory"), "{text}");
        drop(lock);
        assert!(check_data_directory(data.path()).await.is_ok());
    }
}
