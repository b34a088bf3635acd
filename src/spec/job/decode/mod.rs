//! Decodes a tree to a [`nomad_csi_model::Job`], with the place of every field.
//!
//! Values convert as in Nomad: a number or a boolean where a text is expected is its text, and a
//! text with a number or a boolean is that value. All problems of a file are reported together.
//! Messages quote keys, names and words, never a value that could be a secret.

mod blocks;
mod config;
mod constraint;
mod document;
mod fields;
mod group;
mod launching;
mod task;
mod values;
mod volume;

pub(super) use document::decode;
