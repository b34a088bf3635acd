//! What `volume status` and `plugin status` share: one server asked, one list or one object shown in
//! the form that was wished for.

use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{Now, Output};
use crate::diagnostic::{Code, Diagnostic};
use crate::ports::{Document, Reading, VolumeApi};

/// How one kind of object is laid out for people.
pub(super) struct Layout<S, T> {
    /// A table, with more columns if wide.
    pub(super) list: fn(&[S], bool) -> String,
    /// One object with everything that belongs to it.
    pub(super) detail: fn(&T, &Now, bool) -> String,
}

impl<S, T> Layout<S, T> {
    /// Prints a list; for people, `nothing` stands for an empty one.
    pub(super) fn print_list(
        &self,
        context: &Context,
        output: &Output,
        listed: Vec<Reading<S>>,
        nothing: &str,
    ) -> Exit {
        let (objects, documents): (Vec<S>, Vec<Document>) = listed
            .into_iter()
            .map(|reading| (reading.value, reading.document))
            .unzip();
        match output.list(&documents) {
            Some(text) => context.printer.data(&text),
            None if objects.is_empty() => context.printer.talk(nothing),
            None => context
                .printer
                .data(&(self.list)(&objects, output.is_wide())),
        }
        Exit::Done
    }

    /// Prints one object.
    pub(super) fn print_one(
        &self,
        context: &Context,
        output: &Output,
        reading: &Reading<T>,
    ) -> Exit {
        let text = output
            .one(&reading.document)
            .unwrap_or_else(|| (self.detail)(&reading.value, &context.now(), output.is_wide()));
        context.printer.data(&text);
        Exit::Done
    }

    /// Shows those that an ID may mean, and says what is wrong with it.
    pub(super) fn ambiguous(
        &self,
        context: &Context,
        several: &[S],
        message: String,
        help: &str,
    ) -> CliError {
        context.printer.talk(&(self.list)(several, false));
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
    context: &Context,
    work: impl AsyncFnOnce(&dyn VolumeApi) -> Result<Exit, CliError>,
) -> Result<Exit, CliError> {
    context
        .with_server(async |api| context.interrupts.unless(work(api)).await?)
        .await
}
