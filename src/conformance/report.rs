//! The result of a run: the verdicts and findings of all checks, and the leftovers.

use std::time::Duration;

use super::case::Case;
use super::finding::{Exchange, Finding, Leftover, Level};
use super::probed_plugin::ProbedPlugin;

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// The plugin's own report.
    pub plugin: ProbedPlugin,
    /// Every selected check, in order, also those that were skipped.
    pub outcomes: Vec<CheckOutcome>,
    /// The objects that the clean-up could not remove.
    pub leftovers: Vec<Leftover>,
    /// The plugin's error, if no parameters were given and it refused every volume for its arguments.
    pub missing_parameters: Option<String>,
    /// True if an interrupt ended the run early.
    pub interrupted: bool,
    /// The duration.
    pub elapsed: Duration,
}

/// The result of one check.
#[derive(Debug)]
pub struct CheckOutcome {
    /// The check.
    pub case: Case,
    /// How the check ended.
    pub verdict: Verdict,
    /// Broken rules, and advice.
    pub findings: Vec<Finding>,
    /// The calls, in order.
    pub exchanges: Vec<Exchange>,
    /// The duration.
    pub elapsed: Duration,
}

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The plugin keeps every rule.
    Passed,
    /// The plugin breaks a rule; see the findings.
    Failed,
    /// The plugin did not provide what the check needs, so the result is unknown.
    NotRun(String),
    /// The check does not apply to the plugin, or needs an option.
    Skipped(String),
}

/// The number of checks by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Passed checks.
    pub passed: usize,
    /// Failed checks.
    pub failed: usize,
    /// Checks that could not run.
    pub not_run: usize,
    /// Skipped checks.
    pub skipped: usize,
    /// Findings of the level advice.
    pub advice: usize,
}

impl Report {
    /// Counts the checks by verdict.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for outcome in &self.outcomes {
            let count = match outcome.verdict {
                Verdict::Passed => &mut tally.passed,
                Verdict::Failed => &mut tally.failed,
                Verdict::NotRun(_) => &mut tally.not_run,
                Verdict::Skipped(_) => &mut tally.skipped,
            };
            *count += 1;
            let advice = |finding: &&Finding| finding.level == Level::Advice;
            tally.advice += outcome.findings.iter().filter(advice).count();
        }
        tally
    }

    /// Returns whether no check failed and every check ran, and nothing is left over.
    pub fn is_clean(&self) -> bool {
        let tally = self.tally();
        tally.failed == 0 && tally.not_run == 0 && self.leftovers.is_empty()
    }
}
