//! Where a volume can be reached from.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// One place: all segments hold together (CSI section "Topology": a map is AND, a list is OR).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Topology {
    /// Domain to segment: `zone` to `eu-1a`.
    pub segments: BTreeMap<String, String>,
}

impl Topology {
    /// Whether this place lies in `other`: all of `other`'s segments hold here (GH-24522).
    pub fn lies_in(&self, other: &Self) -> bool {
        other
            .segments
            .iter()
            .all(|(domain, segment)| self.segments.get(domain) == Some(segment))
    }
}

impl std::fmt::Display for Topology {
    /// `rack=1, zone=a`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (domain, segment)) in self.segments.iter().enumerate() {
            write!(f, "{}{domain}={segment}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Where a new volume shall be reachable from.
///
/// The order is kept, because Nomad compares by position; [`TopologyRequest::same_as`] compares as
/// sets, which is what is meant (W21).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyRequest {
    /// At least one of these: CSI's `requisite`.
    pub required: Vec<Topology>,
    /// Rather these, in this order: CSI's `preferred`.
    pub preferred: Vec<Topology>,
}

impl TopologyRequest {
    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.required.is_empty() && self.preferred.is_empty()
    }

    /// Whether both ask for the same, in whatever order.
    pub fn same_as(&self, other: &Self) -> bool {
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
        Topology {
            segments: segments
                .iter()
                .map(|(k, v)| ((*k).into(), (*v).into()))
                .collect(),
        }
    }

    #[test]
    fn a_place_with_more_segments_lies_in_one_with_fewer() {
        let rack = place(&[("zone", "a"), ("rack", "1")]);
        assert!(rack.lies_in(&place(&[("zone", "a")])));
        assert!(!place(&[("zone", "a")]).lies_in(&rack));
    }

    #[test]
    fn requests_are_compared_as_sets() {
        let request = |places: &[Topology]| TopologyRequest {
            required: places.to_vec(),
            preferred: vec![],
        };
        let (a, b) = (place(&[("zone", "a")]), place(&[("zone", "b")]));
        assert!(request(&[a.clone(), b.clone()]).same_as(&request(&[b.clone(), a.clone()])));
        assert!(!request(&[a]).same_as(&request(&[b])));
    }
}
