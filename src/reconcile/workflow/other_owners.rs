//! Warns of volumes that two sets would own: each would remove them once its files stop naming them.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::timeout;

use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::ledger_access::LedgerAccess;
use super::plan_request::PreparedPlan;
use crate::diagnostic::{Code, Diagnostic, Span};
use crate::model::{NamespacedId, SetName};
use crate::reconcile::ledger::SetLedger;

/// How long the other sets are read at most. They only warn.
const OTHER_SETS_TIMEOUT: Duration = Duration::from_secs(10);

/// Warns of volumes that would join the set although another set of the ledger owns them.
///
/// The sets are read only if a volume exists that the set does not own. A ledger that cannot be read
/// in time is neither a warning nor an error.
///
/// # Errors
/// If the user interrupts.
pub async fn warn_of_other_owners(
    context: &WorkflowContext<'_>,
    prepared: &mut PreparedPlan,
    set: &SetLedger,
    access: &LedgerAccess,
) -> Result<(), WorkflowError> {
    let existing = &prepared.observation.observed.volumes;
    let joining = prepared.plan.volumes.iter().filter(|planned| {
        let is_owned = set.set().ownership(&planned.key).is_some();
        planned.spec.is_some() && !is_owned && existing.contains_key(&planned.key)
    });
    let joining: BTreeSet<NamespacedId> = joining.map(|one| one.key.clone()).collect();
    if joining.is_empty() {
        return Ok(());
    }
    let reading = timeout(OTHER_SETS_TIMEOUT, set.other_owners(&joining));
    let owners = match context.unless_interrupted(reading).await? {
        Ok(Ok(owners)) => owners,
        Ok(Err(error)) => {
            tracing::debug!(
                code = error.code.as_str(),
                "other owners of volumes are unknown: {}",
                error.message
            );
            return Ok(());
        }
        Err(_) => {
            tracing::debug!(
                "other owners of volumes are unknown: the ledger did not answer in time"
            );
            return Ok(());
        }
    };
    for planned in &mut prepared.plan.volumes {
        let others = owners.get(&planned.key).into_iter().flatten();
        let span = planned.span();
        let key = &planned.key;
        let warnings = others.map(|other| {
            let command = access.forget_command(key, other);
            two_owners(key, (other, set.set().name()), span, &command)
        });
        planned.warnings.extend(warnings);
    }
    Ok(())
}

fn two_owners(
    key: &NamespacedId,
    (other, set): (&SetName, &SetName),
    span: Option<Span>,
    forget_command: &str,
) -> Diagnostic {
    let message =
        format!("volume `{key}` belongs to set `{other}`, and set `{set}` would own it too");
    let warning = Diagnostic::warning(Code::SetTwoOwners, message)
        .note("each set removes the volume with `--prune` once its own files stop naming it")
        .help(format!(
            "to move the volume to set `{set}`, run `{forget_command}`"
        ))
        .help(format!(
            "to keep it in set `{other}`, remove it from these files"
        ));
    match span {
        Some(span) => warning.label(span, "declared here"),
        None => warning,
    }
}
