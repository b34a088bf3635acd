//! `import --set`: records imported volumes in a set, protected.

use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::ledger_access::SetSelection;
use super::set_lock::with_set_lock;
use crate::model::HiddenField;
use crate::plan::{Imported, LastVerified, LedgerSet, Ownership, RecordedData};

/// Writes specifications with `write_files`, then adds the volumes to a set, protected. A volume that
/// the set owns already stays as it is.
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
    let line = format!(
        "set {name} in {} owns the volumes, protected",
        ledger.name()
    );
    context.reporter.status(&line);
    Ok(())
}

fn add_imported(set: &mut LedgerSet, imported: &Imported, at: i64) {
    let key = imported.written.request.key();
    if set.ownership(&key).is_some() {
        return;
    }
    let mut applied = set.key().of_wanted(&imported.written.request);
    let unknown = &imported.written.unknown;
    if unknown.contains(&HiddenField::MountFlags) {
        applied.remove("mount_options.mount_flags");
    }
    let ownership = Ownership {
        data: RecordedData::Stored(imported.data.clone()),
        protect: true,
        generation: 0,
        applied,
        last_verified: Some(LastVerified {
            modify_index: imported.modify_index,
            at,
        }),
    };
    set.own(key, ownership);
}
