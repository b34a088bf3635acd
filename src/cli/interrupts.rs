//! Ctrl-C, once and twice.
//!
//! The first stops: calls that run are waited for, nothing new begins, what was done is told. The
//! second leaves at once. SIGTERM counts as the first, so that a pipeline that is cancelled does not
//! lose track of a creation.

use std::convert::Infallible;
use std::future::Future;

use tokio_util::sync::CancellationToken;

use super::error::CliError;
use super::exit::Exit;

/// Both wishes of one run.
#[derive(Clone, Debug, Default)]
pub struct Interrupts {
    stop: CancellationToken,
    leave: CancellationToken,
}

impl Interrupts {
    /// Somebody interrupts: the first time to stop, the second to leave.
    pub fn press(&self) {
        if self.stop.is_cancelled() {
            self.leave.cancel();
        }
        self.stop.cancel();
    }

    /// Cancelled by the first.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Resolves at the second.
    pub async fn leave(&self) {
        self.leave.cancelled().await;
    }

    /// Waits for something that may be given up at any moment: a read, an answer.
    ///
    /// # Errors
    /// If somebody interrupts first.
    pub async fn unless<T>(&self, work: impl Future<Output = T>) -> Result<T, CliError> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(CliError::already_reported(Exit::Interrupted)),
            done = work => Ok(done),
        }
    }

    /// Listens to the process's signals for as long as it is polled; never returns.
    pub async fn listen(&self) -> Infallible {
        let Ok(mut signals) = Signals::new() else {
            return std::future::pending().await;
        };
        loop {
            signals.next().await;
            self.press();
        }
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(windows)]
struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(Self)
    }

    async fn next(&mut self) {
        let _ = self.0.recv().await;
    }
}
