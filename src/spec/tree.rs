//! The tree with positions that HCL, YAML and JSON all become.
//!
//! A list of objects equals a repeated block, so an [`Object`] has repeated entries instead of such
//! lists: `capability: [{…}, {…}]` is `capability {…} capability {…}`. Scalars keep their source
//! text, because `decode` converts numbers and booleans to text by the rules of each syntax. No
//! type implements `Debug` outside tests, because values may be secrets.

use std::borrow::Cow;
use std::ops::Range;
use std::rc::Rc;

use super::expression::place::TextPlace;
use super::expression::tree::Expr;
use super::part_place::WrittenText;
use super::syntax::Syntax;
use super::words::UNKNOWN;
use nomad_csi_model::diagnostic::Span;

/// Limit of nested objects and lists, so recursion over a tree, including its drop, cannot exhaust
/// the stack.
pub(super) const MAX_DEPTH: usize = 64;

/// Limit of values, keys and labels in one file. The tree of a file costs up to 120 bytes for each.
pub(super) const MAX_VALUES: usize = 2_000_000;

/// The values, keys and labels that a file may still have.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueBudget(usize);

impl Default for ValueBudget {
    fn default() -> Self {
        Self(MAX_VALUES)
    }
}

impl ValueBudget {
    /// Takes `count` values; `None` if fewer are left.
    pub(super) fn take(&mut self, count: usize) -> Option<()> {
        self.0 = self.0.checked_sub(count)?;
        Some(())
    }
}

/// A value and its position.
#[cfg_attr(test, derive(Debug))]
#[derive(Clone)]
pub(crate) struct Node<'a> {
    pub(crate) value: Value<'a>,
    pub(crate) span: Span,
}

/// A value.
#[cfg_attr(test, derive(Debug))]
#[derive(Clone)]
pub(crate) enum Value<'a> {
    /// No value: `null`, `~`, or nothing in YAML.
    Null,
    /// An unreadable value, which a diagnostic reports.
    Invalid,
    Scalar(Scalar<'a>),
    /// `env("X")` in HCL: a secret reference.
    Reference(SecretReference<'a>),
    /// `unknown` in HCL: an unknown hidden value.
    Unknown,
    /// An expression of the language. None is left when fields are decoded.
    Expression(PlacedExpression),
    List(Vec<Node<'a>>),
    Object(Object<'a>),
}

/// An expression, and the position of its text.
#[cfg_attr(test, derive(Debug))]
#[derive(Clone)]
pub(crate) struct PlacedExpression {
    pub(crate) root: Rc<Expr>,
    pub(crate) place: TextPlace,
    /// How the source writes the text, if not as it is read.
    pub(crate) written: Option<Rc<WrittenText>>,
}

impl PlacedExpression {
    /// Returns the position of a part of the text, also if the source writes the text otherwise.
    pub(crate) fn place_of(&self, part: &Range<u32>) -> Span {
        match (self.place, &self.written) {
            (TextPlace::Whole(span), Some(written)) => written.place_of(part, span),
            (place, _) => place.of(part),
        }
    }
}

/// A text, a number or a boolean.
#[cfg_attr(test, derive(Debug))]
#[derive(Clone)]
pub(crate) struct Scalar<'a> {
    pub(crate) kind: ScalarKind,
    /// The content of a text without quotes and escapes; the source text of a number or a boolean.
    pub(crate) text: Cow<'a, str>,
}

/// A reference to a secret: a source and its arguments.
#[cfg_attr(test, derive(Debug))]
#[derive(Clone)]
pub(crate) struct SecretReference<'a> {
    /// The source.
    pub(crate) source: ReferenceSource,
    /// The arguments, as many as the source takes: the name of a variable, the path of a file, or the
    /// path of a Nomad variable and the key of its item.
    pub(crate) arguments: Vec<Cow<'a, str>>,
    /// Where it is written, if an expression took it from elsewhere.
    pub(crate) place: Option<Span>,
}

/// The source of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReferenceSource {
    Env,
    File,
    NomadVar,
}

/// Sources that users of other tools expect.
const FUTURE_SOURCES: [&str; 2] = ["vault", "exec"];

impl ReferenceSource {
    pub(super) const ALL: [Self; 3] = [Self::Env, Self::File, Self::NomadVar];

    /// Returns whether a source of this name may come later.
    pub(super) fn is_planned(word: &str) -> bool {
        FUTURE_SOURCES.contains(&word)
    }

    /// Returns the number of its arguments.
    pub(super) const fn argument_count(self) -> usize {
        match self {
            Self::Env | Self::File => 1,
            Self::NomadVar => 2,
        }
    }

    /// Returns its name in a file: `env`.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Env => "env",
            Self::File => "file",
            Self::NomadVar => "nomad_var",
        }
    }

    /// Returns the source of a name.
    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.as_str() == word)
    }
}

/// The syntactic kind of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarKind {
    Text,
    Number,
    Boolean,
}

/// Keys and values in the order of the file. Keys may repeat.
#[cfg_attr(test, derive(Debug))]
#[derive(Clone, Default)]
pub(crate) struct Object<'a> {
    pub(crate) entries: Vec<Entry<'a>>,
    /// Refused entries with a duplicate key. They have no effect, but may contain secrets.
    pub(crate) duplicates: Vec<Entry<'a>>,
}

/// A key with its labels and its value: `key "label" { … }`, `key = value`.
#[cfg_attr(test, derive(Debug))]
#[derive(Clone)]
pub(crate) struct Entry<'a> {
    pub(crate) key: SpannedText<'a>,
    pub(crate) labels: Vec<SpannedText<'a>>,
    pub(crate) value: Node<'a>,
    /// The position of the list whose item the value is.
    pub(crate) list: Option<Span>,
}

/// A key or a label and its position.
#[cfg_attr(test, derive(Debug))]
#[derive(Clone)]
pub(crate) struct SpannedText<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) span: Span,
}

impl<'a> Node<'a> {
    pub(super) fn scalar(kind: ScalarKind, text: impl Into<Cow<'a, str>>, span: Span) -> Self {
        let text = text.into();
        Self { value: Value::Scalar(Scalar { kind, text }), span }
    }

    pub(super) fn text(text: impl Into<Cow<'a, str>>, span: Span) -> Self {
        Self::scalar(ScalarKind::Text, text, span)
    }

    /// Creates the node of a complete object, without spare capacity.
    pub(super) fn object(mut object: Object<'a>, span: Span) -> Self {
        object.entries.shrink_to_fit();
        let value = Value::Object(object);
        Self { value, span }
    }

    pub(super) fn invalid(span: Span) -> Self {
        Self { value: Value::Invalid, span }
    }

    pub(crate) fn is_object(&self) -> bool {
        matches!(self.value, Value::Object(_))
    }

    /// Returns its kind in messages: "a list".
    pub(crate) fn kind_name(&self, syntax: Syntax) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::Invalid | Value::Expression(_) => "an expression",
            Value::Reference(_) => "a reference to a secret",
            Value::Unknown => "`unknown`",
            Value::Scalar(scalar) => match scalar.kind {
                ScalarKind::Text => "a text",
                ScalarKind::Number => "a number",
                ScalarKind::Boolean => "a boolean",
            },
            Value::List(_) => "a list",
            Value::Object(_) => syntax.object_name(),
        }
    }

    /// Returns whether it is `unknown`: the bare word in HCL, `{unknown: true}` elsewhere.
    pub(super) fn is_unknown(&self, syntax: Syntax) -> bool {
        let Value::Object(object) = &self.value else {
            return matches!(self.value, Value::Unknown);
        };
        let [only] = &object.entries[..] else {
            return false;
        };
        let Value::Scalar(scalar) = &only.value.value else {
            return false;
        };
        let is_true = scalar.kind == ScalarKind::Boolean && scalar.text == "true";
        syntax != Syntax::Hcl && only.key.text == UNKNOWN && is_true
    }

    /// Returns the number of its nodes and their depth, including itself.
    pub(super) fn size_and_depth(&self) -> (usize, usize) {
        let of = |inner: &mut dyn Iterator<Item = &Node<'_>>| {
            inner.fold((1, 1), |(nodes, depth), node| {
                let (inner_nodes, inner_depth) = node.size_and_depth();
                (nodes + inner_nodes, depth.max(1 + inner_depth))
            })
        };
        match &self.value {
            Value::Null
            | Value::Invalid
            | Value::Scalar(_)
            | Value::Reference(_)
            | Value::Expression(_)
            | Value::Unknown => (1, 1),
            Value::List(items) => of(&mut items.iter()),
            Value::Object(object) => of(&mut object.entries.iter().map(|entry| &entry.value)),
        }
    }

    /// Returns whether any of its values is an expression.
    pub(crate) fn has_expression(&self) -> bool {
        match &self.value {
            Value::Expression(_) => true,
            Value::List(items) => items.iter().any(Node::has_expression),
            Value::Object(object) => {
                object.entries.iter().any(|entry| entry.value.has_expression())
            }
            Value::Null
            | Value::Invalid
            | Value::Scalar(_)
            | Value::Reference(_)
            | Value::Unknown => false,
        }
    }

    /// Returns whether any of its values could not be read.
    pub(crate) fn has_invalid(&self) -> bool {
        match &self.value {
            Value::Invalid => true,
            Value::List(items) => items.iter().any(Node::has_invalid),
            Value::Object(object) => object.entries.iter().any(|entry| entry.value.has_invalid()),
            Value::Null
            | Value::Scalar(_)
            | Value::Reference(_)
            | Value::Expression(_)
            | Value::Unknown => false,
        }
    }

    /// Calls `see` for every scalar in it, except references.
    pub(crate) fn for_each_scalar(&self, see: &mut impl FnMut(Span)) {
        match &self.value {
            Value::Null | Value::Reference(_) | Value::Unknown => {}
            Value::Expression(expression) => {
                if expression.root.holds_text() {
                    see(self.span);
                }
            }
            Value::Invalid | Value::Scalar(_) => see(self.span),
            Value::List(items) => items.iter().for_each(|item| item.for_each_scalar(see)),
            Value::Object(object) => {
                let entries = object.entries.iter().chain(&object.duplicates);
                let values = entries.map(|entry| &entry.value);
                values.for_each(|value| value.for_each_scalar(see));
            }
        }
    }
}

impl<'a> Node<'a> {
    /// Returns its secret reference: a call in HCL, an object with one known key elsewhere.
    pub(super) fn as_reference(&self) -> Option<SecretReference<'a>> {
        match &self.value {
            Value::Reference(reference) => Some(reference.clone()),
            Value::Object(object) => match (&object.entries[..], &object.duplicates[..]) {
                ([entry], []) => {
                    let source = ReferenceSource::parse(&entry.key.text)?;
                    let arguments = entry.value.as_arguments(source.argument_count())?;
                    Some(SecretReference { source, arguments, place: None })
                }
                _ => None,
            },
            Value::Null
            | Value::Invalid
            | Value::Unknown
            | Value::Expression(_)
            | Value::Scalar(_)
            | Value::List(_) => None,
        }
    }

    /// Returns the only argument, which is a text, or several, which are a list of texts.
    fn as_arguments(&self, count: usize) -> Option<Vec<Cow<'a, str>>> {
        if count == 1 {
            return self.as_text().map(|text| vec![text.clone()]);
        }
        let Value::List(items) = &self.value else {
            return None;
        };
        let texts = items.iter().map(|item| item.as_text().cloned());
        let texts: Vec<_> = texts.collect::<Option<_>>()?;
        (texts.len() == count).then_some(texts)
    }

    fn as_text(&self) -> Option<&Cow<'a, str>> {
        match &self.value {
            Value::Scalar(scalar) if scalar.kind == ScalarKind::Text => Some(&scalar.text),
            Value::Null
            | Value::Invalid
            | Value::Scalar(_)
            | Value::Reference(_)
            | Value::Unknown
            | Value::Expression(_)
            | Value::List(_)
            | Value::Object(_) => None,
        }
    }
}

impl Node<'_> {
    /// Calls `see` for every key in it.
    pub(super) fn for_each_key(&self, see: &mut impl FnMut(Span)) {
        match &self.value {
            Value::Null
            | Value::Invalid
            | Value::Scalar(_)
            | Value::Reference(_)
            | Value::Expression(_)
            | Value::Unknown => {}
            Value::List(items) => items.iter().for_each(|item| item.for_each_key(see)),
            Value::Object(object) => {
                for entry in &object.entries {
                    see(entry.key.span);
                    entry.labels.iter().for_each(|label| see(label.span));
                    entry.value.for_each_key(see);
                }
            }
        }
    }

    /// Calls `see` for every outermost object in it, including itself.
    pub(super) fn for_each_object(&self, see: &mut impl FnMut(&Object<'_>)) {
        match &self.value {
            Value::Null
            | Value::Invalid
            | Value::Scalar(_)
            | Value::Reference(_)
            | Value::Expression(_)
            | Value::Unknown => {}
            Value::List(items) => items.iter().for_each(|item| item.for_each_object(see)),
            Value::Object(object) => see(object),
        }
    }
}

impl<'a> Object<'a> {
    /// Adds an entry. A list of objects becomes one entry per object.
    pub(super) fn push(
        &mut self,
        key: SpannedText<'a>,
        labels: Vec<SpannedText<'a>>,
        value: Node<'a>,
    ) {
        match value.value {
            Value::List(items) if !items.is_empty() && items.iter().all(Node::is_object) => {
                for item in items {
                    self.entries.push(Entry {
                        key: key.clone(),
                        labels: labels.clone(),
                        value: item,
                        list: Some(value.span),
                    });
                }
            }
            inner => self.entries.push(Entry {
                key,
                labels,
                value: Node { value: inner, span: value.span },
                list: None,
            }),
        }
    }
}

/// Trees are equal if their values are, whatever their positions.
#[cfg(test)]
impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (&self.value, &other.value) {
            (Value::Null, Value::Null)
            | (Value::Invalid, Value::Invalid)
            | (Value::Unknown, Value::Unknown) => true,
            (Value::Scalar(a), Value::Scalar(b)) => a.kind == b.kind && a.text == b.text,
            (Value::Reference(a), Value::Reference(b)) => {
                a.source == b.source && a.arguments == b.arguments
            }
            (Value::List(a), Value::List(b)) => a == b,
            (Value::Object(a), Value::Object(b)) => a == b,
            _ => false,
        }
    }
}

#[cfg(test)]
impl PartialEq for Object<'_> {
    fn eq(&self, other: &Self) -> bool {
        let same = |a: &Entry<'_>, b: &Entry<'_>| {
            let labels = |entry: &Entry<'_>| -> Vec<String> {
                entry.labels.iter().map(|label| label.text.to_string()).collect()
            };
            a.key.text == b.key.text && labels(a) == labels(b) && a.value == b.value
        };
        self.entries.len() == other.entries.len()
            && self.entries.iter().zip(&other.entries).all(|(a, b)| same(a, b))
    }
}
