//! A plan carried out in a set's name: what it found is written down, then each step before and after
//! it is taken.
//!
//! Whoever calls this holds the set's lock and has read the set under it, so that nobody else works
//! on it meanwhile; should that fail, check-and-set still keeps both from overwriting the other. If
//! the ledger cannot be written at the start, nothing is begun. Without a set nothing is remembered.

use std::sync::Arc;

use super::execute::execute;
use super::execution::Execution;
use super::ledger::SetLedger;
use super::notebook::{Notebook, keep};
use super::outcome::Outcome;
use crate::plan::{Actor, Observed, Plan, note_findings};
use crate::ports::{Clock, LedgerError};

/// In whose name a plan is carried out.
pub struct Owner<'a> {
    /// The set, read while its lock was held.
    pub set: &'a mut SetLedger,
    /// Who is at work.
    pub by: Actor,
    /// When it is.
    pub clock: Arc<dyn Clock>,
    /// What the plan was made from.
    pub observed: &'a Observed,
    /// The plan's ID if it was saved, under which the set remembers that it was applied.
    pub saved: Option<&'a str>,
    /// What of a request that was carried out counts as applied.
    pub applied: Applied,
}

/// What of a request that was carried out a set remembers as applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// All of it: a file says so.
    All,
    /// Its size. The rest is what the server had, whoever put it there, so that what has drifted goes
    /// on being seen.
    Size,
}

/// Carries out a plan; the outcomes are in its order. `execution.record` is used where there is no
/// owner.
///
/// # Errors
/// If what the plan found cannot be written to the ledger. Then nothing was begun.
pub async fn apply(
    execution: &Execution<'_>,
    plan: &Plan,
    owner: Option<Owner<'_>>,
) -> Result<Vec<Outcome>, LedgerError> {
    let Some(owner) = owner else {
        return Ok(execute(execution, plan).await);
    };
    let Owner {
        set,
        by,
        clock,
        observed,
        saved,
        applied,
    } = owner;
    let now = clock.now();
    set.update(|set| {
        note_findings(set, plan, observed, now);
        if let Some(id) = saved {
            set.record_plan(id, now);
        }
    })
    .await?;
    let (notebook, notes) = Notebook::new(plan, execution.rules, applied, by, clock);
    let working = async move {
        let noted = Execution {
            record: &notebook,
            ..*execution
        };
        execute(&noted, plan).await
    };
    let (outcomes, ()) = tokio::join!(working, keep(set, notes));
    Ok(outcomes)
}

#[cfg(test)]
mod tests;
