//! Owns the messages of CSI 1.13: the code generated from `proto/csi/v1/csi.proto`, with a `Debug` that hides secrets, and
//! with the places of all texts ([`MessageTexts`]).

mod message_texts;
mod messages;

pub use message_texts::{MessageTexts, TextKind, TextVisitor};
pub use messages::*;
