//! `set list`, `set show`: what the ledger remembers. They read, and lock nothing.

use crate::cli::args::{SetCommand, SetList, SetShow};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ledger::{all_sets, no_such_set, open_set, some_ledger};
use crate::cli::ui::{set_detail, set_document, set_list, set_summary};
use crate::diagnostic::Diagnostics;
use crate::nomad::NomadClient;
use crate::ports::Document;

/// Shows sets.
///
/// # Errors
/// If the ledger cannot be read, or does not have the set.
pub(crate) async fn run(context: &Context, command: &SetCommand) -> Result<Exit, CliError> {
    context
        .with_client(async |client| {
            let work = async {
                match command {
                    SetCommand::List(arguments) => list(context, client, arguments).await,
                    SetCommand::Show(arguments) => show(context, client, arguments).await,
                }
            };
            context.interrupts.unless(work).await?
        })
        .await
}

async fn list(
    context: &Context,
    client: &NomadClient,
    arguments: &SetList,
) -> Result<Exit, CliError> {
    let ledger = some_ledger(context, &arguments.place, client)?;
    let (mut sets, mut unread) = (vec![], vec![]);
    for set in all_sets(&ledger).await? {
        match set {
            Ok(set) => sets.push(set.set().clone()),
            Err(error) => unread.push(error.diagnostic()),
        }
    }
    let documents: Vec<Document> = sets.iter().map(set_summary).collect();
    match arguments.output.output.list(&documents) {
        Some(text) => context.printer.data(&text),
        None if !sets.is_empty() => context.printer.data(&set_list(&sets)),
        None if !unread.is_empty() => {}
        None => context.printer.talk(&format!(
            "No sets in {}: nothing was applied with one, or another ledger is meant (`--ledger`, `--ledger-namespace`)",
            ledger.name()
        )),
    }
    // One that cannot be read hides none of the others.
    if unread.is_empty() {
        return Ok(Exit::Done);
    }
    Err(unread.into_iter().collect::<Diagnostics>().into())
}

async fn show(
    context: &Context,
    client: &NomadClient,
    arguments: &SetShow,
) -> Result<Exit, CliError> {
    let ledger = some_ledger(context, &arguments.place, client)?;
    let set = open_set(ledger.clone(), &arguments.name).await?;
    if !set.exists() {
        let (place, name) = (&arguments.place, &arguments.name);
        return Err(no_such_set(context, place, &*ledger, name).await);
    }
    let text = arguments
        .output
        .output
        .one(&set_document(set.set()))
        .unwrap_or_else(|| set_detail(set.set(), &context.now()));
    context.printer.data(&text);
    Ok(Exit::Done)
}
