//! The test of a node against a constraint.
//!
//! A node without the attribute fulfils a constraint only if that is what it asks for (`is_not_set`, `!=`).

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::node_attributes::resolve;
use nomad_csi_model::{Constraint, ConstraintOperator, Node};

/// The largest size of a compiled regular expression, in bytes.
const PATTERN_SIZE: usize = 1 << 18;

/// Returns whether the node fulfils the constraint. Those about other allocations are not decided here.
pub(super) fn is_fulfilled(constraint: &Constraint, node: &Node) -> bool {
    let left = resolve(node, &constraint.attribute);
    let right = resolve(node, &constraint.value);
    match constraint.operator {
        ConstraintOperator::DistinctHosts | ConstraintOperator::DistinctProperty => true,
        ConstraintOperator::IsSet => left.is_some(),
        ConstraintOperator::IsNotSet => left.is_none(),
        ConstraintOperator::NotEqual => left != right,
        operator => match (left, right) {
            (Some(left), Some(right)) => compares(operator, &left, &right),
            (None, _) | (_, None) => false,
        },
    }
}

/// Returns the constraint as Nomad's clients show it: `${attr.kernel.name} = linux`.
pub(super) fn text(constraint: &Constraint) -> String {
    let parts =
        [constraint.attribute.as_str(), constraint.operator.as_str(), constraint.value.as_str()];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

fn compares(operator: ConstraintOperator, left: &str, right: &str) -> bool {
    match operator {
        ConstraintOperator::Equal => left == right,
        ConstraintOperator::NotEqual => left != right,
        ConstraintOperator::Greater => order(left, right) == Ordering::Greater,
        ConstraintOperator::GreaterOrEqual => order(left, right) != Ordering::Less,
        ConstraintOperator::Less => order(left, right) == Ordering::Less,
        ConstraintOperator::LessOrEqual => order(left, right) != Ordering::Greater,
        ConstraintOperator::Regexp => matches(left, right),
        ConstraintOperator::Version | ConstraintOperator::Semver => {
            right.split(',').all(|one| is_version_allowed(left, one))
        }
        ConstraintOperator::SetContains | ConstraintOperator::SetContainsAll => {
            let have = set(left);
            set(right).is_subset(&have)
        }
        ConstraintOperator::SetContainsAny => {
            let have = set(left);
            !set(right).is_disjoint(&have)
        }
        ConstraintOperator::IsSet
        | ConstraintOperator::IsNotSet
        | ConstraintOperator::DistinctHosts
        | ConstraintOperator::DistinctProperty => true,
    }
}

/// Numbers are compared by value, other texts by their characters.
fn order(left: &str, right: &str) -> Ordering {
    match (left.parse::<f64>(), right.parse::<f64>()) {
        (Ok(left), Ok(right)) => left.total_cmp(&right),
        _ => left.cmp(right),
    }
}

fn matches(text: &str, pattern: &str) -> bool {
    let pattern = regex::RegexBuilder::new(pattern).size_limit(PATTERN_SIZE).build();
    pattern.is_ok_and(|pattern| pattern.is_match(text))
}

fn set(text: &str) -> BTreeSet<&str> {
    text.split(',').map(str::trim).collect()
}

/// Returns whether a version fulfils one constraint such as `>= 1.2` or `~> 2.0`.
fn is_version_allowed(version: &str, constraint: &str) -> bool {
    let constraint = constraint.trim();
    let desired = constraint.trim_start_matches(['=', '!', '<', '>', '~']);
    let operator = &constraint[..constraint.len() - desired.len()];
    let (Some(found), Some(desired)) = (Version::parse(version), Version::parse(desired)) else {
        return false;
    };
    let order = found.order(&desired);
    match operator {
        "" | "=" => order == Ordering::Equal,
        "!=" => order != Ordering::Equal,
        ">" => order == Ordering::Greater,
        ">=" => order != Ordering::Less,
        "<" => order == Ordering::Less,
        "<=" => order != Ordering::Greater,
        "~>" => order != Ordering::Less && found.has_prefix_of(&desired),
        _ => false,
    }
}

/// A version: numbers, and what follows them.
struct Version<'a> {
    numbers: Vec<u64>,
    /// Such as `-beta.1`; empty for a release.
    prerelease: &'a str,
}

impl<'a> Version<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim().trim_start_matches('v');
        let text = text.split('+').next()?;
        let (numbers, prerelease) = match text.find(['-', '~']) {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        let numbers = numbers.split('.').map(|part| part.parse().ok());
        Some(Self { numbers: numbers.collect::<Option<_>>()?, prerelease })
    }

    /// Missing numbers are zero, and a release is newer than its prereleases.
    fn order(&self, other: &Self) -> Ordering {
        let length = self.numbers.len().max(other.numbers.len());
        let padded = |version: &Self| {
            let mut numbers = version.numbers.clone();
            numbers.resize(length, 0);
            numbers
        };
        let by_numbers = padded(self).cmp(&padded(other));
        by_numbers.then_with(|| match (self.prerelease, other.prerelease) {
            ("", "") => Ordering::Equal,
            ("", _) => Ordering::Greater,
            (_, "") => Ordering::Less,
            (one, other) => one.cmp(other),
        })
    }

    /// Returns whether all numbers but the last one of `desired` are the same: `~> 1.2` allows `1.9`, not `2.0`.
    fn has_prefix_of(&self, desired: &Self) -> bool {
        let fixed = desired.numbers.len().saturating_sub(1);
        let start = desired.numbers.iter().take(fixed);
        let mut own = self.numbers.iter().copied().chain(std::iter::repeat(0));
        start.copied().all(|number| own.next() == Some(number))
    }
}

#[cfg(test)]
mod tests;
