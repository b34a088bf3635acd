//! Conversion of the capacity of a provider.

use super::volume::{topology_from_wire, topology_to_wire};
use crate::capacity::{CapacityDocument, CapacityReportDocument};
use nomad_csi_model::{Bytes, Capacity, CapacityReport};

/// Converts the capacity of a provider to JSON.
pub fn capacity_to_wire(report: &CapacityReport) -> CapacityReportDocument {
    let places = report.places.iter();
    let places = places.map(|(topology, capacity)| CapacityDocument {
        topology: topology.as_ref().map(topology_to_wire),
        available: capacity.available.to_wire(),
        maximum_volume_size: capacity.maximum_volume_size.map(Bytes::to_wire),
        minimum_volume_size: capacity.minimum_volume_size.map(Bytes::to_wire),
    });
    CapacityReportDocument { capacity: places.collect(), unknown: report.unknown.clone() }
}

/// Converts the capacity of a provider from JSON.
pub fn capacity_from_wire(document: &CapacityReportDocument) -> CapacityReport {
    let places = document.capacity.iter().map(|place| {
        let capacity = Capacity {
            available: Bytes::from_wire(place.available),
            maximum_volume_size: place.maximum_volume_size.map(Bytes::from_wire),
            minimum_volume_size: place.minimum_volume_size.map(Bytes::from_wire),
        };
        (place.topology.as_ref().map(topology_from_wire), capacity)
    });
    CapacityReport { places: places.collect(), unknown: document.unknown.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::Topology;

    #[test]
    fn a_capacity_survives_the_conversion_and_says_nothing_of_what_is_not_reported() {
        let zone = Topology { segments: [("zone".to_owned(), "a".to_owned())].into() };
        let here = Capacity {
            available: Bytes::MAX,
            maximum_volume_size: Some(Bytes::ZERO),
            minimum_volume_size: None,
        };
        let report = CapacityReport {
            places: vec![(Some(zone), here), (None, Capacity::default())],
            unknown: vec!["zone=b: no answer".to_owned()],
        };
        let text = serde_json::to_string(&capacity_to_wire(&report)).unwrap();
        assert_eq!(
            text,
            r#"{"Capacity":[{"Topology":{"Segments":{"zone":"a"}},"Available":9223372036854775807,"MaximumVolumeSize":0},{"Available":0}],"Unknown":["zone=b: no answer"]}"#
        );
        let read: CapacityReportDocument = serde_json::from_str(&text).unwrap();
        assert_eq!(capacity_from_wire(&read), report);
    }
}
