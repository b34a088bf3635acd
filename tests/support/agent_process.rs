//! A real agent process with a clean environment.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::http::Address;
use crate::wait::until;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_nomad-csi");

/// A command of the program with a clean environment. It finds the tokens of agents that were started so.
pub(crate) fn program<S: AsRef<std::ffi::OsStr>>(
    arguments: impl IntoIterator<Item = S>,
) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).env_clear().stdin(Stdio::null());
    command.env("XDG_RUNTIME_DIR", runtime_directory());
    command
}

/// A runtime directory for the agents and commands of all tests.
pub(crate) fn runtime_directory() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("runtime");
    std::fs::create_dir_all(&directory).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&directory, private).unwrap();
    directory
}

/// The token of the operator of the agent that has a data directory.
pub(crate) fn operator_token(data: &str) -> String {
    let text = std::fs::read_to_string(Path::new(data).join("operator.token"));
    text.unwrap().trim_end().to_owned()
}

/// How long a line of the log may take.
const LINE_LIMIT: Duration = Duration::from_secs(60);

/// The log lines of a process.
#[derive(Default)]
struct Log {
    lines: Mutex<Vec<String>>,
    grown: Condvar,
}

/// An agent process. Dropping it kills it with its tasks, unless the test ended it.
pub(crate) struct AgentProcess {
    child: Child,
    is_ended: bool,
    data: String,
    log: Arc<Log>,
    pub(crate) address: Address,
    pub(crate) socket: PathBuf,
}

/// A process that is not ready yet: a server that waits until it can lead.
pub(crate) struct WaitingAgent {
    child: Option<Child>,
    log: Arc<Log>,
}

impl Drop for WaitingAgent {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

impl WaitingAgent {
    pub(crate) fn start(mut command: Command) -> Self {
        command.args(["--log-format", "json"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = Arc::new(Log::default());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let sink = log.clone();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                sink.lines.lock().unwrap().push(line);
                sink.grown.notify_all();
            }
        });
        Self { child: Some(child), log }
    }

    /// Waits until its log has a text.
    pub(crate) fn wait_for_text(&self, text: &str) {
        until(text, || {
            let lines = self.log.lines.lock().unwrap();
            let found = lines.iter().any(|line| line.contains(text));
            found.then_some(()).ok_or_else(|| format!("{lines:#?}"))
        });
    }

    /// Waits until it answers beside the server that leads, and returns its address.
    pub(crate) fn standing(&self) -> Address {
        let message = "this server answers reads, and forwards the rest to the one that leads";
        let line = until("the server to stand by", || {
            let found = line_of(&self.log.lines, &[message]);
            found.ok_or_else(|| format!("{:#?}", self.log.lines.lock().unwrap()))
        });
        address_in(&line)
    }

    /// Waits until it is ready.
    pub(crate) fn ready(mut self) -> AgentProcess {
        let log = self.log.clone();
        let mut child = self.child.take().unwrap();
        let ready = until("the agent to be ready", || {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("the agent ended with {status}: {:#?}", log.lines.lock().unwrap());
            }
            let found = line_of(&log.lines, &["the agent is ready", "the server is ready"]);
            found.ok_or_else(|| format!("{:#?}", log.lines.lock().unwrap()))
        });
        AgentProcess {
            address: address_in(&ready),
            socket: ready["socket"].as_str().unwrap().into(),
            data: ready["data"].as_str().unwrap().to_owned(),
            is_ended: false,
            child,
            log,
        }
    }
}

impl AgentProcess {
    /// Starts an agent on that directory and any free port, and waits until it is ready.
    pub(crate) fn start(data: &Path) -> Self {
        let mut command = program(["agent", "--dev", "--http", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(data);
        Self::run(command)
    }

    /// Starts an agent with that command, and waits until it is ready.
    pub(crate) fn run(mut command: Command) -> Self {
        command.arg("-v");
        Self::run_with_its_log(command)
    }

    /// Like [`AgentProcess::run`], with the log filter of the command's environment.
    pub(crate) fn run_with_its_log(command: Command) -> Self {
        WaitingAgent::start(command).ready()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        signal_process(self.pid(), signal);
    }

    /// Kills the agent and waits for its end. Its tasks run on.
    pub(crate) fn kill(mut self) {
        self.is_ended = true;
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops the agent and waits for its end.
    pub(crate) fn stop(mut self) -> ExitStatus {
        self.signal(rustix::process::Signal::TERM);
        self.ended()
    }

    /// Waits for its end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let status = until("the agent to end", || {
            let ended = self.child.try_wait().unwrap();
            ended.ok_or_else(|| format!("it runs: {:#?}", self.log()))
        });
        self.is_ended = true;
        status
    }

    /// The log lines so far.
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lines.lock().unwrap().clone()
    }

    /// Waits until this number of log lines match, and returns at once then.
    pub(crate) fn wait_for_lines(&self, number: usize, is_meant: impl Fn(&str) -> bool) {
        let is_missing =
            |lines: &mut Vec<String>| lines.iter().filter(|line| is_meant(line)).count() < number;
        let lines = self.log.lines.lock().unwrap();
        let waited = self.log.grown.wait_timeout_while(lines, LINE_LIMIT, is_missing);
        let (lines, waited) = waited.unwrap();
        drop(lines);
        assert!(!waited.timed_out(), "the log lacks a line");
    }

    /// Waits until this number of lines that the embedded plugin wrote match, and returns at once then.
    pub(crate) fn wait_for_plugin_lines(&self, number: usize, is_meant: impl Fn(&str) -> bool) {
        let log = plugin_log(Path::new(&self.data));
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(&log).unwrap();
            if text.lines().filter(|line| is_meant(line)).count() >= number {
                return;
            }
            assert!(begun.elapsed() < LINE_LIMIT, "the log lacks a line: {text}");
            std::thread::yield_now();
        }
    }
}

/// Returns the log of the newest run of the job that the agent submits.
fn plugin_log(data: &Path) -> PathBuf {
    let entries = |path: &Path| {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let allocs = entries(&data.join("allocs"));
    let runs = allocs.iter().flat_map(|alloc| entries(&alloc.join("tasks/plugin/runs")));
    // The runs of earlier versions of the job are removed in the meantime.
    let begun =
        |run: &PathBuf| std::fs::metadata(run.join("spec.json")).and_then(|it| it.modified());
    let begun = runs.filter_map(|run| Some((begun(&run).ok()?, run)));
    let (_, newest) = begun.max().expect("the plugin has a run");
    newest.join("stderr.0")
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if !self.is_ended {
            kill_tasks(&self.data);
        }
        if std::thread::panicking() {
            eprintln!("log of the agent:\n{}", self.log().join("\n"));
        }
    }
}

/// Kills the tasks that run in a data directory.
pub(crate) fn kill_tasks(data: &str) {
    for pid in processes_with(&["task-process", data]) {
        let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
    }
}

/// The first line of the log with one of these messages.
fn line_of(log: &Mutex<Vec<String>>, messages: &[&str]) -> Option<Value> {
    let lines = log.lock().unwrap();
    let mut events = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.find(|event| messages.iter().any(|message| event["message"] == *message))
}

/// The address in a line of the log, with the operator's token.
fn address_in(line: &Value) -> Address {
    let url = line["address"].as_str().unwrap();
    let address = url.trim_start_matches("http://").trim_start_matches("https://");
    let token = operator_token(line["data"].as_str().unwrap());
    Address::Tcp(address.parse().unwrap(), Some(token))
}

/// Sends a signal to a process that the test started.
pub(crate) fn signal_process(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Processes whose command line contains all of these words.
pub(crate) fn processes_with(words: &[&str]) -> Vec<u32> {
    let mut found = vec![];
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        if words.iter().all(|word| line.contains(word)) {
            found.push(pid);
        }
    }
    found
}
