//! The lock of a data directory: at most one agent works in it.
//!
//! `store` implements the lock. `nomad-csi agent` records its socket in it, so that commands with
//! `--embedded` use that agent. An embedded agent records none, because its socket goes with its
//! command; other commands wait for it. Before a command uses a recorded socket, it checks that this
//! user owns it, that no other user can replace it, and that a process of this user answers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};

use super::config::LockConflict;
use nomad_csi_model::diagnostic::{Diagnostic, Diagnostics};
use nomad_csi_model::private::{NotPrivate, Problem, check_socket};
use nomad_csi_server::store::{DataLock, LockError, LockOwner};

/// The pause between two attempts to lock.
const RETRY: Duration = Duration::from_millis(20);
/// The longest time for an agent's socket to accept.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The result of locking a data directory.
pub(super) enum LockResult {
    /// This process has the lock.
    Acquired(DataLock),
    /// The agent that listens on this socket has the lock.
    ServedBy(PathBuf),
}

/// Locks `directory`, or finds the agent that has the lock.
///
/// # Errors
/// If another process keeps the lock. The error names it.
pub(super) async fn acquire_lock(
    directory: &Path,
    started_at: i64,
    on_lock_conflict: LockConflict,
) -> Result<LockResult, Diagnostics> {
    let begun = Instant::now();
    loop {
        let refused = match try_lock(directory, started_at).await? {
            Ok(lock) => return Ok(LockResult::Acquired(lock)),
            Err(refused) => refused,
        };
        let LockError::Locked { owner, .. } = &refused else {
            return Err(lock_problem(&refused, None));
        };
        let timeout = match on_lock_conflict {
            LockConflict::Fail => return Err(lock_problem(&refused, owner.as_ref())),
            LockConflict::FailOffline => {
                // Its socket would not help.
                let owner = owner.clone().map(|owner| LockOwner { socket: None, ..owner });
                return Err(lock_problem(&refused, owner.as_ref()));
            }
            LockConflict::Share { timeout } => timeout,
        };
        if let Some(socket) = owner.as_ref().and_then(|owner| owner.socket.as_deref())
            && is_served(socket).await?
        {
            return Ok(LockResult::ServedBy(socket.to_owned()));
        }
        if begun.elapsed() >= timeout {
            return Err(lock_problem(&refused, owner.as_ref()));
        }
        sleep(RETRY).await;
    }
}

async fn try_lock(
    directory: &Path,
    started_at: i64,
) -> Result<Result<DataLock, LockError>, Diagnostics> {
    let directory = directory.to_owned();
    let owner = LockOwner { pid: std::process::id(), socket: None, started_at };
    super::blocking::run_blocking(move || DataLock::acquire(&directory, &owner)).await
}

/// Returns whether an agent of this user serves the socket. Nothing is sent.
///
/// # Errors
/// If another user serves it, or could put another socket there.
async fn is_served(socket: &Path) -> Result<bool, Diagnostics> {
    let connected = timeout(CONNECT_TIMEOUT, UnixStream::connect(socket)).await;
    let Ok(Ok(stream)) = connected else {
        return Ok(false);
    };
    let path = socket.to_owned();
    let checked = super::blocking::run_blocking(move || check_socket(&path)).await?;
    let checked = checked.and_then(|()| check_peer(&stream, socket));
    match checked {
        Ok(()) => Ok(true),
        Err(error) => match NotPrivate::find(&error) {
            Some(refused) => {
                let problem = refused.diagnostic("use the agent that has the data directory");
                Err(problem.note("nothing was sent to the socket").into())
            }
            // It went away in between.
            None => Ok(false),
        },
    }
}

fn check_peer(stream: &UnixStream, socket: &Path) -> std::io::Result<()> {
    let owner = stream.peer_cred()?.uid();
    let own = rustix::process::geteuid().as_raw();
    if owner == own {
        return Ok(());
    }
    Err(NotPrivate { path: socket.to_owned(), problem: Problem::ForeignPeer { owner, own } }.into())
}

/// The problem of a lock that cannot be acquired, with its owner and what to do.
pub(super) fn lock_problem(error: &LockError, owner: Option<&LockOwner>) -> Diagnostics {
    let mut problem = Diagnostic::error(error.code(), error.to_string());
    if let Some(source) = std::error::Error::source(error) {
        let help = NotPrivate::find(source).map(NotPrivate::help);
        let help = help.unwrap_or_else(|| remedy(error, source).to_owned());
        problem = problem.note(source.to_string()).help(help);
    }
    if let LockError::Locked { directory, stranger: Some(stranger), .. } = error {
        let (path, pid) = (directory.display(), stranger.pid);
        problem = problem
            .note("this user's agent did not lock the directory")
            .help(format!(
                "look at the process with `ps -fp {pid}`, and stop it or use another directory"
            ))
            .help(format!("run `chmod go-rwx {path}`, so that no other user can open the lock"));
    }
    if let Some(owner) = owner {
        if let Ok(since) = jiff::Timestamp::from_nanosecond(owner.started_at.into()) {
            problem =
                problem.note(format!("process {} has held the lock since {since:.0}", owner.pid));
        }
        if let Some(socket) = &owner.socket {
            problem = problem
                .help(format!("use that agent with `--address unix://{}`", socket.display()));
        }
        problem = problem.help(format!("stop it with `kill {}`", owner.pid));
    }
    problem.into()
}

fn remedy(error: &LockError, source: &(dyn std::error::Error + 'static)) -> String {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let io = source.downcast_ref::<std::io::Error>();
    match io.map(std::io::Error::kind) {
        Some(StorageFull | QuotaExceeded) => {
            "free space on its file system; no acknowledged change is lost".to_owned()
        }
        Some(_) | None => error.code().advice(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::diagnostic::Code;

    const SHARE: LockConflict = LockConflict::Share { timeout: Duration::from_secs(20) };

    fn lock(directory: &Path, socket: Option<PathBuf>) -> DataLock {
        let owner = LockOwner { pid: 7, socket, started_at: 1_700_000_000_000_000_000 };
        DataLock::acquire(directory, &owner).unwrap()
    }

    fn first(problems: Diagnostics) -> Diagnostic {
        problems.into_iter().next().unwrap()
    }

    #[tokio::test]
    async fn the_error_names_the_owner_of_the_lock_and_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let _held = lock(directory.path(), Some("/run/agent.sock".into()));
        let refused = acquire_lock(directory.path(), 0, LockConflict::Fail).await;
        let problem = first(refused.err().unwrap());
        assert_eq!(problem.code, Code::DataInUse);
        assert_eq!(problem.notes, ["process 7 has held the lock since 2023-11-14T22:13:20Z"]);
        assert_eq!(
            problem.help,
            ["use that agent with `--address unix:///run/agent.sock`", "stop it with `kill 7`"]
        );
        let refused = acquire_lock(directory.path(), 0, LockConflict::FailOffline).await;
        let problem = first(refused.err().unwrap());
        assert_eq!(problem.help, ["stop it with `kill 7`"]);
    }

    #[tokio::test]
    async fn a_command_uses_the_agent_that_serves() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("agent.sock");
        let _listening = tokio::net::UnixListener::bind(&socket).unwrap();
        let _held = lock(directory.path(), Some(socket.clone()));
        let result = acquire_lock(directory.path(), 0, SHARE).await.ok().unwrap();
        assert!(matches!(result, LockResult::ServedBy(found) if found == socket));
    }

    #[tokio::test]
    async fn a_command_waits_for_another_command() {
        let directory = tempfile::tempdir().unwrap();
        let held = lock(directory.path(), None);
        let path = directory.path().to_owned();
        let waiting = tokio::spawn(async move { acquire_lock(&path, 0, SHARE).await.is_ok() });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(held);
        assert!(waiting.await.unwrap());
    }

    #[tokio::test]
    async fn an_owner_that_does_not_answer_is_named_after_the_timeout() {
        let directory = tempfile::tempdir().unwrap();
        let _held = lock(directory.path(), Some(directory.path().join("gone.sock")));
        let brief = LockConflict::Share { timeout: Duration::from_millis(50) };
        let refused = acquire_lock(directory.path(), 0, brief).await;
        assert_eq!(first(refused.err().unwrap()).code, Code::DataInUse);
    }
}
