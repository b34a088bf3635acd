//! Operators: arithmetic is checked, and the mark of either side is the mark of the result.
//!
//! `<` and arithmetic take numbers only. `==` compares any two values. `&&` and `||` take booleans;
//! [`super::evaluate`] evaluates their right side only if needed.

use super::budget::Budget;
use super::tree::Operator;
use super::value::{Kind, NotComparable, TWO_TO_63, Value, is_equal};

/// Why an operator has no result.
pub(super) enum OperatorProblem {
    /// It does not take values of these types.
    NotApplicable,
    DivisionByZero,
    TooLarge,
    NotComparable(NotComparable),
}

/// Applies an operator to both of its sides.
pub(super) fn apply(
    operator: Operator,
    left: &Value,
    right: &Value,
    budget: &mut Budget,
) -> Result<Value, OperatorProblem> {
    let is_sensitive = left.holds_sensitive() || right.holds_sensitive();
    let kind = match operator {
        Operator::Equal | Operator::NotEqual => {
            let equal = is_equal(left, right, budget).map_err(OperatorProblem::NotComparable)?;
            Kind::Bool(equal == (operator == Operator::Equal))
        }
        Operator::And | Operator::Or => match (&left.kind, &right.kind) {
            (Kind::Bool(a), Kind::Bool(b)) => {
                Kind::Bool(if operator == Operator::And { *a && *b } else { *a || *b })
            }
            (_, _) => return Err(OperatorProblem::NotApplicable),
        },
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => {
            compare(operator, &left.kind, &right.kind)?
        }
        Operator::Add
        | Operator::Subtract
        | Operator::Multiply
        | Operator::Divide
        | Operator::Remainder => calculate(operator, &left.kind, &right.kind)?,
    };
    Ok(Value { kind, is_sensitive })
}

/// Returns the order of two numbers.
pub(super) fn order(left: &Kind, right: &Kind) -> Option<std::cmp::Ordering> {
    match (left, right) {
        (Kind::Integer(a), Kind::Integer(b)) => Some(a.cmp(b)),
        (Kind::Integer(_), Kind::Float(float)) if float.abs() >= TWO_TO_63 => {
            0.0.partial_cmp(float)
        }
        (Kind::Float(float), Kind::Integer(_)) if float.abs() >= TWO_TO_63 => {
            float.partial_cmp(&0.0)
        }
        // Another float has a fraction and is below 2^53, so rounding an integer does not change the
        // order.
        (left, right) => left.as_float()?.partial_cmp(&right.as_float()?),
    }
}

fn compare(operator: Operator, left: &Kind, right: &Kind) -> Result<Kind, OperatorProblem> {
    let order = order(left, right).ok_or(OperatorProblem::NotApplicable)?;
    Ok(Kind::Bool(match operator {
        Operator::Less => order.is_lt(),
        Operator::LessOrEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        Operator::GreaterOrEqual => order.is_ge(),
        Operator::Equal
        | Operator::NotEqual
        | Operator::Add
        | Operator::Subtract
        | Operator::Multiply
        | Operator::Divide
        | Operator::Remainder
        | Operator::And
        | Operator::Or => return Err(OperatorProblem::NotApplicable),
    }))
}

fn calculate(operator: Operator, left: &Kind, right: &Kind) -> Result<Kind, OperatorProblem> {
    let (Some(x), Some(y)) = (left.as_float(), right.as_float()) else {
        return Err(OperatorProblem::NotApplicable);
    };
    if matches!(operator, Operator::Divide | Operator::Remainder) && y == 0.0 {
        return Err(OperatorProblem::DivisionByZero);
    }
    if let (Kind::Integer(a), Kind::Integer(b)) = (left, right) {
        let whole = match operator {
            Operator::Add => a.checked_add(*b),
            Operator::Subtract => a.checked_sub(*b),
            Operator::Multiply => a.checked_mul(*b),
            // `checked_rem` refuses the one whose quotient is too large; its remainder is 0.
            Operator::Remainder => Some(a.wrapping_rem(*b)),
            Operator::Divide => match a.checked_rem(*b) {
                Some(0) => a.checked_div(*b),
                Some(_) => return Kind::number(x / y).ok_or(OperatorProblem::TooLarge),
                None => None,
            },
            Operator::Equal
            | Operator::NotEqual
            | Operator::Less
            | Operator::LessOrEqual
            | Operator::Greater
            | Operator::GreaterOrEqual
            | Operator::And
            | Operator::Or => return Err(OperatorProblem::NotApplicable),
        };
        return whole.map(Kind::Integer).ok_or(OperatorProblem::TooLarge);
    }
    let result = match operator {
        Operator::Add => x + y,
        Operator::Subtract => x - y,
        Operator::Multiply => x * y,
        Operator::Divide => x / y,
        Operator::Remainder => x % y,
        Operator::Equal
        | Operator::NotEqual
        | Operator::Less
        | Operator::LessOrEqual
        | Operator::Greater
        | Operator::GreaterOrEqual
        | Operator::And
        | Operator::Or => return Err(OperatorProblem::NotApplicable),
    };
    Kind::number(result).ok_or(OperatorProblem::TooLarge)
}

/// Returns the negative of a number.
pub(super) fn negate(value: &Value) -> Result<Value, OperatorProblem> {
    let kind = match &value.kind {
        Kind::Integer(number) => {
            Kind::Integer(number.checked_neg().ok_or(OperatorProblem::TooLarge)?)
        }
        Kind::Float(number) => Kind::number(-number).ok_or(OperatorProblem::TooLarge)?,
        Kind::Null
        | Kind::Bool(_)
        | Kind::Text(_)
        | Kind::List(..)
        | Kind::Map(..)
        | Kind::Secret(_)
        | Kind::Unknown => return Err(OperatorProblem::NotApplicable),
    };
    Ok(Value { kind, is_sensitive: value.is_sensitive })
}
