//! Waiting until a volume is as somebody wants to have it.
//!
//! Nothing is changed. A server is asked to answer as soon as something changes, and at least every
//! few seconds, since not everything that matters moves a volume's index (a plugin's health does not
//! on Nomad). Once it has answered, a server that is away for a while ends no wait: that is a reason
//! like others. The wait ends when its time is over, at the latest.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::diagnostic::Code;
use crate::model::NamespacedId;
use crate::plan::{Awaited, Standing};
use crate::ports::{ApiError, VolumeWatch, WaitFor};

/// What is waited for, and for how long at most.
#[derive(Clone, Debug)]
pub struct Wait {
    /// The volume.
    pub volume: NamespacedId,
    /// How it shall be.
    pub awaited: Awaited,
    /// How long at most; looked at once in any case.
    pub patience: Duration,
}

/// How a wait ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The volume is as it shall be.
    Reached,
    /// There is no such volume any more, or never was.
    Gone,
    /// The time is over; why it was not so, when it was looked at last.
    TooLong(String),
}

/// A server is asked again after that long, also if it says that nothing has changed.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// A server takes no wait at all for its default, which is minutes.
const SHORTEST: Duration = Duration::from_millis(1);
/// Between two questions, so that a server that answers at once is not flooded.
const PAUSE: Duration = Duration::from_millis(500);

/// Waits. `tell` hears why it is not so yet, each time that the reason changes.
///
/// # Errors
/// If the server cannot be asked at first, or refuses.
pub async fn wait(
    watch: &dyn VolumeWatch,
    wait: &Wait,
    tell: &mut (dyn FnMut(&str) + Send),
) -> Result<Waited, ApiError> {
    let end = Instant::now() + wait.patience;
    let mut index = None;
    let mut reason = String::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let asked = WaitFor {
            index,
            at_most: left.clamp(SHORTEST, LOOK_AGAIN),
        };
        let why = match watch.watch_volume(&wait.volume, asked).await {
            Ok(seen) => {
                index = Some(seen.index);
                let volume = seen.value.as_ref().map(|reading| &reading.value);
                match wait.awaited.standing(volume) {
                    Standing::Reached => return Ok(Waited::Reached),
                    Standing::Gone => return Ok(Waited::Gone),
                    Standing::NotYet(why) => why,
                }
            }
            Err(error) if index.is_some() && may_pass(&error) => {
                format!("the server cannot be asked: {}", error.message)
            }
            Err(error) => return Err(error),
        };
        if why != reason {
            tell(&why);
            reason = why;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Waited::TooLong(reason));
        }
        sleep(PAUSE.min(left)).await;
    }
}

/// Whether another attempt may fare better: nobody answered, or the server was in trouble.
fn may_pass(error: &ApiError) -> bool {
    let refused = matches!(error.code, Code::ApiForbidden | Code::ApiUnknownToken);
    !refused
        && error
            .status
            .is_none_or(|status| status >= 500 || status == 429)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use async_trait::async_trait;

    use super::*;
    use crate::model::{Volume, VolumeSummary};
    use crate::ports::{Document, Reading, VolumeQuery, Watched};
    use crate::wire;

    /// One answer, and how long the server holds it back.
    type Answer = (u64, Result<Option<bool>, u16>);

    /// Answers with volumes that are schedulable or not, the last answer for ever.
    struct Server(Mutex<VecDeque<Answer>>);

    fn volume(schedulable: bool) -> Reading<Volume> {
        let document = wire::VolumeDocument {
            id: "db".into(),
            schedulable,
            ..wire::VolumeDocument::default()
        };
        Reading {
            value: wire::volume_from_wire(&document),
            document: Document::of(&document),
        }
    }

    #[async_trait]
    impl VolumeWatch for Server {
        async fn watch_volumes(
            &self,
            _: &VolumeQuery,
            _: WaitFor,
        ) -> Result<Watched<Vec<Reading<VolumeSummary>>>, ApiError> {
            panic!("nobody asks for a list")
        }

        async fn watch_volume(
            &self,
            _: &NamespacedId,
            wait: WaitFor,
        ) -> Result<Watched<Option<Reading<Volume>>>, ApiError> {
            let (seconds, answer) = {
                let mut answers = self.0.lock().unwrap();
                match answers.len() {
                    1 => answers[0],
                    _ => answers.pop_front().unwrap(),
                }
            };
            if wait.index.is_some() {
                sleep(wait.at_most.min(Duration::from_secs(seconds))).await;
            }
            match answer {
                Ok(found) => Ok(Watched {
                    value: found.map(volume),
                    index: 7,
                    changed: true,
                }),
                Err(status) => Err(ApiError {
                    code: Code::ApiServerError,
                    status: (status > 0).then_some(status),
                    message: "it is away".into(),
                    help: vec![],
                    server_text: None,
                }),
            }
        }
    }

    /// How it ended, what was told, and after how many seconds.
    async fn waited(
        answers: impl IntoIterator<Item = Answer>,
        awaited: Awaited,
    ) -> (Result<Waited, ApiError>, usize, u64) {
        let server = Server(Mutex::new(answers.into_iter().collect()));
        let order = Wait {
            volume: NamespacedId::new("default".into(), "db".into()),
            awaited,
            patience: Duration::from_secs(60),
        };
        let start = Instant::now();
        let mut told = vec![];
        let ended = wait(&server, &order, &mut |why| told.push(why.to_owned())).await;
        (ended, told.len(), start.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_when_it_is_so_or_cannot_come() {
        use Awaited::{Absent, Schedulable};
        let no = (0, Ok(Some(false)));
        for (answers, awaited, expected, told, seconds) in [
            (
                vec![(0, Ok(Some(true)))],
                Schedulable,
                Waited::Reached,
                0,
                0,
            ),
            (
                vec![no, (5, Ok(Some(true)))],
                Schedulable,
                Waited::Reached,
                1,
                5,
            ),
            (vec![no, (1, Ok(None))], Schedulable, Waited::Gone, 1, 1),
            (vec![(0, Ok(None))], Schedulable, Waited::Gone, 0, 0),
            (vec![no, (3, Ok(None))], Absent, Waited::Reached, 1, 3),
        ] {
            let (ended, heard, after) = waited(answers, awaited).await;
            assert_eq!(
                (ended.as_ref(), heard),
                (Ok(&expected), told),
                "{awaited:?}"
            );
            assert_eq!(after, seconds, "{expected:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reason_is_told_once_and_time_is_over_in_time() {
        let (ended, heard, after) = waited([(90, Ok(Some(false)))], Awaited::Schedulable).await;
        assert!(matches!(ended, Ok(Waited::TooLong(_))), "{ended:?}");
        assert_eq!((heard, after), (1, 60));
        // A server that does not hold answers back is not flooded, and waited for no longer.
        let (ended, heard, after) = waited([(0, Ok(Some(false)))], Awaited::Schedulable).await;
        assert!(matches!(ended, Ok(Waited::TooLong(_))), "{ended:?}");
        assert_eq!((heard, after), (1, 60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_goes_away_is_waited_for_and_one_that_never_answered_is_not() {
        let no = (0, Ok(Some(false)));
        let back = vec![no, (1, Err(0)), (1, Err(500)), (1, Ok(Some(true)))];
        let (ended, heard, _) = waited(back, Awaited::Schedulable).await;
        assert_eq!((ended, heard), (Ok(Waited::Reached), 2));
        for answers in [vec![(0, Err(0))], vec![no, (1, Err(403))]] {
            let (ended, ..) = waited(answers, Awaited::Schedulable).await;
            assert!(ended.is_err(), "{ended:?}");
        }
    }
}
