//! The history of a volume as a table.

use crate::cli::ui::allocs::TimeReference;
use crate::cli::ui::printer::one_line;
use crate::cli::ui::table::table;
use crate::cli::ui::time::local_time;
use nomad_csi_model::VolumeEvent;

/// Returns a table of events.
pub(crate) fn event_list(events: &[VolumeEvent], now: &TimeReference) -> String {
    let rows = events.iter().map(|event| {
        [event.index.to_string(), local_time(event.time, &now.zone), one_line(&event.text)]
    });
    table(["Index", "Time", "Event"], rows)
}
