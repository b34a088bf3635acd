//! The one place of the tests that lets time pass: between two looks at a predicate.

use std::time::{Duration, Instant};

/// Nothing that a test waits for takes longer on a machine that works.
const LIMIT: Duration = Duration::from_secs(60);
const BETWEEN: Duration = Duration::from_millis(5);

/// Looks until there is something to see, and returns it. If there never is, the test fails with what
/// was seen last.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let begun = Instant::now();
    loop {
        match look() {
            Ok(seen) => return seen,
            Err(last) if begun.elapsed() > LIMIT => {
                panic!("waited {LIMIT:?} for {what}; last seen: {last}")
            }
            Err(_) => std::thread::sleep(BETWEEN),
        }
    }
}

/// Looks until it is so.
pub(crate) fn until_true(what: &str, mut look: impl FnMut() -> bool) {
    until(what, || {
        look()
            .then_some(())
            .ok_or_else(|| "it is not so".to_owned())
    });
}

/// [`until`] for looks that have to wait themselves.
pub(crate) async fn until_async<T>(
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let begun = Instant::now();
    loop {
        match look().await {
            Ok(seen) => return seen,
            Err(last) if begun.elapsed() > LIMIT => {
                panic!("waited {LIMIT:?} for {what}; last seen: {last}")
            }
            Err(_) => tokio::time::sleep(BETWEEN).await,
        }
    }
}
