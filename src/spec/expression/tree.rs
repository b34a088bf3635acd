//! The tree of one expression, with names as slots and positions relative to its text.
//!
//! [`super::convert`] makes it at once from the AST of the HCL parser, whose tree is a hundred
//! times as large as the text, and limits its levels, so that recursion over a tree cannot exhaust
//! the stack. Equal texts of a file share a tree.

use std::ops::Range;
use std::rc::Rc;

use super::value::{SecretSource, Value};

/// An expression and its position.
#[cfg_attr(test, derive(Debug))]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    /// The position in the text of the whole expression.
    pub(crate) at: Range<u32>,
}

/// An expression.
#[cfg_attr(test, derive(Debug))]
pub(crate) enum ExprKind {
    Constant(Value),
    List(Box<[Expr]>),
    Map(Box<[(Key, Expr)]>),
    /// A text with parts that are evaluated.
    Template(Box<[Expr]>),
    Variable(u32),
    Local(u32),
    EachKey,
    EachValue,
    CountIndex,
    VolumeName(VolumeName),
    /// A name of a `for`, by its position on the stack of such names.
    Bound(u16),
    /// `map.key`
    Get(Box<Get>),
    /// `list[index]`, `map["key"]`
    Index(Box<[Expr; 2]>),
    /// `condition ? value : other`
    Condition(Box<[Expr; 3]>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    Binary(Operator, Box<[Expr; 2]>),
    /// A call; true if the last argument is a list of arguments: `f(list...)`.
    Call(FunctionId, Box<[Expr]>, bool),
    /// A reference to a secret.
    Source(SecretSource, Box<[Expr]>),
    For(Box<ForExpr>),
    /// The word `unknown`.
    Unknown,
}

/// The key of an item of a map.
#[cfg_attr(test, derive(Debug))]
pub(crate) enum Key {
    /// A name and its position.
    Name(Rc<str>, Range<u32>),
    Evaluated(Expr),
}

impl Key {
    /// Returns its position.
    pub(super) fn at(&self) -> Range<u32> {
        match self {
            Self::Name(_, at) => at.clone(),
            Self::Evaluated(key) => key.at.clone(),
        }
    }

    /// Returns it if it is the same for every value.
    pub(super) fn constant(&self) -> Option<Rc<str>> {
        match self {
            Self::Name(name, _) => Some(Rc::clone(name)),
            Self::Evaluated(key) => match &key.kind {
                ExprKind::Constant(value) => value.to_text(),
                ExprKind::List(_)
                | ExprKind::Map(_)
                | ExprKind::Template(_)
                | ExprKind::Variable(_)
                | ExprKind::Local(_)
                | ExprKind::EachKey
                | ExprKind::EachValue
                | ExprKind::CountIndex
                | ExprKind::VolumeName(_)
                | ExprKind::Bound(_)
                | ExprKind::Get(_)
                | ExprKind::Index(_)
                | ExprKind::Condition(_)
                | ExprKind::Not(_)
                | ExprKind::Negate(_)
                | ExprKind::Binary(..)
                | ExprKind::Call(..)
                | ExprKind::Source(..)
                | ExprKind::For(_)
                | ExprKind::Unknown => None,
            },
        }
    }
}

/// An item of a map by its name.
#[cfg_attr(test, derive(Debug))]
pub(crate) struct Get {
    pub(crate) of: Expr,
    pub(crate) key: Rc<str>,
    /// The position of the dot and the key.
    pub(crate) key_at: Range<u32>,
}

/// A `for` expression: of a map if it has a key, else of a list.
#[cfg_attr(test, derive(Debug))]
pub(crate) struct ForExpr {
    pub(crate) collection: Expr,
    /// True if it has two names: of the key or index, and of the value.
    pub(crate) has_key_name: bool,
    pub(crate) key: Option<Expr>,
    pub(crate) value: Expr,
    pub(crate) condition: Option<Expr>,
}

/// A name of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VolumeName {
    Label,
    Key,
    Id,
}

/// The row of a function in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FunctionId(pub(super) u8);

/// An operator with two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    And,
    Or,
}

impl Operator {
    /// Returns it as written.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::And => "&&",
            Self::Or => "||",
        }
    }
}

impl Expr {
    /// Returns all expressions in it, itself first, in the order of the text.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Self> {
        let mut stack = vec![self];
        std::iter::from_fn(move || {
            let next = stack.pop()?;
            let before = stack.len();
            next.push_parts(&mut stack);
            stack[before..].reverse();
            Some(next)
        })
    }

    /// Returns whether nothing has to be evaluated in it: no name, no operator and no call.
    pub(crate) fn is_literal(&self) -> bool {
        self.nodes().all(|node| match &node.kind {
            ExprKind::Constant(_) | ExprKind::List(_) | ExprKind::Template(_) => true,
            ExprKind::Negate(inner) => matches!(inner.kind, ExprKind::Constant(_)),
            ExprKind::Map(items) => items.iter().all(|(key, _)| match key {
                Key::Name(..) => true,
                Key::Evaluated(key) => matches!(key.kind, ExprKind::Constant(_)),
            }),
            ExprKind::Variable(_)
            | ExprKind::Local(_)
            | ExprKind::EachKey
            | ExprKind::EachValue
            | ExprKind::CountIndex
            | ExprKind::VolumeName(_)
            | ExprKind::Bound(_)
            | ExprKind::Get(_)
            | ExprKind::Index(_)
            | ExprKind::Condition(_)
            | ExprKind::Not(_)
            | ExprKind::Binary(..)
            | ExprKind::Call(..)
            | ExprKind::Source(..)
            | ExprKind::For(_)
            | ExprKind::Unknown => false,
        })
    }

    /// Returns whether it holds a text that is not an argument of a reference to a secret.
    pub(crate) fn holds_text(&self) -> bool {
        let mut parts = vec![self];
        while let Some(next) = parts.pop() {
            match &next.kind {
                ExprKind::Source(..) => {}
                ExprKind::Constant(value) if matches!(value.kind, super::value::Kind::Text(_)) => {
                    return true;
                }
                ExprKind::Map(_) => return true,
                ExprKind::Constant(_)
                | ExprKind::List(_)
                | ExprKind::Template(_)
                | ExprKind::Variable(_)
                | ExprKind::Local(_)
                | ExprKind::EachKey
                | ExprKind::EachValue
                | ExprKind::CountIndex
                | ExprKind::VolumeName(_)
                | ExprKind::Bound(_)
                | ExprKind::Get(_)
                | ExprKind::Index(_)
                | ExprKind::Condition(_)
                | ExprKind::Not(_)
                | ExprKind::Negate(_)
                | ExprKind::Binary(..)
                | ExprKind::Call(..)
                | ExprKind::For(_)
                | ExprKind::Unknown => next.push_parts(&mut parts),
            }
        }
        false
    }

    fn push_parts<'e>(&'e self, parts: &mut Vec<&'e Self>) {
        match &self.kind {
            ExprKind::Constant(_)
            | ExprKind::Variable(_)
            | ExprKind::Local(_)
            | ExprKind::EachKey
            | ExprKind::EachValue
            | ExprKind::CountIndex
            | ExprKind::VolumeName(_)
            | ExprKind::Bound(_)
            | ExprKind::Unknown => {}
            ExprKind::List(items)
            | ExprKind::Template(items)
            | ExprKind::Call(_, items, _)
            | ExprKind::Source(_, items) => parts.extend(items.iter()),
            ExprKind::Map(items) => {
                for (key, value) in items {
                    if let Key::Evaluated(key) = key {
                        parts.push(key);
                    }
                    parts.push(value);
                }
            }
            ExprKind::Get(get) => parts.push(&get.of),
            ExprKind::Index(pair) | ExprKind::Binary(_, pair) => parts.extend(pair.iter()),
            ExprKind::Condition(three) => parts.extend(three.iter()),
            ExprKind::Not(inner) | ExprKind::Negate(inner) => parts.push(inner),
            ExprKind::For(each) => {
                parts.push(&each.collection);
                parts.extend(&each.key);
                parts.push(&each.value);
                parts.extend(&each.condition);
            }
        }
    }
}
