//! `volume expand`.

use super::args::ExpandArgs;
use super::resized_volume::{declared_in_files, with_size};
use crate::cli::args::{FileArgs, SetArgs};
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ledger::ledger_access;
use crate::cli::specs::{EmptyFiles, LoadOptions, load_specifications, parse_set_name};
use crate::cli::ui::{one_line, volume_detail};
use nomad_csi_client::ports::WithDocument;
use nomad_csi_client::reconcile::workflow::{
    ExpandRequest, SetSelection, Specifications, expand_volume, find_volume,
};
use nomad_csi_client::reconcile::{Outcome, Status};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap};
use nomad_csi_model::{Bytes, Volume};
use nomad_csi_spec::Purpose;

/// Expands a volume.
///
/// # Errors
/// If the volume does not exist, an argument is invalid, and those of [`expand_volume`].
pub(crate) async fn expand_to_size(
    context: &CommandContext,
    arguments: &ExpandArgs,
) -> Result<Exit, CliError> {
    let declared = load_files(context, arguments)?;
    let size = parse_size("--size", arguments.size.as_deref())?;
    let max_size = parse_size("--max-size", arguments.max_size.as_deref())?;
    context
        .with_cluster(async |cluster| {
            let cluster = &*cluster.waiting(context.wait_for_server(arguments.server_wait));
            let wait = arguments.server_wait;
            let workflow = context.waiting_workflow(cluster, "volume expand", wait, 1);
            let scope = context.namespace()?.unwrap_or_default();
            let existing = find_volume(&workflow, &scope, &arguments.id).await?;
            let specifications = match declared {
                Some(declared) => declared_in_files(declared, &existing)?,
                None if is_large_enough(context, &existing, size) => return Ok(Exit::Done),
                None => {
                    let set = parse_set_name(arguments.set.as_deref())?;
                    with_size(context, &existing, set, size, max_size)?
                }
            };
            let access = ledger_access(context, &arguments.ledger, cluster);
            let set = SetSelection::new(access.clone(), specifications.set.as_ref());
            let request = ExpandRequest {
                existing: &existing,
                specifications: &specifications,
                is_from_file: !arguments.files.is_empty(),
                accepted_losses: &arguments.accept_loss,
                server_version: arguments.server_version.clone(),
                policies: context.policies()?.clone(),
                ledger: access.as_ref(),
                set: set.as_ref(),
                requires_set: arguments.set.is_some(),
            };
            let outcome = expand_volume(&workflow, &request).await?;
            Ok(print_outcome(context, arguments, &existing, outcome))
        })
        .await
}

fn load_files(
    context: &CommandContext,
    arguments: &ExpandArgs,
) -> Result<Option<Specifications>, CliError> {
    if arguments.files.is_empty() {
        return Ok(None);
    }
    let files = FileArgs::of(arguments.files.clone(), arguments.syntax);
    let set = SetArgs { set: arguments.set.clone() };
    let load_options = LoadOptions {
        purpose: Purpose::ByExternalId,
        empty_files: EmptyFiles::Rejected,
        share: None,
        deny: &[],
        policies: Some(context.policies()?),
        refuses_files: false,
        plugins: None,
    };
    load_specifications(context, &files, load_options, &set).map(Some)
}

fn parse_size(flag: &str, text: Option<&str>) -> Result<Bytes, CliError> {
    let Some(text) = text else {
        return Ok(Bytes::ZERO);
    };
    Bytes::parse(text).map_err(|error| {
        let message = format!("`{flag} {}` is not a size", one_line(text));
        Diagnostic::error(Code::CliInvalidValue, message)
            .note(error.to_string())
            .help("write a number and a unit, such as `20GiB` or `20G`")
            .into()
    })
}

fn is_large_enough(context: &CommandContext, existing: &Volume, size: Bytes) -> bool {
    let is_large_enough = !existing.capacity.is_zero() && existing.capacity >= size;
    if is_large_enough {
        context.printer.print_status(&one_line(&format!(
            "volume {}: already has {}, nothing to do; volumes never shrink",
            existing.key(),
            existing.capacity.binary()
        )));
    }
    is_large_enough
}

fn print_outcome(
    context: &CommandContext,
    arguments: &ExpandArgs,
    existing: &Volume,
    outcome: Option<Outcome>,
) -> Exit {
    let Some(outcome) = outcome else {
        return Exit::Done;
    };
    let mut diagnostics = outcome.warnings;
    let exit = match outcome.status {
        Status::Unchanged => {
            let key = one_line(&existing.key().to_string());
            let line = format!("volume {key}: already has this size, nothing to do");
            context.printer.print_status(&line);
            Exit::Done
        }
        Status::Done(reading) => {
            let print = |reading| print_expanded(context, arguments, existing, &reading);
            match reading.map_or(Ok(()), |reading| print(*reading)) {
                Ok(()) => Exit::Done,
                Err(problems) => {
                    diagnostics.extend(problems);
                    Exit::Error
                }
            }
        }
        Status::Stale(why) | Status::DependencyFailed(why) => {
            diagnostics.push(why);
            Exit::Blocked
        }
        Status::Failed(why) | Status::ServerUnreachable(why) => {
            diagnostics.push(why);
            Exit::Error
        }
        Status::Removed | Status::Blocked => Exit::Blocked,
        Status::NotStarted => Exit::Interrupted,
    };
    context.print_diagnostics(&diagnostics.into_iter().collect(), &SourceMap::default());
    exit
}

/// Prints the new size. File systems on nodes grow later.
fn print_expanded(
    context: &CommandContext,
    arguments: &ExpandArgs,
    existing: &Volume,
    reading: &WithDocument<Volume>,
) -> Result<(), Diagnostics> {
    let now = &reading.value;
    let key = one_line(&now.key().to_string());
    let size = |size: Bytes| {
        if size.is_zero() { "unknown".to_owned() } else { size.binary() }
    };
    context.printer.print_status(&format!(
        "volume {key}: size {} -> {}",
        size(existing.capacity),
        size(now.capacity)
    ));
    let users = match now.claiming_allocs().count() {
        0 => None,
        1 => Some("1 allocation uses it".to_owned()),
        count => Some(format!("{count} allocations use it")),
    };
    if let Some(users) = users {
        context.printer.print_status(&format!(
            "volume {key}: {users}; the file system grows on each node now or at the next mount: check with `df` in the allocation"
        ));
    }
    let output = &arguments.output.output;
    let text = output
        .render_one(&reading.document)?
        .unwrap_or_else(|| volume_detail(now, &context.time_reference(), output.is_wide()));
    context.printer.print_result(&text);
    Ok(())
}
