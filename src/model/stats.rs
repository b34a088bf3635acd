//! How much a volume has of bytes and of inodes, as its plugin reports it on one node (CSI, NodeGetVolumeStats).
//!
//! The numbers are data from outside. In CSI a zero also stands for a number that is not known, so a zero counts only
//! beside another number that gives it a meaning. Numbers that contradict each other are a problem, and none of them
//! is used.

use super::external::Condition;
use super::id::NodeId;

/// The unit that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StatsUnit {
    /// Bytes.
    Bytes,
    /// Inodes.
    Inodes,
}

impl StatsUnit {
    /// Returns the word for people: `bytes`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Inodes => "inodes",
        }
    }
}

/// Numbers as a plugin sends them: CSI's `VolumeUsage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedQuantity {
    /// The unit that is counted.
    pub unit: StatsUnit,
    /// All.
    pub total: i64,
    /// The used amount; 0 if it is not known.
    pub used: i64,
    /// The amount left for the users of the volume; 0 if it is not known.
    pub available: i64,
}

/// How much there is of one unit. What is not known is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantity {
    /// All.
    pub total: Option<u64>,
    /// The used amount.
    pub used: Option<u64>,
    /// The amount left for the users of the volume. A file system may keep a reserve, so it can be less than what
    /// is not in use.
    pub available: Option<u64>,
}

impl Quantity {
    /// Reads what a plugin reports; `None` if it knows nothing.
    ///
    /// # Errors
    /// If the numbers cannot be true.
    fn read(reported: &ReportedQuantity) -> Result<Option<Self>, String> {
        let unit = reported.unit.as_str();
        let number = |name: &str, number: i64| {
            u64::try_from(number).map_err(|_| {
                format!("the plugin reports {number} {name} {unit}, which is negative")
            })
        };
        let total = number("total", reported.total)?;
        let used = number("used", reported.used)?;
        let available = number("available", reported.available)?;
        for (name, part) in [("used", used), ("available", available)] {
            if total > 0 && part > total {
                return Err(format!("the plugin reports {part} {name} of {total} {unit}"));
            }
        }
        let known = |number: u64, has_meaning: bool| (number > 0 || has_meaning).then_some(number);
        let quantity = Self {
            total: known(total, false),
            used: known(used, total > 0 && available > 0),
            available: known(available, total > 0 && used > 0),
        };
        Ok((quantity != Self::default()).then_some(quantity))
    }

    /// Returns how many percent are in use, rounded up as `df` does.
    pub fn percent_used(&self) -> Option<u64> {
        let (used, total) = (u128::from(self.used?), u128::from(self.total?));
        (total > 0)
            .then(|| (used * 100).div_ceil(total))
            .and_then(|percent| u64::try_from(percent).ok())
    }
}

/// The report of a plugin about a published volume on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeStats {
    /// The bytes.
    pub bytes: Option<Quantity>,
    /// The inodes; block devices have none.
    pub inodes: Option<Quantity>,
    /// The condition, by a plugin of CSI 1.3 to 1.12; `None` if it reports none.
    pub condition: Option<Condition>,
    /// The answers that cannot be true.
    pub problems: Vec<String>,
}

impl VolumeStats {
    /// Reads what a plugin reports.
    pub fn read(reported: &[ReportedQuantity], condition: Option<Condition>) -> Self {
        let mut problems = vec![];
        let mut quantity = |unit: StatsUnit| {
            let mut of_unit = reported.iter().filter(|one| one.unit == unit);
            let first = of_unit.next()?;
            let read = match of_unit.next() {
                None => Quantity::read(first),
                Some(_) => Err(format!("the plugin reports {} more than once", unit.as_str())),
            };
            read.unwrap_or_else(|problem| {
                problems.push(problem);
                None
            })
        };
        Self {
            bytes: quantity(StatsUnit::Bytes),
            inodes: quantity(StatsUnit::Inodes),
            condition,
            problems,
        }
    }

    /// Returns the quantities that are known.
    pub fn quantities(&self) -> impl Iterator<Item = (StatsUnit, Quantity)> {
        let bytes = self.bytes.map(|bytes| (StatsUnit::Bytes, bytes));
        let inodes = self.inodes.map(|inodes| (StatsUnit::Inodes, inodes));
        bytes.into_iter().chain(inodes)
    }
}

/// The statistics of a volume on the nodes where it is published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishedStats {
    /// The reports of the plugin, each with its node.
    pub nodes: Vec<(NodeId, VolumeStats)>,
    /// Why a node did not answer.
    pub unknown: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(total: i64, used: i64, available: i64) -> ReportedQuantity {
        ReportedQuantity { unit: StatsUnit::Bytes, total, used, available }
    }

    fn quantity(total: Option<u64>, used: Option<u64>, available: Option<u64>) -> Option<Quantity> {
        Some(Quantity { total, used, available })
    }

    /// W56: zero is a number only where it cannot stand for one that is not known.
    #[test]
    fn a_zero_may_stand_for_a_number_that_is_not_known() {
        let read = |one| {
            let stats = VolumeStats::read(&[one], None);
            assert_eq!(stats.problems, Vec::<String>::new(), "{one:?}");
            stats.bytes
        };
        assert_eq!(read(bytes(0, 0, 0)), None);
        assert_eq!(read(bytes(9, 0, 0)), quantity(Some(9), None, None));
        assert_eq!(read(bytes(9, 0, 9)), quantity(Some(9), Some(0), Some(9)));
        assert_eq!(read(bytes(9, 9, 0)), quantity(Some(9), Some(9), Some(0)));
        assert_eq!(read(bytes(9, 4, 3)), quantity(Some(9), Some(4), Some(3)));
        assert_eq!(read(bytes(0, 4, 0)), quantity(None, Some(4), None));
        assert_eq!(read(bytes(0, 0, 4)), quantity(None, None, Some(4)));
        let most = i64::MAX.unsigned_abs();
        let all = quantity(Some(most), Some(most), Some(most));
        assert_eq!(read(bytes(i64::MAX, i64::MAX, i64::MAX)), all);
    }

    /// W56: numbers that cannot be true are a problem, and the other unit is still known.
    #[test]
    fn numbers_that_cannot_be_true_are_not_used() {
        let inodes = ReportedQuantity { unit: StatsUnit::Inodes, ..bytes(5, 1, 4) };
        let least = i64::MIN;
        for (wrong, problem) in [
            (bytes(-1, 0, 0), "the plugin reports -1 total bytes, which is negative"),
            (
                bytes(9, least, 0),
                "the plugin reports -9223372036854775808 used bytes, which is negative",
            ),
            (bytes(9, 1, -2), "the plugin reports -2 available bytes, which is negative"),
            (bytes(9, 10, 0), "the plugin reports 10 used of 9 bytes"),
            (bytes(9, 1, i64::MAX), "the plugin reports 9223372036854775807 available of 9 bytes"),
        ] {
            let stats = VolumeStats::read(&[wrong, inodes], None);
            assert_eq!(stats.bytes, None, "{wrong:?}");
            assert_eq!(stats.inodes, quantity(Some(5), Some(1), Some(4)));
            assert_eq!(stats.problems, [problem]);
        }
        let twice = VolumeStats::read(&[bytes(9, 1, 8), inodes, bytes(9, 1, 8)], None);
        assert_eq!(twice.bytes, None);
        assert_eq!(twice.problems, ["the plugin reports bytes more than once"]);
    }

    #[test]
    fn a_percentage_is_rounded_up_and_never_overflows() {
        let percent = |used, total| {
            let quantity = Quantity { total, used, available: None };
            quantity.percent_used()
        };
        assert_eq!(percent(Some(0), Some(7)), Some(0));
        assert_eq!(percent(Some(1), Some(u64::MAX)), Some(1));
        assert_eq!(percent(Some(u64::MAX), Some(u64::MAX)), Some(100));
        assert_eq!(percent(Some(1), Some(0)), None);
        assert_eq!(percent(None, Some(9)), None);
        assert_eq!(percent(Some(9), None), None);
    }
}
