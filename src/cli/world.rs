//! Everything outside that a run touches.
//!
//! `main` hands over the real things, a test hands over its own; nothing else is ever asked. What
//! costs time to build (a runtime, TLS, a client, a time zone) is built by the one who needs it.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use jiff::tz::TimeZone;

use super::env::Environment;
use super::interrupts::Interrupts;
use super::servers::{RealServers, Servers};
use crate::ports::{Clock, SystemClock};

/// Where bytes come from, and whether a person types them.
pub struct Input {
    /// The reader.
    pub reader: Box<dyn Read + Send>,
    /// Whether somebody sits there who can be asked.
    pub is_terminal: bool,
}

/// Where bytes go, and whether a person sees them at once.
pub struct Sink {
    /// The writer.
    pub writer: Box<dyn Write + Send>,
    /// Whether it is a terminal.
    pub is_terminal: bool,
}

/// Everything outside.
pub struct World {
    /// The command line, the program's name first.
    pub arguments: Vec<OsString>,
    /// The environment.
    pub environment: Environment,
    /// What relative paths are relative to.
    pub directory: PathBuf,
    /// Standard input.
    pub stdin: Input,
    /// Standard output: data.
    pub stdout: Sink,
    /// Standard error: talk.
    pub stderr: Sink,
    /// The terminal's width, if it is known.
    pub columns: Option<usize>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where people live; reading it costs a file.
    pub time_zone: fn() -> TimeZone,
    /// What this machine is called; asking costs a system call.
    pub host_name: fn() -> String,
    /// The number of this process, for those who wait for it.
    pub process_id: u32,
    /// Servers that can be reached.
    pub servers: Arc<dyn Servers>,
    /// Ctrl-C.
    pub interrupts: Interrupts,
    /// Whose the process is.
    pub process: Process,
}

/// Whose the process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// This run's alone: it listens to signals and starts the log.
    Own,
    /// Others run in it too: a test.
    Shared,
}

impl World {
    /// The real one. A working directory that is gone counts as `.`, which fails where it is used.
    pub fn of_process() -> Self {
        let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
        Self {
            arguments: super::env::arguments(),
            environment: Environment::of_process(),
            directory: super::env::current_directory(),
            columns: terminal_columns(),
            stdin: Input {
                is_terminal: stdin.is_terminal(),
                reader: Box::new(stdin),
            },
            stdout: Sink {
                is_terminal: stdout.is_terminal(),
                writer: Box::new(stdout),
            },
            stderr: Sink {
                is_terminal: stderr.is_terminal(),
                writer: Box::new(stderr),
            },
            clock: Arc::new(SystemClock),
            time_zone: TimeZone::system,
            host_name,
            process_id: std::process::id(),
            servers: Arc::new(RealServers),
            interrupts: Interrupts::default(),
            process: Process::Own,
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
