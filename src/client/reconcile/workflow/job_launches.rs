//! When a periodic job starts next, as its document says.

use nomad_csi_model::{Namespace, until};
use nomad_csi_spec::job::LaunchTimes;
use nomad_csi_wire::{JobDocument, job_from_wire};

/// Returns the next launch of a job for people, with how long it is until then; `None` if it does not start by itself.
pub fn next_launch_text(document: &JobDocument, now: i64) -> Option<String> {
    let (job, _) = job_from_wire(document, &Namespace::default());
    let periodic = job.periodic.filter(|periodic| periodic.is_enabled)?;
    if document.stop || job.parameterized.is_some() && !document.dispatched {
        return None;
    }
    let times = LaunchTimes::of(&periodic).ok()?;
    let next = times.next_after(now)?;
    Some(format!("{} ({})", times.text(next), until(next, now)))
}
