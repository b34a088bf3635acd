//! Values of expressions. Parts are shared, and no value has more than 64 levels.
//!
//! Levels are counted when a list or a map is made, so recursion over a value, including its drop,
//! cannot exhaust the stack. Values share parts, so a small value can print as a huge one: every
//! walk over a value takes steps, and tries first whether two parts are the same. A list or map
//! knows whether something inside is sensitive. No type implements `Debug` outside tests.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::budget::{Budget, LimitExceeded};
use nomad_csi_model::diagnostic::Span;

/// Limit of the levels of a value.
pub(crate) const MAX_LEVELS: u8 = 64;

/// The first float that is too large for an integer.
pub(super) const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// The items of a map.
pub(crate) type MapItems = BTreeMap<Rc<str>, Value>;

/// A value with its mark.
#[cfg_attr(test, derive(Debug, PartialEq))]
#[derive(Clone)]
pub(crate) struct Value {
    pub(crate) kind: Kind,
    /// True if the value is sensitive as a whole. [`Value::holds_sensitive`] also looks inside.
    pub(crate) is_sensitive: bool,
}

/// A value without its mark.
#[cfg_attr(test, derive(Debug, PartialEq))]
#[derive(Clone)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    Integer(i64),
    /// A finite number that is no [`Self::Integer`]: [`Kind::number`] decides.
    Float(f64),
    Text(Rc<str>),
    List(Rc<[Value]>, Shape),
    Map(Rc<MapItems>, Shape),
    /// A secret that is read when the volume is sent.
    Secret(Rc<SecretReference>),
    /// `unknown`: an unknown hidden value.
    Unknown,
}

/// What a list or a map knows of its items.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    levels: u8,
    holds_sensitive: bool,
}

/// A reference to a secret: a source and its evaluated arguments.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) struct SecretReference {
    pub(crate) source: SecretSource,
    /// As many as the source takes; of a program, its words.
    pub(crate) arguments: Vec<Rc<str>>,
    /// Where it is written: a relative path starts at the directory of that file.
    pub(crate) place: Option<Span>,
}

/// The source of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecretSource {
    Env,
    File,
    NomadVar,
    Vault,
    Exec,
}

impl SecretSource {
    pub(crate) const ALL: [Self; 5] =
        [Self::Env, Self::File, Self::NomadVar, Self::Vault, Self::Exec];

    /// Returns its name in a file.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Env => "env",
            Self::File => "file",
            Self::NomadVar => "nomad_var",
            Self::Vault => "vault",
            Self::Exec => "exec",
        }
    }

    /// Returns the source of a name.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.as_str() == word)
    }

    /// Returns whether its secrets can be read.
    pub(super) const fn is_supported(self) -> bool {
        match self {
            Self::Env | Self::File | Self::NomadVar => true,
            Self::Vault | Self::Exec => false,
        }
    }

    /// Returns the number of arguments.
    pub(super) const fn argument_count(self) -> usize {
        match self {
            Self::Env | Self::File | Self::Exec => 1,
            Self::NomadVar | Self::Vault => 2,
        }
    }

    /// Returns the arguments in words.
    pub(super) const fn requirement(self) -> &'static str {
        match self {
            Self::Env | Self::File => "1 argument: a text",
            Self::NomadVar | Self::Vault => "2 arguments: two texts",
            Self::Exec => "1 argument: a list of texts",
        }
    }
}

impl From<Kind> for Value {
    fn from(kind: Kind) -> Self {
        Self { kind, is_sensitive: false }
    }
}

impl Value {
    /// The value `null`.
    pub(crate) const NULL: Self = Self { kind: Kind::Null, is_sensitive: false };

    /// Creates a text.
    pub(crate) fn text(text: impl Into<Rc<str>>) -> Self {
        Kind::Text(text.into()).into()
    }

    /// Creates a boolean.
    pub(crate) fn boolean(value: bool) -> Self {
        Kind::Bool(value).into()
    }

    /// Creates a whole number.
    pub(crate) fn integer(value: i64) -> Self {
        Kind::Integer(value).into()
    }

    /// Creates a list.
    ///
    /// # Errors
    /// If it has more than 64 levels.
    pub(crate) fn list(items: impl Into<Rc<[Self]>>) -> Result<Self, LimitExceeded> {
        let items = items.into();
        let shape = Shape::around(items.iter())?;
        Ok(Kind::List(items, shape).into())
    }

    /// Creates a map.
    ///
    /// # Errors
    /// If it has more than 64 levels.
    pub(crate) fn map(items: MapItems) -> Result<Self, LimitExceeded> {
        let shape = Shape::around(items.values())?;
        Ok(Kind::Map(Rc::new(items), shape).into())
    }

    /// Marks the value as sensitive, if `is_sensitive`.
    #[must_use]
    pub(crate) fn marked(mut self, is_sensitive: bool) -> Self {
        self.is_sensitive |= is_sensitive;
        self
    }

    /// Returns whether the value or a part of it is sensitive.
    pub(crate) fn holds_sensitive(&self) -> bool {
        self.is_sensitive || self.kind.shape().is_some_and(|shape| shape.holds_sensitive)
    }

    /// Returns its kind in messages: "a list".
    pub(crate) const fn kind_name(&self) -> &'static str {
        match self.kind {
            Kind::Null => "null",
            Kind::Bool(_) => "a boolean",
            Kind::Integer(_) | Kind::Float(_) => "a number",
            Kind::Text(_) => "a text",
            Kind::List(..) => "a list",
            Kind::Map(..) => "a map",
            Kind::Secret(_) => "a reference to a secret",
            Kind::Unknown => "`unknown`",
        }
    }

    /// Returns the text of a text, a number or a boolean.
    pub(crate) fn to_text(&self) -> Option<Rc<str>> {
        match &self.kind {
            Kind::Text(text) => Some(Rc::clone(text)),
            Kind::Integer(number) => Some(number.to_string().into()),
            Kind::Float(number) => Some(number.to_string().into()),
            Kind::Bool(value) => Some(if *value { "true" } else { "false" }.into()),
            Kind::Null | Kind::List(..) | Kind::Map(..) | Kind::Secret(_) | Kind::Unknown => None,
        }
    }
}

impl Kind {
    /// Creates a number; `None` if it is not finite. A whole number that fits is an integer, so two
    /// numbers are equal only if they are of one variant.
    pub(crate) fn number(value: f64) -> Option<Self> {
        if !value.is_finite() {
            return None;
        }
        if value.fract() == 0.0 && (-TWO_TO_63..TWO_TO_63).contains(&value) {
            #[expect(clippy::cast_possible_truncation, reason = "the range is checked above")]
            return Some(Self::Integer(value as i64));
        }
        Some(Self::Float(value))
    }

    /// Returns the number as a float.
    pub(super) fn as_float(&self) -> Option<f64> {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "the loss of a number beside a float")]
            Self::Integer(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            Self::Null
            | Self::Bool(_)
            | Self::Text(_)
            | Self::List(..)
            | Self::Map(..)
            | Self::Secret(_)
            | Self::Unknown => None,
        }
    }

    fn shape(&self) -> Option<Shape> {
        match self {
            Self::List(_, shape) | Self::Map(_, shape) => Some(*shape),
            Self::Null
            | Self::Bool(_)
            | Self::Integer(_)
            | Self::Float(_)
            | Self::Text(_)
            | Self::Secret(_)
            | Self::Unknown => None,
        }
    }
}

impl Shape {
    fn around<'v>(items: impl Iterator<Item = &'v Value>) -> Result<Self, LimitExceeded> {
        let mut whole = Self { levels: 0, holds_sensitive: false };
        for item in items {
            whole.holds_sensitive |= item.holds_sensitive();
            if let Some(shape) = item.kind.shape() {
                whole.levels = whole.levels.max(shape.levels);
            }
        }
        whole.levels += 1;
        if whole.levels > MAX_LEVELS { Err(LimitExceeded::DEPTH) } else { Ok(whole) }
    }
}

/// Why two values cannot be compared.
#[cfg_attr(test, derive(Debug, PartialEq))]
pub(super) enum NotComparable {
    Limit(LimitExceeded),
    Secret(Rc<SecretReference>),
    Unknown,
}

impl From<LimitExceeded> for NotComparable {
    fn from(limit: LimitExceeded) -> Self {
        Self::Limit(limit)
    }
}

/// Returns whether two values are equal. Values of different types are unequal.
pub(super) fn is_equal(
    left: &Value,
    right: &Value,
    budget: &mut Budget,
) -> Result<bool, NotComparable> {
    budget.take_steps(1)?;
    match (&left.kind, &right.kind) {
        (Kind::Secret(secret), _) | (_, Kind::Secret(secret)) => {
            Err(NotComparable::Secret(Rc::clone(secret)))
        }
        (Kind::Unknown, _) | (_, Kind::Unknown) => Err(NotComparable::Unknown),
        (Kind::Null, Kind::Null) => Ok(true),
        (Kind::Bool(a), Kind::Bool(b)) => Ok(a == b),
        (Kind::Integer(a), Kind::Integer(b)) => Ok(a == b),
        (Kind::Float(a), Kind::Float(b)) => Ok(a.total_cmp(b).is_eq()),
        (Kind::Text(a), Kind::Text(b)) => {
            if a.len() != b.len() || Rc::ptr_eq(a, b) {
                return Ok(a.len() == b.len());
            }
            budget.read_text(a.len())?;
            Ok(a == b)
        }
        (Kind::List(a, _), Kind::List(b, _)) => {
            if a.len() != b.len() || Rc::ptr_eq(a, b) {
                return Ok(a.len() == b.len());
            }
            for (a, b) in a.iter().zip(b.iter()) {
                if !is_equal(a, b, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Kind::Map(a, _), Kind::Map(b, _)) => {
            if a.len() != b.len() || Rc::ptr_eq(a, b) {
                return Ok(a.len() == b.len());
            }
            for ((left_key, a), (right_key, b)) in a.iter().zip(b.iter()) {
                budget.read_text(left_key.len())?;
                if left_key != right_key || !is_equal(a, b, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (
            Kind::Null
            | Kind::Bool(_)
            | Kind::Integer(_)
            | Kind::Float(_)
            | Kind::Text(_)
            | Kind::List(..)
            | Kind::Map(..),
            _,
        ) => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_65_levels_is_refused_when_it_is_made() {
        let mut value = Value::integer(1);
        for _ in 0..64 {
            value = Value::list([value.clone()]).unwrap();
        }
        assert_eq!(Value::list([value.clone()]), Err(LimitExceeded::DEPTH));
        let items = MapItems::from([("a".into(), value)]);
        assert_eq!(Value::map(items), Err(LimitExceeded::DEPTH));
    }

    #[test]
    fn comparing_values_that_share_parts_ends_within_the_steps() {
        let doubled = || {
            let mut value = Value::list([Value::integer(1), Value::integer(2)]).unwrap();
            for _ in 1..40 {
                value = Value::list([value.clone(), value]).unwrap();
            }
            value
        };
        let (a, b) = (doubled(), doubled());
        let mut budget = Budget::run();
        assert_eq!(is_equal(&a, &a.clone(), &mut budget), Ok(true));
        assert_eq!(budget.steps_left(), 20_000_000 - 1, "the same part is not visited");
        assert!(matches!(is_equal(&a, &b, &mut budget), Err(NotComparable::Limit(_))));
    }

    #[test]
    fn a_list_knows_what_is_sensitive_inside() {
        let list = Value::list([Value::text("a").marked(true)]).unwrap();
        assert!(!list.is_sensitive);
        let outer = Value::map(MapItems::from([("k".into(), list)])).unwrap();
        assert!(outer.holds_sensitive() && !outer.is_sensitive);
        assert!(!Value::list([Value::NULL]).unwrap().holds_sensitive());
    }

    #[test]
    fn a_whole_number_is_an_integer() {
        assert_eq!(Kind::number(5.0), Some(Kind::Integer(5)));
        assert_eq!(Kind::number(-0.0), Some(Kind::Integer(0)));
        assert_eq!(Kind::number(2.5), Some(Kind::Float(2.5)));
        assert_eq!(Kind::number(9.3e18), Some(Kind::Float(9.3e18)));
        assert_eq!(Kind::number(f64::INFINITY), None);
        assert_eq!(Kind::number(f64::NAN), None);
    }
}
