//! Progress of `plugin check`: a moving line on a terminal, a line per check that failed elsewhere.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::printer::{Printer, one_line};
use super::progress::moving_lines;
use super::verdicts::verdict_word;
use crate::conformance::{Case, Outcome, Profile, Verdict, Watch};

/// Shows how far the checks are.
pub(crate) struct CheckProgress {
    printer: Arc<Printer>,
    bars: Option<MultiProgress>,
    bar: Mutex<Option<ProgressBar>>,
}

impl CheckProgress {
    /// For one run.
    pub(crate) fn new(printer: &Arc<Printer>) -> Self {
        let bars = moving_lines(printer);
        printer.set_bars(bars.clone());
        Self {
            printer: Arc::clone(printer),
            bars,
            bar: Mutex::default(),
        }
    }

    fn bar(&self) -> std::sync::MutexGuard<'_, Option<ProgressBar>> {
        self.bar.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for CheckProgress {
    fn starts(&self, profile: &Profile, checks: usize) {
        let name = one_line(&profile.info.name);
        let version = one_line(&profile.info.vendor_version);
        let noun = if checks == 1 { "check" } else { "checks" };
        self.printer
            .talk(&format!("plugin {name} {version}: {checks} {noun}"));
        let Some(bars) = &self.bars else { return };
        let length = u64::try_from(checks).unwrap_or_default();
        let bar = bars.add(ProgressBar::new(length));
        if let Ok(style) = ProgressStyle::with_template("{spinner} {pos}/{len} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        *self.bar() = Some(bar);
    }

    fn began(&self, _: usize, case: &Case) {
        if let Some(bar) = &*self.bar() {
            bar.set_message(case.id);
        }
    }

    fn ended(&self, _: usize, outcome: &Outcome) {
        if let Some(bar) = &*self.bar() {
            bar.inc(1);
        }
        let is_bad = matches!(outcome.verdict, Verdict::Failed | Verdict::Untried(_));
        if is_bad {
            let word = verdict_word(&outcome.verdict);
            self.printer.talk(&format!("{}: {word}", outcome.case.id));
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
