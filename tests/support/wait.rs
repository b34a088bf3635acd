//! Polling: the only place where tests sleep.

use std::time::{Duration, Instant};

/// The time limit of every wait, generous enough for a slow machine.
const TIMEOUT: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_millis(5);

/// Waits busily for a moment that a pause is too coarse for.
pub(crate) fn spin(duration: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < duration {
        std::hint::spin_loop();
    }
}

/// Calls `check` until it returns a value. Panics with the last error after the timeout.
pub(crate) fn until<T>(what: &str, check: impl FnMut() -> Result<T, String>) -> T {
    until_within(TIMEOUT, what, check)
}

/// Like [`until`], with a limit for what takes longer.
pub(crate) fn until_within<T>(
    limit: Duration,
    what: &str,
    mut check: impl FnMut() -> Result<T, String>,
) -> T {
    let begun = Instant::now();
    loop {
        match check() {
            Ok(seen) => return seen,
            Err(last) if begun.elapsed() > limit => {
                panic!("waited {limit:?} for {what}; last error: {last}")
            }
            Err(_) => std::thread::sleep(INTERVAL),
        }
    }
}

/// Calls `check` until it returns true.
pub(crate) fn until_true(what: &str, mut check: impl FnMut() -> bool) {
    until(what, || check().then_some(()).ok_or_else(|| "the condition is false".to_owned()));
}

/// The asynchronous form of [`until`].
pub(crate) async fn until_async<T>(
    what: &str,
    mut check: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let begun = Instant::now();
    loop {
        match check().await {
            Ok(seen) => return seen,
            Err(last) if begun.elapsed() > TIMEOUT => {
                panic!("waited {TIMEOUT:?} for {what}; last error: {last}")
            }
            Err(_) => tokio::time::sleep(INTERVAL).await,
        }
    }
}
