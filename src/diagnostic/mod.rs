//! One way to tell a person that something is wrong.
//!
//! A [`Diagnostic`] says what happened to which object, why, and what to do. It knows no terminal:
//! `cli::ui` renders it for people, and as JSON for machines; the agent sends it in an error body.
//! Every diagnostic carries a [`Code`], a word that never changes its meaning, so that scripts
//! match on the code and never on a sentence.

mod code;
mod report;
mod source;
mod suggest;

pub use code::Code;
pub use report::{Diagnostic, Diagnostics, Label, Replacement, Severity};
pub use source::{Location, SourceId, SourceMap, Span};
pub use suggest::nearest;
