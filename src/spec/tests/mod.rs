//! Reads whole texts: their meaning and their diagnostics.

mod decoding;
pub(crate) mod harness;
mod language;
mod limits;
mod properties;
mod reading;
mod references;
mod secrets;
