//! Progress of a plan: a live line per running volume on a terminal, plain lines elsewhere.
//!
//! On a terminal, a finished volume becomes a plain line with its duration. Elsewhere, each start and
//! each end is a line without times, which keeps two runs comparable.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};
use parking_lot::Mutex;

use super::printer::{Printer, one_line};
use nomad_csi_client::reconcile::{Outcome, ProgressObserver, Status};
use nomad_csi_plan::{Action, Plan};

/// Prints the progress of a plan.
pub(crate) struct Progress {
    printer: Arc<Printer>,
    volumes: Vec<(String, ActionWords)>,
    bars: Option<MultiProgress>,
    running: Mutex<BTreeMap<usize, ProgressBar>>,
}

#[derive(Clone, Copy)]
struct ActionWords {
    in_progress: &'static str,
    done: &'static str,
}

impl Progress {
    /// Returns the progress of the volumes of a plan.
    pub(crate) fn new(printer: &Arc<Printer>, plan: &Plan) -> Self {
        let volumes = plan
            .volumes
            .iter()
            .map(|planned| (one_line(&planned.key.to_string()), action_words(&planned.action)))
            .collect();
        let bars = live_lines(printer);
        printer.set_bars(bars.clone());
        Self { printer: Arc::clone(printer), volumes, bars, running: Mutex::default() }
    }

    fn take(&self, position: usize) -> Option<ProgressBar> {
        self.running.lock().remove(&position)
    }

    fn end_line(&self, position: usize, outcome: &Outcome, elapsed: Option<Duration>) -> String {
        let (key, words) = &self.volumes[position];
        let (style, what) = match &outcome.status {
            Status::Done(reading) => {
                let external =
                    reading.as_ref().and_then(|reading| reading.value.external_id.clone());
                let external = external.map_or_else(String::new, |id| {
                    format!(" (external ID {})", one_line(id.as_str()))
                });
                (GREEN, format!("{}{external}", words.done))
            }
            Status::Removed => (GREEN, words.done.to_owned()),
            Status::Unchanged => (Style::new(), "unchanged".to_owned()),
            Status::Blocked => (RED, "blocked".to_owned()),
            Status::Stale(_) => (RED, "skipped: see the error".to_owned()),
            Status::DependencyFailed(_) => (RED, "not started: a dependency failed".to_owned()),
            unknown if unknown.is_unknown() => (RED, "outcome unknown".to_owned()),
            Status::Failed(_) => (RED, "failed".to_owned()),
            Status::ServerUnreachable(_) | Status::NotStarted => (YELLOW, "not started".to_owned()),
        };
        let after = elapsed
            .map_or_else(String::new, |elapsed| format!(" in {:.1} s", elapsed.as_secs_f64()));
        format!("volume {key}: {style}{what}{style:#}{after}")
    }
}

const GREEN: Style = AnsiColor::Green.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const RED: Style = AnsiColor::Red.on_default();

fn action_words(action: &Action) -> ActionWords {
    match action {
        Action::Create(_) => ActionWords { in_progress: "creating", done: "created" },
        Action::Register(_) => ActionWords { in_progress: "registering", done: "registered" },
        Action::RegisterAgain(_) => {
            ActionWords { in_progress: "registering again", done: "registered again" }
        }
        Action::Recreate(_) => {
            ActionWords { in_progress: "creating, empty", done: "created, empty" }
        }
        Action::Update(update) if update.changes.is_empty() => {
            ActionWords { in_progress: "sending again", done: "sent again" }
        }
        Action::Update(_) => ActionWords { in_progress: "updating", done: "updated" },
        Action::Expand(_) => ActionWords { in_progress: "expanding", done: "expanded" },
        Action::Replace(_) => ActionWords { in_progress: "replacing", done: "replaced" },
        Action::Deregister => ActionWords { in_progress: "deregistering", done: "deregistered" },
        Action::DeleteData => ActionWords { in_progress: "deleting", done: "deleted" },
        Action::Unchanged | Action::WaitingForClaims(_) | Action::Blocked(_) => {
            ActionWords { in_progress: "", done: "" }
        }
    }
}

impl ProgressObserver for Progress {
    fn started(&self, position: usize) {
        let (key, words) = &self.volumes[position];
        let Some(bars) = &self.bars else {
            self.printer.print_status(&format!("volume {key}: {}", words.in_progress));
            return;
        };
        let bar = bars.add(ProgressBar::new_spinner());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(format!("volume {key}: {}", words.in_progress));
        bar.enable_steady_tick(Duration::from_millis(100));
        self.running.lock().insert(position, bar);
    }

    fn finished(&self, position: usize, outcome: &Outcome) {
        let bar = self.take(position);
        let elapsed = bar.as_ref().map(ProgressBar::elapsed);
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        self.printer.print_status(&self.end_line(position, outcome, elapsed));
    }

    fn plugin_unreachable(&self, timeout: Duration) {
        self.printer.print_status(&unreachable_line(timeout));
    }
}

/// Returns the line that reports a wait for a plugin.
pub(crate) fn unreachable_line(timeout: Duration) -> String {
    let seconds = timeout.as_secs();
    format!("the server does not reach the plugin yet, trying again for up to {seconds}s")
}

impl Drop for Progress {
    fn drop(&mut self) {
        let mut running = self.running.lock();
        for bar in std::mem::take(&mut *running).into_values() {
            bar.finish_and_clear();
        }
        self.printer.set_bars(None);
    }
}

/// Returns live progress lines below all other output, if the printer can redraw lines.
pub(super) fn live_lines(printer: &Arc<Printer>) -> Option<MultiProgress> {
    printer.can_redraw().then(|| {
        let target = ProgressDrawTarget::term_like_with_hz(
            Box::new(PrinterTerminal(Arc::clone(printer))),
            10,
        );
        MultiProgress::with_draw_target(target)
    })
}

/// A live line that shows how long a command has waited.
pub(crate) struct WaitLine(ProgressBar);

impl WaitLine {
    /// Shows a line below the progress of a plan; `None` if no progress is shown in place.
    pub(crate) fn show(printer: &Printer, text: &str) -> Option<Self> {
        let bar = printer.bars()?.add(ProgressBar::new_spinner());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(text.to_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        Some(Self(bar))
    }
}

impl Drop for WaitLine {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// The terminal interface of indicatif over the printer.
struct PrinterTerminal(Arc<Printer>);

impl std::fmt::Debug for PrinterTerminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PrinterTerminal")
    }
}

impl PrinterTerminal {
    fn move_cursor(&self, count: usize, letter: char) -> std::io::Result<()> {
        if count > 0 {
            self.0.draw_progress(&format!("\u{1b}[{count}{letter}"));
        }
        Ok(())
    }
}

impl TermLike for PrinterTerminal {
    fn width(&self) -> u16 {
        u16::try_from(self.0.columns()).unwrap_or(u16::MAX)
    }

    fn move_cursor_up(&self, n: usize) -> std::io::Result<()> {
        self.move_cursor(n, 'A')
    }

    fn move_cursor_down(&self, n: usize) -> std::io::Result<()> {
        self.move_cursor(n, 'B')
    }

    fn move_cursor_right(&self, n: usize) -> std::io::Result<()> {
        self.move_cursor(n, 'C')
    }

    fn move_cursor_left(&self, n: usize) -> std::io::Result<()> {
        self.move_cursor(n, 'D')
    }

    fn write_line(&self, s: &str) -> std::io::Result<()> {
        self.0.draw_progress(&format!("{s}\n"));
        Ok(())
    }

    fn write_str(&self, s: &str) -> std::io::Result<()> {
        self.0.draw_progress(s);
        Ok(())
    }

    fn clear_line(&self) -> std::io::Result<()> {
        self.0.draw_progress("\r\u{1b}[2K");
        Ok(())
    }

    fn flush(&self) -> std::io::Result<()> {
        Ok(())
    }
}
