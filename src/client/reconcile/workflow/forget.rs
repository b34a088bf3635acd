//! `forget`: removes volumes from a set. The volumes do not change.
//!
//! The set's lock is held, so no apply runs at the same time. Either all volumes are removed from the
//! set or none: ownership is checked before the lock is taken, and again under it.

use std::collections::BTreeSet;

use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::ledger_access::{LedgerAccess, SetSelection};
use super::set_lock::with_set_lock;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, closest_match};
use nomad_csi_model::{NamespacedId, one_line, shell_quoted};
use nomad_csi_plan::LedgerSet;

/// Removes volumes from a set.
///
/// # Errors
/// If the set does not own a volume, another command holds its lock, or the ledger cannot be used.
pub async fn forget_volumes(
    context: &WorkflowContext<'_>,
    selection: &SetSelection,
    keys: &[NamespacedId],
) -> Result<(), WorkflowError> {
    let access = &selection.access;
    let set = context.unless_interrupted(selection.open()).await??;
    if !set.exists() {
        let problem = access.set_not_found(context, &selection.name).await;
        return Err(problem.into());
    }
    check_owned(set.set(), keys, access)?;
    with_set_lock(context, selection, async |set, _stop| {
        check_owned(set.set(), keys, access)?;
        let is_protected = |key: &&NamespacedId| {
            let ownership = set.set().ownership(key);
            ownership.is_some_and(|owned| owned.protect)
        };
        let protected: BTreeSet<&NamespacedId> = keys.iter().filter(is_protected).collect();
        set.update(|set| {
            for key in keys {
                set.forget(key);
            }
        })
        .await?;
        for key in keys {
            report_forgotten(context, set.set(), key, protected.contains(key));
        }
        Ok(())
    })
    .await
}

fn check_owned(
    set: &LedgerSet,
    keys: &[NamespacedId],
    access: &LedgerAccess,
) -> Result<(), Diagnostics> {
    let not_owned = keys.iter().filter(|key| set.ownership(key).is_none());
    let problems: Diagnostics = not_owned.map(|key| not_owned_by(set, key, access)).collect();
    if problems.is_empty() {
        return Ok(());
    }
    Err(problems)
}

/// The volume may be in another namespace, mistyped, or already removed from the set.
fn not_owned_by(set: &LedgerSet, key: &NamespacedId, access: &LedgerAccess) -> Diagnostic {
    let (name, volume) = (set.name(), one_line(&key.quoted()));
    let message = format!("set `{name}` does not own volume {volume}");
    let problem = Diagnostic::error(Code::SetNotOwned, message).note("nothing was changed");
    let owned = || set.owned().map(|(key, _)| key);
    let elsewhere = owned().find(|other| other.id == key.id);
    let here = owned().filter(|other| other.namespace == key.namespace);
    let similar = closest_match(key.id.as_str(), here.map(|other| other.id.as_str()));
    let problem = match (elsewhere, similar) {
        (Some(other), _) => {
            let namespace = shell_quoted(&other.namespace);
            problem.help(format!(
                "the set owns a volume of this ID in another namespace: `--namespace {namespace}`"
            ))
        }
        (None, Some(similar)) => problem.help(format!("did you mean `{}`?", one_line(similar))),
        (None, None) => problem,
    };
    problem.help(format!(
        "run `nomad-csi set show {name}{}` to list the volumes of the set",
        access.flags
    ))
}

fn report_forgotten(
    context: &WorkflowContext<'_>,
    set: &LedgerSet,
    key: &NamespacedId,
    was_protected: bool,
) {
    let name = set.name();
    let protection = match was_protected {
        true => " or protected",
        false => "",
    };
    let line = format!("volume {key}: no longer owned{protection} by set {name}; unchanged");
    context.reporter.status(&line);
    if set.intent(key).is_some() {
        let line = format!(
            "volume {key}: the set still records an interrupted change; the next plan reports its result"
        );
        context.reporter.status(&line);
    }
}
