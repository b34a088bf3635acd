//! The controllers of control groups that limit tasks.

use std::collections::BTreeSet;

/// A controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Controller {
    Cpu,
    Memory,
    Pids,
}

impl Controller {
    pub(super) const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Pids];

    /// Returns the name in the files of the kernel.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pids => "pids",
        }
    }

    /// Returns what of a task it limits, for messages.
    pub(super) const fn limited(self) -> &'static str {
        match self {
            Self::Cpu => "`cpu` and `cores`",
            Self::Memory => "`memory` and `memory_max`",
            Self::Pids => "the number of processes",
        }
    }

    /// Returns those that a list of the kernel names. It may name others.
    pub(super) fn in_list(text: &str) -> BTreeSet<Self> {
        let names: BTreeSet<_> = text.split_ascii_whitespace().collect();
        let all = Self::ALL.into_iter();
        all.filter(|it| names.contains(it.as_str())).collect()
    }
}
