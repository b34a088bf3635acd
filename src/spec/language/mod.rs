//! The language of specifications: blocks that declare volumes together with variables, local values, classes and defaults.
//!
//! A document is one of the language if it has a `volume`, `defaults`, `class`, `variable` or `locals` block. Declarations
//! of all documents of a run are known everywhere, except `defaults`, which belong to their own file. Nothing depends on
//! the order of files, blocks and keys. Every problem of every block is reported; an invalid block yields no volume.

mod declarations;
mod expand;
mod instances;
mod layers;
mod literal_texts;
mod locals;
mod names_check;
mod number_texts;
mod run;
mod templates;
mod type_constraint;
mod value_sources;
mod values;
mod variable_values;
mod variables;
mod walk;

pub(super) use declarations::{declared_variables, is_of_language, needs_expansion};
pub use expand::EmptyBlock;
pub(super) use literal_texts::warn_of_literals;
pub(super) use run::Run;
pub(super) use templates::read_templates;
pub use variable_values::VariableValue;
pub use variables::GivenVariables;
pub(super) use variables::VariableFile;
