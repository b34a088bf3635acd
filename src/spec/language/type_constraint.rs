//! The types of variables: `string`, `list(number)`, `map(object({ size = string, class = optional(string, "fast") }))`.
//!
//! A value is never converted between text and number. A key that an object does not declare is an error.

use std::ops::Range;
use std::rc::Rc;

use crate::expression::budget::Budget;
use crate::expression::convert::parse_expression;
use crate::expression::evaluate::{Scope, evaluate};
use crate::expression::names::Names;
use crate::expression::value::{Kind, MapItems, Value};
use nomad_csi_model::diagnostic::closest_match;

/// Limit of the levels of a type.
const MAX_LEVELS: usize = 32;

/// A type.
#[cfg_attr(test, derive(Debug))]
pub(super) enum Type {
    Any,
    String,
    Number,
    Bool,
    List(Box<Self>),
    Map(Box<Self>),
    Object(Vec<Attribute>),
}

/// A key of an object.
#[cfg_attr(test, derive(Debug))]
pub(super) struct Attribute {
    name: Rc<str>,
    kind: Type,
    /// The value of a missing key; `None` if the key is required.
    default: Option<Value>,
}

/// What is wrong with a type, and where in its text.
#[cfg_attr(test, derive(Debug))]
pub(super) struct TypeProblem {
    pub(super) message: String,
    pub(super) label: String,
    pub(super) at: Range<usize>,
}

/// Reads a type.
///
/// # Errors
/// If the text is no type.
pub(super) fn parse_type(text: &str) -> Result<Type, TypeProblem> {
    let mut parser = Parser { text, at: 0 };
    let kind = parser.kind(0)?;
    match parser.next() {
        None => Ok(kind),
        Some(_) => Err(parser.problem("unexpected text after the type", "remove this")),
    }
}

/// Returns a value as its type gives it: with the defaults of missing keys.
///
/// # Errors
/// If the value does not have the type. The message begins with the path of the part: "`shards["eu"]` has no `size`".
pub(super) fn conform(value: Value, kind: &Type, path: &str) -> Result<Value, String> {
    let is_sensitive = value.is_sensitive;
    let refuse = |value: &Value| {
        let expected = kind.noun();
        Err(format!("`{path}` requires {expected}, and its value is {}", value.kind_name()))
    };
    let too_deep = |_| format!("`{path}` has too many levels");
    Ok(match (kind, &value.kind) {
        (Type::Any, _)
        | (Type::String, Kind::Text(_))
        | (Type::Number, Kind::Integer(_) | Kind::Float(_))
        | (Type::Bool, Kind::Bool(_)) => value,
        (Type::List(inner), Kind::List(items, _)) => {
            let items = items.iter().enumerate();
            let items =
                items.map(|(at, item)| conform(item.clone(), inner, &format!("{path}[{at}]")));
            Value::list(items.collect::<Result<Vec<_>, _>>()?)
                .map_err(too_deep)?
                .marked(is_sensitive)
        }
        (Type::Map(inner), Kind::Map(items, _)) => {
            let mut conforming = MapItems::new();
            for (key, item) in items.iter() {
                let item = conform(item.clone(), inner, &format!("{path}[{key:?}]"))?;
                conforming.insert(Rc::clone(key), item);
            }
            Value::map(conforming).map_err(too_deep)?.marked(is_sensitive)
        }
        (Type::Object(attributes), Kind::Map(items, _)) => {
            let is_known = |key: &str| attributes.iter().any(|one| &*one.name == key);
            if let Some(unknown) = items.keys().find(|key| !is_known(key)) {
                let near = closest_match(unknown, attributes.iter().map(|one| &*one.name));
                let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                return Err(format!("`{path}` has an unknown key `{unknown}`{hint}"));
            }
            let mut conforming = MapItems::new();
            for attribute in attributes {
                let name = &attribute.name;
                let given = items.get(name).filter(|item| !matches!(item.kind, Kind::Null));
                let item = match (given, &attribute.default) {
                    (Some(item), _) => {
                        conform(item.clone(), &attribute.kind, &format!("{path}.{name}"))?
                    }
                    (None, Some(default)) => default.clone(),
                    (None, None) => return Err(format!("`{path}` has no `{name}`")),
                };
                conforming.insert(Rc::clone(name), item);
            }
            Value::map(conforming).map_err(too_deep)?.marked(is_sensitive)
        }
        (
            Type::String
            | Type::Number
            | Type::Bool
            | Type::List(_)
            | Type::Map(_)
            | Type::Object(_),
            _,
        ) => return refuse(&value),
    })
}

impl Type {
    /// Returns the type of a default without a type of its own.
    pub(super) fn of(value: &Value) -> Self {
        match value.kind {
            Kind::Text(_) => Self::String,
            Kind::Integer(_) | Kind::Float(_) => Self::Number,
            Kind::Bool(_) => Self::Bool,
            Kind::Null | Kind::List(..) | Kind::Map(..) | Kind::Secret(_) | Kind::Unknown => {
                Self::Any
            }
        }
    }

    /// Returns the type of the value of a key; `None` if it can be any.
    pub(super) fn of_key(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(inner) => Some(inner),
            Self::Object(attributes) => {
                let found = attributes.iter().find(|attribute| &*attribute.name == key);
                found.map(|attribute| &attribute.kind)
            }
            Self::Any | Self::String | Self::Number | Self::Bool | Self::List(_) => None,
        }
    }

    fn noun(&self) -> &'static str {
        match self {
            Self::Any => "a value",
            Self::String => "a text",
            Self::Number => "a number",
            Self::Bool => "`true` or `false`",
            Self::List(inner) if matches!(**inner, Self::Object(_)) => "a list of objects",
            Self::Map(inner) if matches!(**inner, Self::Object(_)) => "a map of objects",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
            Self::Object(_) => "an object",
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

const WORDS: [&str; 7] = ["string", "number", "bool", "any", "list", "map", "object"];

impl<'t> Parser<'t> {
    /// Returns the next character that is no white space.
    fn next(&mut self) -> Option<char> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed.chars().next()
    }

    fn problem(&mut self, message: &str, label: &str) -> TypeProblem {
        let next = self.next().map_or(0, char::len_utf8);
        let at = self.at..self.at + next;
        TypeProblem { message: message.to_owned(), label: label.to_owned(), at }
    }

    fn take(&mut self, expected: char) -> Result<(), TypeProblem> {
        if self.next() == Some(expected) {
            self.at += expected.len_utf8();
            return Ok(());
        }
        let message = format!("expected `{expected}` in the type");
        Err(self.problem(&message, &format!("expected `{expected}`")))
    }

    fn take_if(&mut self, expected: char) -> bool {
        let is_next = self.next() == Some(expected);
        if is_next {
            self.at += expected.len_utf8();
        }
        is_next
    }

    fn word(&mut self) -> (&'t str, Range<usize>) {
        self.next();
        let rest = self.text.get(self.at..).unwrap_or_default();
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '-');
        let length = end.unwrap_or(rest.len());
        let range = self.at..self.at + length;
        self.at += length;
        (&rest[..length], range)
    }

    fn kind(&mut self, level: usize) -> Result<Type, TypeProblem> {
        if level > MAX_LEVELS {
            return Err(self.problem("the type is nested too deeply", ""));
        }
        let (word, at) = self.word();
        Ok(match word {
            "string" => Type::String,
            "number" => Type::Number,
            "bool" => Type::Bool,
            "any" => Type::Any,
            "list" => Type::List(Box::new(self.argument(level)?)),
            "map" => Type::Map(Box::new(self.argument(level)?)),
            "object" => self.object(level)?,
            "" => return Err(self.problem("expected a type", "expected a type such as `string`")),
            unknown => {
                let near = match unknown {
                    "set" | "tuple" => Some("list"),
                    "int" | "float" => Some("number"),
                    "boolean" => Some("bool"),
                    "text" => Some("string"),
                    _ => closest_match(unknown, WORDS),
                };
                let label = near.map_or_else(
                    || format!("expected one of {}", WORDS.join(", ")),
                    |near| format!("did you mean `{near}`?"),
                );
                let message = format!("unknown type `{unknown}`");
                return Err(TypeProblem { message, label, at });
            }
        })
    }

    fn argument(&mut self, level: usize) -> Result<Type, TypeProblem> {
        self.take('(')?;
        let kind = self.kind(level + 1)?;
        self.take(')')?;
        Ok(kind)
    }

    fn object(&mut self, level: usize) -> Result<Type, TypeProblem> {
        self.take('(')?;
        self.take('{')?;
        let mut attributes: Vec<Attribute> = vec![];
        while !self.take_if('}') {
            let quoted = self.take_if('"');
            let (name, at) = self.word();
            if quoted {
                self.take('"')?;
            }
            if name.is_empty() {
                return Err(self.problem("expected a key of the object", "expected a key"));
            }
            if attributes.iter().any(|one| &*one.name == name) {
                let message = format!("the object has the key `{name}` twice");
                return Err(TypeProblem { message, label: "repeated here".to_owned(), at });
            }
            if !self.take_if('=') {
                self.take(':')?;
            }
            let name: Rc<str> = name.into();
            let (kind, default) = self.attribute(level)?;
            attributes.push(Attribute { name, kind, default });
            self.take_if(',');
        }
        self.take(')')?;
        Ok(Type::Object(attributes))
    }

    /// Reads the type of a key, and the value of a missing one if the key is optional.
    fn attribute(&mut self, level: usize) -> Result<(Type, Option<Value>), TypeProblem> {
        let before = self.at;
        let (word, _) = self.word();
        if word != "optional" {
            self.at = before;
            return Ok((self.kind(level + 1)?, None));
        }
        self.take('(')?;
        let kind = self.kind(level + 1)?;
        let default = match self.take_if(',') {
            true => self.default(&kind)?,
            false => Value::NULL,
        };
        self.take(')')?;
        Ok((kind, Some(default)))
    }

    /// Reads the value up to the bracket that closes `optional(`.
    fn default(&mut self, kind: &Type) -> Result<Value, TypeProblem> {
        self.next();
        let start = self.at;
        let rest = self.text.get(start..).unwrap_or_default();
        let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
        let end = rest.find(|c: char| {
            match (c, is_text) {
                ('\\', true) => {
                    is_escaped = !is_escaped;
                    return false;
                }
                ('"', _) if !is_escaped => is_text = !is_text,
                ('(' | '[' | '{', false) => depth += 1,
                (')', false) if depth == 0 => return true,
                (')' | ']' | '}', false) => depth = depth.saturating_sub(1),
                _ => {}
            }
            is_escaped = false;
            false
        });
        let written = rest[..end.unwrap_or(rest.len())].trim_end();
        let at = start..start + written.len();
        let problem = |message: String| TypeProblem {
            message,
            label: "expected a literal value".to_owned(),
            at: at.clone(),
        };
        let value =
            literal(written).ok_or_else(|| problem("invalid default of a key".to_owned()))?;
        self.at = at.end;
        conform(value, kind, "the default").map_err(problem)
    }
}

/// Returns the value of an HCL literal; `None` if it is none.
pub(super) fn literal(text: &str) -> Option<Value> {
    let mut names = Names::default();
    let root = parse_expression(text, &mut names).ok()?;
    if !root.is_literal() {
        return None;
    }
    let scope = Scope::default();
    let value = evaluate(&root, &scope, &mut Budget::run()).ok()?;
    match value.kind {
        Kind::Secret(_) | Kind::Unknown => None,
        Kind::Null
        | Kind::Bool(_)
        | Kind::Integer(_)
        | Kind::Float(_)
        | Kind::Text(_)
        | Kind::List(..)
        | Kind::Map(..) => Some(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &str, value: &str) -> Result<String, String> {
        let kind = parse_type(kind).map_err(|problem| problem.message)?;
        let value = literal(value).ok_or("no literal")?;
        conform(value, &kind, "x").map(|value| format!("{:?}", value.kind))
    }

    #[test]
    fn a_value_has_its_type_or_is_refused_with_its_path() {
        for (kind, value, refused) in [
            ("string", "\"a\"", None),
            ("string", "1", Some("`x` requires a text, and its value is a number")),
            ("number", "\"1\"", Some("`x` requires a number, and its value is a text")),
            ("bool", "true", None),
            ("list(number)", "[1, 2]", None),
            (
                "list(number)",
                "[1, \"a\"]",
                Some("`x[1]` requires a number, and its value is a text"),
            ),
            ("map(object({ size = string }))", "{ eu = { size = \"1\" } }", None),
            ("map(object({ size = string }))", "{ eu = {} }", Some("`x[\"eu\"]` has no `size`")),
            (
                "map(object({ size = string }))",
                "{ eu = { size = \"1\", sise = \"2\" } }",
                Some("`x[\"eu\"]` has an unknown key `sise`; did you mean `size`?"),
            ),
            (
                "map(object({ size = string }))",
                "[]",
                Some("`x` requires a map of objects, and its value is a list"),
            ),
            ("any", "{ a = [1] }", None),
        ] {
            assert_eq!(check(kind, value).err().as_deref(), refused, "{kind} {value}");
        }
    }

    #[test]
    fn a_missing_key_has_its_default() {
        let kind = "object({ a = optional(string, \"x)\"), b = optional(number) })";
        let value = check(kind, "{}").expect("both keys are optional");
        assert!(value.contains("x)") && value.contains("Null"), "{value}");
    }

    #[test]
    fn what_is_no_type_is_refused_at_its_place() {
        for (text, message, at) in [
            ("strng", "unknown type `strng`", 0..5),
            ("list", "expected `(` in the type", 4..4),
            ("list(string", "expected `)` in the type", 11..11),
            ("object({ a = string, a = number })", "the object has the key `a` twice", 21..22),
            (
                "object({ a = optional(string, 1) })",
                "`the default` requires a text, and its value is a number",
                30..31,
            ),
            ("string x", "unexpected text after the type", 7..8),
        ] {
            let problem = parse_type(text).expect_err(text);
            assert_eq!((problem.message.as_str(), problem.at), (message, at), "{text}");
        }
        let nested = "list(".repeat(100_000);
        assert!(parse_type(&nested).is_err());
    }
}
