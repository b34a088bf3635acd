//! The log of the calls of every process, which tests compare with what must hold.
//!
//! Each call has a line when it begins and one when it has ended: its answer is known, and no work of it runs any more, also
//! if its caller went away. A call that never ends has no second line. A line names the volume and the node, and contains
//! nothing else of a request, so no secret. Each line is one write to a file that is open for appending, so lines of several
//! processes do not mix. The file grows as long as the plugin is used. All calls block.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::time::ClockId;
use serde::Serialize;

use super::options::Role;
use nomad_csi_ports::StatusCode;

/// The log.
#[derive(Debug)]
pub(crate) struct CallLog {
    file: File,
    role: Role,
    node_id: String,
    /// How many calls this process began.
    begun: AtomicU64,
}

/// A line of the log.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    /// The same in both lines of a call.
    call: &'a str,
    role: &'static str,
    rpc: &'a str,
    node_id: &'a str,
    volume_id: &'a str,
    /// The clock that runs since the start of the machine, which all its processes share.
    monotonic_ns: u64,
    /// The outcome, if the call ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
}

impl CallLog {
    /// Opens the log for appending, and creates it if it does not exist.
    pub(super) fn open(path: &Path, role: Role, node_id: &str) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).mode(0o600).open(path)?;
        Ok(Self { file, role, node_id: node_id.to_owned(), begun: AtomicU64::new(0) })
    }

    /// Writes the first line of a call. Without a node in the request, it is that of this process, if it has one.
    pub(crate) fn begin(
        self: &Arc<Self>,
        rpc: &str,
        volume_id: &str,
        node_id: Option<&str>,
    ) -> CallInProgress {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let own = if self.role.has_node() { self.node_id.as_str() } else { "" };
        let call = CallInProgress {
            log: self.clone(),
            call: format!("{}-{number}", std::process::id()),
            rpc: rpc.to_owned(),
            node_id: node_id.unwrap_or(own).to_owned(),
            volume_id: volume_id.to_owned(),
            code: Mutex::default(),
        };
        call.write("begin", None);
        call
    }
}

/// A call that has not ended. It ends when the last holder drops it.
#[derive(Debug)]
pub(crate) struct CallInProgress {
    log: Arc<CallLog>,
    call: String,
    rpc: String,
    node_id: String,
    volume_id: String,
    code: Mutex<Option<StatusCode>>,
}

impl CallInProgress {
    /// Sets the outcome of the work.
    pub(crate) fn set_outcome(&self, code: StatusCode) {
        let mut known = self.code.lock();
        *known = Some(code);
    }

    /// Sets the answer, which is the outcome of a call without work.
    pub(crate) fn set_answer(&self, code: StatusCode) {
        let mut known = self.code.lock();
        known.get_or_insert(code);
    }

    fn write(&self, event: &'static str, code: Option<&'static str>) {
        let line = Line {
            event,
            call: &self.call,
            role: self.log.role.name(),
            rpc: &self.rpc,
            node_id: &self.node_id,
            volume_id: &self.volume_id,
            monotonic_ns: monotonic_ns(),
            code,
        };
        let written = serde_json::to_vec(&line).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            let length = (&self.log.file).write(&line)?;
            if length == line.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
        });
        if let Err(error) = written {
            tracing::warn!(csi.rpc = %self.rpc, %error, "cannot write to the log of calls; it is not complete");
        }
    }
}

impl Drop for CallInProgress {
    fn drop(&mut self) {
        let code = *self.code.lock();
        self.write("end", code.map(StatusCode::as_spec));
    }
}

fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}
