//! `forget`: a set lets volumes go. Nothing is done to the volumes; afterwards nothing removes them.
//!
//! The set's lock is held meanwhile, so that no apply is surprised. All volumes are let go or none:
//! one that the set does not own is told before anything is written.

use crate::cli::args::Forget;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ledger::{lock_set, open_set, some_ledger, talk};
use crate::cli::ui::one_line;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::model::{NamespacedId, SetName, VolumeId};
use crate::nomad::NomadClient;
use crate::plan::LedgerSet;
use crate::ports::LedgerError;
use crate::reconcile::{SetLedger, hold};

/// Lets volumes go.
///
/// # Errors
/// If the set does not own one of them, somebody else works on it, or the ledger cannot be used.
pub(crate) async fn run(context: &Context, arguments: &Forget) -> Result<Exit, CliError> {
    context
        .with_client(async |client| forget(context, client, arguments).await)
        .await
}

async fn forget(
    context: &Context,
    client: &NomadClient,
    arguments: &Forget,
) -> Result<Exit, CliError> {
    let name = &arguments.set;
    let ledger = some_ledger(context, &arguments.place, client)?;
    let scope = context.namespace()?.unwrap_or_default();
    let keys: Vec<NamespacedId> = arguments
        .ids
        .iter()
        .map(|id| NamespacedId::new(scope.clone(), VolumeId::new(id)))
        .collect();
    let opening = async {
        let set = open_set(ledger.clone(), name).await?;
        check(set.set(), &keys)?;
        let lock = lock_set(context, &set, "forget", &talk(context)).await?;
        Ok::<_, CliError>(lock)
    };
    let lock = context.interrupts.unless(opening).await??;
    let (forgotten, ended) = hold(lock, async |_lost| {
        // Whoever held the lock before may have changed the set.
        let mut set = open_set(ledger, name).await?;
        check(set.set(), &keys)?;
        let_go(&mut set, &keys).await?;
        Ok::<_, CliError>(())
    })
    .await;
    forgotten?;
    tell(context, name, &keys);
    ended?;
    Ok(Exit::Done)
}

async fn let_go(set: &mut SetLedger, keys: &[NamespacedId]) -> Result<(), LedgerError> {
    set.update(|set| {
        for key in keys {
            set.forget(key);
        }
    })
    .await
}

fn check(set: &LedgerSet, keys: &[NamespacedId]) -> Result<(), CliError> {
    let strangers: Vec<Diagnostic> = keys
        .iter()
        .filter(|key| set.ownership(key).is_none())
        .map(|key| {
            let volume = one_line(&key.to_string());
            let message = format!("set {} does not own volume {volume}", set.name());
            Diagnostic::error(Code::SetNotOwned, message).help(format!(
                "`nomad-csi set show {}` lists what it owns; nothing was changed",
                set.name()
            ))
        })
        .collect();
    if strangers.is_empty() {
        return Ok(());
    }
    Err(strangers.into_iter().collect::<Diagnostics>().into())
}

fn tell(context: &Context, set: &SetName, keys: &[NamespacedId]) {
    for key in keys {
        let volume = one_line(&key.to_string());
        let line = format!("volume {volume}: no longer owned by set {set}; it stays as it is");
        context.printer.talk(&line);
    }
}
