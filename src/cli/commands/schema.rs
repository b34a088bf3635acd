//! `schema`: prints the JSON Schema of specifications, for editors.

use clap::Args;

use crate::cli::command_context::CommandContext;
use crate::cli::exit::Exit;
use nomad_csi_spec::{SCHEMA_VERSION, specification_schema};

/// Arguments of `schema`.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct SchemaArgs {
    /// Print only the version of the schema
    #[arg(long)]
    pub version: bool,
}

/// Prints the schema, or its version.
pub(crate) fn print_schema(context: &CommandContext, arguments: SchemaArgs) -> Exit {
    let text = match arguments.version {
        true => format!("{SCHEMA_VERSION}\n"),
        false => specification_schema(),
    };
    context.printer.print_result(&text);
    Exit::Done
}
