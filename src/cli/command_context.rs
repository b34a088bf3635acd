//! The context of a command: its arguments, its environment and its connections.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use jiff::tz::TimeZone;
use parking_lot::Mutex;

use super::args::{GlobalArgs, PluginFilesArgs};
use super::cluster_contexts::{SelectedCluster, select_cluster};
use super::env::Environment;
use super::error::CliError;
use super::exit::Exit;
use super::interrupts::Interrupts;
use super::policies::read_policies;
use super::run_reports::RunReports;
use super::server_outage::SlowResponseLine;
use super::servers::Servers;
use super::settings::{namespace, server_target};
use super::ui::{Printer, RunReport, TimeReference, problems_text, render};
use nomad_csi_client::files;
use nomad_csi_client::nomad::SlowResponseObserver;
use nomad_csi_client::ports::{ClusterApi, ProcessTable, SecretSource};
use nomad_csi_client::secrets::LocalSecrets;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap};
use nomad_csi_model::{Namespace, shell_quoted};
use nomad_csi_plan::{DenyRule, PluginSnapshots, Policies, Risk};
use nomad_csi_ports::Clock;

/// The context of a command.
pub(super) struct CommandContext {
    /// The command line.
    pub arguments: Vec<OsString>,
    /// Arguments of every command.
    pub global: GlobalArgs,
    /// The environment variables.
    pub environment: Environment,
    /// The working directory, which relative paths start from.
    pub directory: PathBuf,
    /// The printer of all output.
    pub printer: Arc<Printer>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Returns the local time zone.
    pub time_zone: fn() -> TimeZone,
    /// Returns the host name.
    pub host_name: fn() -> String,
    /// The process ID.
    pub process_id: u32,
    /// The processes of this machine.
    pub processes: Arc<dyn ProcessTable>,
    /// The servers that commands connect to.
    pub servers: Arc<dyn Servers>,
    /// Interrupts: Ctrl-C and SIGTERM.
    pub interrupts: Interrupts,
    /// Standard input.
    pub stdin: Stdin,
    /// The reports of the run, if any are requested.
    pub reports: Option<RunReports>,
    /// The selected cluster of the config file, resolved on first use.
    pub selected_cluster: OnceLock<Option<SelectedCluster>>,
    /// The policies of the command, read on first use.
    pub policies: OnceLock<Policies>,
}

/// Standard input, shared with the thread that reads an answer.
#[derive(Clone)]
pub(super) struct Stdin {
    reader: Arc<Mutex<BufReader<Box<dyn Read + Send>>>>,
    /// True if the input is a terminal, where a person can answer a prompt.
    pub is_terminal: bool,
}

impl Stdin {
    /// Wraps a reader.
    pub(super) fn new(reader: Box<dyn Read + Send>, is_terminal: bool) -> Self {
        Self { reader: Arc::new(Mutex::new(BufReader::new(reader))), is_terminal }
    }

    /// Calls `read` with exclusive access to the reader.
    pub(super) fn with_reader<T>(&self, read: impl FnOnce(&mut dyn Read) -> T) -> T {
        let mut reader = self.reader.lock();
        read(&mut *reader)
    }

    fn read_line(&self) -> std::io::Result<String> {
        let mut reader = self.reader.lock();
        let mut line = String::new();
        reader.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }
}

impl CommandContext {
    /// Prints diagnostics and their number.
    pub(super) fn print_diagnostics(&self, diagnostics: &Diagnostics, sources: &SourceMap) {
        self.add_to_reports(diagnostics, sources);
        if !diagnostics.is_empty() {
            let columns = self.printer.columns();
            let text = problems_text(diagnostics, sources, columns);
            self.printer.print_lines(&text);
        }
    }

    /// Prints a diagnostic that refers to no file.
    pub(super) fn print_diagnostic(&self, diagnostic: &Diagnostic) {
        let sources = SourceMap::default();
        self.printer.print_lines(&render(diagnostic, &sources, self.printer.columns()));
    }

    /// Adds diagnostics to the report of the run without printing them.
    pub(super) fn add_to_reports(&self, diagnostics: &Diagnostics, sources: &SourceMap) {
        if let Some(reports) = &self.reports {
            reports.add(diagnostics, sources);
        }
    }

    /// Changes the report of the run, if one is requested.
    pub(super) fn update_report(&self, change: impl FnOnce(&mut RunReport)) {
        if let Some(reports) = &self.reports {
            reports.update(change);
        }
    }

    /// Returns the exit code of one run of several, which `heading` names. Prints an error, and ends the run's part of the reports.
    pub(super) fn exit_of_run(
        &self,
        result: Result<Exit, CliError>,
        heading: Option<String>,
    ) -> Exit {
        let exit = result.unwrap_or_else(|error| {
            self.print_diagnostics(&error.diagnostics, &error.sources);
            error.exit
        });
        let has_failed = !matches!(exit, Exit::Done | Exit::ChangesPending);
        self.update_report(|report| report.end_run(&heading.unwrap_or_default(), has_failed));
        exit
    }

    /// Returns the current time and the local time zone.
    pub(super) fn time_reference(&self) -> TimeReference {
        TimeReference { now: self.clock.now(), zone: (self.time_zone)() }
    }

    /// Returns the source of referenced secrets.
    pub(super) fn secret_source(&self) -> Arc<dyn SecretSource> {
        Arc::new(self.local_secrets())
    }

    /// Returns the source of secrets that arguments refer to. They are read once, so their files may be pipes.
    pub(super) fn secret_source_of_arguments(&self) -> Arc<dyn SecretSource> {
        Arc::new(self.local_secrets().reading_once())
    }

    fn local_secrets(&self) -> LocalSecrets {
        let environment = self.environment.clone();
        let variables = move |name: &str| environment.get(name).map(ToOwned::to_owned);
        LocalSecrets::new(Arc::new(variables))
    }

    /// Returns the selected cluster of the config file, if any.
    fn selected_cluster(&self) -> Result<Option<&SelectedCluster>, CliError> {
        if self.selected_cluster.get().is_none() {
            let chosen = select_cluster(&self.global, &self.environment, &self.directory)?;
            // Only this thread sets it: a command resolves the cluster before it starts other work.
            drop(self.selected_cluster.set(chosen));
        }
        Ok(self.selected_cluster.get().and_then(Option::as_ref))
    }

    /// Returns the policies that the command obeys.
    ///
    /// # Errors
    /// Fails if one cannot be read or is invalid, and if the config file cannot be read.
    pub(super) fn policies(&self) -> Result<&Policies, CliError> {
        if let Some(policies) = self.policies.get() {
            return Ok(policies);
        }
        let cluster = self.selected_cluster()?.map(|chosen| &chosen.cluster);
        let read = read_policies(&self.global, &self.environment, &self.directory, cluster)?;
        Ok(self.policies.get_or_init(|| read))
    }

    /// Returns the policies of the command line and the environment, for a command that reads no config file.
    ///
    /// # Errors
    /// Fails if one cannot be read or is invalid.
    pub(super) fn named_policies(&self) -> Result<Policies, CliError> {
        read_policies(&self.global, &self.environment, &self.directory, None)
    }

    /// Returns what the files of `--plugins` say; `None` without the option.
    ///
    /// # Errors
    /// Fails if one cannot be read or is invalid.
    pub(super) fn plugin_snapshots(
        &self,
        arguments: &PluginFilesArgs,
    ) -> Result<Option<PluginSnapshots>, CliError> {
        let Some(given) = &arguments.plugins else {
            return Ok(None);
        };
        let (directory, name) = (self.directory.join(given), given.display().to_string());
        let mut sources = SourceMap::default();
        let read = files::read_plugin_snapshots(&directory, &name, &mut sources);
        read.map(Some).map_err(|problems| CliError::from(problems).with_sources(sources))
    }

    /// Refuses changes without a plan that a policy forbids. Each action completes "cannot": ``delete volume `db` ``.
    ///
    /// # Errors
    /// Fails if a policy forbids it or cannot be read.
    pub(super) fn refuse_by_policies(
        &self,
        actions: impl IntoIterator<Item = String>,
        rule: DenyRule,
        risk: Risk,
    ) -> Result<(), CliError> {
        let policies = self.policies()?;
        let denials = |action: String| policies.denials(&action, rule, risk);
        let denied: Vec<Diagnostic> = actions.into_iter().flat_map(denials).collect();
        if denied.is_empty() {
            return Ok(());
        }
        Err(CliError::blocked(denied))
    }

    /// Returns the namespace from a flag, the environment or the config file, if given.
    ///
    /// # Errors
    /// Fails if the variable is not UTF-8 or the config file cannot be read.
    pub(super) fn namespace(&self) -> Result<Option<Namespace>, CliError> {
        let chosen = self.selected_cluster()?;
        Ok(namespace(&self.global, &self.environment, chosen)?)
    }

    /// Opens the selected server, runs `work` with it, and closes what was started for it.
    ///
    /// # Errors
    /// If the server cannot be opened or closed, and those of `work`.
    pub(super) async fn with_cluster(
        &self,
        work: impl AsyncFnOnce(&dyn ClusterApi) -> Result<Exit, CliError>,
    ) -> Result<Exit, CliError> {
        let observer = SlowResponseLine(Arc::clone(&self.printer));
        self.with_observed_cluster(Arc::new(observer), work).await
    }

    /// Does the same as [`Self::with_cluster`], and reports responses that take long to `observer`.
    ///
    /// # Errors
    /// Those of [`Self::with_cluster`].
    pub(super) async fn with_observed_cluster(
        &self,
        observer: Arc<dyn SlowResponseObserver>,
        work: impl AsyncFnOnce(&dyn ClusterApi) -> Result<Exit, CliError>,
    ) -> Result<Exit, CliError> {
        let chosen = self.selected_cluster()?;
        let mut target = server_target(&self.global, &self.environment, &self.directory, chosen)?;
        target.observe_slow_responses(observer);
        if let Some((remark, sources)) = chosen.and_then(SelectedCluster::token_warning) {
            self.print_diagnostics(&remark.clone().into(), sources);
        }
        let session = self.interrupts.unless_interrupted(self.servers.open(&target)).await??;
        let done = work(&*session.api).await;
        let closed = session.close().await;
        let exit = done?;
        closed?;
        Ok(exit)
    }

    /// Prints a prompt and reads a line; the line is empty at the end of input.
    ///
    /// # Errors
    /// Fails on an interrupt or if standard input cannot be read.
    pub(super) async fn prompt_line(&self, question: &str) -> Result<String, CliError> {
        self.printer.print_prompt(question);
        let stdin = self.stdin.clone();
        let reading = tokio::task::spawn_blocking(move || stdin.read_line());
        let answer = self.interrupts.unless_interrupted(reading).await;
        if answer.is_err() {
            self.printer.print_status("");
        }
        match answer? {
            Ok(Ok(line)) => Ok(line),
            Ok(Err(error)) => Err(unreadable_answer(&error.to_string())),
            Err(error) => Err(unreadable_answer(&error.to_string())),
        }
    }

    /// Returns the command line with `--yes` added. Secret values are replaced by placeholders.
    pub(super) fn command_with_yes(&self) -> String {
        let mut words = vec![];
        let mut hidden = None;
        for argument in &self.arguments {
            let text = argument.to_string_lossy();
            if let Some(name) = hidden.take() {
                words.push(format!("<{name}>"));
                continue;
            }
            match text.split_once('=') {
                Some(("--token", _)) => words.push("--token=<token>".to_owned()),
                _ => words.push(shell_quoted(&text)),
            }
            hidden = match text.as_ref() {
                "--token" => Some("token"),
                _ => None,
            };
        }
        if let Some(program) = words.first_mut() {
            "nomad-csi".clone_into(program);
        }
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        words.insert(end, "--yes".to_owned());
        words.join(" ")
    }
}

fn unreadable_answer(why: &str) -> CliError {
    Diagnostic::error(Code::CliApprovalNeeded, "cannot read the answer from standard input")
        .note(why)
        .help("add `--yes` to skip the prompt")
        .into()
}
