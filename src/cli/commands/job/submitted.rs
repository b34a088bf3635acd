//! The one job of a file, checked before it is sent to a server.
//!
//! The model of a job has only what concerns volumes. The agent runs nothing else. A Nomad cluster
//! would run the job without its other parts, so there such a file is refused.

use super::args::JobFileArgs;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::jobs::{ReadJobs, read_jobs};
use nomad_csi_client::ports::{ClusterApi, ServerKind};
use nomad_csi_model::diagnostic::{Code, Diagnostic, SourceMap};
use nomad_csi_model::shell_quoted;
use nomad_csi_wire::{JobDocument, job_to_wire};

/// A job that can be sent.
pub(super) struct SubmittedJob {
    /// The job in the words of the server.
    pub job: JobDocument,
    /// True if the file has parts that the job lacks.
    has_other_parts: bool,
    file: String,
}

/// Reads and checks the job of a file, and prints its warnings.
///
/// # Errors
/// If the file has errors, or not exactly one job.
pub(super) fn read_submitted(
    context: &CommandContext,
    arguments: &JobFileArgs,
) -> Result<SubmittedJob, CliError> {
    arguments.variables.require_none()?;
    let files = [arguments.file.clone()];
    let namespace = context.namespace()?;
    let read = read_jobs(context, &files, arguments.syntax, namespace, SourceMap::default());
    let ReadJobs { mut jobs, sources, diagnostics, .. } = read;
    if diagnostics.has_errors() {
        return Err(CliError::from(diagnostics).with_sources(sources));
    }
    context.print_diagnostics(&diagnostics, &sources);
    let is_ignored = diagnostics.iter().any(|one| one.code == Code::JobIgnored);
    let one = jobs.pop().filter(|_| jobs.is_empty());
    let Some(job) = one else {
        let message = format!("`{}` does not contain exactly one job", arguments.file);
        return Err(Diagnostic::error(Code::JobSeveral, message).into());
    };
    Ok(SubmittedJob {
        job: job_to_wire(&job),
        has_other_parts: is_ignored || read.has_api_documents,
        file: arguments.file.clone(),
    })
}

impl SubmittedJob {
    /// Checks that the server runs the whole job.
    ///
    /// # Errors
    /// If the server is Nomad and the job lacks parts of its file, or the server cannot be asked.
    pub(super) async fn require_whole(&self, api: &dyn ClusterApi) -> Result<(), CliError> {
        if !self.has_other_parts {
            return Ok(());
        }
        match api.server().await? {
            ServerKind::Agent => Ok(()),
            ServerKind::Nomad(_) | ServerKind::NomadUnknownVersion => {
                let message = format!(
                    "cannot send job `{}` to {}: it would run without parts of its file",
                    self.job.id,
                    api.name()
                );
                Err(Diagnostic::error(Code::JobLosesParts, message)
                    .note("this program sends only what concerns volumes")
                    .help(format!("run `nomad job run {}`", shell_quoted(&self.file)))
                    .into())
            }
        }
    }
}
