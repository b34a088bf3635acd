//! Bounds what an evaluation may take: steps, values and bytes of text.
//!
//! Every node, item, key and each 64 bytes of text is a step, and the steps of a run are counted
//! once for everything. Values and texts have limits for variables and local values, for one
//! volume, and for all volumes together. The limits are in `docs/security.md`.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use regex::Regex;

use super::problem::Problem;
use nomad_csi_model::diagnostic::Code;

/// Limit of the steps of a run.
const RUN_STEPS: u64 = 20_000_000;
/// Limit of the values that variables and local values make.
const RUN_VALUES: u64 = 1_000_000;
/// Limit of the bytes of text that variables and local values make.
const RUN_TEXT_BYTES: u64 = 32 << 20;
/// Limits of one volume.
const VOLUME_VALUES: u64 = 10_000;
const VOLUME_TEXT_BYTES: u64 = 256 << 10;
/// Limits of all volumes of a run.
const ALL_VOLUMES_VALUES: u64 = 5_000_000;
const ALL_VOLUMES_TEXT_BYTES: u64 = 128 << 20;

/// Limit of the compiled patterns that are kept.
const MAX_PATTERNS: usize = 16;

/// The bytes of text that cost one step.
const BYTES_PER_STEP: usize = 64;

/// What an evaluation may still take.
pub(crate) struct Budget {
    steps: u64,
    values: u64,
    text_bytes: u64,
    /// What all volumes may still take; in the budget of a volume, unused.
    volumes_values: u64,
    volumes_text_bytes: u64,
    scope: BudgetScope,
    patterns: Rc<RefCell<Vec<Rc<CompiledPattern>>>>,
}

/// A pattern of `matches`. Compiling takes thousands of times as long as a search in a short text.
pub(super) struct CompiledPattern {
    pub(super) pattern: Box<str>,
    pub(super) regex: Regex,
    /// The limit of bytes within which it was compiled. The time of a search grows with it.
    pub(super) bytes: usize,
}

/// The part of a run whose values a budget counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BudgetScope {
    Declarations,
    Volume,
    /// A volume that has less left than every other one, because the sum of all is near its limit.
    LastVolume,
}

/// A limit that an evaluation exceeds.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
#[derive(Clone, Copy)]
pub(crate) struct LimitExceeded(&'static str);

impl LimitExceeded {
    /// The limit of the levels of a value.
    pub(super) const DEPTH: Self = Self("a value has more than 64 levels of lists and maps");

    /// Returns the problem of the expression at a position.
    pub(crate) fn at(self, at: Range<u32>) -> Problem {
        Problem::new(Code::SpecEvaluationLimit, at, self.0).label("the limit is exceeded here")
    }
}

impl Budget {
    /// Creates the budget of a run: of its variables and local values, and of the steps of all.
    pub(crate) fn run() -> Self {
        Self {
            steps: RUN_STEPS,
            values: RUN_VALUES,
            text_bytes: RUN_TEXT_BYTES,
            volumes_values: ALL_VOLUMES_VALUES,
            volumes_text_bytes: ALL_VOLUMES_TEXT_BYTES,
            scope: BudgetScope::Declarations,
            patterns: Rc::default(),
        }
    }

    /// Creates the budget of one volume, with the steps that the run has left.
    /// [`Self::end_volume`] gives the rest of them back.
    pub(crate) fn start_volume(&self) -> Self {
        let is_last =
            self.volumes_values < VOLUME_VALUES || self.volumes_text_bytes < VOLUME_TEXT_BYTES;
        Self {
            steps: self.steps,
            values: self.volumes_values.min(VOLUME_VALUES),
            text_bytes: self.volumes_text_bytes.min(VOLUME_TEXT_BYTES),
            volumes_values: 0,
            volumes_text_bytes: 0,
            scope: if is_last { BudgetScope::LastVolume } else { BudgetScope::Volume },
            patterns: Rc::clone(&self.patterns),
        }
    }

    /// Ends a volume: counts what it took in the run.
    pub(crate) fn end_volume(&mut self, volume: &Self) {
        let values = self.volumes_values.min(VOLUME_VALUES) - volume.values;
        let text_bytes = self.volumes_text_bytes.min(VOLUME_TEXT_BYTES) - volume.text_bytes;
        self.steps = volume.steps;
        self.volumes_values -= values;
        self.volumes_text_bytes -= text_bytes;
    }

    /// Returns the steps that are left.
    #[cfg(test)]
    pub(crate) const fn steps_left(&self) -> u64 {
        self.steps
    }

    /// Returns a pattern that is compiled.
    pub(super) fn compiled(&self, pattern: &str) -> Option<Rc<CompiledPattern>> {
        self.patterns.borrow().iter().find(|one| *one.pattern == *pattern).cloned()
    }

    /// Keeps a compiled pattern for the run, instead of the oldest if there are many.
    pub(super) fn keep_compiled(&self, compiled: Rc<CompiledPattern>) {
        let mut patterns = self.patterns.borrow_mut();
        if patterns.len() >= MAX_PATTERNS {
            patterns.remove(0);
        }
        patterns.push(compiled);
    }

    /// Takes steps.
    ///
    /// # Errors
    /// If fewer are left.
    pub(crate) fn take_steps(&mut self, count: usize) -> Result<(), LimitExceeded> {
        take(&mut self.steps, count)
            .ok_or(LimitExceeded("the evaluation takes more than 20,000,000 steps"))
    }

    /// Takes values that are made, and a step for each.
    ///
    /// # Errors
    /// If fewer are left.
    pub(crate) fn take_values(&mut self, count: usize) -> Result<(), LimitExceeded> {
        self.take_steps(count)?;
        take(&mut self.values, count).ok_or(LimitExceeded(match self.scope {
            BudgetScope::Declarations => {
                "variables and local values make more than 1,000,000 values"
            }
            BudgetScope::Volume => "the volume makes more than 10,000 values",
            BudgetScope::LastVolume => "the volumes make more than 5,000,000 values",
        }))
    }

    /// Takes the bytes of a text that is made, and a step for each 64.
    ///
    /// # Errors
    /// If fewer are left.
    pub(crate) fn take_text(&mut self, bytes: usize) -> Result<(), LimitExceeded> {
        self.read_text(bytes)?;
        take(&mut self.text_bytes, bytes).ok_or(LimitExceeded(match self.scope {
            BudgetScope::Declarations => {
                "the texts of variables and local values are larger than 32 MiB"
            }
            BudgetScope::Volume => "the texts of the volume are larger than 256 KiB",
            BudgetScope::LastVolume => "the texts of all volumes are larger than 128 MiB",
        }))
    }

    /// Takes the steps of reading a text.
    ///
    /// # Errors
    /// If fewer are left.
    pub(crate) fn read_text(&mut self, bytes: usize) -> Result<(), LimitExceeded> {
        self.take_steps(bytes / BYTES_PER_STEP)
    }
}

/// Takes from what is left; what is too much takes all, so that every later call fails too.
fn take(left: &mut u64, count: usize) -> Option<()> {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    let rest = left.checked_sub(count);
    *left = rest.unwrap_or(0);
    rest.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_exceeded_by_one() {
        let mut budget = Budget::run();
        assert_eq!(budget.take_values(1_000_000), Ok(()));
        let error = budget.take_values(1).map_err(|limit| limit.0);
        assert_eq!(error, Err("variables and local values make more than 1,000,000 values"));
        assert_eq!(budget.take_text(32 << 20), Ok(()));
        assert!(budget.take_text(1).is_err());
        let left = usize::try_from(budget.steps_left()).unwrap();
        assert_eq!(left, 20_000_000 - 1_000_001 - (32 << 20) / 64);
        assert_eq!(budget.take_steps(left), Ok(()));
        assert!(budget.take_steps(1).is_err());
    }

    #[test]
    fn volumes_share_the_steps_of_the_run_and_have_values_of_their_own() {
        let mut run = Budget::run();
        run.take_values(1_000_000).unwrap();
        let before = run.steps_left();
        for _ in 0..500 {
            let mut volume = run.start_volume();
            assert_eq!(volume.take_values(10_000), Ok(()));
            run.end_volume(&volume);
        }
        assert_eq!(before - run.steps_left(), 5_000_000);
        let error = run.start_volume().take_values(1).map_err(|limit| limit.0);
        assert_eq!(error, Err("the volumes make more than 5,000,000 values"));
        let mut volume = Budget::run().start_volume();
        let error = volume.take_values(10_001).map_err(|limit| limit.0);
        assert_eq!(error, Err("the volume makes more than 10,000 values"));
        assert_eq!(volume.take_text(256 << 10), Ok(()));
        assert!(volume.take_text(1).is_err());
    }

    #[test]
    fn a_volume_that_fails_has_taken_all_that_it_had() {
        let mut run = Budget::run();
        let mut volume = run.start_volume();
        assert!(volume.take_text(1 << 20).is_err());
        assert!(volume.take_text(1).is_err());
        run.end_volume(&volume);
        assert_eq!(run.volumes_text_bytes, ALL_VOLUMES_TEXT_BYTES - VOLUME_TEXT_BYTES);
    }
}
