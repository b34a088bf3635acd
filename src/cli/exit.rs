//! How a run ends, as pipelines see it.

/// How a run ends. Of several, the worst counts: the last in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Done, or nothing to do.
    Done,
    /// `plan`: something would change.
    Changes,
    /// Somebody has to agree, and did not or could not be asked.
    ApprovalNeeded,
    /// The server or the plugin would refuse, something has to end first, or a plan is stale.
    Blocked,
    /// It failed; wrong usage too.
    Error,
    /// Somebody interrupted.
    Interrupted,
}

impl Exit {
    /// The process's exit code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Error => 1,
            Self::Changes => 2,
            Self::Blocked => 3,
            Self::ApprovalNeeded => 4,
            Self::Interrupted => 130,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Architecture, decision 8.
    #[test]
    fn the_first_that_applies_of_130_1_3_4_2_0_counts() {
        let mut all = [
            Exit::Done,
            Exit::Changes,
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
