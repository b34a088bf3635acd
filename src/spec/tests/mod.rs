//! Reads whole texts: their meaning and their diagnostics.

mod costs;
mod declarations;
mod decoding;
mod formatting;
pub(crate) mod harness;
mod language;
mod limits;
mod other_forms;
mod properties;
mod reading;
mod reference_places;
mod references;
mod rendering;
mod secrets;
mod silent_mistakes;
mod text_mistakes;
mod trails;
