//! A world of its own for one run of the command line: nothing of this machine's but a directory.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use nomad_csi::cli::{
    CliError, Environment, Exit, Input, Interrupts, Process, RealServers, Servers, Session, Sink,
    Target, World, run,
};
use nomad_csi::nomad::{Hidden, Settings};
use nomad_csi::ports::Clock;

/// Fridays are quiet: 2026-01-02T03:04:05Z.
const NOW: i64 = 1_767_323_045_000_000_000;

/// A world in which nobody types, nothing listens and the home is in `directory`.
pub(crate) fn world(
    directory: &Path,
    arguments: impl IntoIterator<Item = String>,
    output: &Output,
) -> World {
    World {
        arguments: arguments.into_iter().map(Into::into).collect(),
        environment: Environment::from_iter([("HOME", directory.join("home"))]),
        directory: directory.to_owned(),
        stdin: Input {
            reader: Box::new(std::io::empty()),
            is_terminal: false,
        },
        stdout: output.sink(""),
        stderr: output.sink("2> "),
        columns: Some(100),
        clock: Arc::new(Fixed),
        time_zone: || jiff::tz::TimeZone::UTC,
        host_name: || "build-7".to_owned(),
        process_id: 4711,
        servers: Arc::new(Redirect::to("http://127.0.0.1:1")),
        interrupts: Interrupts::default(),
        process: Process::Shared,
    }
}

/// How a run ended, and everything that it wrote; `2> ` marks standard error.
pub(crate) struct Ended {
    pub(crate) exit: Exit,
    pub(crate) text: String,
}

/// Runs a command line, its words separated by spaces, in a world that `change` makes its own.
pub(crate) fn run_in(directory: &Path, line: &str, change: impl FnOnce(&mut World)) -> Ended {
    let output = Output::default();
    let words = std::iter::once("nomad-csi")
        .chain(line.split(' '))
        .map(str::to_owned);
    let mut world = world(directory, words, &output);
    change(&mut world);
    let exit = run(world);
    Ended {
        exit,
        text: output.text(),
    }
}

/// Both streams in the order in which they were written.
#[derive(Clone, Default)]
pub(crate) struct Output(Arc<Mutex<Vec<Piece>>>);

/// What was written, and to which stream.
type Piece = (&'static str, Vec<u8>);

impl Output {
    fn sink(&self, mark: &'static str) -> Sink {
        let writer = Box::new(Marked {
            mark,
            output: self.clone(),
        });
        Sink {
            writer,
            is_terminal: false,
        }
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

pub(crate) struct Marked {
    pub(crate) mark: &'static str,
    pub(crate) output: Output,
}

impl Write for Marked {
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

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> i64 {
        NOW
    }
}

/// Leads from where Nomad listens by default to the session's own server.
pub(crate) struct Redirect {
    server: String,
    plugin_program: PathBuf,
}

impl Redirect {
    /// To the server at `url`; an embedded agent starts this program's plugin.
    pub(crate) fn to(url: &str) -> Self {
        Self {
            server: url.to_owned(),
            plugin_program: env!("CARGO_BIN_EXE_nomad-csi").into(),
        }
    }

    /// An embedded agent starts that program instead.
    pub(crate) fn with_plugin_program(program: &str) -> Self {
        Self {
            plugin_program: program.into(),
            ..Self::to("http://127.0.0.1:1")
        }
    }
}

#[async_trait]
impl Servers for Redirect {
    async fn open(&self, target: &Target) -> Result<Session, CliError> {
        let target = match target {
            Target::Cluster(settings) if settings.address.expose() == Settings::DEFAULT_ADDRESS => {
                let address = Hidden::new(self.server.as_str());
                Target::Cluster(Box::new(Settings {
                    address,
                    ..(**settings).clone()
                }))
            }
            Target::Cluster(_) => target.clone(),
            #[cfg(feature = "agent")]
            Target::Embedded(embedding) => {
                let mut embedding = embedding.clone();
                // This process is a test's.
                embedding
                    .agent
                    .plugin_program
                    .clone_from(&self.plugin_program);
                Target::Embedded(embedding)
            }
        };
        RealServers.open(&target).await
    }
}
