//! Ctrl-C, once and twice.
//!
//! The first interrupt stops the command: running calls end, and nothing new starts. The second aborts
//! it. SIGTERM counts as an interrupt, so a cancelled pipeline does not lose track of a creation.

use std::convert::Infallible;
use std::future::Future;

use tokio_util::sync::CancellationToken;

use super::error::CliError;
use super::exit::Exit;

/// The interrupts of one run.
#[derive(Clone, Debug, Default)]
pub struct Interrupts {
    stop: CancellationToken,
    abort: CancellationToken,
}

impl Interrupts {
    /// Interrupts the run: the first time to stop it, the second time to abort it.
    pub fn interrupt(&self) {
        if self.stop.is_cancelled() {
            self.abort.cancel();
        }
        self.stop.cancel();
    }

    /// Returns the token that the first interrupt cancels.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Resolves at the second interrupt.
    pub async fn aborted(&self) {
        self.abort.cancelled().await;
    }

    /// Waits for work that can be abandoned at any time, such as a read.
    ///
    /// # Errors
    /// If the user interrupts first.
    pub async fn unless_interrupted<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, CliError> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(CliError::already_reported(Exit::Interrupted)),
            done = work => Ok(done),
        }
    }

    /// Listens to the process's signals while it is polled. Never returns.
    pub async fn listen(&self) -> Infallible {
        let Ok(mut signals) = Signals::new() else {
            return std::future::pending().await;
        };
        loop {
            signals.next().await;
            self.interrupt();
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
