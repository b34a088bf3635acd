//! What came of a run: verdicts, findings, and what could not be cleaned up. Values only.

use std::time::Duration;

use super::case::Case;
use super::profile::Profile;

/// What came of a run.
#[derive(Debug)]
pub struct Report {
    /// What the plugin said of itself.
    pub profile: Profile,
    /// Every check that was chosen or left out, in order.
    pub outcomes: Vec<Outcome>,
    /// What is still there.
    pub leftovers: Vec<Leftover>,
    /// Whether somebody ended the run early.
    pub interrupted: bool,
    /// How long it took.
    pub elapsed: Duration,
}

/// What came of one check.
#[derive(Debug)]
pub struct Outcome {
    /// Which.
    pub case: Case,
    /// How it ended.
    pub verdict: Verdict,
    /// What was wrong, or could be better.
    pub findings: Vec<Finding>,
    /// Every call, in order.
    pub exchanges: Vec<Exchange>,
    /// How long it took.
    pub elapsed: Duration,
}

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All that the specification demands holds.
    Passed,
    /// Something does not hold; the findings say what.
    Failed,
    /// What it needs could not be had from the plugin: nothing can be said.
    Untried(String),
    /// It is not demanded of this plugin, or was not asked for.
    Skipped(String),
}

/// How much the specification wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// SHOULD, or what orchestrators rely on: the check passes nevertheless.
    Advice,
    /// MUST.
    Must,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub level: Level,
    /// What was expected, and why.
    pub expected: String,
    /// What came back.
    pub got: String,
    /// What was sent; empty if it is not about one call.
    pub sent: String,
}

/// One call and its answer. Secrets are hidden in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// What was sent: the RPC and its fields.
    pub sent: String,
    /// What came back: `OK …`, or a code and a message.
    pub got: String,
    /// How long it took.
    pub elapsed: Duration,
}

/// Something that was made and is still there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// What: `volume 4711`.
    pub what: String,
    /// Why it could not be removed.
    pub why: String,
}

/// How many checks ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
    /// Untried.
    pub untried: usize,
    /// Skipped.
    pub skipped: usize,
    /// Findings that are advice.
    pub advice: usize,
}

impl Report {
    /// Counts verdicts.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for outcome in &self.outcomes {
            let count = match outcome.verdict {
                Verdict::Passed => &mut tally.passed,
                Verdict::Failed => &mut tally.failed,
                Verdict::Untried(_) => &mut tally.untried,
                Verdict::Skipped(_) => &mut tally.skipped,
            };
            *count += 1;
            let advice = |finding: &&Finding| finding.level == Level::Advice;
            tally.advice += outcome.findings.iter().filter(advice).count();
        }
        tally
    }

    /// Whether nothing is wrong, nothing remained untried, and nothing is left over.
    pub fn is_clean(&self) -> bool {
        let tally = self.tally();
        tally.failed == 0 && tally.untried == 0 && self.leftovers.is_empty()
    }
}
