//! Where a volume is accessible.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// One topology. All its segments must match (CSI, "Topology": a map is AND, a list is OR).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Topology {
    /// Segments by domain: `zone` to `eu-1a`.
    pub segments: BTreeMap<String, String>,
}

impl Topology {
    /// Returns whether this topology has all segments of `other` (Nomad GH-24522).
    pub fn is_within(&self, other: &Self) -> bool {
        other.segments.iter().all(|(domain, segment)| self.segments.get(domain) == Some(segment))
    }
}

impl std::fmt::Display for Topology {
    /// Writes `rack=1, zone=a`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (domain, segment)) in self.segments.iter().enumerate() {
            write!(f, "{}{domain}={segment}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// The topologies that a new volume may or should be accessible from.
///
/// The order is kept, because Nomad compares by position. [`TopologyRequest::is_equivalent_to`]
/// ignores the order (W21: Nomad refuses an update that only reorders topologies).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TopologyRequest {
    /// The volume must be accessible from one of these: CSI's `requisite`.
    pub required: Vec<Topology>,
    /// Preferred topologies, in order: CSI's `preferred`.
    pub preferred: Vec<Topology>,
}

impl TopologyRequest {
    /// Returns whether the request is empty.
    pub fn is_empty(&self) -> bool {
        self.required.is_empty() && self.preferred.is_empty()
    }

    /// Returns whether both contain the same topologies in any order.
    pub fn is_equivalent_to(&self, other: &Self) -> bool {
        fn set(list: &[Topology]) -> BTreeSet<&Topology> {
            list.iter().collect()
        }
        set(&self.required) == set(&other.required) && set(&self.preferred) == set(&other.preferred)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(segments: &[(&str, &str)]) -> Topology {
        Topology { segments: segments.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect() }
    }

    #[test]
    fn a_topology_with_more_segments_is_within_one_with_fewer() {
        let rack = place(&[("zone", "a"), ("rack", "1")]);
        assert!(rack.is_within(&place(&[("zone", "a")])));
        assert!(!place(&[("zone", "a")]).is_within(&rack));
    }

    #[test]
    fn requests_are_compared_as_sets() {
        let request =
            |places: &[Topology]| TopologyRequest { required: places.to_vec(), preferred: vec![] };
        let (a, b) = (place(&[("zone", "a")]), place(&[("zone", "b")]));
        assert!(
            request(&[a.clone(), b.clone()]).is_equivalent_to(&request(&[b.clone(), a.clone()]))
        );
        assert!(!request(&[a]).is_equivalent_to(&request(&[b])));
    }
}
