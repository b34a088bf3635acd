//! An isolated environment for one run of the command line. It uses only a directory of this machine.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use nomad_csi::cli::{
    CliError, Environment, Exit, InputStream, Interrupts, OutputStream, ProcessEnvironment,
    ProcessOwnership, RealServers, ServerConnection, Servers, Target, run_command_line,
};
use nomad_csi_client::nomad::{ClientSettings, RedactedString};
use nomad_csi_client::ports::{ProcessIdentity, ProcessState, ProcessTable};
use nomad_csi_ports::Clock;

/// The time of every run: 2026-01-02T03:04:05Z.
const NOW: i64 = 1_767_323_045_000_000_000;

/// Returns an environment without input and without a server, with its home in `directory`.
pub(crate) fn test_environment(
    directory: &Path,
    arguments: impl IntoIterator<Item = String>,
    output: &CapturedOutput,
) -> ProcessEnvironment {
    ProcessEnvironment {
        arguments: arguments.into_iter().map(Into::into).collect(),
        environment: Environment::from_iter([("HOME", directory.join("home"))]),
        directory: directory.to_owned(),
        stdin: InputStream { reader: Box::new(std::io::empty()), is_terminal: false },
        stdout: output.sink(""),
        stderr: output.sink("2> "),
        columns: Some(100),
        clock: Arc::new(FixedClock),
        time_zone: || jiff::tz::TimeZone::UTC,
        host_name: || "build-7".to_owned(),
        process_id: 4711,
        processes: Arc::new(HiddenProcesses),
        servers: Arc::new(Redirect::to("http://127.0.0.1:1")),
        interrupts: Interrupts::default(),
        ownership: ProcessOwnership::Shared,
    }
}

/// A system that shows no processes.
struct HiddenProcesses;

impl ProcessTable for HiddenProcesses {
    fn own(&self) -> Option<ProcessIdentity> {
        None
    }

    fn state(&self, _: u32) -> ProcessState {
        ProcessState::Unknown
    }
}

/// The exit code and the output of a run. `2> ` marks standard error.
pub(crate) struct RunResult {
    pub(crate) exit: Exit,
    pub(crate) text: String,
}

/// Runs a command line, split at spaces, in an environment that `change` adapts.
pub(crate) fn run_in(
    directory: &Path,
    line: &str,
    change: impl FnOnce(&mut ProcessEnvironment),
) -> RunResult {
    let output = CapturedOutput::default();
    let words = std::iter::once("nomad-csi").chain(line.split(' ')).map(str::to_owned);
    let mut environment = test_environment(directory, words, &output);
    change(&mut environment);
    let exit = run_command_line(environment);
    RunResult { exit, text: output.text() }
}

/// The captured output of both streams, in the order of the writes.
#[derive(Clone, Default)]
pub(crate) struct CapturedOutput(Arc<Mutex<Vec<Piece>>>);

/// The mark of a stream, and bytes written to it.
type Piece = (&'static str, Vec<u8>);

impl CapturedOutput {
    fn sink(&self, mark: &'static str) -> OutputStream {
        let writer = Box::new(MarkedWriter { mark, output: self.clone() });
        OutputStream { writer, is_terminal: false }
    }

    /// The bytes of both streams in the order of the writes, with their colours.
    pub(crate) fn raw(&self) -> String {
        let written = self.0.lock().expect("unpoisoned");
        let bytes: Vec<u8> = written.iter().flat_map(|(_, bytes)| bytes).copied().collect();
        String::from_utf8(bytes).expect("the output is text")
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (mark, bytes) in self.0.lock().expect("unpoisoned").iter() {
            for line in String::from_utf8_lossy(bytes).lines() {
                text += format!("{mark}{line}").trim_end();
                text.push('\n');
            }
        }
        text
    }
}

pub(crate) struct MarkedWriter {
    pub(crate) mark: &'static str,
    pub(crate) output: CapturedOutput,
}

impl Write for MarkedWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut written = self.output.0.lock().expect("unpoisoned");
        match written.last_mut() {
            Some((mark, so_far)) if *mark == self.mark => so_far.extend_from_slice(bytes),
            _ => written.push((self.mark, bytes.to_vec())),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> i64 {
        NOW
    }
}

/// Redirects the default address of Nomad to the server of a test.
pub(crate) struct Redirect {
    server: String,
    plugin_program: PathBuf,
}

impl Redirect {
    /// Redirects to the server at `url`. An embedded agent starts the plugin of this program.
    pub(crate) fn to(url: &str) -> Self {
        Self { server: url.to_owned(), plugin_program: env!("CARGO_BIN_EXE_nomad-csi").into() }
    }

    /// Makes an embedded agent start another plugin program.
    pub(crate) fn with_plugin_program(program: &str) -> Self {
        Self { plugin_program: program.into(), ..Self::to("http://127.0.0.1:1") }
    }
}

#[async_trait]
impl Servers for Redirect {
    async fn open(&self, target: &Target) -> Result<ServerConnection, CliError> {
        let target = match target {
            Target::Cluster(settings)
                if settings.address.expose() == ClientSettings::DEFAULT_ADDRESS =>
            {
                let address = RedactedString::new(self.server.as_str());
                Target::Cluster(Box::new(ClientSettings { address, ..(**settings).clone() }))
            }
            Target::Cluster(_) => target.clone(),
            #[cfg(feature = "agent")]
            Target::Embedded(embedding) => {
                let mut embedding = embedding.clone();
                // The current executable is the test, not the program.
                embedding.agent.plugin_program.clone_from(&self.plugin_program);
                Target::Embedded(embedding)
            }
        };
        RealServers.open(&target).await
    }
}
