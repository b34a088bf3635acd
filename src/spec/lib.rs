//! Owns the text of specifications and job files: parsing, decoding, validation, and the way back. Three syntaxes, one tree
//! with positions, strict rules.
//!
//! A CSI volume file of which Nomad uses every key means the same here. What Nomad would silently
//! drop is an error with its position. All problems of all files are reported together: [`parse()`]
//! and [`validate()`] only add to [`nomad_csi_model::diagnostic::Diagnostics`], and the caller checks them
//! before it acts.
//!
//! `client::files` finds and reads the files. `plan` decides what to do about the volumes.

mod acl_policy;
mod annotated;
mod decode;
mod defaults;
mod encode;
#[cfg_attr(not(test), expect(dead_code, reason = "the language of specifications will use it"))]
mod expression;
mod hcl;
mod hcl1;
mod interpolation;
pub mod job;
mod job_text;
mod json;
mod mask;
mod mask_comments;
mod mask_text;
mod parse;
mod parse_error;
mod plugin_template;
pub mod schema;
mod syntax;
mod template;
mod terraform;
#[cfg(test)]
mod tests;
mod tree;
mod validate;
mod value_reader;
mod volume_spec;
mod yaml;

pub use acl_policy::{AclLevel, AclPolicy, NamespaceRules, acl_policy};
pub use defaults::Defaults;
pub use encode::{WritableSpec, encode, encode_all, encode_file};
pub use expression::{FUNCTIONS, Function};
pub(crate) use hcl::{malformed_reference, unevaluated};
pub(crate) use interpolation::{TextProblem, runtime_text};
pub(crate) use job_text::{JobText, read_job_text};
pub use parse::{Parsed, parse, parse_text};
pub use plugin_template::plugin_template;
pub use syntax::Syntax;
pub use template::template;
pub use terraform::{TerraformVolumes, read_terraform_state, removed_blocks};
pub(crate) use tree::{Entry, Node, Object, Scalar, ScalarKind, Value};
pub use validate::{second_registrations, single_set, validate};
pub use volume_spec::{MAX_VOLUMES, Purpose, VolumeSpec, is_part_of, too_many_volumes};
