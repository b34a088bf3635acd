//! The launches of periodic jobs, at their times.

use tracing::{info, warn};

use super::children::{DueLaunch, NextLaunch, has_running_child, launched_job, next_launch};
use super::settings::JobSealer;
use crate::cell::{CommitError, Expected};
use crate::error::ServerError;
use crate::ports::ServerPorts;
use nomad_csi_claims::state::{EvaluationTrigger, Event, EventKind, JobEvent, JobRecord};
use nomad_csi_model::{EvaluationId, JobKey};

/// The pause after a launch could not be recorded.
const FAILURE_PAUSE: i64 = 5_000_000_000;

/// Launches periodic jobs.
pub(super) struct Launcher {
    ports: ServerPorts,
    sealer: JobSealer,
}

impl Launcher {
    pub(super) fn new(ports: ServerPorts) -> Self {
        Self { sealer: JobSealer::new(ports.sealer.clone()), ports }
    }

    /// Launches the job if its time has come. Returns when to look at it again, in nanoseconds since the epoch.
    pub(super) async fn launch_due(&self, key: &JobKey) -> Option<i64> {
        let now = self.ports.clock.now();
        let cell = &self.ports.cell;
        let record = cell.read(|state| state.job(key).cloned())?;
        let is_running = || cell.read(|state| has_running_child(state, key, now));
        let due = match next_launch(&record, now, is_running)? {
            Ok(NextLaunch::Never) => return None,
            Ok(NextLaunch::At(at)) => return Some(at),
            Ok(NextLaunch::Due(due)) => Some(due),
            Ok(NextLaunch::SetBack) => None,
            Err(problems) => {
                let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
                warn!(job.id = %key.id, job.namespace = %key.namespace, problem = problems.join("; "),
                    "a periodic job has no launch times");
                return None;
            }
        };
        match self.record(key, &record, due.as_ref(), now).await {
            // The commit wakes the scheduler, which looks at the job again.
            Ok(()) => None,
            // So does the other change.
            Err(ServerError::Commit(CommitError::JobConflict { .. })) => Some(now),
            Err(ServerError::Commit(CommitError::Stopping)) => None,
            Err(error) => {
                warn!(job.id = %key.id, job.namespace = %key.namespace, error = error.message(),
                    "a launch was not recorded and is repeated");
                Some(now.saturating_add(FAILURE_PAUSE))
            }
        }
    }

    async fn record(
        &self,
        key: &JobKey,
        record: &JobRecord,
        due: Option<&DueLaunch>,
        now: i64,
    ) -> Result<(), ServerError> {
        let mut expected = vec![Expected::JobAt(key.clone(), Some(record.modify_index))];
        let until = due.map_or(now, |due| due.until);
        let mut kinds = vec![EventKind::Job {
            job: key.clone(),
            event: Box::new(JobEvent::Launched { until }),
        }];
        let child = match due {
            Some(due) => self.child(key, record, due)?,
            None => {
                warn!(job.id = %key.id, job.namespace = %key.namespace,
                    "the clock was set back: the launches of a job are decided again from now");
                None
            }
        };
        if let Some((child, events)) = child {
            expected.push(Expected::JobAt(child, None));
            kinds.extend(events);
        }
        let events = kinds.into_iter().map(|kind| Event::new(now, kind));
        self.ports.cell.commit_all(expected, events.collect()).await?;
        Ok(())
    }

    /// The job of the launch with the events that make it; `None` if there is none.
    ///
    /// # Errors
    /// If the recorded job cannot be opened.
    fn child(
        &self,
        key: &JobKey,
        record: &JobRecord,
        due: &DueLaunch,
    ) -> Result<Option<(JobKey, Vec<EventKind>)>, ServerError> {
        if due.is_left_out {
            info!(job.id = %key.id, job.namespace = %key.namespace,
                "a launch is left out: a job of an earlier one runs");
            return Ok(None);
        }
        let parent = self.sealer.open(&record.current)?;
        let child = launched_job(&parent, due.time);
        let child_key = child.key();
        if self.ports.cell.read(|state| state.job(&child_key).is_some()) {
            info!(job.id = %child_key.id, job.namespace = %child_key.namespace,
                "a launch is left out: it was made before");
            return Ok(None);
        }
        let evaluation = EvaluationId::new(self.ports.ids.uuid());
        info!(job.id = %child_key.id, job.namespace = %child_key.namespace, "periodic job launched");
        let trigger = EvaluationTrigger::Launched;
        let events = self.sealer.registration(&child, Some(evaluation), trigger);
        Ok(Some((child_key, events)))
    }
}
