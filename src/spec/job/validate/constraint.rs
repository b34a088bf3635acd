//! The rules of constraints.

use super::rules::Rules;
use crate::job::place::JobPlace;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{Constraint, ConstraintOperator};

impl Rules<'_> {
    pub(super) fn constraints(&mut self, constraints: &[Constraint], place: &JobPlace) {
        for (at, constraint) in constraints.iter().enumerate() {
            let place = place.block("constraint", &at.to_string());
            if constraint.operator == ConstraintOperator::Regexp {
                self.patterns += 1;
                if self.patterns > MOST_PATTERNS {
                    let text = format!("A job has at most {MOST_PATTERNS} regular expressions");
                    self.error(Code::JobConstraint, place.clone(), text, "");
                    return;
                }
            }
            for text in problems(constraint) {
                let text = format!("Constraint {} validation failed: {text}", at + 1);
                self.error(Code::JobConstraint, place.clone(), text, "");
            }
        }
    }
}

/// How many regular expressions a job may have. Compiling one takes up to milliseconds, and a stranger may ask for it.
pub(super) const MOST_PATTERNS: usize = 100;

fn problems(constraint: &Constraint) -> Vec<String> {
    let Constraint { attribute, operator, value } = constraint;
    let mut found = vec![];
    if attribute.is_empty() && operator.needs_attribute() {
        found.push("no attribute provided but is required by operator".to_owned());
    }
    match operator {
        ConstraintOperator::IsSet | ConstraintOperator::IsNotSet => {
            if !value.is_empty() {
                found.push(format!("Operator {:?} does not support an RTarget", operator.as_str()));
            }
        }
        ConstraintOperator::DistinctHosts => {}
        ConstraintOperator::DistinctProperty => {
            if !value.is_empty() && !value.parse::<u64>().is_ok_and(|count| count > 0) {
                found.push(format!(
                    "distinct_property requires a count of 1 or more, got {value:?}"
                ));
            }
        }
        _ if value.is_empty() => {
            found.push(format!("Operator {:?} requires an RTarget", operator.as_str()));
        }
        ConstraintOperator::Regexp => {
            if !is_pattern(value) {
                found.push("Regular expression failed to compile".to_owned());
            }
        }
        ConstraintOperator::Version | ConstraintOperator::Semver => {
            let malformed = value.split(',').find(|one| !is_version_constraint(one));
            found.extend(malformed.map(|one| {
                format!("Version constraint is invalid: malformed constraint: {}", one.trim())
            }));
        }
        ConstraintOperator::Equal
        | ConstraintOperator::NotEqual
        | ConstraintOperator::Greater
        | ConstraintOperator::GreaterOrEqual
        | ConstraintOperator::Less
        | ConstraintOperator::LessOrEqual
        | ConstraintOperator::SetContains
        | ConstraintOperator::SetContainsAll
        | ConstraintOperator::SetContainsAny => {}
    }
    found
}

/// The largest size of a compiled regular expression, in bytes.
const PATTERN_SIZE: usize = 1 << 18;

/// Returns whether a text is a regular expression, of a size that a node can use.
fn is_pattern(text: &str) -> bool {
    let pattern = regex::RegexBuilder::new(text).size_limit(PATTERN_SIZE).build();
    pattern.is_ok()
}

/// Returns whether a text is an operator, or none, and a version.
fn is_version_constraint(text: &str) -> bool {
    let text = text.trim();
    let version = text.trim_start_matches(['=', '!', '<', '>', '~']);
    let operator = &text[..text.len() - version.len()];
    let version = version.trim().trim_start_matches('v');
    let (numbers, rest) = match version.find(['-', '+', '~']) {
        Some(at) => version.split_at(at),
        None => (version, ""),
    };
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-+~.".contains(c);
    matches!(operator, "" | "=" | "!=" | ">" | ">=" | "<" | "<=" | "~>")
        && numbers.split('.').all(is_number)
        && rest.chars().all(allowed)
}
