//! HCL1, the language that Nomad's own reader speaks, read as Nomad reads it
//! (`nomad-http-api` 5.1; grammar in `dependencies` 1).
//!
//! HCL1 is not a subset of HCL2: several items may stand on one line, keys may be quoted or dotted,
//! `${…}` is literal text, `010` is eight. So a file is read by HCL1's grammar first, and whatever
//! stands where HCL1 knows no value (an operator, a call, an object with colons) is handed to the
//! caller, who speaks HCL2. A file that needs that nowhere uses nothing of HCL2, and then Nomad's
//! meaning holds throughout. What HCL1 drops silently is none of this module's business: it keeps
//! every key, and `decode` refuses what would be lost.

mod extent;
mod parse;
mod text;
mod token;

pub(super) use parse::{Expression, Meaning, Parsed, parse};
pub(super) use token::evaluate;
