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
mod conversion;
mod decode;
mod defaults;
mod encode;
mod encode_values;
mod expression;
mod format;
mod format_difference;
mod format_secrets;
mod hcl;
mod hcl1;
mod hcl_kind;
mod host_volumes;
mod interpolation;
pub mod job;
mod job_text;
mod json;
mod json_schema;
mod known_keys;
mod language;
mod mask;
mod mask_comments;
mod mask_text;
mod origin;
mod other_form;
mod outline;
mod parse;
mod parse_error;
mod part_place;
mod plugin_template;
mod repeated;
pub mod schema;
mod survey;
mod syntax;
mod template;
mod terraform;
#[cfg(test)]
mod tests;
mod tree;
mod unrendered;
mod validate;
mod value_reader;
mod variable_file;
mod volume_spec;
mod words;
mod yaml;

pub use acl_policy::{AclLevel, AclPolicy, NamespaceRules, acl_policy, checked_acl_policy};
pub use conversion::{Converted, convert};
pub use defaults::Defaults;
pub use encode::{WritableSpec, encode, encode_all, encode_file};
pub use encode_values::encode_values;
pub use expression::{FUNCTIONS, Function};
pub use format::{FormatChoice, format_hcl};
pub use format_difference::format_difference;
pub(crate) use hcl::{malformed_reference, unevaluated};
pub use host_volumes::declares_host_volumes;
pub(crate) use interpolation::{TextProblem, runtime_text};
pub(crate) use job_text::{JobText, read_job_text};
pub use json_schema::{SCHEMA_VERSION, specification_schema};
pub use known_keys::{KeyForm, KnownKey, known_keys};
pub use language::{EmptyBlock, GivenVariables, VariableValue};
pub use origin::{Instance, InstanceKey, Layer, Origin};
pub use outline::{NamedSet, Outline, outline};
pub use parse::{Parsed, parse, read};
pub(crate) use part_place::place_of_part;
pub use plugin_template::plugin_template;
pub use survey::{DeclaredName, NameKind, Survey, TextKind, UsedName, survey};
pub use syntax::Syntax;
pub use template::template;
pub use terraform::{TerraformVolumes, read_terraform_state, removed_blocks};
pub(crate) use tree::{Entry, Node, Object, Scalar, ScalarKind, Value};
pub use validate::{second_registrations, single_set, unique_names, validate};
pub use volume_spec::{MAX_VOLUMES, Purpose, VolumeSpec, is_part_of, too_many_volumes};
