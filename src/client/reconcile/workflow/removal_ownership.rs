//! Checks the sets of a ledger before volumes are removed, by hand or by a plan of another set.
//!
//! A set that protects a volume prevents the removal. A set that only owns it is reported: its next
//! apply restores the volume as long as its files declare it. A server without variables has no
//! sets. A token that cannot read variables is reported, and the removal goes on. Any other failure to
//! read the ledger prevents the removal, because it may protect the volume.

use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::ledger_access::LedgerAccess;
use crate::ports::{LedgerError, LedgerFailure};
use crate::reconcile::ledger::SetLedger;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap};
use nomad_csi_model::{NamespacedId, SetName, Volume};
use nomad_csi_plan::{LedgerSet, Plan, protected_by_set};

/// How to remove a volume although sets may protect it.
const IGNORE_SETS: &str = "to ignore all sets, add `--ledger none`";

/// Checks that no set protects the volumes, and reports the sets that own them.
///
/// # Errors
/// If a set protects a volume, the ledger cannot be read, or the user interrupts.
pub(super) async fn check_ownership(
    context: &WorkflowContext<'_>,
    access: &LedgerAccess,
    volumes: &[Volume],
) -> Result<(), WorkflowError> {
    let sets = read_sets(context, access).await?;
    let (mut protected, mut owned) = (vec![], vec![]);
    for key in volumes.iter().map(Volume::key) {
        for set in sets.iter().map(SetLedger::set) {
            match set.ownership(&key).map(|ownership| ownership.protect) {
                Some(true) => protected.push(protected_by(set, &key, access)),
                Some(false) => owned.push(owned_by(&key, set.name())),
                None => {}
            }
        }
    }
    if !protected.is_empty() {
        return Err(WorkflowError::blocked(protected));
    }
    let owned: Diagnostics = owned.into_iter().collect();
    context.reporter.diagnostics(&owned, &SourceMap::default());
    Ok(())
}

/// Blocks the removals of a plan whose volumes another set protects. The plan itself keeps to the set
/// that it was made for.
pub(super) fn block_protected_removals(
    plan: &mut Plan,
    sets: &[SetLedger],
    of_plan: Option<&SetName>,
    access: &LedgerAccess,
) {
    let others = sets.iter().map(SetLedger::set);
    let others: Vec<_> = others.filter(|set| Some(set.name()) != of_plan).collect();
    for planned in &mut plan.volumes {
        let protects = |set: &&&LedgerSet| {
            let owned = set.ownership(&planned.key);
            owned.is_some_and(|owned| owned.protect)
        };
        let refusals = others.iter().filter(protects);
        let refusals: Vec<_> =
            refusals.map(|set| protected_by(set, &planned.key, access)).collect();
        if planned.action.removes() && !refusals.is_empty() {
            planned.block(refusals);
        }
    }
}

/// Reads all sets of the ledger; none if the server has none or the token cannot read them.
///
/// # Errors
/// If a set cannot be read for another reason, because it may protect a volume, or the user interrupts.
pub(super) async fn read_sets(
    context: &WorkflowContext<'_>,
    access: &LedgerAccess,
) -> Result<Vec<SetLedger>, WorkflowError> {
    let reading = async { access.all_sets().await?.into_iter().collect() };
    match context.unless_interrupted(reading).await? {
        Ok(sets) => Ok(sets),
        Err(error) => {
            sets_unreadable(context, &error)?;
            Ok(vec![])
        }
    }
}

fn sets_unreadable(
    context: &WorkflowContext<'_>,
    error: &LedgerError,
) -> Result<(), WorkflowError> {
    match error.failure {
        LedgerFailure::Unsupported => Ok(()),
        LedgerFailure::Forbidden => {
            let why = &error.message;
            let line =
                format!("cannot check whether a set protects the volumes: {why}; continuing");
            context.reporter.status(&line);
            Ok(())
        }
        LedgerFailure::Locked(_)
        | LedgerFailure::Conflict
        | LedgerFailure::LockLost
        | LedgerFailure::Unusable(_)
        | LedgerFailure::Unavailable
        | LedgerFailure::OutcomeUnknown => Err(error
            .diagnostic()
            .note("nothing was removed: a set may protect the volumes")
            .help(IGNORE_SETS)
            .into()),
    }
}

fn protected_by(set: &LedgerSet, key: &NamespacedId, access: &LedgerAccess) -> Diagnostic {
    let command = access.forget_command(key, set.name());
    protected_by_set(key, set.name().as_str())
        .help(format!("to remove the volume from the set, run `{command}`"))
        .help(IGNORE_SETS)
}

fn owned_by(key: &NamespacedId, set: &SetName) -> Diagnostic {
    let message = format!("volume {key} belongs to set `{set}`", key = key.quoted());
    Diagnostic::warning(Code::SetOwnsRemoved, message)
        .note("if its files declare it, the next apply registers it again, or asks before it creates an empty volume")
        .help("remove it from the files too")
}
