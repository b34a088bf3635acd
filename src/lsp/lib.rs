//! Owns the language server: what an editor learns of specifications while they are written.
//!
//! An answer is a pure function of a [`Workspace`]: the texts of the editor over those of the disk. `server` is the loop, and
//! `disk` reads files; nothing else does I/O. A program of `exec` never runs, Vault is never read, and no connection is
//! opened. A variable without a value is no problem here: what depends on it is not evaluated.

mod actions;
mod analysis;
#[cfg(test)]
mod answer_tests;
mod completion;
mod cursor;
mod cursor_flow;
mod cursor_hcl;
mod cursor_yaml;
mod definition;
mod disk;
mod edits;
mod find_cursor;
mod formatting;
mod frames;
mod hover;
mod positions;
mod protocol;
mod published;
mod server;
#[cfg(test)]
mod server_tests;
mod uri;
mod workspace;

pub use analysis::{Analysis, analyse};
pub use edits::TextChange;
pub use positions::{Encoding, Position, Range};
pub use published::{PublishedDiagnostic, published};
pub use server::{LspExit, ServerOptions, serve};
pub use workspace::{DiskText, Workspace};
