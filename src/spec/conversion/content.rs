//! The content of a specification, in a form that is the same for all syntaxes.
//!
//! A labelled block is a key in a map, and a repeated block is a list, as YAML and JSON write them. Two contents are equal if
//! they mean the same: comments do not count.

use crate::schema::{CLASS, VARIABLE};
use crate::tree::{ReferenceSource, ScalarKind};

/// A value.
#[derive(Clone)]
pub(super) enum Content {
    Null,
    /// The unknown hidden value.
    Unknown,
    Scalar(ScalarKind, String),
    /// The source of an expression.
    Expression(String),
    /// A text with expressions.
    Template(Vec<Part>),
    Reference(ReferenceSource, Vec<String>),
    List(Vec<Content>),
    Map(Vec<Member>),
}

/// A part of a text with expressions.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    Expression(String),
}

/// Writes a text with expressions. `literal` escapes what is text; before an expression, a `$` at the end of a text is an
/// expression too, because the two would be an escape together.
pub(super) fn template(parts: &[Part], literal: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    for (at, part) in parts.iter().enumerate() {
        match part {
            Part::Expression(source) => out.extend(["${", source, "}"]),
            Part::Text(text) => {
                let is_last = at + 1 == parts.len();
                let plain = if is_last { text } else { text.trim_end_matches(['$', '%']) };
                out.push_str(&literal(plain));
                let sigils = &text[plain.len()..];
                if !sigils.is_empty() {
                    out.extend(["${\"", sigils, "\"}"]);
                }
            }
        }
    }
    out
}

/// A key with its value.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) key: String,
    pub(super) value: Content,
    /// The comments above the key and behind the value, line by line.
    pub(super) comments: Vec<String>,
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) | (Self::Unknown, Self::Unknown) => true,
            (Self::Scalar(kind, text), Self::Scalar(other, written)) => {
                kind == other && text == written
            }
            (Self::Expression(one), Self::Expression(other)) => one == other,
            (Self::Template(one), Self::Template(other)) => one == other,
            (Self::Reference(source, arguments), Self::Reference(other, others)) => {
                source == other && arguments == others
            }
            (Self::List(one), Self::List(other)) => one == other,
            (Self::Map(one), Self::Map(other)) => {
                let is_equal = |(one, other): (&Member, &Member)| {
                    one.key == other.key && one.value == other.value
                };
                one.len() == other.len() && one.iter().zip(other).all(is_equal)
            }
            (
                Self::Null
                | Self::Unknown
                | Self::Scalar(..)
                | Self::Expression(_)
                | Self::Template(_)
                | Self::Reference(..)
                | Self::List(_)
                | Self::Map(_),
                _,
            ) => false,
        }
    }
}

/// The keys at the top level of a file whose blocks have labels.
pub(super) const LABELLED: [&str; 3] = ["volume", CLASS, VARIABLE];
