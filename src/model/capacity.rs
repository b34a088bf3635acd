//! How much a provider can still provide, as its controller reports it (CSI, GetCapacity).
//!
//! The numbers inform, and promise nothing: other users of the storage may be faster, and a volume may need more than its
//! size. No decision depends on them.

use super::bytes::Bytes;
use super::topology::Topology;

/// Numbers as a plugin sends them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportedCapacity {
    /// CSI's `available_capacity`.
    pub available: i64,
    /// CSI's `maximum_volume_size`, if it is reported.
    pub maximum: Option<i64>,
    /// CSI's `minimum_volume_size`, if it is reported.
    pub minimum: Option<i64>,
}

/// The capacity that a provider still has, in one place or everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// The bytes that are left for new volumes.
    pub available: Bytes,
    /// The largest size that can be required of a volume; `None` if it is not reported.
    pub maximum_volume_size: Option<Bytes>,
    /// The smallest limit that can be set to a volume; `None` if it is not reported.
    pub minimum_volume_size: Option<Bytes>,
}

impl Capacity {
    /// Reads what a plugin reports.
    ///
    /// # Errors
    /// If a number is negative.
    pub fn read(reported: &ReportedCapacity) -> Result<Self, String> {
        let bytes = |name: &str, number: i64| {
            let bytes = u64::try_from(number).ok().and_then(Bytes::new);
            bytes.ok_or_else(|| format!("{name} is negative ({number})"))
        };
        let maximum = reported.maximum;
        let minimum = reported.minimum;
        Ok(Self {
            available: bytes("available_capacity", reported.available)?,
            maximum_volume_size: maximum
                .map(|number| bytes("maximum_volume_size", number))
                .transpose()?,
            minimum_volume_size: minimum
                .map(|number| bytes("minimum_volume_size", number))
                .transpose()?,
        })
    }
}

impl std::fmt::Display for Capacity {
    /// Writes `5.0 GiB available, volumes of at most 2.0 GiB`, without what is not reported.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} available", self.available.binary())?;
        if let Some(maximum) = self.maximum_volume_size {
            write!(f, ", volumes of at most {}", maximum.binary())?;
        }
        if let Some(minimum) = self.minimum_volume_size {
            write!(f, ", and of at least {}", minimum.binary())?;
        }
        Ok(())
    }
}

/// The capacity of a provider in each place that its plugin knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapacityReport {
    /// The capacity, with the topology for which it is reported; `None` for everywhere.
    pub places: Vec<(Option<Topology>, Capacity)>,
    /// Why a capacity is not known.
    pub unknown: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W56: a number that cannot be true is an error, and zero is a number.
    #[test]
    fn negative_capacities_are_not_used() {
        let reported = |available, maximum, minimum| {
            Capacity::read(&ReportedCapacity { available, maximum, minimum })
        };
        let full = reported(0, Some(0), None).unwrap();
        assert_eq!(full.to_string(), "0 B available, volumes of at most 0 B");
        let most = reported(i64::MAX, None, Some(i64::MAX)).unwrap();
        assert_eq!(most.available, Bytes::MAX);
        for (available, maximum, minimum, problem) in [
            (-1, None, None, "available_capacity is negative (-1)"),
            (1, Some(-2), None, "maximum_volume_size is negative (-2)"),
            (1, Some(1), Some(i64::MIN), "minimum_volume_size is negative (-9223372036854775808)"),
        ] {
            assert_eq!(reported(available, maximum, minimum), Err(problem.to_owned()));
        }
    }
}
