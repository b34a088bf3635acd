//! The capacity of a provider, as text.

use super::table::{heading, table};
use nomad_csi_model::{Bytes, CapacityReport, one_line};

/// Returns what a provider can still provide in each place, and what could not be read.
pub(crate) fn capacity_report(report: &CapacityReport) -> String {
    let mut text = format!("\n{}", heading("Capacity"));
    let size = |size: Option<Bytes>| size.map_or_else(|| "unknown".to_owned(), Bytes::binary);
    if !report.places.is_empty() {
        let rows = report.places.iter().map(|(topology, capacity)| {
            let place = topology.as_ref().map(ToString::to_string);
            [
                place.unwrap_or_else(|| "everywhere".to_owned()),
                capacity.available.binary(),
                size(capacity.maximum_volume_size),
                size(capacity.minimum_volume_size),
            ]
        });
        let headings = ["Topology", "Available", "Largest Volume", "Smallest Volume"];
        text += &table(headings, rows);
    }
    let notes = report.unknown.iter().map(|reason| {
        let reason = one_line(reason);
        format!("note: the capacity is not complete: {reason}\n")
    });
    text.extend(notes);
    text
}
