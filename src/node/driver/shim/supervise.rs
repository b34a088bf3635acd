//! The shim: starts the stage, supervises the task, and records how it ended.
//!
//! One thread waits for events and acts outside of the runtime, so its blocking calls hold up nothing else; two more
//! threads copy the output. The lock of the run is held until the process ends. The final state comes last: after
//! the last process of the task, which takes the mount namespace with it, after the output, and after the control group.
//! If the state cannot be written, the shim stays and tries again, because the status of the task would be lost with it;
//! unless the directory of the run was removed.

use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::Pid;
use tokio::io::AsyncReadExt as _;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use super::super::limits::HostGroups;
use super::super::process_id::ProcessId;
use super::log_file::LogFile;
use super::messages::ShimMessage;
use super::pid_namespace::{OwnPidNamespace, Remaining};
use super::role::{Role, report};
use super::run_files::{RunFiles, RunLock};
use super::run_spec::RunSpec;
use super::run_state::{RunState, ShimStep, shim_step};
use super::stage_report::StageReport;
use super::supervision::{OUTPUT_GRACE, ShimAction, ShimEvent, Supervision};
use crate::task_run::LimitsReached;
use nomad_csi_model::retry::RetryPolicy;
use nomad_csi_ports::LogStream;

/// The pauses between attempts to take the lock, whose holder has not written a state yet.
const LOCK_PAUSE: Duration = Duration::from_millis(1);
/// The pauses between attempts to write a state.
const WRITE_RETRY: RetryPolicy =
    RetryPolicy { initial: Duration::from_millis(100), max: Duration::from_secs(30) };
/// The kernel's preference when memory runs out: the task goes before its shim.
const OOM_SCORE: &str = "-900";

/// Starts the task of a run unless it was started before, and supervises it to its end.
///
/// # Errors
/// If the run could not be started and has no state.
pub(super) fn supervise_run(run: &RunFiles) -> io::Result<()> {
    let namespace = OwnPidNamespace::of_this_process()?;
    rustix::process::setsid()?;
    // The working directory pins no file system.
    rustix::process::chdir("/")?;
    let Some(lock) = lock_new_run(run, namespace.process())? else {
        ShimMessage::Attached.send();
        return Ok(());
    };
    let spec = run.read_spec()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Before the stop file is looked at: a later request finds the handler.
    let signals = Signals::install(&runtime)?;
    // Without the right to do this, the kernel chooses by size.
    let _may_lower = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE).is_ok();
    run.reserve_state()?;
    if spec.limits_process_numbers {
        namespace.limit_process_numbers()?;
    }
    run.write_state(&RunState::Starting { shim: namespace.process().clone() })?;
    let (state, message) = if run.is_stop_requested() {
        (RunState::CANCELLED, Some(ShimMessage::Cancelled))
    } else {
        match Shim::start(run, &spec, namespace, runtime, signals) {
            // If this fails, the end of this process is the end of the task, and an agent records that.
            Ok(shim) => shim.supervise()?,
            Err(error) => failure(&error),
        }
    };
    write_final_state(run, &state.with_limits(end_group(&spec)));
    message.inspect(ShimMessage::send);
    drop(lock);
    Ok(())
}

/// Takes the lock of a run; `None` if the run was started before.
fn lock_new_run(run: &RunFiles, own: &ProcessId) -> io::Result<Option<RunLock>> {
    loop {
        let lock = run.try_lock()?;
        let state = run.read_state()?;
        match (shim_step(lock.is_some(), state.as_ref(), own), lock) {
            (ShimStep::Begin, Some(lock)) => return Ok(Some(lock)),
            (ShimStep::Attach, _) => return Ok(None),
            (ShimStep::Begin | ShimStep::TryAgain, _) => std::thread::sleep(LOCK_PAUSE),
        }
    }
}

/// Removes the control group of the task, which has no process any more. Returns the limits that the task reached.
fn end_group(spec: &RunSpec) -> LimitsReached {
    let Some(group) = &spec.control_group else {
        return LimitsReached::NONE;
    };
    let reached = group.reached(&HostGroups);
    if let Err(error) = group.remove(&HostGroups) {
        report(&error);
    }
    reached
}

fn failure(error: &io::Error) -> (RunState, Option<ShimMessage>) {
    let reason = error.to_string();
    (RunState::Failed { reason }, Some(ShimMessage::Failed))
}

/// Returns when the state is durable, even if that takes a person who frees space. Without the directory of the run, there
/// is no place for it: the end of this process then says that the task has ended.
fn write_final_state(run: &RunFiles, state: &RunState) {
    for attempt in 0.. {
        match run.write_state(state) {
            Ok(()) => return,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return report(&error),
            Err(error) if attempt == 0 => report(&error),
            Err(_) => {}
        }
        std::thread::sleep(WRITE_RETRY.delay(attempt, 1.0));
    }
}

/// The signals that a shim reacts to.
struct Signals {
    child: SignalStream,
    terminate: SignalStream,
    /// Those that a program in the background ignores, as does everything that it starts: a task could not be asked to
    /// stop. A signal with a handler has its default effect in the next program.
    _not_ignored: [SignalStream; 5],
}

impl Signals {
    fn install(runtime: &Runtime) -> io::Result<Self> {
        let _context = runtime.enter();
        Ok(Self {
            child: signal(SignalKind::child())?,
            terminate: signal(SignalKind::terminate())?,
            _not_ignored: [
                signal(SignalKind::interrupt())?,
                signal(SignalKind::quit())?,
                signal(SignalKind::hangup())?,
                signal(SignalKind::user_defined1())?,
                signal(SignalKind::user_defined2())?,
            ],
        })
    }
}

/// A shim with a stage or a task.
struct Shim<'a> {
    run: &'a RunFiles,
    spec: &'a RunSpec,
    namespace: OwnPidNamespace,
    runtime: Runtime,
    signals: Signals,
    /// The stage, which becomes the task.
    task: Pid,
    supervision: Supervision,
    socket: tokio::net::UnixStream,
    reported: Vec<u8>,
    /// When the task is killed, once it was asked to stop.
    deadline: Option<Instant>,
    /// A state that could not be written yet, its failed attempts, and when the next one is due.
    unwritten: Option<(RunState, u32, Instant)>,
    /// Disconnected when all output was copied.
    output: mpsc::Receiver<()>,
    was_message_sent: bool,
}

/// The reason why the wait of a shim ended.
enum Wake {
    KillTimeout,
    StopRequested,
    /// A part of the stage's report, or its end.
    Report(bool),
    WriteState,
    Child,
}

impl<'a> Shim<'a> {
    fn start(
        run: &'a RunFiles,
        spec: &'a RunSpec,
        namespace: OwnPidNamespace,
        runtime: Runtime,
        signals: Signals,
    ) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        let (stdout, stdout_end) = io::pipe()?;
        let (stderr, stderr_end) = io::pipe()?;
        socket.set_nonblocking(true)?;
        let socket = {
            let _context = runtime.enter();
            tokio::net::UnixStream::from_std(socket)?
        };
        let output = copy_output(run, spec, [stdout, stderr])?;
        // The temporary command holds the task's ends of the pipes, and is dropped at once.
        let stage = Role::Stage
            .command(run)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(stdout_end)
            .stderr(stderr_end)
            .spawn()?;
        let task = Pid::from_child(&stage);
        Ok(Self {
            run,
            spec,
            namespace,
            runtime,
            signals,
            task,
            supervision: Supervision::default(),
            socket,
            reported: vec![],
            deadline: None,
            unwritten: None,
            output,
            was_message_sent: false,
        })
    }

    /// Returns the final state and the message that the agent has not got yet.
    ///
    /// # Errors
    /// If the operating system does not report ended processes.
    fn supervise(mut self) -> io::Result<(RunState, Option<ShimMessage>)> {
        let mut rest = Remaining::Running;
        while !self.supervision.is_empty() {
            match self.wait(rest) {
                Wake::KillTimeout => {
                    self.deadline = None;
                    self.handle(ShimEvent::KillTimeout);
                }
                Wake::StopRequested => self.handle(ShimEvent::StopRequested),
                Wake::Report(true) => self.handle_report(),
                Wake::WriteState => self.write_unwritten(),
                Wake::Report(false) | Wake::Child => {}
            }
            let reaped = self.namespace.reap(self.task)?;
            rest = reaped.rest;
            self.handle(ShimEvent::Reaped(reaped));
        }
        self.read_last_report();
        let _is_complete = self.output.recv_timeout(OUTPUT_GRACE).is_err();
        let message = self.supervision.message();
        let message = message.filter(|_| !self.was_message_sent);
        // A thread may still wait for output that a process outside of the namespace holds.
        self.runtime.shutdown_background();
        Ok((self.supervision.final_state(), message))
    }

    /// Waits for the next event. If there are more ended processes, it returns at once, but every other event has
    /// precedence: a task that forks without end can be stopped.
    fn wait(&mut self, rest: Remaining) -> Wake {
        let awaits_report = self.supervision.awaits_report();
        let write_at = self.unwritten.as_ref().map(|(_, _, at)| *at);
        let deadline = self.deadline;
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = until(deadline) => Wake::KillTimeout,
                _ = self.signals.terminate.recv() => Wake::StopRequested,
                read = self.socket.read_buf(&mut self.reported), if awaits_report => {
                    let is_full = self.reported.len() > StageReport::LIMIT;
                    Wake::Report(is_full || !matches!(read, Ok(1..)))
                }
                () = until(write_at) => Wake::WriteState,
                () = std::future::ready(()), if rest == Remaining::Ended => Wake::Child,
                _ = self.signals.child.recv() => Wake::Child,
            }
        })
    }

    fn handle(&mut self, event: ShimEvent) {
        match self.supervision.on(event) {
            None => {}
            Some(ShimAction::SignalTask) => {
                self.namespace.signal_child(self.task, self.spec.kill_signal());
                let now = Instant::now();
                self.deadline = now.checked_add(self.spec.kill_timeout());
            }
            Some(ShimAction::KillAll) => self.namespace.kill_all(),
            Some(ShimAction::RecordRunning(task)) => {
                let shim = self.namespace.process().clone();
                let state = RunState::Running { shim, task };
                self.unwritten = Some((state, 0, Instant::now()));
                self.write_unwritten();
                self.send_message();
            }
        }
    }

    fn handle_report(&mut self) {
        let report = StageReport::parse(&self.reported);
        self.handle(ShimEvent::Reported(report));
    }

    /// Reads what the stage reported before it ended.
    fn read_last_report(&mut self) {
        if self.supervision.awaits_report() {
            let (socket, reported) = (&mut self.socket, &mut self.reported);
            let _is_complete = self.runtime.block_on(async {
                tokio::time::timeout(OUTPUT_GRACE, socket.read_to_end(reported)).await
            });
            self.handle_report();
        }
    }

    fn write_unwritten(&mut self) {
        let Some((state, attempt, _)) = self.unwritten.take() else {
            return;
        };
        if let Err(error) = self.run.write_state(&state) {
            if attempt == 0 {
                report(&error);
            }
            let next = Instant::now() + WRITE_RETRY.delay(attempt, 1.0);
            self.unwritten = Some((state, attempt.saturating_add(1), next));
        }
    }

    fn send_message(&mut self) {
        if let Some(message) = self.supervision.message() {
            message.send();
            self.was_message_sent = true;
        }
    }
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// Copies the output of a task into its files, each on a thread of its own.
///
/// # Errors
/// If a thread cannot be started.
fn copy_output(
    run: &RunFiles,
    spec: &RunSpec,
    pipes: [PipeReader; 2],
) -> io::Result<mpsc::Receiver<()>> {
    let (sender, receiver) = mpsc::channel();
    for (pipe, stream) in pipes.into_iter().zip([LogStream::Stdout, LogStream::Stderr]) {
        let directory = run.directory().to_owned();
        let mut file = LogFile::new(directory, stream, spec.logs, &spec.earlier_runs);
        let sender = sender.clone();
        std::thread::Builder::new().spawn(move || {
            file.copy_from(pipe);
            drop(sender);
        })?;
    }
    Ok(receiver)
}
