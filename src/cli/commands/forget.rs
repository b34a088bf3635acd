//! `forget`: a set lets volumes go. Nothing is done to the volumes; afterwards nothing removes them.
//!
//! The set's lock is held meanwhile, so that no apply is surprised. All volumes are let go or none:
//! one that the set does not own is told before anything is written, and before anybody is waited for.

use std::collections::BTreeSet;

use crate::cli::args::{Forget, LedgerPlace};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ledger::{alone_on_set, flags, no_such_set, open_set, some_ledger, talk};
use crate::cli::ui::one_line;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, nearest};
use crate::model::{NamespacedId, VolumeId};
use crate::nomad::NomadClient;
use crate::plan::LedgerSet;
use crate::ports::LedgerError;
use crate::reconcile::SetLedger;

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
    let (name, place) = (&arguments.set, &arguments.place);
    let ledger = some_ledger(context, place, client)?;
    let scope = context.namespace()?.unwrap_or_default();
    let keys: Vec<NamespacedId> = arguments
        .ids
        .iter()
        .map(|id| NamespacedId::new(scope.clone(), VolumeId::new(id)))
        .collect();
    let opening = open_set(ledger.clone(), name);
    let set = context.interrupts.unless(opening).await??;
    if !set.exists() {
        return Err(no_such_set(context, place, &*ledger, name).await);
    }
    check(set.set(), &keys, place)?;
    let say = talk(context);
    alone_on_set(context, ledger, name, "forget", &say, async |set, _stop| {
        check(set.set(), &keys, place)?;
        let protected: BTreeSet<&NamespacedId> = keys
            .iter()
            .filter(|key| set.set().ownership(key).is_some_and(|owned| owned.protect))
            .collect();
        let_go(set, &keys).await?;
        for key in &keys {
            tell(context, set.set(), key, protected.contains(key));
        }
        Ok(Exit::Done)
    })
    .await
}

async fn let_go(set: &mut SetLedger, keys: &[NamespacedId]) -> Result<(), LedgerError> {
    set.update(|set| {
        for key in keys {
            set.forget(key);
        }
    })
    .await
}

fn check(set: &LedgerSet, keys: &[NamespacedId], place: &LedgerPlace) -> Result<(), CliError> {
    let strangers = keys.iter().filter(|key| set.ownership(key).is_none());
    let strangers: Diagnostics = strangers.map(|key| stranger(set, key, place)).collect();
    if strangers.is_empty() {
        return Ok(());
    }
    Err(strangers.into())
}

/// It may be in another namespace, be mistyped, or have been let go before.
fn stranger(set: &LedgerSet, key: &NamespacedId, place: &LedgerPlace) -> Diagnostic {
    let (name, volume) = (set.name(), one_line(&key.to_string()));
    let message = format!("set {name} does not own volume {volume}");
    let problem = Diagnostic::error(Code::SetNotOwned, message).note("nothing was changed");
    let owned = || set.owned().map(|(key, _)| key);
    let elsewhere = owned().find(|other| other.id == key.id);
    let here = owned().filter(|other| other.namespace == key.namespace);
    let problem = match (
        elsewhere,
        nearest(key.id.as_str(), here.map(|other| other.id.as_str())),
    ) {
        (Some(other), _) => {
            let namespace = one_line(other.namespace.as_str());
            problem.help(format!(
                "it owns one in namespace {namespace}; if that is meant: `--namespace {namespace}`"
            ))
        }
        (None, Some(similar)) => problem.help(format!("is `{}` meant?", one_line(similar))),
        (None, None) => problem,
    };
    let flags = flags(place);
    problem.help(format!(
        "`nomad-csi set show {name}{flags}` lists what it owns"
    ))
}

/// What is otherwise now, and what is not.
fn tell(context: &Context, set: &LedgerSet, key: &NamespacedId, was_protected: bool) {
    let (name, volume) = (set.name(), one_line(&key.to_string()));
    let protection = match was_protected {
        true => ", nor protected by it",
        false => "",
    };
    let line =
        format!("volume {volume}: no longer owned by set {name}{protection}; it stays as it is");
    context.printer.talk(&line);
    if set.intent(key).is_some() {
        let line = format!(
            "volume {volume}: what an earlier run began with it is still noted; the next `plan` of set {name} says what became of it"
        );
        context.printer.talk(&line);
    }
}
