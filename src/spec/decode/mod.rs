//! A tree to [`super::VolumeSpec`]s.
//!
//! Keys mean what Nomad takes them for (`nomad-http-api` 5.3 to 5.6): at the top level in any case,
//! in blocks exactly as spelled; repeated maps are merged, repeated capabilities kept. What Nomad
//! would silently drop is an error with its place, and every topology shape of 5.6 is kept whole.
//! Everything wrong with a tree is told at once; nothing here stops at the first. Messages quote keys
//! and modes, never a value that could be a secret.

mod blocks;
mod document;
mod ours;
mod reader;
mod secrets;
mod topology;
mod unknown;
mod volume;

pub(super) use document::decode;
pub(super) use reader::Document;
