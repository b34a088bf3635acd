//! The command line as the reporter and the prompt of workflows.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::args::ServerWaitArgs;
use super::command_context::CommandContext;
use super::env::Variable;
use super::error::CliError;
use super::exit::Exit;
use super::server_outage::OutageLines;
use super::ui::{Progress, ago, plan_text, report_pending_plan};
use nomad_csi_client::ports::{ClusterApi, LedgerError, LockHolder, ServerWait};
use nomad_csi_client::reconcile::ProgressObserver;
use nomad_csi_client::reconcile::workflow::{
    ApprovalPrompt, FailureKind, Reporter, WorkflowContext, WorkflowError,
};
use nomad_csi_model::SetName;
use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};
use nomad_csi_plan::{Actor, Plan};

impl CommandContext {
    /// Returns the context of a workflow that `command` runs on a server.
    pub(super) fn workflow<'a>(
        &'a self,
        api: &'a dyn ClusterApi,
        command: &str,
        parallelism: u16,
    ) -> WorkflowContext<'a> {
        self.workflow_with_reporter(api, self, command, parallelism)
    }

    /// Returns the context of a command whose steps wait for an unreachable server as long as the command line says.
    pub(super) fn waiting_workflow<'a>(
        &'a self,
        api: &'a dyn ClusterApi,
        command: &str,
        wait: ServerWaitArgs,
        parallelism: u16,
    ) -> WorkflowContext<'a> {
        WorkflowContext {
            server_wait: wait.server_wait.0,
            ..self.workflow(api, command, parallelism)
        }
    }

    /// Returns how requests wait for a server that stops responding: with a line when the wait begins, and
    /// when it ends.
    pub(super) fn wait_for_server(&self, wait: ServerWaitArgs) -> ServerWait {
        ServerWait {
            timeout: wait.server_wait.0,
            observer: Arc::new(OutageLines::new(Arc::clone(&self.printer))),
        }
    }

    /// Returns the context of a workflow that reports to `reporter`.
    pub(super) fn workflow_with_reporter<'a>(
        &'a self,
        api: &'a dyn ClusterApi,
        reporter: &'a dyn Reporter,
        command: &str,
        parallelism: u16,
    ) -> WorkflowContext<'a> {
        WorkflowContext {
            api,
            reporter,
            clock: Arc::clone(&self.clock),
            secrets: self.secret_source(),
            interrupt: self.interrupts.stop(),
            actor: self.actor(command),
            parallelism: usize::from(parallelism),
            processes: Arc::clone(&self.processes),
            server_wait: Duration::ZERO,
        }
    }

    fn actor(&self, command: &str) -> Actor {
        let named = |variable| self.environment.text(variable).ok().flatten();
        let user = named(Variable::User).or_else(|| named(Variable::WindowsUser));
        Actor {
            user: user.unwrap_or("unknown user").to_owned(),
            host: (self.host_name)(),
            process: self.process_id,
            command: command.to_owned(),
        }
    }
}

impl Reporter for CommandContext {
    fn status(&self, line: &str) {
        self.printer.print_status(line);
    }

    fn diagnostics(&self, diagnostics: &Diagnostics, sources: &SourceMap) {
        self.print_diagnostics(diagnostics, sources);
    }

    fn plan(&self, plan: &Plan, server: &str) {
        let text = plan_text(plan, server, self.clock.now());
        self.printer.print_lines(&text);
        self.update_report(|report| report_pending_plan(report, plan, server));
    }

    fn progress(&self, plan: &Plan) -> Box<dyn ProgressObserver + '_> {
        Box::new(Progress::new(&self.printer, plan))
    }

    fn waiting_for_lock(&self, set: &SetName, holder: Option<&LockHolder>, timeout: Duration) {
        self.status(&lock_wait_line(set, holder, timeout, self.clock.now()));
    }
}

/// Returns the line that reports a wait for the lock of a set.
pub(super) fn lock_wait_line(
    set: &SetName,
    holder: Option<&LockHolder>,
    timeout: Duration,
    now: i64,
) -> String {
    let holder = match holder {
        None => "an unknown holder".to_owned(),
        Some(holder) => format!("{}, taken {}", holder.by, ago(holder.since, now)),
    };
    let minutes = timeout.as_secs() / 60;
    format!("set {set}: waiting up to {minutes} minutes for its lock (held by {holder})")
}

#[async_trait]
impl ApprovalPrompt for CommandContext {
    fn is_interactive(&self) -> bool {
        self.stdin.is_terminal
    }

    async fn ask(&self, details: Option<&str>, question: &str) -> Result<String, WorkflowError> {
        if let Some(details) = details {
            self.printer.print_status(details);
        }
        self.prompt_line(question).await.map_err(|error| WorkflowError {
            kind: match error.exit {
                Exit::Interrupted => FailureKind::Interrupted,
                _ => FailureKind::Failed,
            },
            diagnostics: error.diagnostics,
        })
    }

    fn command_with_yes(&self) -> String {
        self.command_with_yes()
    }
}

impl From<FailureKind> for Exit {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::ApprovalRequired => Self::ApprovalNeeded,
            FailureKind::Blocked => Self::Blocked,
            FailureKind::Failed => Self::Error,
            FailureKind::Interrupted => Self::Interrupted,
        }
    }
}

impl From<WorkflowError> for CliError {
    fn from(error: WorkflowError) -> Self {
        Self { exit: error.kind.into(), ..Self::from(error.diagnostics) }
    }
}

impl From<LedgerError> for CliError {
    fn from(error: LedgerError) -> Self {
        WorkflowError::from(error).into()
    }
}
