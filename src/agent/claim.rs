//! One agent per data directory: ours, or somebody else's who can be asked instead.
//!
//! The lock is `store`'s. An agent that serves for long records its socket there; a command that
//! runs one for itself (`--embedded`) does not, because its socket may go between two requests of
//! whoever relied on it. So a second command uses a running agent, and waits for another command.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};

use super::config::OnHeld;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::store::{DataLock, Holder, LockError};

/// How often a lock is tried while somebody has it.
const RETRY: Duration = Duration::from_millis(20);
/// How long an agent's socket may take to accept.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// Who works on the directory.
pub(super) enum Claimed {
    /// We do.
    Ours(DataLock),
    /// An agent does that listens there.
    Served(PathBuf),
}

/// Takes the lock on `directory`, or finds the agent that has it, as `on_held` says.
///
/// # Errors
/// Names the holder.
pub(super) async fn claim(
    directory: &Path,
    started_at: i64,
    on_held: OnHeld,
) -> Result<Claimed, Diagnostics> {
    let begun = Instant::now();
    loop {
        let refused = match try_lock(directory, started_at).await? {
            Ok(lock) => return Ok(Claimed::Ours(lock)),
            Err(refused) => refused,
        };
        let LockError::Held { holder, .. } = &refused else {
            return Err(lock_problem(&refused, None));
        };
        let patience = match on_held {
            OnHeld::Refuse => return Err(lock_problem(&refused, holder.as_ref())),
            OnHeld::Share { patience } => patience,
        };
        if let Some(socket) = holder.as_ref().and_then(|holder| holder.socket.as_deref())
            && answers(socket).await
        {
            return Ok(Claimed::Served(socket.to_owned()));
        }
        if begun.elapsed() >= patience {
            return Err(lock_problem(&refused, holder.as_ref()));
        }
        sleep(RETRY).await;
    }
}

async fn try_lock(
    directory: &Path,
    started_at: i64,
) -> Result<Result<DataLock, LockError>, Diagnostics> {
    let directory = directory.to_owned();
    let holder = Holder {
        pid: std::process::id(),
        socket: None,
        started_at,
    };
    super::blocking::run(move || DataLock::acquire(&directory, &holder)).await
}

async fn answers(socket: &Path) -> bool {
    matches!(
        timeout(ANSWER_LIMIT, UnixStream::connect(socket)).await,
        Ok(Ok(_))
    )
}

/// Who has it, since when, where he can be asked, and what to do.
pub(super) fn lock_problem(error: &LockError, holder: Option<&Holder>) -> Diagnostics {
    let mut problem = Diagnostic::error(error.code(), error.to_string());
    if let Some(source) = std::error::Error::source(error) {
        problem = problem.note(source.to_string()).help(remedy(error, source));
    }
    if let Some(holder) = holder {
        if let Ok(since) = jiff::Timestamp::from_nanosecond(holder.started_at.into()) {
            problem = problem.note(format!("process {} holds it since {since:.0}", holder.pid));
        }
        if let Some(socket) = &holder.socket {
            problem = problem.help(format!(
                "ask that agent: --address unix://{}",
                socket.display()
            ));
        }
        problem = problem.help(format!("or stop it: kill {}", holder.pid));
    }
    problem.into()
}

fn remedy(error: &LockError, source: &(dyn std::error::Error + 'static)) -> &'static str {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let io = source.downcast_ref::<std::io::Error>();
    match io.map(std::io::Error::kind) {
        Some(StorageFull | QuotaExceeded) => {
            "Free some space on its file system; nothing that was answered is lost."
        }
        Some(_) | None => error.code().remedy(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Code;

    const PATIENT: OnHeld = OnHeld::Share {
        patience: Duration::from_secs(20),
    };

    fn lock(directory: &Path, socket: Option<PathBuf>) -> DataLock {
        let holder = Holder {
            pid: 7,
            socket,
            started_at: 1_700_000_000_000_000_000,
        };
        DataLock::acquire(directory, &holder).unwrap()
    }

    fn first(problems: Diagnostics) -> Diagnostic {
        problems.into_iter().next().unwrap()
    }

    #[tokio::test]
    async fn a_second_agent_is_told_who_has_the_directory_and_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let _held = lock(directory.path(), Some("/run/agent.sock".into()));
        let refused = claim(directory.path(), 0, OnHeld::Refuse).await;
        let problem = first(refused.err().unwrap());
        assert_eq!(problem.code, Code::DataInUse);
        assert_eq!(
            problem.notes,
            ["process 7 holds it since 2023-11-14T22:13:20Z"]
        );
        assert_eq!(
            problem.help,
            [
                "ask that agent: --address unix:///run/agent.sock",
                "or stop it: kill 7"
            ]
        );
    }

    #[tokio::test]
    async fn a_command_uses_the_agent_that_serves() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("agent.sock");
        let _listening = tokio::net::UnixListener::bind(&socket).unwrap();
        let _held = lock(directory.path(), Some(socket.clone()));
        let claimed = claim(directory.path(), 0, PATIENT).await.ok().unwrap();
        assert!(matches!(claimed, Claimed::Served(found) if found == socket));
    }

    #[tokio::test]
    async fn a_command_waits_for_another_command() {
        let directory = tempfile::tempdir().unwrap();
        let held = lock(directory.path(), None);
        let path = directory.path().to_owned();
        let waiting = tokio::spawn(async move { claim(&path, 0, PATIENT).await.is_ok() });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(held);
        assert!(waiting.await.unwrap());
    }

    #[tokio::test]
    async fn a_holder_that_does_not_answer_is_named_in_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let _held = lock(directory.path(), Some(directory.path().join("gone.sock")));
        let brief = OnHeld::Share {
            patience: Duration::from_millis(50),
        };
        let refused = claim(directory.path(), 0, brief).await;
        assert_eq!(first(refused.err().unwrap()).code, Code::DataInUse);
    }
}
