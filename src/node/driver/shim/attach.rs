//! The agent's side of a run that exists: stop it, wait for it, settle it. Files and process descriptors only.

use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};

use super::super::limits::HostGroups;
use super::super::process_id::{ProcessId, is_no_such_process, register};
use super::living::recover;
use super::run_files::RunFiles;
use super::run_state::{RunState, WaitStep, settled, wait_step};
use crate::mounts::boot_id;
use crate::task_run::RunEnd;
use nomad_csi_model::retry::RetryPolicy;
use nomad_csi_ports::run_blocking;

/// The pauses between attempts to take the lock of a run whose shim is gone. Another agent holds it for an instant.
const LOCK_RETRY: RetryPolicy =
    RetryPolicy { initial: Duration::from_millis(1), max: Duration::from_millis(100) };

/// Requests the stop of a run: first the file, which a shim that is only starting finds, then the signal, which
/// wakes one that runs. The signal alone is a request as well, so a full disk does not prevent a stop. Blocks.
///
/// # Errors
/// If neither can be done.
pub(super) fn request_stop(run: &RunFiles) -> io::Result<()> {
    end(run, Signal::TERM)
}

/// Kills a run: like [`request_stop`], but the shim itself gets SIGKILL. It is PID 1 of the task's PID namespace, so the
/// kernel kills every process of the task with it, whatever the task has done to its shim. Blocks.
///
/// # Errors
/// If neither can be done.
pub(super) fn kill(run: &RunFiles) -> io::Result<()> {
    end(run, Signal::KILL)
}

/// Sends a signal to the process of a task. Returns false if it does not run. Blocks.
///
/// # Errors
/// If the files of the run cannot be read, or the operating system refuses.
pub(super) fn signal_task(run: &RunFiles, signal: i32) -> io::Result<bool> {
    let signal = Signal::from_named_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
    let Some(RunState::Running { task, .. }) = known_state(run)? else {
        return Ok(false);
    };
    let Some(descriptor) = task.open()? else {
        return Ok(false);
    };
    match pidfd_send_signal(descriptor, signal).map_err(io::Error::from) {
        Ok(()) => Ok(true),
        Err(error) if is_no_such_process(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn end(run: &RunFiles, signal: Signal) -> io::Result<()> {
    let requested = run.request_stop();
    let state = known_state(run)?;
    let Some(shim) = state.as_ref().and_then(|state| state.shim()) else {
        // Without a shim, the file alone counts. A run that has ended needs none.
        return state.map_or(requested, |_| Ok(()));
    };
    match shim.open()? {
        Some(descriptor) => match pidfd_send_signal(descriptor, signal).map_err(io::Error::from) {
            Err(error) if !is_no_such_process(&error) => Err(error),
            Ok(()) | Err(_) => Ok(()),
        },
        None => Ok(()),
    }
}

/// Returns the state of a run; `None` if it was never started. A state that is missing or damaged says nothing about a shim,
/// so one is looked for. Blocks.
///
/// # Errors
/// If its files cannot be read, or its state stays unknown.
pub(super) fn known_state(run: &RunFiles) -> io::Result<Option<RunState>> {
    let is_known = match run.read_state() {
        Err(error) => error.kind() != io::ErrorKind::InvalidData,
        Ok(state) => state.is_some(),
    };
    if !is_known {
        recover(run)?;
    }
    run.read_state()
}

/// Waits until a run has ended, and returns how; `None` if it was never started.
///
/// # Errors
/// If its files cannot be read, or the end of one whose shim is gone cannot be recorded.
pub(super) async fn wait_for_end(run: &RunFiles) -> io::Result<Option<RunEnd>> {
    let mut was_seen = false;
    loop {
        let step = blocking(run, |run| {
            let state = known_state(run)?;
            let boot_id = boot_id()?;
            Ok(state.map(|state| wait_step(&state, &boot_id)))
        });
        match step.await? {
            None if was_seen => {
                let reason = "its files were removed while it ran".to_owned();
                return Ok(Some(RunEnd::Lost { reason }));
            }
            None => return Ok(None),
            Some(WaitStep::Report(end)) => return Ok(Some(end)),
            Some(WaitStep::AwaitShim(shim)) => {
                was_seen = true;
                await_process(run, shim).await?;
                settle(run).await?;
            }
            Some(WaitStep::Settle) => settle(run).await?,
        }
    }
}

/// Waits until the process has ended.
async fn await_process(run: &RunFiles, process: ProcessId) -> io::Result<()> {
    let Some(descriptor) = blocking(run, move |_| process.open()).await? else {
        return Ok(());
    };
    let descriptor = register(descriptor)?;
    let _is_readable = descriptor.readable().await?;
    // An agent that is PID 1 of a container inherits the shim and has to collect it. Everywhere else it is not the
    // agent's child, which is an error without a meaning.
    let id = WaitId::PidFd(descriptor.get_ref().as_fd());
    let _is_collected = waitid(id, WaitIdOptions::EXITED | WaitIdOptions::NOHANG).is_ok();
    Ok(())
}

/// Records the end of a run whose shim is gone, unless the shim did. The state is read again under the lock, because
/// the shim may have written its last word after the first reading.
async fn settle(run: &RunFiles) -> io::Result<()> {
    for attempt in 0.. {
        let is_settled = blocking(run, |run| {
            let _lock = match run.try_lock() {
                Ok(Some(lock)) => lock,
                Ok(None) => return Ok(false),
                // Without its directory, the run has no state.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
                Err(error) => return Err(error),
            };
            let state = run.read_state()?;
            let boot_id = boot_id()?;
            if let Some(lost) = state.and_then(|state| settled(&state, &boot_id)) {
                run.write_state(&lost)?;
                remove_group(run);
            }
            Ok(true)
        });
        if is_settled.await? {
            break;
        }
        tokio::time::sleep(LOCK_RETRY.delay(attempt, 1.0)).await;
    }
    Ok(())
}

/// Removes the control group of a run whose shim could not. The next agent removes what is left.
fn remove_group(run: &RunFiles) {
    let removed = run.read_spec().and_then(|spec| match spec.control_group {
        Some(group) => group.remove(&HostGroups),
        None => Ok(()),
    });
    if let Err(error) = removed {
        let run = run.directory().display();
        tracing::warn!(%run, %error, "cannot remove the control group of a task whose supervisor was killed");
    }
}

/// Runs a call about a run on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(
    run: &RunFiles,
    call: impl FnOnce(&RunFiles) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let run = run.clone();
    run_blocking(move || call(&run)).await
}
