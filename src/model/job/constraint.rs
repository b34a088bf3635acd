//! A requirement on the node of an allocation.

use serde::{Deserialize, Serialize};

use super::keywords::ConstraintOperator;

/// A constraint: only nodes that fulfil it are chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constraint {
    /// The attribute as written, such as `${attr.kernel.name}`; empty if the operator needs none.
    pub attribute: String,
    /// The comparison.
    pub operator: ConstraintOperator,
    /// The value; empty if the operator needs none.
    pub value: String,
}
