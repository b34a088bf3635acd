//! Shows that a command waits for a server that stopped responding.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::durations::TimeSpan;
use super::ui::{Printer, WaitLine, one_line};
use nomad_csi_client::nomad::SlowResponseObserver;
use nomad_csi_client::ports::{ApiError, OutageObserver};

/// Prints one line when a wait begins and one when it ends. On a terminal, a live line shows its duration.
pub(super) struct OutageLines {
    printer: Arc<Printer>,
    live: Mutex<Option<WaitLine>>,
}

impl OutageLines {
    pub(super) fn new(printer: Arc<Printer>) -> Self {
        Self { printer, live: Mutex::default() }
    }

    fn begin_live_line(&self, server: &str) {
        let line = format!("waiting for server {}", one_line(server));
        let live = WaitLine::show(&self.printer, &line);
        *self.live.lock() = live;
    }

    fn end_live_line(&self) {
        let live = self.live.lock();
        drop({ live }.take());
    }
}

impl OutageObserver for OutageLines {
    fn server_unreachable(&self, server: &str, why: &ApiError, timeout: Duration) {
        self.printer.print_notice(&away_line(server, why, timeout));
        self.begin_live_line(server);
    }

    fn server_silent(&self, server: &str, since: Duration) {
        self.printer.print_notice(&silent_line(server, since));
        self.begin_live_line(server);
    }

    fn server_back(&self, server: &str, after: Duration) {
        self.end_live_line();
        self.printer.print_notice(&back_line(server, after));
    }

    fn gave_up(&self, server: &str) {
        self.end_live_line();
        self.printer.print_notice(&gave_up_line(server));
    }
}

/// Logs waits, for a command that runs for months.
pub(super) struct OutageLog;

impl OutageObserver for OutageLog {
    fn server_unreachable(&self, server: &str, why: &ApiError, timeout: Duration) {
        tracing::warn!("{}", away_line(server, why, timeout));
    }

    fn server_silent(&self, server: &str, since: Duration) {
        tracing::warn!("{}", silent_line(server, since));
    }

    fn server_back(&self, server: &str, after: Duration) {
        tracing::info!("{}", back_line(server, after));
    }

    fn gave_up(&self, server: &str) {
        tracing::warn!("{}", gave_up_line(server));
    }
}

/// Prints a line when a response takes long.
pub(super) struct SlowResponseLine(pub Arc<Printer>);

impl std::fmt::Debug for SlowResponseLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SlowResponseLine")
    }
}

impl SlowResponseObserver for SlowResponseLine {
    fn no_response_yet(&self, server: &str, action: &str, after: Duration) {
        self.0.print_notice(&slow_line(server, action, after));
    }
}

/// Logs that a response takes long, for a command that runs for months.
#[derive(Debug)]
pub(super) struct SlowResponseLog;

impl SlowResponseObserver for SlowResponseLog {
    fn no_response_yet(&self, server: &str, action: &str, after: Duration) {
        tracing::warn!("{}", slow_line(server, action, after));
    }
}

fn slow_line(server: &str, action: &str, after: Duration) -> String {
    let (server, action, after) = (one_line(server), one_line(action), TimeSpan(after));
    format!(
        "server {server}: no response for {after} to the request to {action}, still waiting; `--request-timeout` limits the wait"
    )
}

fn away_line(server: &str, why: &ApiError, timeout: Duration) -> String {
    let (server, timeout) = (one_line(server), TimeSpan(timeout));
    let why = one_line(&why.message);
    format!("server {server}: does not respond, waiting up to {timeout} ({why})")
}

fn silent_line(server: &str, since: Duration) -> String {
    let since = TimeSpan(Duration::from_secs(since.as_secs().max(1)));
    format!("server {}: no response for {since}, still waiting", one_line(server))
}

fn back_line(server: &str, after: Duration) -> String {
    let after = TimeSpan(Duration::from_secs(after.as_secs().max(1)));
    format!("server {}: responds again after {after}, continuing", one_line(server))
}

fn gave_up_line(server: &str) -> String {
    format!("server {}: still does not respond", one_line(server))
}
