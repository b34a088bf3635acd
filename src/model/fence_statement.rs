//! Why nothing can write any more on a node that is fenced.

use std::fmt;

use super::display::shell_quoted;
use super::id::NodeId;

/// What an operator says of a node that is fenced. The server cannot know it: a node that is silent may still write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceStatement {
    /// The machine is off. The plugins there have ended with it.
    PoweredOff,
    /// The machine may run, and reaches none of the storage.
    CutOffStorage {
        /// True if the controllers there have stopped as well: one that only lost its storage still changes volumes at its
        /// provider.
        controllers_stopped: bool,
    },
}

impl FenceStatement {
    /// The word for a machine that is off.
    pub const POWERED_OFF: &'static str = "powered-off";
    /// The word for a machine that reaches no storage.
    pub const CUT_OFF_STORAGE: &'static str = "cut-off-storage";

    /// Returns the statement of a word. What it says of controllers is another word.
    pub fn parse(word: &str, controllers_stopped: bool) -> Option<Self> {
        match word {
            Self::POWERED_OFF => Some(Self::PoweredOff),
            Self::CUT_OFF_STORAGE => Some(Self::CutOffStorage { controllers_stopped }),
            _ => None,
        }
    }

    /// Returns the command that declares a node powered off, for advice.
    pub fn command(node: &NodeId) -> String {
        format!("nomad-csi node fence {} --powered-off", shell_quoted(node.as_str()))
    }

    /// Returns the word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::PoweredOff => Self::POWERED_OFF,
            Self::CutOffStorage { .. } => Self::CUT_OFF_STORAGE,
        }
    }
}

impl fmt::Display for FenceStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PoweredOff => "it is powered off",
            Self::CutOffStorage { controllers_stopped: false } => "it is cut off from its storage",
            Self::CutOffStorage { controllers_stopped: true } => {
                "it is cut off from its storage, and its controllers have stopped"
            }
        })
    }
}
