//! Errors and warnings for users.
//!
//! A [`Diagnostic`] describes what happened to which object, why, and what to do. It does not depend
//! on a terminal: `cli::ui` prints it as text or JSON, and the agent sends it in an error body.
//! Every diagnostic has a [`Code`] whose meaning never changes, so scripts match codes, not texts.

mod code;
mod lines;
mod list;
mod report;
mod source;
mod suggest;

pub use code::Code;
pub use list::{Diagnostics, DiagnosticsLength, MAX_DIAGNOSTICS};
pub use report::{Diagnostic, Label, Replacement, Severity, TrailStep};
pub use source::{Location, SourceId, SourceMap, Span};
pub use suggest::closest_match;
