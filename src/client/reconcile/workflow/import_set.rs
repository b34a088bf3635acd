//! `import --set`: records imported volumes in a set, protected.

use std::collections::BTreeSet;

use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::ledger_access::{LedgerAccess, SetSelection};
use super::set_lock::with_set_lock;
use crate::ports::ServerKind;
use crate::reconcile::permissions::access;
use crate::reconcile::volume_owners::owners_among;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{HiddenField, NamespacedId, SetName, VolumeField};
use nomad_csi_plan::{Imported, LastVerified, LedgerSet, Ownership, RecordedData};

/// Writes specifications with `write_files`, then adds the volumes to a set, protected. A volume that
/// the set owns already stays as it is. A volume that another set owns is refused, and no file is written.
///
/// The files are written while the set's lock is held: without a usable ledger no file is written. If
/// the ledger cannot be written after the files, no volume is owned.
///
/// # Errors
/// If another command holds the set's lock, the ledger cannot be used, and those of `write_files`.
pub async fn import_into_set(
    context: &WorkflowContext<'_>,
    selection: &SetSelection,
    volumes: &[Imported],
    write_files: impl FnOnce() -> Result<(), WorkflowError>,
) -> Result<(), WorkflowError> {
    let at = context.clock.now();
    with_set_lock(context, selection, async |set, _stop| {
        refuse_owned(context, selection, set.set(), volumes).await?;
        write_files()?;
        set.update(|set| {
            for imported in volumes {
                add_imported(set, imported, at);
            }
        })
        .await?;
        Ok(())
    })
    .await?;
    let (name, ledger) = (&selection.name, &selection.access.ledger);
    let line = format!("set {name} in {} now owns and protects the volumes", ledger.name());
    context.reporter.status(&line);
    Ok(())
}

/// Refuses volumes that another set owns: both sets would remove them. A set that cannot be read may own every
/// volume, so nothing is taken then.
async fn refuse_owned(
    context: &WorkflowContext<'_>,
    selection: &SetSelection,
    set: &LedgerSet,
    volumes: &[Imported],
) -> Result<(), WorkflowError> {
    let keys = volumes.iter().map(|one| one.written.request.key());
    let joining: BTreeSet<_> = keys.filter(|key| set.ownership(key).is_none()).collect();
    if joining.is_empty() {
        return Ok(());
    }
    let access = &selection.access;
    let reading = all_sets_readable(context, access, set.name());
    context.unless_interrupted(reading).await??;
    let reading = access.all_sets();
    let sets = context.unless_interrupted(reading).await?;
    let sets: Result<Vec<_>, _> = sets.and_then(|sets| sets.into_iter().collect());
    let sets = sets.map_err(|error| unread_sets(error.diagnostic(), set.name()))?;
    let owners = owners_among(&sets, &joining, Some(set.name()));
    if owners.is_empty() {
        return Ok(());
    }
    let refused = owners.iter().flat_map(|(key, owners)| {
        let owners = owners.iter();
        owners.map(|owner| owned_by_another(key, (&owner.set, set.name()), access))
    });
    Err(WorkflowError::blocked(refused))
}

/// Checks that the token sees every set. Nomad shows nothing of a variable that a token cannot read.
async fn all_sets_readable(
    context: &WorkflowContext<'_>,
    ledger: &LedgerAccess,
    set: &SetName,
) -> Result<(), WorkflowError> {
    let Some(namespace) = &ledger.variables_namespace else {
        return Ok(());
    };
    if context.api.server().await? == ServerKind::Agent {
        return Ok(());
    }
    let grants = access(context.api).await?.grants;
    if grants.reads_every_set(namespace) == Some(true) {
        return Ok(());
    }
    let message = format!(
        "cannot import volumes into set `{set}`: the token is not known to read every other set"
    );
    let problem = Diagnostic::error(Code::SetTwoOwners, message).help(format!(
        "use a token that reads all sets: `path \"nomad-csi/sets/*\" {{ capabilities = [\"list\", \"read\"] }}` in namespace `{namespace}`"
    ));
    Err(WorkflowError::blocked([unread_sets(problem, set)]))
}

fn unread_sets(problem: Diagnostic, set: &SetName) -> Diagnostic {
    problem.note(format!(
        "nothing was written: a set that cannot be read may own the volumes, and set `{set}` would remove them from it"
    ))
}

fn owned_by_another(
    key: &NamespacedId,
    (other, set): (&SetName, &SetName),
    access: &LedgerAccess,
) -> Diagnostic {
    let message = format!(
        "cannot import volume {key} into set `{set}`: set `{other}` owns it",
        key = key.quoted()
    );
    Diagnostic::error(Code::SetTwoOwners, message)
        .note("nothing was written; two sets that own one volume both remove it")
        .help(format!(
            "to move the volume to set `{set}`, run `{}`",
            access.forget_command(key, other)
        ))
        .help("to keep it in its set, import the other volumes by their IDs")
}

fn add_imported(set: &mut LedgerSet, imported: &Imported, at: i64) {
    let key = imported.written.request.key();
    if set.ownership(&key).is_some() {
        return;
    }
    let mut applied = set.key().of_desired(&imported.written.request);
    let unknown = &imported.written.unknown;
    if unknown.contains(&HiddenField::MountFlags) {
        applied.remove(VolumeField::MountFlags.key());
    }
    let ownership = Ownership {
        data: RecordedData::Stored(imported.data.clone()),
        protect: true,
        generation: 0,
        applied,
        last_verified: Some(LastVerified {
            spec_index: imported.spec_index,
            at,
            plan_inputs: None,
        }),
    };
    set.own(key, ownership);
}
