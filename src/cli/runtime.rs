//! The asynchronous runtime of a command: its threads, its log and its interrupts.

use std::convert::Infallible;
use std::future::Future;
use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

use super::command_context::CommandContext;
use super::error::CliError;
use super::exit::Exit;
use super::interrupts::Interrupts;
use super::process_environment::ProcessOwnership;
use super::settings::log_settings;
use super::ui::Printer;
use crate::telemetry::{self, LogLevel};
use nomad_csi_model::diagnostic::{Code, Diagnostic};

/// A command that runs to its end.
type RunningCommand<'a> = Pin<Box<dyn Future<Output = Result<Exit, CliError>> + 'a>>;

/// Runs commands in this process.
#[derive(Clone, Copy)]
pub(super) struct CommandRuntime<'a> {
    /// The settings of the command line.
    pub context: &'a CommandContext,
    /// The part of the process that belongs to the command.
    pub process: ProcessOwnership,
}

impl CommandRuntime<'_> {
    /// Runs a command that talks to a server.
    pub(super) fn client(
        self,
        command: impl Future<Output = Result<Exit, CliError>>,
    ) -> Result<Exit, CliError> {
        let options = RuntimeOptions {
            default_log_level: LogLevel::Warn,
            threads: Threads::of_client(self.context),
            waiting_message: Some(
                "interrupted: waiting for the requests that were sent; a second interrupt ends the command without their results",
            ),
            abort_message: "aborted: requests in flight may still take effect; check with `nomad-csi volume status`",
        };
        self.run(&options, command)
    }

    /// Runs a command that repeats its work until it is stopped. Logs what it does.
    pub(super) fn repeating(
        self,
        command: impl Future<Output = Result<Exit, CliError>>,
    ) -> Result<Exit, CliError> {
        let options = RuntimeOptions {
            default_log_level: LogLevel::Info,
            threads: Threads::of_client(self.context),
            waiting_message: Some(
                "interrupted: waiting for the steps that were begun; a second interrupt ends the command without their results",
            ),
            abort_message: "aborted: requests in flight may still take effect; the next round detects them",
        };
        self.run(&options, command)
    }

    /// Runs a command that is a server. Logs what it does.
    #[cfg(feature = "agent")]
    pub(super) fn server(
        self,
        threads: Threads,
        command: impl Future<Output = Result<Exit, CliError>>,
    ) -> Result<Exit, CliError> {
        let options = RuntimeOptions {
            default_log_level: LogLevel::Info,
            threads,
            waiting_message: None,
            abort_message: "aborted: the next start resumes unfinished operations",
        };
        self.run(&options, command)
    }

    /// Runs a command to its end. A second interrupt aborts it and prints the abort message.
    pub(super) fn run(
        self,
        options: &RuntimeOptions,
        command: impl Future<Output = Result<Exit, CliError>>,
    ) -> Result<Exit, CliError> {
        run_in_runtime(self.context, self.process, options, Box::pin(command))
    }
}

/// How a command runs.
pub(super) struct RuntimeOptions {
    /// The log level without `-v`.
    pub default_log_level: LogLevel,
    /// The number of threads.
    pub threads: Threads,
    /// The line for a command that still runs a moment after the first interrupt.
    pub waiting_message: Option<&'static str>,
    /// The line that a second interrupt prints.
    pub abort_message: &'static str,
}

/// The number of threads that a command runs on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Threads {
    /// Where handing a message to another thread would take longer than handling it: for the plugin, whose calls
    /// work on blocking threads.
    #[cfg(feature = "agent")]
    One,
    /// For a client: this thread runs the command and prints, which can block until its output is read. The other
    /// one serves the connections and renews locks.
    Two,
    /// For the agent: one thread per processor.
    Many,
}

impl Threads {
    /// Returns the threads of a command that talks to a server. An embedded server needs many.
    fn of_client(context: &CommandContext) -> Self {
        if context.global.is_embedded() { Self::Many } else { Self::Two }
    }
}

/// One function for all commands: it is compiled once.
fn run_in_runtime(
    context: &CommandContext,
    process: ProcessOwnership,
    options: &RuntimeOptions,
    command: RunningCommand<'_>,
) -> Result<Exit, CliError> {
    if process == ProcessOwnership::Exclusive {
        start_log(context, options.default_log_level)?;
    }
    let mut builder = match options.threads {
        #[cfg(feature = "agent")]
        Threads::One => tokio::runtime::Builder::new_current_thread(),
        Threads::Two => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(1);
            builder
        }
        Threads::Many => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build().map_err(|error| {
        Diagnostic::error(Code::Internal, "cannot start the asynchronous runtime")
            .note(error.to_string())
    })?;
    let ended = runtime.block_on(async {
        let signals = async {
            match process {
                ProcessOwnership::Exclusive => context.interrupts.listen().await,
                ProcessOwnership::Shared => std::future::pending().await,
            }
        };
        let waiting = say_if_waiting(&context.interrupts, || {
            if let Some(message) = options.waiting_message {
                context.printer.print_status(message);
            }
        });
        tokio::select! {
            ended = command => ended,
            never = signals => match never {},
            never = waiting => match never {},
            () = context.interrupts.aborted() => {
                context.printer.print_status(options.abort_message);
                Err(CliError::already_reported(Exit::Interrupted))
            }
        }
    });
    // A thread may still be reading standard input.
    runtime.shutdown_background();
    ended
}

/// How long a command may run after an interrupt before it says what it waits for.
const WAITING: Duration = Duration::from_secs(1);

/// Calls `say` for a command that still runs a moment after the first interrupt. Never returns.
async fn say_if_waiting(interrupts: &Interrupts, say: impl FnOnce()) -> Infallible {
    interrupts.stop().cancelled().await;
    tokio::time::sleep(WAITING).await;
    say();
    std::future::pending().await
}

fn start_log(context: &CommandContext, level: LogLevel) -> Result<(), CliError> {
    let settings = log_settings(&context.global, &context.environment, level)?;
    telemetry::init_logging(&settings, LogWriter(Arc::clone(&context.printer)))?;
    Ok(())
}

/// Writes log lines through the printer, which keeps them apart from progress lines.
#[derive(Clone)]
struct LogWriter(Arc<Printer>);

impl<'writer> MakeWriter<'writer> for LogWriter {
    type Writer = Self;

    fn make_writer(&'writer self) -> Self {
        self.clone()
    }
}

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.print_event(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_command_says_that_it_waits_only_if_it_still_runs_a_second_after_an_interrupt() {
        for (is_interrupted, runs_for, expected) in
            [(false, 3600, false), (true, 0, false), (true, 5, true)]
        {
            let interrupts = Interrupts::default();
            if is_interrupted {
                interrupts.interrupt();
            }
            let said = Cell::new(false);
            let waiting = say_if_waiting(&interrupts, || said.set(true));
            let ended = tokio::time::timeout(Duration::from_secs(runs_for), waiting).await;
            assert!(ended.is_err());
            assert_eq!(said.get(), expected, "{is_interrupted} {runs_for}");
        }
    }
}
