//! [`Space`]: how much of etcd's quota is used.
//!
//! At its quota etcd refuses every write, also the lease of the next leader, until files are defragmented. So growth is
//! refused before. etcd counts the bytes of its file, which does not shrink when keys are removed.

use crate::api::MemberStatus;

/// etcd's quota if neither it nor the configuration names one.
const DEFAULT_QUOTA: u64 = 2 << 30;

/// How much space etcd has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Space {
    /// Up to 60 % are used.
    #[default]
    Enough,
    /// More than 60 % are used: what a snapshot replaces is removed now.
    Short,
    /// More than 80 % are used, or etcd refuses writes: what grows the state is refused.
    Full,
}

impl Space {
    /// Returns the space of the fullest member. `quota` counts for members that do not say theirs.
    pub(crate) fn of(members: &[MemberStatus], quota: Option<u64>, has_alarm: bool) -> Self {
        let used = |member: &MemberStatus| {
            let quota = match member.quota {
                0 => quota.unwrap_or(DEFAULT_QUOTA),
                known => known,
            };
            member.size.saturating_mul(100) / quota.max(1)
        };
        let used = members.iter().map(used).max().unwrap_or_default();
        match used {
            _ if has_alarm => Self::Full,
            81.. => Self::Full,
            61.. => Self::Short,
            0..=60 => Self::Enough,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(size: u64, quota: u64) -> MemberStatus {
        MemberStatus { size, quota, ..MemberStatus::default() }
    }

    #[test]
    fn the_fullest_member_counts() {
        let of = |members: &[MemberStatus]| Space::of(members, Some(100), false);
        assert_eq!(of(&[]), Space::Enough);
        assert_eq!(of(&[member(60, 100), member(10, 0)]), Space::Enough);
        assert_eq!(of(&[member(10, 100), member(61, 0)]), Space::Short);
        assert_eq!(of(&[member(80, 0)]), Space::Short);
        assert_eq!(of(&[member(81, 0), member(81, 1000)]), Space::Full);
        assert_eq!(Space::of(&[member(1 << 30, 0)], None, false), Space::Enough, "2 GiB");
        assert_eq!(Space::of(&[], None, true), Space::Full);
    }
}
