//! The version of a volume that a plan was made for, checked again immediately before each change.
//!
//! Nomad has no check-and-set for volumes, so a volume can change between planning and applying. This
//! check narrows the window to the time between one read and the write that follows it.

use nomad_csi_model::Volume;

/// The version of a volume when the plan was made. Steps of claims do not change it on the agent (W08).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeVersion {
    /// The volume did not exist.
    Absent,
    /// The volume existed, and its specification had last changed at this index.
    At(u64),
}

impl VolumeVersion {
    /// The version of a volume as it was read; `None` if it does not exist.
    pub fn of(volume: Option<&Volume>) -> Self {
        volume.map_or(Self::Absent, |volume| Self::At(volume.spec_index))
    }

    /// Returns why the current volume is not of this version; `None` if it is.
    pub fn mismatch(self, now: Option<&Volume>) -> Option<String> {
        self.difference(Self::of(now))
    }

    /// Returns how another version differs from this one; `None` if they are equal.
    pub fn difference(self, now: Self) -> Option<String> {
        match (self, now) {
            (Self::Absent, Self::Absent) => None,
            (Self::Absent, Self::At(_)) => Some("it did not exist and now exists".to_owned()),
            (Self::At(_), Self::Absent) => Some("it no longer exists".to_owned()),
            (Self::At(then), Self::At(now)) if then == now => None,
            (Self::At(then), Self::At(now)) => {
                Some(format!("it was at index {then} and is now at index {now}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::existing;

    /// A step of a claim moves the index of the volume and not that of its specification (W08).
    #[test]
    fn claims_do_not_change_the_version() {
        let version = VolumeVersion::of(Some(&existing()));
        let claimed = Volume { modify_index: existing().modify_index + 1, ..existing() };
        assert_eq!(version.mismatch(Some(&claimed)), None);
        let updated = Volume { spec_index: existing().spec_index + 1, ..claimed };
        assert!(version.mismatch(Some(&updated)).is_some());
    }
}
