//! One run of the program: from the process environment to an exit code.

use std::sync::{Arc, OnceLock};

use clap::{CommandFactory as _, FromArgMatches as _};

use super::args::GlobalArgs;
use super::command_context::{CommandContext, Stdin};
use super::command_line::Cli;
use super::commands::completion;
use super::dispatch::dispatch;
use super::env::Variable;
use super::exit::Exit;
use super::other_words::in_own_words;
use super::process_environment::{OutputStream, ProcessEnvironment};
use super::settings::{HELP_WIDTH, output_width, uses_colour};
use super::ui::{OutputReader, Printer, PrinterStream};
use super::usage_tips::with_own_tips;
use nomad_csi_model::diagnostic::{Code, Diagnostic, SourceMap};
use nomad_csi_model::one_line;

/// Runs one command line and returns its exit code.
pub fn run_command_line(process_environment: ProcessEnvironment) -> Exit {
    let width = output_width(&process_environment.environment, process_environment.columns);
    let parsed = parse(&process_environment, width);
    let global = parsed.as_ref().map(|cli| cli.global.clone()).unwrap_or_default();
    let process = process_environment.ownership;
    let mut context = command_context(process_environment, global.with_all_namespaces(), width);
    let started = context.clock.now();
    context.reports = parsed.as_ref().ok().and_then(|cli| cli.command.reports(started));
    let exit = match parsed {
        Ok(cli) => dispatch(&context, &cli.command, process).unwrap_or_else(|error| {
            context.print_diagnostics(&error.diagnostics, &error.sources);
            error.exit
        }),
        Err(ParseFailure::Completion(shell)) => {
            completion::complete(&context, &shell, Cli::command())
                .unwrap_or_else(|error| error.exit)
        }
        Err(ParseFailure::Clap(error)) => print_usage(&context, &error),
    };
    let exit = write_reports(&context, exit);
    match context.printer.take_output_error() {
        None => exit,
        Some(error) => {
            let message = "cannot write all output to standard output";
            context.print_diagnostic(
                &Diagnostic::error(Code::CliOutputFailed, message).note(error.to_string()),
            );
            exit.max(Exit::Error)
        }
    }
}

/// Writes the reports of the run. Returns its exit code.
fn write_reports(context: &CommandContext, exit: Exit) -> Exit {
    let Some(reports) = &context.reports else {
        return exit;
    };
    let problems = reports.write(&context.printer, &context.directory, exit, context.clock.now());
    if problems.is_empty() {
        return exit;
    }
    context.print_diagnostics(&problems, &SourceMap::default());
    exit.max(Exit::Error)
}

/// Why a command line holds no command to run.
enum ParseFailure {
    /// A shell requests completions.
    Completion(String),
    /// A request for help or the version, or a usage error.
    Clap(clap::Error),
}

fn parse(process_environment: &ProcessEnvironment, width: usize) -> Result<Cli, ParseFailure> {
    if let Ok(Some(shell)) = process_environment.environment.text(Variable::Complete) {
        return Err(ParseFailure::Completion(shell.to_owned()));
    }
    let command_line = Cli::command().term_width(width.min(HELP_WIDTH));
    let words = in_own_words(&process_environment.arguments, &command_line);
    command_line
        .try_get_matches_from(&words)
        .and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches))
        .map_err(|error| {
            let words = words.iter().map(|word| word.to_string_lossy().into_owned());
            let words = words.collect::<Vec<_>>();
            ParseFailure::Clap(with_own_tips(error, &words, &Cli::command()))
        })
}

fn command_context(
    process_environment: ProcessEnvironment,
    global: GlobalArgs,
    width: usize,
) -> CommandContext {
    let ProcessEnvironment {
        arguments,
        environment,
        directory,
        stdin,
        stdout,
        stderr,
        clock,
        time_zone,
        host_name,
        process_id,
        processes,
        servers,
        interrupts,
        columns: _,
        ownership: _,
    } = process_environment;
    let stream = |sink: OutputStream| PrinterStream {
        colour: uses_colour(&global, &environment, sink.is_terminal),
        is_terminal: sink.is_terminal,
        writer: sink.writer,
    };
    let supports_cursor = !matches!(environment.text(Variable::Terminal), Ok(Some("dumb")));
    let runners = [Variable::GithubActions, Variable::AzurePipelines];
    let reader = match runners.iter().any(|runner| environment.is_set(*runner)) {
        true => OutputReader::WorkflowRunner,
        false => OutputReader::Person,
    };
    let printer = Printer::new(stream(stdout), stream(stderr), width, supports_cursor);
    let printer = printer.read_by(reader);
    CommandContext {
        arguments,
        global,
        environment,
        directory,
        printer: Arc::new(printer),
        clock,
        time_zone,
        host_name,
        process_id,
        processes,
        servers,
        interrupts,
        stdin: Stdin::new(stdin.reader, stdin.is_terminal),
        reports: None,
        selected_cluster: OnceLock::new(),
        policies: OnceLock::new(),
    }
}

/// Prints clap's text. Replaces clap's exit code 2, which means "changes are pending" here.
fn print_usage(context: &CommandContext, error: &clap::Error) -> Exit {
    let mut text = error.render().ansi().to_string();
    // clap repeats what was typed, and a script may have typed the name of another's object.
    for argument in &context.arguments {
        let argument = argument.to_string_lossy();
        let value = argument.split_once('=').map_or(&*argument, |(_, value)| value);
        if value.contains(['\n', '\r']) {
            text = text.replace(value, &one_line(value));
        }
    }
    if error.use_stderr() {
        context.printer.print_lines(text.trim_end());
        return Exit::Error;
    }
    context.printer.print_result(&text);
    Exit::Done
}
