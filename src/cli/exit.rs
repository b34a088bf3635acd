//! The exit code of a run.

/// The result of a run. Variants are ordered by severity: the last of several results applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Success, or nothing to do.
    Done,
    /// `plan` found pending changes or a volume without data, `drift` found drift, `job run` found no place for an allocation, or
    /// `plugin impact` found something that would be lost.
    ChangesPending,
    /// Approval is required and was not given.
    ApprovalNeeded,
    /// A server or plugin would refuse a change, a change must wait, or a plan is stale.
    Blocked,
    /// An error, including wrong usage.
    Error,
    /// An interrupt stopped the run.
    Interrupted,
}

impl Exit {
    /// Returns the exit code of the process.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Error => 1,
            Self::ChangesPending => 2,
            Self::Blocked => 3,
            Self::ApprovalNeeded => 4,
            Self::Interrupted => 130,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severity_orders_the_exit_codes_130_1_3_4_2_0() {
        let mut all = [
            Exit::Done,
            Exit::ChangesPending,
            Exit::ApprovalNeeded,
            Exit::Blocked,
            Exit::Error,
            Exit::Interrupted,
        ];
        all.sort();
        all.reverse();
        assert_eq!(all.map(Exit::code), [130, 1, 3, 4, 2, 0]);
    }
}
