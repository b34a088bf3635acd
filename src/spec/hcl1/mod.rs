//! Reads HCL1, the language of Nomad's own reader, as Nomad reads it.
//!
//! HCL1 is not a subset of HCL2: several items may share a line, keys may be quoted or dotted,
//! `${…}` is literal text, and `010` is eight. A file is read by HCL1's grammar first. Where HCL1
//! has no value, such as an operator or a call, the caller reads an HCL2 expression. A file without
//! such expressions has Nomad's meaning throughout. Every key is kept, and `decode` refuses what
//! Nomad would drop.

mod expression_end;
mod format;
mod parse;
mod text;
mod token;

pub(super) use expression_end::{expression_end, is_open_heredoc, skipped_end};
#[cfg(test)]
pub(super) use format::{TokenKind, tokens};
pub(super) use format::{format, places};
pub(super) use parse::{Expression, HclVersion, ParsedHcl, parse};
pub(super) use text::unquote;
pub(super) use token::evaluate;
