//! Functions of texts. Texts are cut by characters, never by bytes.

use std::rc::Rc;

use regex::RegexBuilder;

use super::call::{Failure, list, text, whole};
use crate::expression::budget::{Budget, CompiledPattern};
use crate::expression::value::{Kind, Value};

/// Limit of the bytes of a pattern.
const MAX_PATTERN: usize = 1 << 10;
/// Limit of the bytes of a compiled pattern.
const MAX_COMPILED: usize = 1 << 20;
/// The bytes with which compiling a pattern is tried first.
const LEAST_COMPILED: usize = 16 << 10;
/// The bytes of a compiled pattern that cost one step for each byte that is searched.
const COMPILED_BYTES_PER_STEP: usize = 4 << 10;
/// Limit of the width of a verb of `format`.
const MAX_WIDTH: usize = 1_000;

type Result = std::result::Result<Value, Failure>;

/// Takes the bytes of a result and returns it.
fn made(text: String, budget: &mut Budget) -> Result {
    budget.take_text(text.len())?;
    Ok(Value::text(text))
}

pub(super) fn lower(args: &[Value], budget: &mut Budget) -> Result {
    budget.read_text(text(args, 0).len())?;
    made(text(args, 0).to_lowercase(), budget)
}

pub(super) fn upper(args: &[Value], budget: &mut Budget) -> Result {
    budget.read_text(text(args, 0).len())?;
    made(text(args, 0).to_uppercase(), budget)
}

pub(super) fn join(args: &[Value], budget: &mut Budget) -> Result {
    let separator = text(args, 0);
    let mut joined = String::new();
    for (index, item) in list(args, 1).iter().enumerate() {
        let part = match &item.kind {
            Kind::Text(_) | Kind::Integer(_) | Kind::Float(_) => item.to_text(),
            Kind::Secret(secret) => return Err(Failure::Secret(Rc::clone(secret))),
            Kind::Unknown => return Err(Failure::Unknown),
            Kind::Null | Kind::Bool(_) | Kind::List(..) | Kind::Map(..) => None,
        };
        let part = part.ok_or_else(|| Failure::item(1, item, "a text or a number"))?;
        let separator = if index > 0 { separator } else { "" };
        budget.take_steps(1)?;
        budget.take_text(separator.len() + part.len())?;
        joined.push_str(separator);
        joined.push_str(&part);
    }
    Ok(Value::text(joined))
}

pub(super) fn split(args: &[Value], budget: &mut Budget) -> Result {
    let (separator, whole) = (text(args, 0), text(args, 1));
    if separator.is_empty() {
        return Err(Failure::argument(0, "the separator is empty"));
    }
    budget.take_text(whole.len())?;
    let mut parts = vec![];
    for part in whole.split(separator) {
        budget.take_values(1)?;
        parts.push(Value::text(part));
    }
    Ok(Value::list(parts)?)
}

pub(super) fn replace(args: &[Value], budget: &mut Budget) -> Result {
    let (whole, pattern, with) = (text(args, 0), text(args, 1), text(args, 2));
    if pattern.is_empty() {
        return Err(Failure::argument(1, "the text to replace is empty"));
    }
    budget.read_text(whole.len())?;
    let count = whole.matches(pattern).count();
    let kept = whole.len() - count * pattern.len();
    // The result is counted before it is made.
    budget.take_text(kept.saturating_add(count.saturating_mul(with.len())))?;
    Ok(Value::text(whole.replace(pattern, with)))
}

pub(super) fn substr(args: &[Value], budget: &mut Budget) -> Result {
    let whole_text = text(args, 0);
    let (start, length) = (whole(args, 1)?, whole(args, 2)?);
    let Ok(start) = usize::try_from(start) else {
        let reason = format!("the start {start} is negative");
        return Err(Failure::Argument { index: 1, reason, hidden: "the start is negative" });
    };
    let length = match usize::try_from(length) {
        Ok(length) => length,
        Err(_) if length == -1 => usize::MAX,
        Err(_) => return Err(Failure::argument(2, "the length is negative, and is not -1")),
    };
    budget.read_text(whole_text.len())?;
    made(whole_text.chars().skip(start).take(length).collect(), budget)
}

pub(super) fn matches(args: &[Value], budget: &mut Budget) -> Result {
    let (pattern, subject) = (text(args, 0), text(args, 1));
    if pattern.len() > MAX_PATTERN {
        return Err(Failure::argument(0, "the pattern is longer than 1 KiB"));
    }
    let compiled = compiled(pattern, budget)?;
    let steps_per_byte = compiled.bytes / COMPILED_BYTES_PER_STEP;
    budget.take_steps((1 + subject.len()).saturating_mul(steps_per_byte))?;
    Ok(Value::boolean(compiled.regex.is_match(subject)))
}

/// Compiles a pattern, or returns it compiled. The limit of its bytes grows as long as it is too
/// small, and each attempt takes its steps before, because the time is known only by compiling.
fn compiled(
    pattern: &str,
    budget: &mut Budget,
) -> std::result::Result<Rc<CompiledPattern>, Failure> {
    budget.read_text(pattern.len())?;
    if let Some(compiled) = budget.compiled(pattern) {
        return Ok(compiled);
    }
    let mut bytes = LEAST_COMPILED;
    loop {
        budget.take_steps(64 * pattern.len() + bytes / 4)?;
        let mut regex = RegexBuilder::new(pattern);
        regex.size_limit(bytes).dfa_size_limit(MAX_COMPILED);
        match regex.build() {
            Ok(regex) => {
                let compiled = CompiledPattern { pattern: pattern.into(), regex, bytes };
                let compiled = Rc::new(compiled);
                budget.keep_compiled(Rc::clone(&compiled));
                return Ok(compiled);
            }
            Err(regex::Error::CompiledTooBig(_)) if bytes < MAX_COMPILED => bytes *= 4,
            Err(regex::Error::CompiledTooBig(_)) => {
                return Err(Failure::argument(0, "the compiled pattern is larger than 1 MiB"));
            }
            Err(_) => {
                let reason = "the pattern is not a valid regular expression";
                return Err(Failure::argument(0, reason));
            }
        }
    }
}

/// A verb of `format`: `%05d`.
struct Verb {
    pads_with_zero: bool,
    width: usize,
    kind: VerbKind,
}

#[derive(Clone, Copy)]
enum VerbKind {
    Text,
    Whole,
    Fraction,
    Quoted,
}

impl VerbKind {
    const ALL: [Self; 4] = [Self::Text, Self::Whole, Self::Fraction, Self::Quoted];

    const fn letter(self) -> char {
        match self {
            Self::Text => 's',
            Self::Whole => 'd',
            Self::Fraction => 'f',
            Self::Quoted => 'q',
        }
    }

    const fn expected(self) -> &'static str {
        match self {
            Self::Text => "a text, a number or a boolean",
            Self::Whole => "a whole number",
            Self::Fraction => "a number",
            Self::Quoted => "a text",
        }
    }

    const fn is_number(self) -> bool {
        match self {
            Self::Whole | Self::Fraction => true,
            Self::Text | Self::Quoted => false,
        }
    }
}

pub(super) fn format(args: &[Value], budget: &mut Budget) -> Result {
    let template = text(args, 0);
    budget.read_text(template.len())?;
    let mut out = String::new();
    let mut rest = template;
    let mut next = 1;
    while let Some(at) = rest.find('%') {
        append(&rest[..at], &mut out, budget)?;
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            append("%", &mut out, budget)?;
            rest = after;
            continue;
        }
        let (verb, after) = verb(rest)?;
        rest = after;
        let Some(value) = args.get(next) else {
            return Err(Failure::argument(0, "it has more verbs than values follow"));
        };
        let text = formatted(verb.kind, value, next)?;
        let missing = verb.width.saturating_sub(text.chars().count());
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) if verb.pads_with_zero => ("-", digits),
            Some(_) | None => ("", &*text),
        };
        append(sign, &mut out, budget)?;
        append(&(if verb.pads_with_zero { "0" } else { " " }).repeat(missing), &mut out, budget)?;
        append(digits, &mut out, budget)?;
        next += 1;
    }
    append(rest, &mut out, budget)?;
    if next < args.len() {
        return Err(Failure::argument(next, "it has no verb in the first argument"));
    }
    Ok(Value::text(out))
}

fn append(text: &str, out: &mut String, budget: &mut Budget) -> std::result::Result<(), Failure> {
    budget.take_text(text.len())?;
    out.push_str(text);
    Ok(())
}

/// Reads a verb after its `%`.
fn verb(text: &str) -> std::result::Result<(Verb, &str), Failure> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let width: usize = match &text[..digits] {
        "" => 0,
        written => written
            .parse()
            .ok()
            .filter(|width| *width <= MAX_WIDTH)
            .ok_or_else(|| Failure::argument(0, "the width of a verb is more than 1,000"))?,
    };
    let mut after = text[digits..].chars();
    let letter = after.next();
    let kind = VerbKind::ALL.into_iter().find(|kind| Some(kind.letter()) == letter);
    let kind = kind.ok_or_else(|| Failure::argument(0, "`%` starts none of `%s %d %f %q %%`"))?;
    let pads_with_zero = text.starts_with('0') && kind.is_number();
    Ok((Verb { pads_with_zero, width, kind }, after.as_str()))
}

fn formatted(verb: VerbKind, value: &Value, index: usize) -> std::result::Result<String, Failure> {
    let text = match (verb, &value.kind) {
        (VerbKind::Text, _) => value.to_text().map(|text| text.to_string()),
        (VerbKind::Whole, Kind::Integer(number)) => Some(number.to_string()),
        (VerbKind::Whole, Kind::Float(number)) => {
            let reason = format!("`%d` takes a whole number, not {number}");
            let hidden = "`%d` takes a whole number";
            return Err(Failure::Argument { index, reason, hidden });
        }
        (VerbKind::Fraction, kind) => kind.as_float().map(|number| format!("{number:.6}")),
        (VerbKind::Quoted, Kind::Text(text)) => {
            let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            Some(format!("\"{escaped}\""))
        }
        (VerbKind::Whole | VerbKind::Quoted, _) => None,
    };
    text.ok_or_else(|| {
        let (letter, kind) = (verb.letter(), value.kind_name());
        let reason = format!("`%{letter}` takes {}, not {kind}", verb.expected());
        Failure::Argument { index, reason, hidden: "the verb does not take a value of its type" }
    })
}

pub(super) fn tostring(args: &[Value], budget: &mut Budget) -> Result {
    let value = args.first().unwrap_or(&Value::NULL);
    match value.to_text() {
        Some(text) => {
            budget.take_text(text.len())?;
            Ok(Value::text(text))
        }
        None => {
            let reason = format!("{} has no text", value.kind_name());
            Err(Failure::Argument { index: 0, reason, hidden: "the value has no text" })
        }
    }
}
