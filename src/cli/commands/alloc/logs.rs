//! `alloc logs`.

use super::args::AllocLogsArgs;
use super::log_lines::LogLines;
use super::log_tail::read_tail;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::group_of;
use nomad_csi_client::ports::{ClusterApi, LogRequest};
use nomad_csi_client::reconcile::workflow::{find_allocation, newest_allocation};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{AllocId, one_line};
use nomad_csi_ports::LogStream;
use nomad_csi_wire::AllocationDocument;

/// Prints what a task writes.
///
/// # Errors
/// If the allocation or the task does not exist, or the server refuses.
pub(crate) async fn print_logs(
    context: &CommandContext,
    arguments: &AllocLogsArgs,
) -> Result<Exit, CliError> {
    context
        .with_cluster(async |cluster| {
            let workflow = context.workflow(cluster, "alloc logs", 1);
            let scope = context.namespace()?.unwrap_or_default();
            let id = match arguments.job {
                true => newest_allocation(&workflow, &scope, &arguments.id).await?,
                false => find_allocation(&workflow, &scope, &arguments.id).await?,
            };
            let printing = print_log(context, cluster, id, arguments);
            context.interrupts.unless_interrupted(printing).await?
        })
        .await
}

async fn print_log(
    context: &CommandContext,
    api: &dyn ClusterApi,
    id: AllocId,
    arguments: &AllocLogsArgs,
) -> Result<Exit, CliError> {
    let Some(allocation) = api.read_allocation(&id).await? else {
        let message = format!("allocation `{id}` does not exist");
        return Err(Diagnostic::error(Code::AllocNotFound, message).into());
    };
    let request = LogRequest {
        alloc: id,
        task: task_of(&allocation.value, arguments.task.as_deref())?,
        stream: match arguments.stderr {
            true => LogStream::Stderr,
            false => LogStream::Stdout,
        },
        follows: arguments.follow,
        from_end: None,
    };
    let (request, mut lines) = match arguments.lines.and_then(|lines| usize::try_from(lines).ok()) {
        None => (request, LogLines::new()),
        Some(limit) => {
            let tail = read_tail(api, &request, limit).await?;
            if !arguments.follow {
                let mut lines = LogLines::new();
                context.printer.print_result(&lines.push(&tail.bytes));
                context.printer.print_result(&lines.finish());
                return Ok(Exit::Done);
            }
            match tail.is_whole {
                true => (request, LogLines::new()),
                // With the line end before them, the lines are whole also if the log has grown.
                false => {
                    let length = u64::try_from(tail.bytes.len()).unwrap_or(u64::MAX);
                    let from_end = Some(length.saturating_add(1));
                    (LogRequest { from_end, ..request }, LogLines::after_line_end())
                }
            }
        }
    };
    let mut log = api.open_log(&request).await?;
    while let Some(piece) = log.next_piece().await? {
        context.printer.print_result(&lines.push(&piece));
        if context.printer.is_result_closed() {
            return Ok(Exit::Done);
        }
    }
    context.printer.print_result(&lines.finish());
    Ok(Exit::Done)
}

/// Returns the task that the argument names, or the only task.
fn task_of(allocation: &AllocationDocument, named: Option<&str>) -> Result<String, CliError> {
    let tasks = group_of(allocation).into_iter().flat_map(|group| &group.tasks);
    let tasks: Vec<&str> = tasks.map(|task| task.name.as_str()).collect();
    let message = match (named, tasks.as_slice()) {
        (None, [one]) => return Ok((*one).to_owned()),
        (Some(named), []) => return Ok(named.to_owned()),
        (Some(named), tasks) if tasks.contains(&named) => return Ok(named.to_owned()),
        (Some(named), _) => format!("the allocation has no task `{}`", one_line(named)),
        (None, []) => "the server does not name the tasks of the allocation".to_owned(),
        (None, tasks) => format!("the allocation has {} tasks", tasks.len()),
    };
    let problem = Diagnostic::error(Code::AllocTask, message);
    Err(match tasks.is_empty() {
        true => problem.help("name the task after the allocation").into(),
        false => problem
            .note(format!("the tasks are: {}", tasks.join(", ")))
            .help("name one of them after the allocation")
            .into(),
    })
}
