//! `jsonencode`: compact JSON with keys in order.

use std::fmt::Write as _;

use super::call::Failure;
use crate::expression::budget::Budget;
use crate::expression::value::{Kind, Value};

pub(super) fn jsonencode(args: &[Value], budget: &mut Budget) -> Result<Value, Failure> {
    let mut out = String::new();
    write(args.first().unwrap_or(&Value::NULL), &mut out, budget)?;
    Ok(Value::text(out))
}

/// Returns a value as JSON; `None` if it has a secret or an unknown value, or is too large.
pub(crate) fn json_text(value: &Value, budget: &mut Budget) -> Option<String> {
    let mut out = String::new();
    write(value, &mut out, budget).ok().map(|()| out)
}

/// Writes a value. No value has more than 64 levels, and each part takes its steps and bytes before
/// it is written, because parts may be shared.
fn write(value: &Value, out: &mut String, budget: &mut Budget) -> Result<(), Failure> {
    budget.take_steps(1)?;
    match &value.kind {
        Kind::Null => push("null", out, budget),
        Kind::Bool(true) => push("true", out, budget),
        Kind::Bool(false) => push("false", out, budget),
        Kind::Integer(number) => push(&number.to_string(), out, budget),
        Kind::Float(number) => push(&number.to_string(), out, budget),
        Kind::Text(text) => write_text(text, out, budget),
        Kind::List(items, _) => {
            push("[", out, budget)?;
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    push(",", out, budget)?;
                }
                write(item, out, budget)?;
            }
            push("]", out, budget)
        }
        Kind::Map(items, _) => {
            push("{", out, budget)?;
            for (index, (key, item)) in items.iter().enumerate() {
                if index > 0 {
                    push(",", out, budget)?;
                }
                write_text(key, out, budget)?;
                push(":", out, budget)?;
                write(item, out, budget)?;
            }
            push("}", out, budget)
        }
        Kind::Secret(secret) => Err(Failure::Secret(std::rc::Rc::clone(secret))),
        Kind::Unknown => Err(Failure::Unknown),
    }
}

fn push(text: &str, out: &mut String, budget: &mut Budget) -> Result<(), Failure> {
    budget.take_text(text.len())?;
    out.push_str(text);
    Ok(())
}

fn write_text(text: &str, out: &mut String, budget: &mut Budget) -> Result<(), Failure> {
    // An escape is up to six times as long.
    budget.take_text(text.len() + 2)?;
    let before = out.len();
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() && c.is_ascii() => {
                // Writing to a text cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    Ok(budget.take_text(out.len() - before - text.len() - 2)?)
}
