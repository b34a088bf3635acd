//! `job dispatch`.

use std::path::Path;

use super::args::JobDispatchArgs;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use nomad_csi_client::files::{read_at_most, read_bytes};
use nomad_csi_client::ports::JobDispatch;
use nomad_csi_client::reconcile::workflow::{JobOutcome, dispatch_job, find_job_to_change};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{Payload, TaskEnvironment, one_line};
use nomad_csi_wire::JobDispatchRequest;

/// Makes a job from a parameterized one, and waits until its allocations run.
///
/// # Errors
/// If a value is not valid, the payload cannot be read, and those of [`find_job_to_change`] and [`dispatch_job`].
pub(crate) async fn dispatch_named_job(
    context: &CommandContext,
    arguments: &JobDispatchArgs,
) -> Result<Exit, CliError> {
    let payload = match &arguments.payload {
        None => Payload::default(),
        Some(file) => read_payload(context, file)?,
    };
    let dispatch = JobDispatch {
        request: JobDispatchRequest {
            id_prefix_template: arguments.id_prefix.clone().unwrap_or_default(),
            meta: meta(&arguments.meta)?,
            payload,
            priority: arguments.priority.map(i64::from).unwrap_or_default(),
            ..JobDispatchRequest::default()
        },
        idempotency_token: arguments.idempotency_token.clone().unwrap_or_default(),
    };
    context
        .with_cluster(async |cluster| {
            let workflow = context.workflow(cluster, "job dispatch", 1);
            let scope = context.namespace()?.unwrap_or_default();
            let finding =
                find_job_to_change(&workflow, context, &scope, &arguments.id, "dispatch job");
            let job = finding.await?;
            let wait = arguments.waiting.wait();
            let outcome = dispatch_job(&workflow, &job, &dispatch, &wait).await?;
            Ok(match outcome {
                JobOutcome::Done => Exit::Done,
                JobOutcome::NotPlaced => Exit::ChangesPending,
            })
        })
        .await
}

fn meta(pairs: &[String]) -> Result<TaskEnvironment, CliError> {
    let mut values: Vec<(&str, &str)> = vec![];
    for text in pairs {
        let Some((key, value)) = text.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            // The text may be a value whose key was forgotten.
            let problem = Diagnostic::error(
                Code::CliInvalidValue,
                "the value of a `--meta` is not KEY=VALUE",
            );
            return Err(problem.help("write `--meta KEY=VALUE`").into());
        };
        if values.iter().any(|(known, _)| *known == key) {
            let message = format!("`--meta {}=…` is given twice", one_line(key));
            let problem = Diagnostic::error(Code::CliInvalidValue, message);
            return Err(problem.help("give each key once").into());
        }
        values.push((key, value));
    }
    Ok(values.into_iter().collect())
}

fn read_payload(context: &CommandContext, file: &str) -> Result<Payload, CliError> {
    const LIMIT: usize = Payload::MAX_BYTES;
    let limit = LIMIT as u64;
    let read = match file {
        "-" => context.stdin.with_reader(|stdin| read_at_most(stdin, limit)),
        file => read_bytes(&context.directory.join(Path::new(file)), limit),
    };
    let name = one_line(file);
    let bytes = read.map_err(|error| {
        let message = format!("cannot read the payload `{name}`: {error}");
        Diagnostic::error(Code::FilesUnreadable, message)
            .help("check its path and its permissions, then run the command again")
    })?;
    if bytes.len() > LIMIT {
        let message = format!("the payload `{name}` is larger than {LIMIT} bytes");
        return Err(Diagnostic::error(Code::FilesTooLarge, message)
            .help("put the data into a volume or a file, and give its name with `--meta`")
            .into());
    }
    Ok(Payload::new(bytes))
}
