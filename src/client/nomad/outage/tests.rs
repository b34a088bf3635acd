//! Requests that wait together for a server.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use futures_util::future::join_all;

use super::*;
use crate::ports::OutageObserver;
use nomad_csi_model::diagnostic::Code;

#[derive(Debug, Default)]
struct Lines(Mutex<Vec<String>>);

impl Lines {
    fn add(&self, line: String) {
        self.0.lock().push(line);
    }
}

impl OutageObserver for Lines {
    fn server_unreachable(&self, server: &str, why: &ApiError, timeout: Duration) {
        self.add(format!("{server} away: {} ({timeout:?})", why.message));
    }

    fn server_silent(&self, server: &str, since: Duration) {
        self.add(format!("{server} silent: {since:?}"));
    }

    fn server_back(&self, server: &str, _: Duration) {
        self.add(format!("{server} back"));
    }

    fn gave_up(&self, server: &str) {
        self.add(format!("{server} gave up"));
    }
}

fn refused() -> ApiError {
    ApiError::new(Code::ApiConnectionRefused, "refused")
}

fn outage() -> (Outage, Arc<Lines>) {
    let lines = Arc::new(Lines::default());
    let wait = ServerWait { timeout: Duration::from_secs(60), observer: lines.clone() };
    (Outage::waiting("nomad", wait), lines)
}

/// 32 requests fail together: one line, and one probe at a time.
#[tokio::test(start_paused = true)]
async fn requests_wait_together_until_the_server_responds() {
    let (outage, lines) = outage();
    let (start, error) = (Instant::now(), refused());
    let (probes, running) = (AtomicU32::new(0), AtomicU32::new(0));
    let probe = || async {
        assert_eq!(running.fetch_add(1, Relaxed), 0, "one probe at a time");
        tokio::task::yield_now().await;
        running.fetch_sub(1, Relaxed);
        probes.fetch_add(1, Relaxed);
        start.elapsed() > Duration::from_secs(20)
    };
    let ends = join_all((0..32).map(|_| outage.wait(&error, probe))).await;
    assert!(ends.iter().all(|is_back| *is_back));
    assert!(outage.has_recovered());
    assert!(start.elapsed() < Duration::from_secs(31));
    assert!(probes.into_inner() < 12);
    let lines = lines.0.lock().clone();
    assert_eq!(lines, ["nomad away: refused (60s)", "nomad back"]);
}

/// All waits end together, and a later request does not wait again until the server has responded.
#[tokio::test(start_paused = true)]
async fn the_wait_is_bounded_for_all_requests_together() {
    let (outage, lines) = outage();
    outage.end();
    assert!(!outage.has_recovered());
    let (start, error) = (Instant::now(), refused());
    let silent = || async { false };
    let waits = (0..32).map(|_| outage.wait(&error, silent));
    let ends = join_all(waits).await;
    assert!(!ends.iter().any(|is_back| *is_back));
    assert_eq!(start.elapsed().as_secs(), 60);
    assert!(!outage.wait(&error, silent).await);
    assert_eq!(start.elapsed().as_secs(), 60);
    outage.end();
    let later = outage.wait(&error, silent).await;
    assert_eq!((later, start.elapsed().as_secs()), (false, 120));
    let lines = lines.0.lock().clone();
    let expected = [
        "nomad away: refused (60s)",
        "nomad gave up",
        "nomad back",
        "nomad away: refused (60s)",
        "nomad gave up",
    ];
    assert_eq!(lines, expected);
}

/// A request that is interrupted while it probes leaves the turn to the others.
#[tokio::test(start_paused = true)]
async fn an_interrupted_request_hands_its_turn_over() {
    let (outage, _) = outage();
    let (start, error) = (Instant::now(), refused());
    let interrupted = tokio::time::timeout(
        Duration::from_secs(1),
        outage.wait(&error, std::future::pending::<bool>),
    );
    let back = || async { start.elapsed() > Duration::from_secs(5) };
    let (interrupted, other) = tokio::join!(interrupted, outage.wait(&error, back));
    assert!(interrupted.is_err());
    assert!(other);
}

/// Sixteen requests wait for a minute on a server that responds to probes, or does not.
#[tokio::test(start_paused = true)]
async fn a_silent_server_is_reported_once_and_its_requests_go_on() {
    for (responds, expected) in [(true, vec![]), (false, vec!["nomad silent: 15s", "nomad back"])] {
        let (outage, lines) = outage();
        let probe = async || match responds {
            true => true,
            false => std::future::pending().await,
        };
        let request = || async {
            outage.attend(sleep(Duration::from_secs(60)), probe).await;
            outage.end();
        };
        join_all((0..16).map(|_| request())).await;
        assert!(!outage.is_away());
        assert_eq!(outage.has_recovered(), !responds);
        assert_eq!(*lines.0.lock(), expected);
    }
}
