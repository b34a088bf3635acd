//! `plugin check`: checks that a plugin conforms to the CSI specification.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::args::{CheckArgs, TableFormat};
use super::socket::Plugin;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::given_secrets::given_secrets;
use crate::cli::ui::{CheckProgress, case_list, json_text, report_json, report_text};
use nomad_csi_client::files::{read_pairs, write_over};
use nomad_csi_conformance::{
    Area, CheckOptions, LocalFiles, Report, Selection, cases, run_checks as carry_out,
};
use nomad_csi_model::diagnostic::{Code, Diagnostic, closest_match};
use nomad_csi_model::{Bytes, Secrets};

/// The message of a second Ctrl-C.
pub(crate) const LEFT: &str = "aborted: volumes and snapshots of the checks may remain; their names begin with nomad-csi-check-";

/// Runs the checks and prints the report, including what they left behind.
///
/// # Errors
/// If an argument is invalid, or no CSI plugin answers.
pub(crate) async fn check_plugin(
    context: &CommandContext,
    arguments: &CheckArgs,
) -> Result<Exit, CliError> {
    let selection = Selection {
        only: arguments.only.clone(),
        skip: arguments.skip.clone(),
        destructive: arguments.destructive,
    };
    known(&selection)?;
    if arguments.list {
        context.printer.print_result(&case_list());
        return Ok(Exit::Done);
    }
    let plugin = Plugin::at(context, arguments.endpoint.as_deref(), arguments.timeout)?;
    let secrets = given_secrets(context, &arguments.secrets).await?;
    let setup = setup(context, arguments, secrets)?;
    let watch = CheckProgress::new(&context.printer);
    let running = carry_out(
        plugin.client,
        setup,
        &selection,
        Arc::new(LocalFiles),
        &watch,
        context.interrupts.stop(),
    );
    let report = running.await.map_err(|unusable| unusable.diagnostic(&plugin.socket))?;
    drop(watch);
    print_report(context, arguments, &report)?;
    Ok(exit(&report))
}

/// # Errors
/// If a file cannot be written.
fn print_report(
    context: &CommandContext,
    arguments: &CheckArgs,
    report: &Report,
) -> Result<(), CliError> {
    let mut is_printed = false;
    for format in &arguments.formats {
        let text = format.text(report);
        match format.file() {
            Some(file) => write_over(&context.directory, Path::new(file), text.as_bytes())?,
            None => {
                context.printer.print_result(&text);
                is_printed = true;
            }
        }
    }
    if !is_printed {
        context.printer.print_result(&match arguments.output {
            TableFormat::Table => report_text(report),
            TableFormat::Json => json_text(&report_json(report)),
        });
    }
    Ok(())
}

fn exit(report: &Report) -> Exit {
    match (report.interrupted, report.is_clean()) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Done,
        // An error means that the checks did not run.
        (false, false) => Exit::Blocked,
    }
}

/// # Errors
/// If the selection names an unknown check.
fn known(selection: &Selection) -> Result<(), CliError> {
    let unknown = selection.unknown_words(&cases());
    let Some(word) = unknown.first() else {
        return Ok(());
    };
    let message = format!("`{word}` is not a check or an area");
    let problem = Diagnostic::error(Code::CliInvalidValue, message);
    let cases = cases();
    let names = Area::ALL.iter().map(|area| area.as_str()).chain(cases.iter().map(|case| case.id));
    let problem = match closest_match(word, names) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem,
    };
    Err(problem.help("run `nomad-csi plugin check --list` to list all checks").into())
}

fn setup(
    context: &CommandContext,
    arguments: &CheckArgs,
    secrets: Secrets,
) -> Result<CheckOptions, CliError> {
    let read = |file: &Option<PathBuf>| match file {
        None => Ok(BTreeMap::new()),
        Some(file) => pairs(&context.directory.join(file)),
    };
    let size = Bytes::parse(&arguments.size).map_err(|error| {
        let message = format!("`{}` is not a size", arguments.size);
        Diagnostic::error(Code::CliInvalidValue, message).note(error.to_string())
    })?;
    let size = size.to_wire();
    let run = uuid::Uuid::new_v4().simple().to_string();
    let prefix = format!("nomad-csi-check-{}", &run[..8]);
    let work = tempfile::env::temp_dir().join(&prefix);
    let below = |given: &Option<PathBuf>, name: &str| match given {
        Some(directory) => context.directory.join(directory),
        None => work.join(name),
    };
    Ok(CheckOptions {
        parameters: read(&arguments.parameters)?,
        mutable_parameters: read(&arguments.mutable_parameters)?,
        secrets,
        size,
        staging_directory: below(&arguments.staging, "staging"),
        target_directory: below(&arguments.target, "target"),
        name_prefix: prefix,
        block_volumes: arguments.block,
        log: arguments.log.as_ref().map(|log| context.directory.join(log)),
    })
}

fn pairs(file: &Path) -> Result<BTreeMap<String, String>, CliError> {
    read_pairs(file).map_err(|reason| {
        let message = format!("cannot read parameters from `{}`", file.display());
        Diagnostic::error(Code::CliInvalidValue, message)
            .note(reason)
            .help("write one map, such as `type: fast`")
            .into()
    })
}
