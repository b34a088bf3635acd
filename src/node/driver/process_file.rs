//! The file that names the process of a task, for the next run of the agent.
//!
//! It is replaced atomically after each start and never removed: a record of an ended process names
//! nothing that still runs. Every function blocks.

use std::io::{self, Read as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::process_id::ProcessId;
use nomad_csi_model::private;

/// No record is longer.
const LONGEST: u64 = 4096;

/// The content of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    pid: i32,
    start_time: u64,
    boot_id: String,
    /// True if an agent left it without a call under way.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_idle: bool,
}

/// Returns the recorded process; `None` if the task was never started.
///
/// # Errors
/// If the file cannot be read, or does not contain a process.
pub(super) fn read(path: &Path) -> io::Result<Option<ProcessId>> {
    Ok(read_with_use(path)?.map(|(process, _)| process))
}

/// As [`read`], with whether an agent left the process without a call under way.
pub(super) fn read_with_use(path: &Path) -> io::Result<Option<(ProcessId, bool)>> {
    let mut text = vec![];
    let read =
        private::open_to_read(path).and_then(|file| file.take(LONGEST).read_to_end(&mut text));
    match read {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(about(path, "read", &error)),
    }
    let damaged = |_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "`{}` does not name a process; end the process of the task if it runs, and remove the file",
                path.display()
            ),
        )
    };
    let Content { pid, start_time, boot_id, is_idle } =
        serde_json::from_slice(&text).map_err(damaged)?;
    Ok(Some((ProcessId { pid, start_time, boot_id }, is_idle)))
}

/// Records the process with this ID.
///
/// # Errors
/// If the file cannot be written, or the process has been reaped.
pub(super) fn write(path: &Path, pid: i32) -> io::Result<()> {
    record(path, &ProcessId::current(pid)?.ok_or(io::ErrorKind::NotFound)?)
}

/// Records a process.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn record(path: &Path, process: &ProcessId) -> io::Result<()> {
    replace(path, process, false)
}

/// Records a process that has no call under way.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn record_idle(path: &Path, process: &ProcessId) -> io::Result<()> {
    replace(path, process, true)
}

fn replace(path: &Path, process: &ProcessId, is_idle: bool) -> io::Result<()> {
    let ProcessId { pid, start_time, boot_id } = process.clone();
    let text = serde_json::to_vec(&Content { pid, start_time, boot_id, is_idle })?;
    private::replace(path, &text).map_err(|error| about(path, "write", &error))
}

fn about(path: &Path, action: &str, error: &io::Error) -> io::Error {
    let message = format!("cannot {action} `{}`: {error}", path.display());
    io::Error::new(error.kind(), message)
}
