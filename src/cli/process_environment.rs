//! The environment of one run: every input and output outside the program.
//!
//! `main` passes the real environment, a test passes its own. Expensive parts (a runtime, TLS, a
//! client, a time zone) are built on first use.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use jiff::tz::TimeZone;

use super::env::Environment;
use super::interrupts::Interrupts;
use super::process_table::SystemProcesses;
use super::servers::{RealServers, Servers};
use nomad_csi_client::ports::ProcessTable;
use nomad_csi_ports::{Clock, SystemClock};

/// A source of bytes.
pub struct InputStream {
    /// The reader.
    pub reader: Box<dyn Read + Send>,
    /// True if the input is a terminal, where a person can answer a prompt.
    pub is_terminal: bool,
}

/// A destination of bytes.
pub struct OutputStream {
    /// The writer.
    pub writer: Box<dyn Write + Send>,
    /// True if the output is a terminal.
    pub is_terminal: bool,
}

/// The environment of one run.
pub struct ProcessEnvironment {
    /// The command line, the program's name first.
    pub arguments: Vec<OsString>,
    /// The environment variables.
    pub environment: Environment,
    /// The working directory, which relative paths start from.
    pub directory: PathBuf,
    /// Standard input.
    pub stdin: InputStream,
    /// Standard output: data.
    pub stdout: OutputStream,
    /// Standard error: status messages.
    pub stderr: OutputStream,
    /// The width of the terminal, if known.
    pub columns: Option<usize>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Returns the local time zone. Reads a file.
    pub time_zone: fn() -> TimeZone,
    /// Returns the host name. Makes a system call.
    pub host_name: fn() -> String,
    /// The process ID, which lock owners report.
    pub process_id: u32,
    /// The processes of this machine, among which the owner of a lock is looked for.
    pub processes: Arc<dyn ProcessTable>,
    /// The servers that commands connect to.
    pub servers: Arc<dyn Servers>,
    /// Interrupts: Ctrl-C and SIGTERM.
    pub interrupts: Interrupts,
    /// How far the run owns its process.
    pub ownership: ProcessOwnership,
}

/// How far a run owns its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessOwnership {
    /// The run owns the process: it handles signals and starts the log.
    Exclusive,
    /// Other runs share the process, as in tests.
    Shared,
}

impl ProcessEnvironment {
    /// Returns the environment of this process. A deleted working directory becomes `.`.
    pub fn of_process() -> Self {
        let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
        Self {
            arguments: super::env::arguments(),
            environment: Environment::of_process(),
            directory: super::env::current_directory(),
            columns: terminal_columns(),
            stdin: InputStream { is_terminal: stdin.is_terminal(), reader: Box::new(stdin) },
            stdout: OutputStream { is_terminal: stdout.is_terminal(), writer: Box::new(stdout) },
            stderr: OutputStream { is_terminal: stderr.is_terminal(), writer: Box::new(stderr) },
            clock: Arc::new(SystemClock),
            time_zone: TimeZone::system,
            host_name,
            process_id: std::process::id(),
            processes: Arc::new(SystemProcesses),
            servers: Arc::new(RealServers),
            interrupts: Interrupts::default(),
            ownership: ProcessOwnership::Exclusive,
        }
    }
}

#[cfg(unix)]
fn host_name() -> String {
    let system = rustix::system::uname();
    system.nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host_name() -> String {
    "this machine".to_owned()
}

#[cfg(unix)]
fn terminal_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stderr())
        .or_else(|_| rustix::termios::tcgetwinsize(std::io::stdout()))
        .ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(not(unix))]
fn terminal_columns() -> Option<usize> {
    None
}
