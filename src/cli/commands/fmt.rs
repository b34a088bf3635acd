//! `fmt`: puts the white space of HCL in order.
//!
//! A file is replaced as a whole, and only if all of its values stay. One that does not parse is not touched. What has no
//! place to write to, such as standard input, goes to standard output.

use std::path::Path;

use clap::{Args, ValueHint};

use crate::cli::command_context::CommandContext;
use crate::cli::exit::Exit;
use crate::cli::ui::one_line;
use nomad_csi_client::files::{self, SpecFilesRequest, StreamTexts};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceId, SourceMap};
use nomad_csi_spec::{FormatChoice, Syntax, format_difference, format_hcl};

/// Arguments of `fmt`.
#[derive(Args, Debug)]
pub(crate) struct FmtArgs {
    /// File, glob, directory (searched recursively) or `-` for standard input; repeatable
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    pub paths: Vec<String>,
    /// Write nothing, and exit with 2 if a file would change
    #[arg(long)]
    pub check: bool,
    /// Print what would change as a unified diff, and write nothing
    #[arg(long)]
    pub diff: bool,
}

/// Formats files.
///
/// What cannot be read or written is printed.
pub(crate) fn format_files(context: &CommandContext, arguments: &FmtArgs) -> Exit {
    let mut sources = SourceMap::default();
    let mut diagnostics = Diagnostics::default();
    let texts = context.stdin.with_reader(|stdin| {
        let mut request = SpecFilesRequest {
            arguments: &arguments.paths,
            base_directory: &context.directory,
            stdin,
            syntax: None,
            pipe_limit: files::PIPE_LIMIT,
            read_before: &StreamTexts::default(),
            shows_only_tree: false,
        };
        files::read_spec_files(&mut request, &mut sources, &mut diagnostics)
    });
    let named = files::NamedFiles::new(&context.directory, &arguments.paths);
    let mut changed_count = 0;
    for (source, syntax) in texts {
        let name = sources.name(source).to_owned();
        let is_named = named.has(&name);
        if !is_hcl(&sources, source, syntax) {
            if is_named {
                diagnostics.push(not_hcl(&name));
            }
            continue;
        }
        let choice = if is_named { FormatChoice::Named } else { FormatChoice::Found };
        let Some(formatted) = format_hcl(&mut sources, source, choice, &mut diagnostics) else {
            continue;
        };
        let is_changed = formatted != **sources.text(source);
        changed_count += usize::from(is_changed);
        let shown = one_line(&name);
        if arguments.diff {
            let difference = format_difference(&shown, &mut sources, source, &formatted);
            context.printer.print_result(&difference);
        }
        if arguments.check && is_changed {
            context.printer.print_status(&format!("{shown}: not formatted"));
        }
        if arguments.check || arguments.diff {
            continue;
        }
        if name == STDIN_NAME || files::is_passing(&context.directory.join(&name)) {
            print_exactly(context, &shown, &formatted, &mut diagnostics);
        } else if is_changed {
            let old = sources.text(source).as_bytes();
            let file = Path::new(&name);
            match files::rewrite(&context.directory, file, old, formatted.as_bytes()) {
                Ok(()) => context.printer.print_status(&format!("{shown}: formatted")),
                Err(problems) => diagnostics.extend(problems),
            }
        }
    }
    diagnostics.sort();
    context.print_diagnostics(&diagnostics, &sources);
    match (diagnostics.has_errors(), arguments.check && changed_count > 0) {
        (true, _) => Exit::Error,
        (false, true) => Exit::ChangesPending,
        (false, false) => Exit::Done,
    }
}

/// The name of standard input among sources.
const STDIN_NAME: &str = "<stdin>";

fn is_hcl(sources: &SourceMap, source: SourceId, syntax: Syntax) -> bool {
    match syntax {
        Syntax::Hcl => !Syntax::looks_like_json(sources.text(source)),
        Syntax::Yaml | Syntax::Json => false,
    }
}

fn not_hcl(name: &str) -> Diagnostic {
    let message = format!("cannot format `{}`: it is not HCL", one_line(name));
    Diagnostic::error(Code::CliInvalidValue, message).help("name HCL files, or their directory")
}

/// Prints a text without a change, because another program reads it.
fn print_exactly(context: &CommandContext, name: &str, text: &str, diagnostics: &mut Diagnostics) {
    if let Err(reader) = context.printer.print_exactly(text) {
        let message = format!("cannot print `{name}`: {reader} would obey some of its characters");
        let problem = Diagnostic::error(Code::CliInvalidValue, message);
        diagnostics.push(problem.help("format it as a file"));
    }
}
