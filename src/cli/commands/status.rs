//! What `volume status` and `plugin status` share: one server asked, one list or one object shown in
//! the form that was wished for.

use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{TimeReference, OutputFormat};
use crate::diagnostic::{Code, Diagnostic};
use crate::ports::{Document, WithDocument, VolumeApi};

/// How one kind of object is laid out for people.
pub(super) struct Layout<S, T> {
    /// A table, with more columns if wide.
    pub(super) list: fn(&[S], bool) -> String,
    /// One object with everything that belongs to it.
    pub(super) detail: fn(&T, &TimeReference, bool) -> String,
}

impl<S, T> Layout<S, T> {
    /// Prints a list; for people, `nothing` stands for an empty one.
    pub(super) fn print_list(
        &self,
        context: &CommandContext,
        output: &OutputFormat,
        listed: Vec<WithDocument<S>>,
        nothing: &str,
    ) -> Exit {
        let (objects, documents): (Vec<S>, Vec<Document>) = listed
            .into_iter()
            .map(|reading| (reading.value, reading.document))
            .unzip();
        match output.render_list(&documents) {
            Some(text) => context.printer.print_result(&text),
            None if objects.is_empty() => context.printer.print_status(nothing),
            None => context
                .printer
                .print_result(&(self.list)(&objects, output.is_wide())),
        }
        Exit::Done
    }

    /// Prints one object.
    pub(super) fn print_one(
        &self,
        context: &CommandContext,
        output: &OutputFormat,
        reading: &WithDocument<T>,
    ) -> Exit {
        let text = output
            .render_one(&reading.document)
            .unwrap_or_else(|| (self.detail)(&reading.value, &context.time_reference(), output.is_wide()));
        context.printer.print_result(&text);
        Exit::Done
    }

    /// Shows those that an ID may mean, and says what is wrong with it.
    pub(super) fn ambiguous(
        &self,
        context: &CommandContext,
        several: &[S],
        message: String,
        help: &str,
    ) -> CliError {
        context.printer.print_status(&(self.list)(several, false));
        Diagnostic::error(Code::CliAmbiguousId, message)
            .help(help)
            .into()
    }
}

/// Asks the server, and gives up as soon as somebody interrupts: nothing is changed here.
///
/// # Errors
/// If the server says no, and those of the work.
pub(super) async fn ask(
    context: &CommandContext,
    work: impl AsyncFnOnce(&dyn VolumeApi) -> Result<Exit, CliError>,
) -> Result<Exit, CliError> {
    context
        .with_cluster(async |api| context.interrupts.unless(work(api)).await?)
        .await
}
