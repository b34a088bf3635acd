//! Runs the requests of one command, and prints lists and objects.

use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{OutputFormat, TimeReference};
use nomad_csi_client::ports::{ClusterApi, Document, WithDocument};
use nomad_csi_client::reconcile::workflow::WorkflowError;
use nomad_csi_model::diagnostic::{Code, Diagnostic, closest_match};
use nomad_csi_model::{Namespace, one_line};

/// How one kind of object is shown.
pub(super) struct Layout<S, T> {
    /// A table, with more columns if wide.
    pub(super) list: fn(&[S], bool) -> String,
    /// One object in detail.
    pub(super) detail: fn(&T, &TimeReference, bool) -> String,
}

impl<S, T> Layout<S, T> {
    /// Prints a list. The text form shows `nothing` for an empty one.
    ///
    /// # Errors
    /// Those of [`print_list`].
    pub(super) fn print_list(
        &self,
        context: &CommandContext,
        output: &OutputFormat,
        listed: Vec<WithDocument<S>>,
        nothing: &str,
    ) -> Result<Exit, CliError> {
        let table = |objects: &[S]| (self.list)(objects, output.is_wide());
        print_list(context, output, listed, nothing, table)
    }

    /// Prints one object.
    ///
    /// # Errors
    /// If a path leads to nothing in it.
    pub(super) fn print_one(
        &self,
        context: &CommandContext,
        output: &OutputFormat,
        reading: &WithDocument<T>,
    ) -> Result<Exit, CliError> {
        let text = output.render_one(&reading.document)?.unwrap_or_else(|| {
            (self.detail)(&reading.value, &context.time_reference(), output.is_wide())
        });
        context.printer.print_result(&text);
        Ok(Exit::Done)
    }

    /// Prints the objects that an ID may mean, and returns the error.
    pub(super) fn ambiguous(
        &self,
        context: &CommandContext,
        several: &[S],
        message: String,
        help: &str,
    ) -> CliError {
        context.printer.print_lines(&(self.list)(several, false));
        Diagnostic::error(Code::CliAmbiguousId, message).help(help).into()
    }
}

/// Prints a list. The text form is a `table`, or `nothing` for an empty one.
///
/// # Errors
/// If a path leads to nothing in the list.
pub(super) fn print_list<S>(
    context: &CommandContext,
    output: &OutputFormat,
    listed: Vec<WithDocument<S>>,
    nothing: &str,
    table: impl FnOnce(&[S]) -> String,
) -> Result<Exit, CliError> {
    let (objects, documents): (Vec<S>, Vec<Document>) =
        listed.into_iter().map(|reading| (reading.value, reading.document)).unzip();
    match output.render_list(&documents)? {
        Some(text) => context.printer.print_result(&text),
        None if objects.is_empty() => context.printer.print_status(nothing),
        None => context.printer.print_result(&table(&objects)),
    }
    Ok(Exit::Done)
}

/// Refuses a namespace that does not exist, whose lists are empty. A server that does not say, such as to a token without
/// rights, may have it.
///
/// # Errors
/// If the server has no such namespace.
pub(super) async fn check_namespace(
    api: &dyn ClusterApi,
    scope: &Namespace,
    action: &str,
) -> Result<(), CliError> {
    let always_exists = scope.as_str() == Namespace::ALL || *scope == Namespace::default();
    if always_exists || !matches!(api.read_namespace(scope).await, Ok(None)) {
        return Ok(());
    }
    let message = format!("cannot {action}: namespace `{scope}` does not exist");
    let problem = Diagnostic::error(Code::NamespaceUnknown, message);
    let listed = api.list_namespaces().await.unwrap_or_default();
    let names = listed.iter().map(|reading| reading.value.name.as_str());
    Err(match closest_match(scope.as_str(), names) {
        Some(near) => problem.help(format!("did you mean `{}`?", one_line(near))),
        None => problem.help("run `nomad-csi namespace list` to list the namespaces"),
    }
    .into())
}

/// Returns what was found. If it is missing, as `missing` says, and its namespace does not exist, that is the error.
///
/// # Errors
/// If it was not found.
pub(super) async fn found_in<T>(
    api: &dyn ClusterApi,
    scope: &Namespace,
    action: &str,
    found: Result<T, WorkflowError>,
    missing: Code,
) -> Result<T, CliError> {
    let Err(error) = &found else {
        return Ok(found?);
    };
    if error.diagnostics.iter().any(|one| one.code == missing) {
        check_namespace(api, scope, action).await?;
    }
    Ok(found?)
}

/// Runs a query that an interrupt can abandon at any time.
///
/// # Errors
/// If the server refuses, and those of `work`.
pub(super) async fn ask(
    context: &CommandContext,
    work: impl AsyncFnOnce(&dyn ClusterApi) -> Result<Exit, CliError>,
) -> Result<Exit, CliError> {
    context.with_cluster(async |api| context.interrupts.unless_interrupted(work(api)).await?).await
}
