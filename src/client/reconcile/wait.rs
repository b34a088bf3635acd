//! Waits until a volume meets a condition.
//!
//! The server answers when something changes, and at least every few seconds: not everything that
//! matters moves a volume's index. On Nomad a plugin's health does not. Once the server has answered,
//! later failures to reach it do not end the wait. The timeout does.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::ports::{ApiError, VolumeWatch, WatchRequest};
use nomad_csi_model::NamespacedId;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_plan::{ConditionStatus, WaitCondition};

/// A volume to wait for.
#[derive(Clone, Debug)]
pub(super) struct WaitRequest {
    /// The volume.
    pub volume: NamespacedId,
    /// The condition that it must meet.
    pub condition: WaitCondition,
    /// How long to wait. The volume is read once in any case.
    pub timeout: Duration,
}

/// How a wait ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WaitOutcome {
    /// The volume meets the condition.
    Met,
    /// The volume does not exist.
    VolumeNotFound,
    /// The timeout passed. Holds the last reason why the condition was not met.
    TimedOut(String),
}

/// The longest time that one request waits for a change.
const LONGEST_REQUEST: Duration = Duration::from_secs(10);
/// A server takes a wait of zero as its default, which is minutes.
const SHORTEST_REQUEST: Duration = Duration::from_millis(1);
/// The pause between two requests, for servers that answer immediately.
const PAUSE: Duration = Duration::from_millis(500);

/// Waits for a volume. Calls `report` with the reason why the condition is not met, each time that the
/// reason changes.
///
/// # Errors
/// If the first request fails, or the server refuses one.
pub(super) async fn wait_for_volume(
    watch: &dyn VolumeWatch,
    request: &WaitRequest,
    report: &mut (dyn FnMut(&str) + Send),
) -> Result<WaitOutcome, ApiError> {
    let end = Instant::now() + request.timeout;
    let mut index = None;
    let mut reason = String::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let watched =
            WatchRequest { index, max_wait: left.clamp(SHORTEST_REQUEST, LONGEST_REQUEST) };
        let why = match watch.watch_volume(&request.volume, watched).await {
            Ok(answer) => {
                index = Some(answer.index);
                let volume = answer.value.as_ref().map(|reading| &reading.value);
                match request.condition.status(volume) {
                    ConditionStatus::Met => return Ok(WaitOutcome::Met),
                    ConditionStatus::VolumeNotFound => return Ok(WaitOutcome::VolumeNotFound),
                    ConditionStatus::NotMet(why) => why,
                }
            }
            Err(error) if index.is_some() && is_temporary(&error) => {
                format!("the server cannot be reached: {}", error.message)
            }
            Err(error) => return Err(error),
        };
        if why != reason {
            report(&why);
            reason = why;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(WaitOutcome::TimedOut(reason));
        }
        sleep(PAUSE.min(left)).await;
    }
}

/// Returns whether a retry may succeed: the server did not answer, or had an internal error.
pub(super) fn is_temporary(error: &ApiError) -> bool {
    let refused =
        matches!(error.code, Code::ApiForbidden | Code::ApiUnknownToken | Code::ApiTooLarge);
    !refused && error.status.is_none_or(|status| status >= 500 || status == 429)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use async_trait::async_trait;
    use parking_lot::Mutex;

    use super::*;
    use crate::ports::{Document, VolumeQuery, WatchResponse, WithDocument};
    use nomad_csi_model::{Volume, VolumeSummary};
    use nomad_csi_wire as wire;

    /// A reply, and how long the server delays it.
    type Answer = (u64, Result<Option<bool>, u16>);

    /// Replies with volumes that are schedulable or not. Repeats the last reply.
    struct Server(Mutex<VecDeque<Answer>>);

    fn volume(schedulable: bool) -> WithDocument<Volume> {
        let document = wire::VolumeDocument {
            id: "db".into(),
            schedulable,
            ..wire::VolumeDocument::default()
        };
        WithDocument { value: wire::volume_from_wire(&document), document: Document::of(&document) }
    }

    #[async_trait]
    impl VolumeWatch for Server {
        async fn watch_volumes(
            &self,
            _: &VolumeQuery,
            _: WatchRequest,
        ) -> Result<WatchResponse<Vec<WithDocument<VolumeSummary>>>, ApiError> {
            panic!("no list is requested")
        }

        async fn watch_volume(
            &self,
            _: &NamespacedId,
            wait: WatchRequest,
        ) -> Result<WatchResponse<Option<WithDocument<Volume>>>, ApiError> {
            let (seconds, answer) = {
                let mut answers = self.0.lock();
                match answers.len() {
                    1 => answers[0],
                    _ => answers.pop_front().unwrap(),
                }
            };
            if wait.index.is_some() {
                sleep(wait.max_wait.min(Duration::from_secs(seconds))).await;
            }
            match answer {
                Ok(found) => {
                    Ok(WatchResponse { value: found.map(volume), index: 7, changed: true })
                }
                Err(status) => Err(ApiError {
                    status: (status > 0).then_some(status),
                    ..ApiError::new(Code::ApiServerError, "unreachable")
                }),
            }
        }
    }

    /// Returns how the wait ended, the number of reports, and the seconds that it took.
    async fn waited(
        answers: impl IntoIterator<Item = Answer>,
        awaited: WaitCondition,
    ) -> (Result<WaitOutcome, ApiError>, usize, u64) {
        let server = Server(Mutex::new(answers.into_iter().collect()));
        let request = WaitRequest {
            volume: NamespacedId::new("default".into(), "db".into()),
            condition: awaited,
            timeout: Duration::from_secs(60),
        };
        let start = Instant::now();
        let mut reports = vec![];
        let ended =
            wait_for_volume(&server, &request, &mut |why| reports.push(why.to_owned())).await;
        (ended, reports.len(), start.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_when_the_condition_is_met_or_impossible() {
        use WaitCondition::{Absent, Schedulable};
        let no = (0, Ok(Some(false)));
        for (answers, awaited, expected, reports, seconds) in [
            (vec![(0, Ok(Some(true)))], Schedulable, WaitOutcome::Met, 0, 0),
            (vec![no, (5, Ok(Some(true)))], Schedulable, WaitOutcome::Met, 1, 5),
            (vec![no, (1, Ok(None))], Schedulable, WaitOutcome::VolumeNotFound, 1, 1),
            (vec![(0, Ok(None))], Schedulable, WaitOutcome::VolumeNotFound, 0, 0),
            (vec![no, (3, Ok(None))], Absent, WaitOutcome::Met, 1, 3),
        ] {
            let (ended, seen, after) = waited(answers, awaited).await;
            assert_eq!((ended.as_ref(), seen), (Ok(&expected), reports), "{awaited:?}");
            assert_eq!(after, seconds, "{expected:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reason_is_reported_once_and_the_timeout_holds() {
        let (ended, seen, after) =
            waited([(90, Ok(Some(false)))], WaitCondition::Schedulable).await;
        assert!(matches!(ended, Ok(WaitOutcome::TimedOut(_))), "{ended:?}");
        assert_eq!((seen, after), (1, 60));
        // A server that replies immediately is not flooded, and the timeout is the same.
        let (ended, seen, after) = waited([(0, Ok(Some(false)))], WaitCondition::Schedulable).await;
        assert!(matches!(ended, Ok(WaitOutcome::TimedOut(_))), "{ended:?}");
        assert_eq!((seen, after), (1, 60));
    }

    #[test]
    fn what_a_repetition_cannot_change_is_not_temporary() {
        let error = |code, status| ApiError { status, ..ApiError::new(code, "") };
        for (code, status, expected) in [
            (Code::ApiServerError, None, true),
            (Code::ApiServerError, Some(500), true),
            (Code::ApiServerError, Some(429), true),
            (Code::ApiServerError, Some(400), false),
            (Code::ApiForbidden, Some(403), false),
            (Code::ApiUnknownToken, Some(500), false),
            (Code::ApiTooLarge, None, false),
        ] {
            assert_eq!(is_temporary(&error(code, status)), expected, "{code:?} {status:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_server_that_has_replied_is_waited_for() {
        let no = (0, Ok(Some(false)));
        let back = vec![no, (1, Err(0)), (1, Err(500)), (1, Ok(Some(true)))];
        let (ended, seen, _) = waited(back, WaitCondition::Schedulable).await;
        assert_eq!((ended, seen), (Ok(WaitOutcome::Met), 2));
        for answers in [vec![(0, Err(0))], vec![no, (1, Err(403))]] {
            let (ended, ..) = waited(answers, WaitCondition::Schedulable).await;
            assert!(ended.is_err(), "{ended:?}");
        }
    }
}
