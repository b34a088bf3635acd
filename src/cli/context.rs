//! What every command works with.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jiff::tz::TimeZone;

use super::args::Global;
use super::contexts::{Chosen, chosen};
use super::env::Environment;
use super::error::CliError;
use super::exit::Exit;
use super::interrupts::Interrupts;
use super::servers::Servers;
use super::settings::{namespace, target};
use super::ui::{Now, Printer, problems_text, render};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap};
use crate::model::Namespace;
use crate::nomad::NomadClient;
use crate::ports::{Clock, SecretSource, VolumeApi};
use crate::secrets::LocalSecrets;

/// What every command works with.
pub(super) struct Context {
    /// The command line as it was typed.
    pub arguments: Vec<OsString>,
    /// Flags of every command.
    pub global: Global,
    /// The environment.
    pub environment: Environment,
    /// What relative paths are relative to.
    pub directory: PathBuf,
    /// Where everything is printed.
    pub printer: Arc<Printer>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where people live.
    pub time_zone: fn() -> TimeZone,
    /// What this machine is called.
    pub host_name: fn() -> String,
    /// The number of this process.
    pub process_id: u32,
    /// Servers that can be reached.
    pub servers: Arc<dyn Servers>,
    /// Ctrl-C.
    pub interrupts: Interrupts,
    /// Standard input.
    pub stdin: Stdin,
    /// The cluster of the config file that holds, once it was asked for.
    pub chosen: OnceLock<Option<Chosen>>,
}

/// Standard input, shared with the thread that waits for an answer.
#[derive(Clone)]
pub(super) struct Stdin {
    reader: Arc<Mutex<BufReader<Box<dyn Read + Send>>>>,
    /// Whether somebody sits there who can be asked.
    pub is_terminal: bool,
}

impl Stdin {
    /// Wraps what a run was given.
    pub(super) fn new(reader: Box<dyn Read + Send>, is_terminal: bool) -> Self {
        Self {
            reader: Arc::new(Mutex::new(BufReader::new(reader))),
            is_terminal,
        }
    }

    /// Lends the reader.
    pub(super) fn with_reader<T>(&self, read: impl FnOnce(&mut dyn Read) -> T) -> T {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        read(&mut *reader)
    }

    fn line(&self) -> std::io::Result<String> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }
}

impl Context {
    /// Says what is wrong, and how much.
    pub(super) fn report(&self, diagnostics: &Diagnostics, sources: &SourceMap) {
        if !diagnostics.is_empty() {
            let columns = self.printer.columns();
            let text = problems_text(diagnostics, sources, columns);
            self.printer.talk(&text);
        }
    }

    /// Says one thing that is about no file.
    pub(super) fn say(&self, diagnostic: &Diagnostic) {
        let sources = SourceMap::default();
        self.printer
            .talk(&render(diagnostic, &sources, self.printer.columns()));
    }

    /// The present, as tables show it.
    pub(super) fn now(&self) -> Now {
        Now {
            nanoseconds: self.clock.now(),
            zone: (self.time_zone)(),
        }
    }

    /// Where the values of referenced secrets are had.
    pub(super) fn secrets(&self) -> Arc<dyn SecretSource> {
        let environment = self.environment.clone();
        let variables = move |name: &str| environment.any(name).map(ToOwned::to_owned);
        Arc::new(LocalSecrets::new(Arc::new(variables)))
    }

    /// The cluster of the config file that holds, if one does.
    fn cluster_context(&self) -> Result<Option<&Chosen>, CliError> {
        if self.chosen.get().is_none() {
            let chosen = chosen(&self.global, &self.environment)?;
            // Nobody else sets it meanwhile: commands ask one after the other.
            drop(self.chosen.set(chosen));
        }
        Ok(self.chosen.get().and_then(Option::as_ref))
    }

    /// The namespace that was asked for, if one was: by a flag, the environment or a context.
    ///
    /// # Errors
    /// If the variable is no text, or the context cannot be read.
    pub(super) fn namespace(&self) -> Result<Option<Namespace>, CliError> {
        let chosen = self.cluster_context()?;
        Ok(namespace(&self.global, &self.environment, chosen)?)
    }

    /// Opens the server that is meant, works with it, and ends what was started for that.
    ///
    /// # Errors
    /// If it cannot be opened or ended in order, and those of the work.
    pub(super) async fn with_server(
        &self,
        work: impl AsyncFnOnce(&dyn VolumeApi) -> Result<Exit, CliError>,
    ) -> Result<Exit, CliError> {
        self.with_client(async |client| work(client).await).await
    }

    /// The same, with everything that a client can do beside volumes.
    ///
    /// # Errors
    /// If it cannot be opened or ended in order, and those of the work.
    pub(super) async fn with_client(
        &self,
        work: impl AsyncFnOnce(&NomadClient) -> Result<Exit, CliError>,
    ) -> Result<Exit, CliError> {
        let chosen = self.cluster_context()?;
        let target = target(&self.global, &self.environment, &self.directory, chosen)?;
        if let Some((remark, sources)) = chosen.and_then(Chosen::remark) {
            self.report(&remark.clone().into(), sources);
        }
        let session = self.interrupts.unless(self.servers.open(&target)).await??;
        let done = work(&session.api).await;
        let closed = session.close().await;
        let exit = done?;
        closed?;
        Ok(exit)
    }

    /// Asks for a line; an empty one at the end of input.
    ///
    /// # Errors
    /// If somebody interrupts, or standard input cannot be read.
    pub(super) async fn answer(&self, question: &str) -> Result<String, CliError> {
        self.printer.ask(question);
        let stdin = self.stdin.clone();
        let reading = tokio::task::spawn_blocking(move || stdin.line());
        let answer = self.interrupts.unless(reading).await;
        if answer.is_err() {
            self.printer.talk("");
        }
        match answer? {
            Ok(Ok(line)) => Ok(line),
            Ok(Err(error)) => Err(unreadable_answer(&error.to_string())),
            Err(error) => Err(unreadable_answer(&error.to_string())),
        }
    }

    /// The command line with `--yes`, to be typed again. Values that nobody should read in a log are
    /// replaced by their names.
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
                Some(("--secret", _)) => words.push("--secret=<secret>".to_owned()),
                _ => words.push(quoted(&text)),
            }
            hidden = match text.as_ref() {
                "--token" => Some("token"),
                "--secret" => Some("secret"),
                _ => None,
            };
        }
        if let Some(program) = words.first_mut() {
            "nomad-csi".clone_into(program);
        }
        let end = words
            .iter()
            .position(|word| word == "--")
            .unwrap_or(words.len());
        words.insert(end, "--yes".to_owned());
        words.join(" ")
    }
}

fn unreadable_answer(why: &str) -> CliError {
    Diagnostic::error(
        Code::CliApprovalNeeded,
        "the answer could not be read from standard input",
    )
    .note(why)
    .help("add `--yes` to be asked nothing")
    .into()
}

/// As a POSIX shell takes it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
