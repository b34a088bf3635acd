//! Whole texts through the reader: what they mean, and what is said of them.

mod decoding;
pub(crate) mod harness;
mod limits;
mod properties;
mod reading;
mod references;
mod secrets;
