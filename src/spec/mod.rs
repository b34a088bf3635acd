//! Text to wanted volumes: three syntaxes, one tree with positions, strict rules.
//!
//! Two guarantees. A CSI volume file of which Nomad uses every key means here what it means there,
//! unchanged; what Nomad would silently drop or lose is an error with its place, or is kept where it
//! is plain what was meant (`nomad-http-api` section 5). And everything wrong in all files is told at
//! once, with nothing sent if there is one error: [`parse()`] and [`validate()`] only add to
//! [`crate::diagnostic::Diagnostics`], and their caller looks there before it acts.
//!
//! Which files are meant and how they are read is `files::specs`; what is done about a wanted volume
//! is `plan`.

mod acl_policy;
mod decode;
mod encode;
mod hcl;
mod hcl1;
mod json;
mod mask;
mod parse;
mod problem;
pub mod schema;
mod syntax;
mod template;
mod terraform;
#[cfg(test)]
mod tests;
mod tree;
mod validate;
mod volume_spec;
mod yaml;

pub use acl_policy::{AclLevel, AclPolicy, NamespaceRules, acl_policy};
pub use encode::{Written, encode, encode_all, encode_file};
pub use parse::{Defaults, Parsed, parse, parse_text};
pub use syntax::Syntax;
pub use template::template;
pub use terraform::{TerraformVolumes, read_terraform_state, removed_blocks};
pub use validate::{one_set, validate};
pub use volume_spec::{Purpose, VolumeSpec, is_part_of};
