use parking_lot::Mutex;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::*;
use crate::ports::{ApiError, WatchResponse, WithDocument};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{NamespacedId, Volume, VolumeSummary};

/// A server whose index the test raises, or that is unreachable.
#[derive(Default)]
struct Server {
    index: Mutex<u64>,
    raised: Notify,
    away: bool,
    /// It does not wait.
    hasty: bool,
    asked: Mutex<u64>,
}

impl Server {
    fn raise(&self) {
        *self.index.lock() += 1;
        self.raised.notify_waiters();
    }
}

#[async_trait]
impl VolumeWatch for Server {
    async fn watch_volumes(
        &self,
        _: &VolumeQuery,
        wait: WatchRequest,
    ) -> Result<WatchResponse<Vec<WithDocument<VolumeSummary>>>, ApiError> {
        if self.away {
            return Err(ApiError::new(Code::ApiUnreachable, "no reply"));
        }
        *self.asked.lock() += 1;
        let patience = if self.hasty { Duration::ZERO } else { wait.max_wait };
        let deadline = Instant::now() + patience;
        loop {
            let raised = self.raised.notified();
            let index = *self.index.lock();
            let changed = wait.index.is_none_or(|from| index > from);
            if changed || Instant::now() >= deadline {
                return Ok(WatchResponse { value: vec![], index, changed });
            }
            tokio::select! {
                () = raised => {}
                () = sleep_until(deadline) => {}
            }
        }
    }

    async fn watch_volume(
        &self,
        _: &NamespacedId,
        _: WatchRequest,
    ) -> Result<WatchResponse<Option<WithDocument<Volume>>>, ApiError> {
        // No volume ever changes.
        std::future::pending().await
    }
}

/// No chance: every pause as long as it is on average.
struct Even;

impl IdSource for Even {
    fn uuid(&self) -> String {
        String::new()
    }

    fn jitter(&self) -> f64 {
        0.5
    }
}

const INTERVAL: Duration = Duration::from_secs(30);

/// When rounds began, in seconds, and why. `during` is done in the round of that number; after as
/// many rounds as there are ends, it is stopped.
async fn rounds(
    server: &Server,
    ends: &[RoundEnd],
    during: impl Fn(usize),
) -> Vec<(u64, &'static str)> {
    let stop = CancellationToken::new();
    let start = Instant::now();
    let mut seen = vec![];
    let running = run_loop(server, INTERVAL, &Even, &stop, async |cause| {
        let at = seen.len();
        seen.push((start.elapsed().as_secs(), cause.as_str()));
        during(at);
        if seen.len() == ends.len() {
            stop.cancel();
        }
        ends[at]
    });
    running.await;
    seen
}

#[tokio::test(start_paused = true)]
async fn without_changes_one_round_runs_per_interval() {
    let server = Server::default();
    let seen = rounds(&server, &[RoundEnd::Done; 3], |_| {}).await;
    assert_eq!(seen, [(0, "start"), (30, "period"), (60, "period")]);
}

/// A change during a round is seen by the next, after a moment for others to come along.
#[tokio::test(start_paused = true)]
async fn changes_trigger_one_early_round() {
    let server = Server::default();
    let many = |at: usize| {
        if at == 0 {
            (0..100).for_each(|_| server.raise());
        }
    };
    let seen = rounds(&server, &[RoundEnd::Done; 3], many).await;
    assert_eq!(seen, [(0, "start"), (2, "change"), (32, "period")]);
}

/// As behind a proxy that cuts waiting short.
#[tokio::test(start_paused = true)]
async fn a_server_that_replies_immediately_is_not_queried_in_a_tight_loop() {
    let server = Server { hasty: true, ..Server::default() };
    let seen = rounds(&server, &[RoundEnd::Done; 2], |_| {}).await;
    assert_eq!(seen, [(0, "start"), (30, "period")]);
    let asked = *server.asked.lock();
    assert!((2..=20).contains(&asked), "{asked}");
}

#[tokio::test(start_paused = true)]
async fn rounds_run_without_a_watch() {
    let server = Server { away: true, ..Server::default() };
    let seen = rounds(&server, &[RoundEnd::Done; 2], |_| {}).await;
    assert_eq!(seen, [(0, "start"), (30, "period")]);
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_after_failures_and_reset_after_a_success() {
    use RoundEnd::{Done, Failed};
    let server = Server::default();
    let ends = [Failed, Failed, Failed, Failed, Failed, Failed, Done, Done];
    let seen = rounds(&server, &ends, |_| {}).await;
    let times: Vec<u64> = seen.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [0, 30, 90, 210, 450, 750, 1050, 1080]);
    assert_eq!(seen[6].1, "retry");
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_only_for_the_running_round() {
    let server = Server::default();
    let stop = CancellationToken::new();
    let start = Instant::now();
    let stopping = async {
        tokio::time::sleep(Duration::from_secs(7)).await;
        stop.cancel();
    };
    let round = async |_| {
        tokio::time::sleep(Duration::from_secs(10)).await;
        RoundEnd::Done
    };
    tokio::join!(run_loop(&server, INTERVAL, &Even, &stop, round), stopping);
    assert_eq!(start.elapsed().as_secs(), 10, "the round ends, and nothing follows");
}

#[test]
fn a_pause_is_never_longer_than_five_minutes_or_the_interval() {
    let hour = Duration::from_secs(3600);
    for (failures, interval, expected) in [
        (0, INTERVAL, 30),
        (1, INTERVAL, 30),
        (4, INTERVAL, 240),
        (40, INTERVAL, 300),
        (40, hour, 3600),
    ] {
        assert_eq!(pause(failures, interval, 0.5).as_secs(), expected);
    }
    assert!(pause(1, INTERVAL, 0.0) < pause(1, INTERVAL, 1.0));
}
