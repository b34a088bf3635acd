//! The spanned value tree that HCL, YAML and JSON all become.
//!
//! One shape for what the syntaxes spell differently: a list of objects is the same as a repeated
//! block, so an [`Object`] holds repeated entries and no such list (`capability: [{…}, {…}]` is
//! `capability {…} capability {…}`; `nomad-http-api` 5.5 and 5.6). What a number or a boolean means
//! where a text is wanted depends on the syntax and is decided by `decode`; here it is kept as it was
//! written. Nothing here implements `Debug` outside tests: values may be secrets.

use std::borrow::Cow;

use super::syntax::Syntax;
use crate::diagnostic::Span;

/// How deep objects and lists may lie in each other. Deeper input is refused, so that no recursion
/// over a tree, its removal included, can exhaust the stack.
pub(super) const MAX_DEPTH: usize = 64;

/// The word for a value that nobody knows.
pub(super) const UNKNOWN: &str = "unknown";

/// A value and where it was written.
#[cfg_attr(test, derive(Debug))]
#[derive(Clone)]
pub(super) struct Node<'a> {
    pub(super) value: Value<'a>,
    pub(super) span: Span,
}

/// A value.
#[cfg_attr(test, derive(Debug))]
#[derive(Clone)]
pub(super) enum Value<'a> {
    /// Nothing was said: `null`, `~`, or no value at all in YAML.
    Null,
    /// Something that cannot be read was said, and a diagnostic tells of it.
    Broken,
    Scalar(Scalar<'a>),
    /// `env("X")` in HCL: what says where a value is, and is none itself.
    Reference(Reference<'a>),
    /// `unknown` in HCL: there may be a value, and nobody knows which.
    Unknown,
    List(Vec<Node<'a>>),
    Object(Object<'a>),
}

/// A text, a number or a boolean.
#[cfg_attr(test, derive(Debug))]
#[derive(Clone)]
pub(super) struct Scalar<'a> {
    pub(super) kind: ScalarKind,
    /// Of a text, what is between the quotes, escapes resolved; of a number or a boolean, how it was
    /// written.
    pub(super) text: Cow<'a, str>,
}

/// Where a value is to be had: a source and what it is asked for.
#[cfg_attr(test, derive(Debug))]
#[derive(Clone)]
pub(super) struct Reference<'a> {
    /// The source.
    pub(super) source: ReferenceSource,
    /// What it is asked for: the variable's name, the file's path.
    pub(super) argument: Cow<'a, str>,
}

/// Where a secret can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReferenceSource {
    Env,
    File,
}

impl ReferenceSource {
    pub(super) const ALL: [Self; 2] = [Self::Env, Self::File];

    /// Its word in a file: `env`.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Env => "env",
            Self::File => "file",
        }
    }

    /// The source of that word.
    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.as_str() == word)
    }
}

/// What a scalar is without knowing what is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScalarKind {
    Text,
    Number,
    Boolean,
}

/// Keys with their values, in the order of the file; a key may stand more than once.
#[cfg_attr(test, derive(Debug))]
#[derive(Clone, Default)]
pub(super) struct Object<'a> {
    pub(super) entries: Vec<Entry<'a>>,
    /// Entries that were refused because their key stands above already: they mean nothing, but what
    /// they hold may be a secret all the same.
    pub(super) refused: Vec<Entry<'a>>,
}

/// A key with its labels and its value: `key "label" { … }`, `key = value`.
#[cfg_attr(test, derive(Debug))]
#[derive(Clone)]
pub(super) struct Entry<'a> {
    pub(super) key: Word<'a>,
    pub(super) labels: Vec<Word<'a>>,
    pub(super) value: Node<'a>,
}

/// A key or a label and where it was written.
#[cfg_attr(test, derive(Debug))]
#[derive(Clone)]
pub(super) struct Word<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) span: Span,
}

impl<'a> Node<'a> {
    pub(super) fn scalar(kind: ScalarKind, text: impl Into<Cow<'a, str>>, span: Span) -> Self {
        let text = text.into();
        Self {
            value: Value::Scalar(Scalar { kind, text }),
            span,
        }
    }

    pub(super) fn text(text: impl Into<Cow<'a, str>>, span: Span) -> Self {
        Self::scalar(ScalarKind::Text, text, span)
    }

    /// An object that is complete: it keeps no room for more.
    pub(super) fn object(mut object: Object<'a>, span: Span) -> Self {
        object.entries.shrink_to_fit();
        let value = Value::Object(object);
        Self { value, span }
    }

    pub(super) fn broken(span: Span) -> Self {
        Self {
            value: Value::Broken,
            span,
        }
    }

    pub(super) fn is_object(&self) -> bool {
        matches!(self.value, Value::Object(_))
    }

    /// What it is, for a message: "a list".
    pub(super) fn kind_name(&self, syntax: Syntax) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::Broken => "an expression",
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

    /// Whether it says that nobody knows the value: the bare word in HCL, an object of this one key
    /// with the boolean `true` elsewhere.
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

    /// How many nodes it is made of, and how deep they lie in each other, itself included.
    pub(super) fn extent(&self) -> (usize, usize) {
        let of = |inner: &mut dyn Iterator<Item = &Node<'_>>| {
            inner.fold((1, 1), |(nodes, depth), node| {
                let (inner_nodes, inner_depth) = node.extent();
                (nodes + inner_nodes, depth.max(1 + inner_depth))
            })
        };
        match &self.value {
            Value::Null
            | Value::Broken
            | Value::Scalar(_)
            | Value::Reference(_)
            | Value::Unknown => (1, 1),
            Value::List(items) => of(&mut items.iter()),
            Value::Object(object) => of(&mut object.entries.iter().map(|entry| &entry.value)),
        }
    }

    /// Calls `see` for every scalar in it; a reference is none.
    pub(super) fn for_each_scalar(&self, see: &mut impl FnMut(Span)) {
        match &self.value {
            Value::Null | Value::Reference(_) | Value::Unknown => {}
            Value::Broken | Value::Scalar(_) => see(self.span),
            Value::List(items) => items.iter().for_each(|item| item.for_each_scalar(see)),
            Value::Object(object) => {
                let entries = object.entries.iter().chain(&object.refused);
                let values = entries.map(|entry| &entry.value);
                values.for_each(|value| value.for_each_scalar(see));
            }
        }
    }
}

impl<'a> Node<'a> {
    /// The reference that it is: a call in HCL, an object of one known key with a text elsewhere.
    pub(super) fn as_reference(&self) -> Option<Reference<'a>> {
        match &self.value {
            Value::Reference(reference) => Some(reference.clone()),
            Value::Object(object) => match (&object.entries[..], &object.refused[..]) {
                ([entry], []) => Some(Reference {
                    source: ReferenceSource::parse(&entry.key.text)?,
                    argument: entry.value.as_text()?.clone(),
                }),
                _ => None,
            },
            Value::Null | Value::Broken | Value::Unknown | Value::Scalar(_) | Value::List(_) => {
                None
            }
        }
    }

    fn as_text(&self) -> Option<&Cow<'a, str>> {
        match &self.value {
            Value::Scalar(scalar) if scalar.kind == ScalarKind::Text => Some(&scalar.text),
            Value::Null
            | Value::Broken
            | Value::Scalar(_)
            | Value::Reference(_)
            | Value::Unknown
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
            | Value::Broken
            | Value::Scalar(_)
            | Value::Reference(_)
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

    /// Calls `see` for every object in it that lies in no other one, itself included.
    pub(super) fn for_each_object(&self, see: &mut impl FnMut(&Object<'_>)) {
        match &self.value {
            Value::Null
            | Value::Broken
            | Value::Scalar(_)
            | Value::Reference(_)
            | Value::Unknown => {}
            Value::List(items) => items.iter().for_each(|item| item.for_each_object(see)),
            Value::Object(object) => see(object),
        }
    }
}

impl<'a> Object<'a> {
    /// Adds an entry; a list of objects becomes one entry for each of them.
    pub(super) fn push(&mut self, key: Word<'a>, labels: Vec<Word<'a>>, value: Node<'a>) {
        match value.value {
            Value::List(items) if !items.is_empty() && items.iter().all(Node::is_object) => {
                for item in items {
                    self.entries.push(Entry {
                        key: key.clone(),
                        labels: labels.clone(),
                        value: item,
                    });
                }
            }
            inner => self.entries.push(Entry {
                key,
                labels,
                value: Node {
                    value: inner,
                    span: value.span,
                },
            }),
        }
    }
}

/// Two trees that say the same, wherever it was written.
#[cfg(test)]
impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (&self.value, &other.value) {
            (Value::Null, Value::Null)
            | (Value::Broken, Value::Broken)
            | (Value::Unknown, Value::Unknown) => true,
            (Value::Scalar(a), Value::Scalar(b)) => a.kind == b.kind && a.text == b.text,
            (Value::Reference(a), Value::Reference(b)) => {
                a.source == b.source && a.argument == b.argument
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
                entry
                    .labels
                    .iter()
                    .map(|label| label.text.to_string())
                    .collect()
            };
            a.key.text == b.key.text && labels(a) == labels(b) && a.value == b.value
        };
        self.entries.len() == other.entries.len()
            && self
                .entries
                .iter()
                .zip(&other.entries)
                .all(|(a, b)| same(a, b))
    }
}
