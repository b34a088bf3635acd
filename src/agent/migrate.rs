//! Moves the journal of a data directory to etcd.
//!
//! The state keeps its index, and its secrets keep their key. The history of events stays behind. A crash before the end leaves
//! the directory as it was; the file of its journal is renamed last, so that no agent starts with it again.

use std::path::{Path, PathBuf};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::blocking::run_blocking;
use super::data_role::DataRole;
use super::directory::{journal_file, key_file, moved_journal_file};
use super::etcd_store::{EtcdStore, Led, no_etcd};
use super::offline::{History, read_state, with_journal};
use super::problems::{journal_problem, key_problem};
use super::role_file::ServerConfig;
use super::run::{open_directory, release_directory};
use nomad_csi_claims::state::{SnapshotChanges, State, replay};
use nomad_csi_etcd::{EtcdError, LeadingServer};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_model::one_line;
use nomad_csi_model::private::{open_to_read, replace};
use nomad_csi_server::Journal as _;
use nomad_csi_server::store::{EmbeddedJournal, KeySealer};

/// A journal that was moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigratedJournal {
    /// The index of its last event.
    pub index: u64,
    /// The file that the old journal is now.
    pub old: PathBuf,
}

/// Moves the journal of a data directory to the etcd of a server. The server must not run.
///
/// # Errors
/// If the directory has no journal or an agent uses it, the server has another key, or its etcd has content already.
pub async fn migrate_journal(
    data: &Path,
    config: &ServerConfig,
    stop: CancellationToken,
) -> Result<MigratedJournal, Diagnostics> {
    let server = LeadingServer { name: "migrate".to_owned(), ..LeadingServer::default() };
    let store = EtcdStore::open(config.etcd.as_ref().ok_or_else(no_etcd)?, server).await?;
    let work = async |journal: &EmbeddedJournal| {
        let state = read_state(data, journal).await?;
        match store.leader().await {
            Ok(None) => {}
            Ok(Some(leader)) => return Err(is_led(&leader.name)),
            Err(error) => return Err(no_answer(&error)),
        }
        // The directory of a server that has its journal in etcd from now on is locked already.
        let is_its_own = is_same(data, config.agent.data_dir()).await?;
        let opened = match is_its_own {
            true => None,
            false => Some(open_directory(&config.agent, DataRole::Server).await?),
        };
        let key = opened.as_ref().map_or_else(|| key_file(data), |(dirs, _)| dirs.key_file());
        let moved = move_state(data, &store, &state, &key, &stop).await;
        if let Some((dirs, lock)) = opened {
            release_directory(dirs, lock).await;
        }
        moved.map(|()| state.index())
    };
    let index = with_journal(data, "migrate", History::Kept, work).await?;
    let (file, old) = (journal_file(data), moved_journal_file(data));
    let renamed = {
        let old = old.clone();
        run_blocking(move || std::fs::rename(&file, &old).map_err(|error| (file, error))).await?
    };
    renamed.map_err(|(file, error)| not_renamed(&file, &error))?;
    Ok(MigratedJournal { index, old })
}

/// Returns whether two paths are one directory. One that does not exist is none.
async fn is_same(data: &Path, other: Option<&Path>) -> Result<bool, Diagnostics> {
    let (data, other) = (data.to_owned(), other.map(Path::to_owned));
    let same = move || {
        let real = |path: &Path| std::fs::canonicalize(path).ok();
        other.is_some_and(|other| real(&data).is_some() && real(&data) == real(&other))
    };
    run_blocking(same).await
}

async fn move_state(
    data: &Path,
    store: &EtcdStore,
    state: &State,
    key: &Path,
    stop: &CancellationToken,
) -> Result<(), Diagnostics> {
    let (from, to) = (key_file(data), key.to_owned());
    let sealer = run_blocking(move || copy_key(&from, &to)).await??;
    let Some(led) = store.lead(&watch::Sender::new(None), stop).await else {
        return Err(stopped());
    };
    let write = async {
        if let Some(sealer) = &sealer {
            led.check_key(sealer, key).await?;
        }
        write_state(&led, state).await
    };
    let written = write.await;
    led.end(async {}).await;
    written
}

/// Writes the state, unless an earlier migration did and was interrupted before its last step.
async fn write_state(led: &Led, state: &State) -> Result<(), Diagnostics> {
    let held = led.journal.load().await.map_err(|error| journal_problem(&error))?;
    let is_empty = held.snapshot.is_none() && held.events.is_empty();
    if !is_empty {
        let found = replay(held.snapshot, held.events);
        return match found.is_ok_and(|found| found == *state) {
            true => Ok(()),
            false => Err(not_empty()),
        };
    }
    let written = led.journal.begin_with(SnapshotChanges::complete(state)).await;
    written.map_err(|error| journal_problem(&error))
}

/// Gives the server the key of the directory; `None` if the directory has none. Blocks.
fn copy_key(from: &Path, to: &Path) -> Result<Option<KeySealer>, Diagnostics> {
    let of = |file: &Path| KeySealer::open_existing(file).map_err(|error| key_problem(&error));
    let Some(theirs) = of(from)? else {
        return Ok(None);
    };
    match of(to)? {
        Some(ours) if ours.key_fingerprint() == theirs.key_fingerprint() => Ok(Some(ours)),
        Some(_) => {
            let message = format!("`{}` is not the key of `{}`", to.display(), from.display());
            let help = "use an empty data directory for the server; the key is copied into it";
            Err(Diagnostic::error(Code::KeyWrong, message).help(help).into())
        }
        None => {
            let copied = open_to_read(from).and_then(|mut file| {
                let mut key = zeroize::Zeroizing::new(vec![]);
                std::io::Read::read_to_end(&mut file, &mut key)?;
                replace(to, &key)
            });
            copied.map_err(|error| {
                let message = format!("cannot copy the key to `{}`: {error}", to.display());
                Diagnostics::from(Diagnostic::error(Code::KeyUnavailable, message))
            })?;
            of(to)
        }
    }
}

fn is_led(leader: &str) -> Diagnostics {
    let message = format!("cannot move the journal: server `{}` leads", one_line(leader));
    let help = "stop every server that uses this etcd, and run the command again";
    Diagnostic::error(Code::JournalInUse, message).help(help).into()
}

fn no_answer(error: &EtcdError) -> Diagnostics {
    let message = "cannot move the journal: etcd does not answer";
    let help = "check `etcd.endpoints`, and that most members run, and run the command again";
    let problem = Diagnostic::error(Code::JournalUnavailable, message).note(error.to_string());
    problem.help(help).into()
}

/// What is in etcd is not what would be moved there.
fn not_empty() -> Diagnostics {
    let message = "cannot move the journal: etcd has another one below `etcd.prefix`";
    let help = "if a server has gone on from this journal, it was moved before and nothing is left to do: remove `journal.redb`; \
                otherwise use another `etcd.prefix`";
    Diagnostic::error(Code::JournalInUse, message).help(help).into()
}

fn stopped() -> Diagnostics {
    let message = "the migration was stopped before it began";
    Diagnostic::error(Code::JournalUnavailable, message).help("run the command again").into()
}

fn not_renamed(file: &Path, error: &std::io::Error) -> Diagnostics {
    let message =
        format!("the journal is in etcd, and `{}` cannot be renamed: {error}", file.display());
    let help = "run the same command again, before an agent starts in the directory";
    Diagnostic::error(Code::JournalUnavailable, message).help(help).into()
}
