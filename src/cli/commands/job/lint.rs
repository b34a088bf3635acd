//! `job lint`: checks job files against the volumes that they use.

use serde_json::{Value, json};

use super::args::JobLintArgs;
use crate::cli::args::{FileArgs, ReportFormat, SetArgs};
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::jobs::{ReadJobs, read_jobs};
use crate::cli::settings::namespace;
use crate::cli::spec_runs::{problems_once, read_runs};
use crate::cli::specs::{EmptyFiles, LoadOptions};
use crate::cli::ui::{diagnostic_json, json_text, report_files};
use nomad_csi_client::ports::{ClusterApi, VolumeQuery};
use nomad_csi_model::diagnostic::{Diagnostics, Severity, SourceMap};
use nomad_csi_model::{Namespace, NamespacedId};
use nomad_csi_plan::{
    LintVolume, LintVolumes, LintedJob, PluginSnapshots, lint_jobs, used_volumes,
};
use nomad_csi_spec::Purpose;

/// Problems with the texts that they refer to.
struct Found {
    diagnostics: Diagnostics,
    sources: SourceMap,
}

/// Checks job files against the volumes of files, or of the server.
///
/// # Errors
/// If the selected namespace is invalid, a file of a plugin cannot be used, or the server cannot be read.
pub(crate) async fn check_jobs(
    context: &CommandContext,
    arguments: &JobLintArgs,
) -> Result<Exit, CliError> {
    let snapshots = context.plugin_snapshots(&arguments.plugins)?.unwrap_or_default();
    if arguments.volumes.is_empty() {
        return check_against_server(context, arguments, &snapshots).await;
    }
    // The config file is not read: it concerns servers.
    let asked = namespace(&context.global, &context.environment, None)?;
    let (volumes, mut found) = volumes_of_files(context, arguments, asked.as_ref())?;
    // The texts of the jobs follow those of the first run, so that one message can mark both.
    let sources = found.first().map(|run| run.sources.clone()).unwrap_or_default();
    let read = read_jobs(context, &arguments.files, arguments.syntax, asked, sources);
    let is_complete = !found.iter().any(|run| run.diagnostics.has_errors());
    let mut diagnostics = read.diagnostics.clone();
    if is_complete && !diagnostics.has_errors() {
        diagnostics.extend(lint_jobs(&read.linted(), &volumes, &snapshots));
        diagnostics.sort();
    }
    let jobs = Found { diagnostics, sources: read.sources.clone() };
    found.push(jobs);
    Ok(print_found(context, arguments, &read, &found))
}

/// Checks job files against the volumes that the server has.
async fn check_against_server(
    context: &CommandContext,
    arguments: &JobLintArgs,
    snapshots: &PluginSnapshots,
) -> Result<Exit, CliError> {
    let asked = context.namespace()?;
    let read = read_jobs(context, &arguments.files, arguments.syntax, asked, SourceMap::default());
    let diagnostics = read.diagnostics.clone();
    if diagnostics.has_errors() {
        let found = [Found { diagnostics, sources: read.sources.clone() }];
        return Ok(print_found(context, arguments, &read, &found));
    }
    context
        .with_cluster(async |cluster| {
            let jobs = read.linted();
            let reading = volumes_of_server(cluster, &jobs);
            let volumes = context.interrupts.unless_interrupted(reading).await??;
            let mut diagnostics = diagnostics.clone();
            diagnostics.extend(lint_jobs(&jobs, &volumes, snapshots));
            diagnostics.sort();
            let found = [Found { diagnostics, sources: read.sources.clone() }];
            Ok(print_found(context, arguments, &read, &found))
        })
        .await
}

/// Returns the volumes that files declare, with the problems of the files of each run.
fn volumes_of_files(
    context: &CommandContext,
    arguments: &JobLintArgs,
    asked: Option<&Namespace>,
) -> Result<(LintVolumes, Vec<Found>), CliError> {
    let files = FileArgs {
        files: arguments.volumes.clone(),
        variables: arguments.variables.clone(),
        variable_files: arguments.variable_files.clone(),
        ..FileArgs::default()
    };
    let options = LoadOptions {
        purpose: Purpose::ByExternalId,
        empty_files: EmptyFiles::Warned,
        share: None,
        deny: &[],
        policies: None,
        refuses_files: false,
        plugins: None,
    };
    let runs = read_runs(context, &files, options, &SetArgs::default(), asked)?;
    let volumes = runs.iter().enumerate().flat_map(|(index, run)| {
        // Each run masks its own texts only, so those of one can be shown beside the jobs.
        let specs = run.specifications.volumes.iter();
        specs.map(move |spec| (spec.key(), LintVolume::of_spec(spec, index == 0)))
    });
    let volumes = volumes.collect();
    let found = runs.iter().zip(problems_once(&runs)).map(|(run, diagnostics)| Found {
        diagnostics,
        sources: run.specifications.sources.clone(),
    });
    Ok((volumes, found.collect()))
}

/// Returns the volumes of a server. Those that the jobs use are read, because a list has no capabilities.
async fn volumes_of_server(
    cluster: &dyn ClusterApi,
    jobs: &[LintedJob<'_>],
) -> Result<LintVolumes, CliError> {
    let query = VolumeQuery::of_namespace(Namespace::new(Namespace::ALL));
    let listed = cluster.list_volumes(&query).await?;
    let mut volumes: Vec<(NamespacedId, LintVolume)> = listed
        .iter()
        .map(|listed| (listed.value.key(), LintVolume::of_summary(&listed.value)))
        .collect();
    let known: LintVolumes = volumes.iter().cloned().collect();
    for key in used_volumes(jobs, &known) {
        if let Some(reading) = cluster.read_volume(&key).await? {
            volumes.push((key, LintVolume::of_volume(&reading.value)));
        }
    }
    Ok(volumes.into_iter().collect())
}

/// Prints all problems and the result.
fn print_found(
    context: &CommandContext,
    arguments: &JobLintArgs,
    read: &ReadJobs,
    found: &[Found],
) -> Exit {
    let is_valid = !found.iter().any(|one| one.diagnostics.has_errors());
    let prints_result = !arguments.reports.replace_output();
    let summary = match read.jobs.len() {
        1 => "valid: 1 job".to_owned(),
        count => format!("valid: {count} jobs"),
    };
    let prints_json = arguments.output == ReportFormat::Json && prints_result;
    for one in found {
        match prints_json {
            true => context.add_to_reports(&one.diagnostics, &one.sources),
            false => context.print_diagnostics(&one.diagnostics, &one.sources),
        }
    }
    if prints_json {
        context.printer.print_result(&json_text(&report(read, found, is_valid)));
    } else if is_valid && prints_result {
        context.printer.print_result(&format!("{summary}\n"));
    }
    context.update_report(|report| {
        let names = read.places.iter().map(|places| places.job().source);
        let names: Vec<String> = names.map(|id| read.sources.name(id).to_owned()).collect();
        let result = if is_valid { summary } else { "invalid".to_owned() };
        report_files(report, names.into_iter(), result);
    });
    if is_valid { Exit::Done } else { Exit::Error }
}

fn report(read: &ReadJobs, found: &[Found], is_valid: bool) -> Value {
    let count =
        |severity| -> u64 { found.iter().map(|one| one.diagnostics.count(severity) as u64).sum() };
    let diagnostics = found.iter().flat_map(|one| {
        one.diagnostics.iter().map(|problem| diagnostic_json(problem, &one.sources))
    });
    json!({
        "format_version": 1,
        "valid": is_valid,
        "files": read.file_count,
        "jobs": read.jobs.len(),
        "errors": count(Severity::Error),
        "warnings": count(Severity::Warning),
        "diagnostics": diagnostics.collect::<Vec<_>>(),
    })
}
