//! `convert`: writes a specification in another syntax.
//!
//! The source is converted, not its values: expressions stay expressions. A file that exists is never overwritten.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use crate::cli::args::SpecSyntax;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::one_line;
use nomad_csi_client::files::{self, SpecFilesRequest, StreamTexts, write_new};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap};
use nomad_csi_spec::{Converted, Syntax, convert};

/// Arguments of `convert`.
#[derive(Args, Debug)]
pub(crate) struct ConvertArgs {
    /// Specification, or `-` for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: String,
    /// Syntax of the result
    #[arg(long, value_name = "SYNTAX")]
    pub to: SpecSyntax,
    /// Syntax of a file whose name does not say it, such as standard input
    #[arg(long, value_name = "SYNTAX")]
    pub syntax: Option<SpecSyntax>,
    /// New file for the result; standard output by default
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: Option<PathBuf>,
}

/// Converts one file.
///
/// # Errors
/// If the result cannot be written.
pub(crate) fn convert_file(
    context: &CommandContext,
    arguments: &ConvertArgs,
) -> Result<Exit, CliError> {
    let mut sources = SourceMap::default();
    let mut diagnostics = Diagnostics::default();
    let is_directory = context.directory.join(&arguments.file).is_dir();
    if is_directory {
        let message = format!("cannot convert `{}`: it is a directory", one_line(&arguments.file));
        return Err(Diagnostic::error(Code::CliInvalidValue, message)
            .help("convert its files one by one")
            .into());
    }
    let texts = context.stdin.with_reader(|stdin| {
        let mut request = SpecFilesRequest {
            arguments: std::slice::from_ref(&arguments.file),
            base_directory: &context.directory,
            stdin,
            syntax: arguments.syntax.map(Syntax::from),
            pipe_limit: files::PIPE_LIMIT,
            read_before: &StreamTexts::default(),
            shows_only_tree: false,
        };
        files::read_spec_files(&mut request, &mut sources, &mut diagnostics)
    });
    let to = Syntax::from(arguments.to);
    let mut results = vec![];
    for (source, syntax) in &texts {
        results.extend(convert(&mut sources, *source, *syntax, to, &mut diagnostics));
    }
    diagnostics.sort();
    context.print_diagnostics(&diagnostics, &sources);
    let [result] = &results[..] else {
        if results.len() > 1 {
            let message = format!("`{}` names several files", one_line(&arguments.file));
            let problem = Diagnostic::error(Code::CliInvalidValue, message);
            return Err(problem.help("convert them one by one").into());
        }
        return Ok(Exit::Error);
    };
    match &arguments.out {
        Some(out) => write_result(context, &arguments.file, result, out)?,
        None => print_result(context, result)?,
    }
    Ok(Exit::Done)
}

fn write_result(
    context: &CommandContext,
    file: &str,
    result: &Converted,
    out: &Path,
) -> Result<(), CliError> {
    let directory = |path: &Path| context.directory.join(path).parent().map(Path::to_owned);
    if result.names_files && directory(Path::new(file)) != directory(out) {
        let message = format!(
            "cannot convert `{}` to another directory: it refers to files with secrets",
            one_line(file)
        );
        return Err(Diagnostic::error(Code::CliInvalidValue, message)
            .note("their paths are relative to the directory of the specification")
            .help("write the result beside the file, with `--out`, and move both")
            .into());
    }
    write_new(&context.directory, out, result.text.as_bytes())?;
    let (file, out) = (one_line(file), one_line(&out.display().to_string()));
    context.printer.print_status(&format!("{file}: converted to {out}"));
    Ok(())
}

fn print_result(context: &CommandContext, result: &Converted) -> Result<(), CliError> {
    context.printer.print_exactly(&result.text).map_err(|reader| {
        let message =
            format!("cannot print the result: {reader} would obey some of its characters");
        Diagnostic::error(Code::CliInvalidValue, message)
            .help("write it to a file with `--out`")
            .into()
    })
}
