//! Progress of `plugin check`: a live line on a terminal, and a line per failed check.

use std::sync::Arc;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use parking_lot::Mutex;

use super::verdicts::verdict_word;
use crate::cli::ui::printer::{Printer, one_line};
use crate::cli::ui::progress::live_lines;
use nomad_csi_conformance::{Case, CheckObserver, CheckOutcome, ProbedPlugin, Verdict};

/// Prints the progress of the checks.
pub(crate) struct CheckProgress {
    printer: Arc<Printer>,
    bars: Option<MultiProgress>,
    bar: Mutex<Option<ProgressBar>>,
}

impl CheckProgress {
    /// Returns the progress of one run.
    pub(crate) fn new(printer: &Arc<Printer>) -> Self {
        let bars = live_lines(printer);
        printer.set_bars(bars.clone());
        Self { printer: Arc::clone(printer), bars, bar: Mutex::default() }
    }

    fn bar(&self) -> parking_lot::MutexGuard<'_, Option<ProgressBar>> {
        self.bar.lock()
    }
}

impl CheckObserver for CheckProgress {
    fn run_started(&self, profile: &ProbedPlugin, checks: usize) {
        let name = one_line(&profile.info.name);
        let version = one_line(&profile.info.vendor_version);
        let noun = if checks == 1 { "check" } else { "checks" };
        self.printer.print_status(&format!("plugin {name} {version}: {checks} {noun}"));
        let Some(bars) = &self.bars else { return };
        let length = u64::try_from(checks).unwrap_or_default();
        let bar = bars.add(ProgressBar::new(length));
        if let Ok(style) = ProgressStyle::with_template("{spinner} {pos}/{len} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        *self.bar() = Some(bar);
    }

    fn check_started(&self, _: usize, case: &Case) {
        if let Some(bar) = &*self.bar() {
            bar.set_message(case.id);
        }
    }

    fn check_finished(&self, _: usize, outcome: &CheckOutcome) {
        if let Some(bar) = &*self.bar() {
            bar.inc(1);
        }
        let is_bad = matches!(outcome.verdict, Verdict::Failed | Verdict::NotRun(_));
        if is_bad {
            let word = verdict_word(&outcome.verdict);
            self.printer.print_status(&format!("{}: {word}", outcome.case.id));
        }
    }
}

impl Drop for CheckProgress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar().take() {
            bar.finish_and_clear();
        }
        self.printer.set_bars(None);
    }
}
