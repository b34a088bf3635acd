//! [`FollowedState`]: the state of a server that does not lead, kept by the journal of the one that does.
//!
//! It changes only by events that are durable, so what it shows was true at its index. A reader that needs everything that was
//! acknowledged before waits until the state has the end of the log. Readers share the question for that end.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::commit::{Commit, CommitError};
use super::state_cell::{StateCell, inconsistent};
use super::watch::Watches;
use crate::journal::{Followed, FollowedJournal, JournalError, JournalErrorKind};
use nomad_csi_claims::state::{Event, Overlay, State, apply, check, replay_changes};

/// The time between two looks at a journal that had nothing new.
const LOOK: Duration = Duration::from_millis(100);
/// The time between two looks at a journal that cannot be read.
const RETRY: Duration = Duration::from_secs(1);
/// How long a reader waits for what was acknowledged before.
const CURRENT_LIMIT: Duration = Duration::from_secs(5);
/// The readers that wait to ask.
const ASKING: usize = 1_024;

/// The state of the leader, as another server follows it. Clones share their state.
#[derive(Clone)]
pub struct FollowedState {
    cell: StateCell,
    asking: mpsc::Sender<oneshot::Sender<u64>>,
    applied: watch::Receiver<u64>,
    current_at: Arc<Mutex<Instant>>,
}

/// What was acknowledged before cannot be read now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the state of the leader cannot be read up to its end")]
pub struct NotCurrent;

impl FollowedState {
    /// Loads the journal and follows it until [`StateCell::stop`]. Needs a running tokio runtime.
    ///
    /// # Errors
    /// If the journal cannot be read, or is inconsistent.
    pub async fn open(journal: Arc<dyn FollowedJournal>) -> Result<Self, JournalError> {
        let state = load(journal.as_ref()).await?;
        let current_at = Arc::new(Mutex::new(Instant::now()));
        let (applying, applied) = watch::channel(state.index());
        let (asking, asked) = mpsc::channel(ASKING);
        let (cell, commits, _) = StateCell::of(state, journal.clone(), 1);
        let bell = Arc::new(Notify::new());
        let follower = Follower {
            state: cell.state.clone(),
            watches: cell.watches.clone(),
            journal: journal.clone(),
            applying,
            current_at: current_at.clone(),
            bell: bell.clone(),
            is_failing: false,
        };
        cell.tasks.spawn(follower.run(commits, cell.stop.clone()));
        let index = applied.clone();
        let stop = cell.stop.clone();
        cell.tasks.spawn(async move {
            stop.run_until_cancelled(answer_ends(journal, asked, index, bell)).await;
        });
        cell.tasks.close();
        Ok(Self { cell, asking, applied, current_at })
    }

    /// Returns the state. Commits to it fail with [`NotLeader`](JournalErrorKind::NotLeader).
    pub fn cell(&self) -> &StateCell {
        &self.cell
    }

    /// Returns how long ago the state is known to have had everything.
    pub fn since_current(&self) -> Duration {
        self.current_at.lock().elapsed()
    }

    /// Waits until the state has everything that was acknowledged before the call, at most 5 s.
    ///
    /// # Errors
    /// If the journal cannot be read in this time.
    pub async fn wait_until_current(&self) -> Result<(), NotCurrent> {
        let waiting = async {
            let (answer, answered) = oneshot::channel();
            self.asking.send(answer).await.map_err(|_| NotCurrent)?;
            let end = answered.await.map_err(|_| NotCurrent)?;
            let mut applied = self.applied.clone();
            applied.wait_for(|index| *index >= end).await.map_err(|_| NotCurrent)?;
            Ok(())
        };
        timeout(CURRENT_LIMIT, waiting).await.unwrap_or(Err(NotCurrent))
    }
}

/// Answers readers with the end of the log: those that wait share one question, which is asked after they began to wait.
async fn answer_ends(
    journal: Arc<dyn FollowedJournal>,
    mut asked: mpsc::Receiver<oneshot::Sender<u64>>,
    applied: watch::Receiver<u64>,
    bell: Arc<Notify>,
) {
    while let Some(first) = asked.recv().await {
        let mut waiting = vec![first];
        while let Ok(more) = asked.try_recv() {
            waiting.push(more);
        }
        match journal.head().await {
            Ok(end) => {
                if end > *applied.borrow() {
                    bell.notify_one();
                }
                for answer in waiting {
                    answer.send(end).ok();
                }
            }
            // Without an answer they learn that the end is not known.
            Err(error) => {
                tracing::debug!(%error, reason = %error.source, "the end of the log is not known");
            }
        }
    }
}

async fn load(journal: &dyn FollowedJournal) -> Result<State, JournalError> {
    let loaded = journal.load().await?;
    let replayed = replay_changes(loaded.snapshot, loaded.events);
    let (state, _) = replayed.map_err(|error| inconsistent(journal.place(), error))?;
    Ok(state)
}

/// Applies what the leader has written.
struct Follower {
    state: Arc<RwLock<State>>,
    watches: Watches,
    journal: Arc<dyn FollowedJournal>,
    applying: watch::Sender<u64>,
    current_at: Arc<Mutex<Instant>>,
    /// Rings when there is something new.
    bell: Arc<Notify>,
    is_failing: bool,
}

/// Readers learn that nothing changes any more, also after a panic.
impl Drop for Follower {
    fn drop(&mut self) {
        self.watches.close();
    }
}

impl Follower {
    async fn run(mut self, mut commits: mpsc::Receiver<Vec<Commit>>, stop: CancellationToken) {
        loop {
            let Some(pause) = stop.run_until_cancelled(self.look()).await else {
                return;
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.bell.notified() => {}
                Some(refused) = commits.recv() => self.refuse(refused),
                () = stop.cancelled() => return,
            }
        }
    }

    /// Applies what is new, and returns how long to wait for more.
    async fn look(&mut self) -> Duration {
        let (begun, index) = (Instant::now(), self.state.read().index());
        let looked = match self.journal.read_after(index).await {
            Ok(Followed::Current) => {
                *self.current_at.lock() = begun;
                Ok(LOOK)
            }
            Ok(Followed::Events(events)) => match self.apply(&events) {
                Ok(()) => Ok(Duration::ZERO),
                Err(misfit) => {
                    tracing::error!(error = %misfit, reason = %misfit.source, "an event of the leader does not fit: everything is read again");
                    self.load_again().await.map(|()| RETRY)
                }
            },
            Ok(Followed::Gone) => self.load_again().await.map(|()| Duration::ZERO),
            Err(error) => Err(error),
        };
        match looked {
            Ok(pause) => {
                if self.is_failing {
                    tracing::info!("the journal of the leader is followed again");
                }
                self.is_failing = false;
                pause
            }
            Err(error) => {
                if !self.is_failing {
                    tracing::warn!(%error, reason = %error.source, "the journal of the leader cannot be followed: reads of this server are old");
                }
                self.is_failing = true;
                RETRY
            }
        }
    }

    fn apply(&self, events: &[Event]) -> Result<(), JournalError> {
        let mut changed = HashSet::new();
        let mut state = self.state.write();
        let misfit = events.iter().find_map(|event| {
            let checked = check(&state, event);
            if checked.is_ok() {
                changed.extend(Overlay::new(&state).subjects_of(&event.kind));
                apply(&mut state, event);
            }
            checked.err()
        });
        let index = state.index();
        drop(state);
        self.applying.send_replace(index);
        self.watches.wake(&changed);
        match misfit {
            None => Ok(()),
            Some(misfit) => Err(JournalError {
                kind: JournalErrorKind::Damaged,
                operation: "follow",
                place: self.journal.place(),
                source: Arc::new(misfit),
            }),
        }
    }

    async fn load_again(&self) -> Result<(), JournalError> {
        let loaded = load(self.journal.as_ref()).await?;
        let index = loaded.index();
        let before = {
            let mut state = self.state.write();
            std::mem::replace(&mut *state, loaded).index()
        };
        match index >= before {
            true => tracing::info!(index, before, "the journal of the leader was loaded again"),
            false => tracing::error!(
                index,
                before,
                "the journal of the leader has gone back, as after a restore of etcd from a backup"
            ),
        }
        self.applying.send_replace(index);
        self.watches.wake_all();
        Ok(())
    }

    fn refuse(&self, commits: Vec<Commit>) {
        let error = JournalError {
            kind: JournalErrorKind::NotLeader,
            operation: "append to",
            place: self.journal.place(),
            source: Arc::new(std::io::Error::other("this server follows the one that leads")),
        };
        for commit in commits {
            commit.reply.send(Err(CommitError::Journal(error.clone()))).ok();
        }
    }
}
