//! What a plan relied on, to be asked again right before acting.
//!
//! Nomad's API has no check-and-set for volumes (`users`, finding 5), so a plan that was right when
//! it was shown may not be when it is carried out. A [`Pin`] narrows that to the time between one
//! read and the write that follows it.

use crate::model::Volume;

/// What was there when the plan was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// No volume of that name.
    Absent,
    /// The volume, last changed at this index.
    At(u64),
}

impl Pin {
    /// The pin of what was read.
    pub fn of(volume: Option<&Volume>) -> Self {
        volume.map_or(Self::Absent, |volume| Self::At(volume.modify_index))
    }

    /// Why what is there now is not what the plan was made for; `None` if it is.
    pub fn broken_by(self, now: Option<&Volume>) -> Option<String> {
        match (self, now) {
            (Self::Absent, None) => None,
            (Self::Absent, Some(_)) => Some("it did not exist, and now it does".to_owned()),
            (Self::At(_), None) => Some("it existed, and now it does not".to_owned()),
            (Self::At(then), Some(now)) if then == now.modify_index => None,
            (Self::At(then), Some(now)) => Some(format!(
                "it was at index {then}, and now it is at {}",
                now.modify_index
            )),
        }
    }
}
