//! What the sets of a ledger say of volumes that somebody removes by hand.
//!
//! A set that protects a volume keeps it: protection that only `--prune` heard of would be worth
//! little. A set that merely owns it is named, because as long as its files name the volume its next
//! apply makes it anew.
//!
//! A server without variables has no sets. A token that may not read them is told so, and the command
//! goes on: whoever has no such right never applied with a set there. If the ledger cannot be read
//! for another reason, nothing is removed: nobody knows what it protects. `--ledger none` asks none.

use crate::cli::args::LedgerPlace;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::ledger::{all_sets, forgetting, ledger};
use crate::cli::ui::one_line;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap};
use crate::model::{NamespacedId, SetName, Volume};
use crate::nomad::NomadClient;
use crate::plan::{LedgerSet, protected_by};
use crate::ports::{LedgerError, LedgerFailure};
use crate::reconcile::SetLedger;

/// Refuses if a set protects one of the volumes, and says which are owned.
///
/// # Errors
/// If one is protected, the ledger cannot be read, or somebody interrupts. Nothing was removed then.
pub(super) async fn ask_sets(
    context: &Context,
    client: &NomadClient,
    place: &LedgerPlace,
    volumes: &[Volume],
) -> Result<(), CliError> {
    let Some(ledger) = ledger(context, place, client).filter(|_| !volumes.is_empty()) else {
        return Ok(());
    };
    let reading = async { all_sets(&ledger).await?.into_iter().collect() };
    let sets: Vec<SetLedger> = match context.interrupts.unless(reading).await? {
        Ok(sets) => sets,
        Err(error) => return without_answer(context, &error),
    };
    let mut protected = vec![];
    let mut owned = vec![];
    for key in volumes.iter().map(Volume::key) {
        for set in sets.iter().map(SetLedger::set) {
            match of_set(set, &key, place) {
                Some(Owned::Protected(why)) => protected.push(why),
                Some(Owned::Only(what)) => owned.push(what),
                None => {}
            }
        }
    }
    if !protected.is_empty() {
        return Err(CliError::blocked(protected));
    }
    let owned: Diagnostics = owned.into_iter().collect();
    context.report(&owned, &SourceMap::default());
    Ok(())
}

fn without_answer(context: &Context, error: &LedgerError) -> Result<(), CliError> {
    match error.failure {
        LedgerFailure::Unsupported => Ok(()),
        LedgerFailure::Forbidden => {
            let why = one_line(&error.message);
            let line =
                format!("whether a set protects what is removed is not known: {why}; going on");
            context.printer.talk(&line);
            Ok(())
        }
        LedgerFailure::Held(_)
        | LedgerFailure::Conflict
        | LedgerFailure::LockLost
        | LedgerFailure::Unusable(_)
        | LedgerFailure::Unavailable
        | LedgerFailure::OutcomeUnknown => Err(error
            .diagnostic()
            .note("nothing was removed: a set may protect it")
            .help("with `--ledger none` no set is asked")
            .into()),
    }
}

/// What a set says of a volume that it owns.
enum Owned {
    Protected(Diagnostic),
    Only(Diagnostic),
}

fn of_set(set: &LedgerSet, key: &NamespacedId, place: &LedgerPlace) -> Option<Owned> {
    let ownership = set.ownership(key)?;
    Some(if ownership.protect {
        let why = protected_by(key, set.name().as_str());
        let command = forgetting(key, set.name(), place);
        let why = why.help(format!("to give it up: `{command}`"));
        Owned::Protected(why.help("with `--ledger none` no set is asked"))
    } else {
        Owned::Only(owned_by(key, set.name()))
    })
}

fn owned_by(key: &NamespacedId, set: &SetName) -> Diagnostic {
    let message = format!(
        "set {set} owns volume {key}: as long as its files name it, the next apply makes it anew"
    );
    Diagnostic::warning(Code::SetOwnsRemoved, message)
        .help("take it out of the files, too; `apply --prune` with the set removes what they no longer name")
}
