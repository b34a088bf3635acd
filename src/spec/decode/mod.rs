//! Decodes a tree to [`super::VolumeSpec`]s.
//!
//! Fields mean what they mean to Nomad: top-level keys ignore case, keys in blocks do not, repeated
//! maps are merged, and repeated capabilities are kept. What Nomad would silently drop is an error
//! with its position. All problems of a tree are reported together. Messages quote keys and modes,
//! never a value that could be a secret.

mod blocks;
mod document;
mod reader;
mod secrets;
mod set_and_ignore;
mod terraform_key;
mod topology;
mod unknown;
mod volume;

pub(super) use document::{BlockKind, NamedBlock, decode, decode_volume};
pub(super) use reader::{Document, Reader, ScalarConversion};
