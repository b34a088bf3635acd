//! Values of expressions from nodes of a tree, and back.
//!
//! A value goes into a field as if it were written there: `decode` judges it. A list of objects of a tree is stored as
//! repeated entries, and is a list again here.

use std::rc::Rc;

use crate::expression::budget::{Budget, LimitExceeded};
use crate::expression::evaluate::{Scope, evaluate};
use crate::expression::names::{Reference, references};
use crate::expression::problem::Problem;
use crate::expression::value::{
    Kind, MapItems, SecretReference as EvaluatedReference, SecretSource, Value,
};
use crate::tree::{
    Entry, Node, Object, PlacedExpression, ReferenceSource, Scalar, ScalarKind, SecretReference,
    SpannedText, Value as NodeValue,
};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Span};

/// Why a node has no value.
pub(super) enum NoValue {
    /// Something that is already reported: an unreadable value, or a name without a value.
    Reported,
    Problem(Box<Diagnostic>),
}

impl NoValue {
    fn of(problem: Problem, expression: &PlacedExpression) -> Self {
        Self::Problem(Box::new(problem.into_diagnostic_with(|part| expression.place_of(part))))
    }

    pub(super) fn limit(limit: LimitExceeded, span: Span) -> Self {
        let problem = limit.at(0..0);
        Self::Problem(Box::new(
            Diagnostic::error(problem.code, problem.message).label(span, problem.label),
        ))
    }
}

/// Evaluates an expression. A name without a value was reported before.
pub(super) fn expression_value(
    expression: &PlacedExpression,
    scope: &Scope<'_>,
    budget: &mut Budget,
) -> Result<Value, NoValue> {
    if !has_all_values(expression, scope, budget)? {
        return Err(NoValue::Reported);
    }
    let scope = Scope { place: Some(expression.place), ..*scope };
    evaluate(&expression.root, &scope, budget).map_err(|problem| NoValue::of(problem, expression))
}

/// Returns whether every variable and local value of an expression has a value.
fn has_all_values(
    expression: &PlacedExpression,
    scope: &Scope<'_>,
    budget: &mut Budget,
) -> Result<bool, NoValue> {
    let limit =
        |limit: LimitExceeded| NoValue::of(limit.at(expression.root.at.clone()), expression);
    let has = |values: &[Option<Value>], slot: u32| {
        let slot = usize::try_from(slot).ok();
        slot.and_then(|slot| values.get(slot)).is_some_and(Option::is_some)
    };
    for (reference, _) in references(&expression.root) {
        budget.take_steps(1).map_err(limit)?;
        let has_value = match reference {
            Reference::Variable(slot) => has(scope.variables, slot),
            Reference::Local(slot) => has(scope.locals, slot),
        };
        if !has_value {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the value of a node.
pub(super) fn node_value(
    node: &Node<'_>,
    scope: &Scope<'_>,
    budget: &mut Budget,
) -> Result<Value, NoValue> {
    let limit = |limit| NoValue::limit(limit, node.span);
    budget.take_values(1).map_err(limit)?;
    Ok(match &node.value {
        NodeValue::Null => Value::NULL,
        NodeValue::Invalid => return Err(NoValue::Reported),
        NodeValue::Unknown => Kind::Unknown.into(),
        NodeValue::Scalar(scalar) => scalar_value(scalar),
        NodeValue::Reference(reference) => reference_value(reference, node.span),
        NodeValue::Expression(expression) => return expression_value(expression, scope, budget),
        NodeValue::List(items) => {
            let items = items.iter().map(|item| node_value(item, scope, budget));
            Value::list(items.collect::<Result<Vec<_>, _>>()?).map_err(limit)?
        }
        NodeValue::Object(object) => object_value(object, node.span, scope, budget)?,
    })
}

/// Returns the value of a key: of its only entry, or of the items of a list of objects.
pub(super) fn entries_value(
    entries: &[&Entry<'_>],
    scope: &Scope<'_>,
    budget: &mut Budget,
) -> Result<Value, NoValue> {
    match entries {
        [only] if only.list.is_none() => node_value(&only.value, scope, budget),
        items => {
            let values = items.iter().map(|entry| node_value(&entry.value, scope, budget));
            let values = values.collect::<Result<Vec<_>, _>>()?;
            let first = items.first().map(|entry| entry.value.span);
            Value::list(values).map_err(|limit| match first {
                Some(span) => NoValue::limit(limit, span),
                None => NoValue::Reported,
            })
        }
    }
}

fn scalar_value(scalar: &Scalar<'_>) -> Value {
    let text = || Value::text(&*scalar.text);
    match scalar.kind {
        ScalarKind::Text => text(),
        ScalarKind::Boolean => Value::boolean(scalar.text.eq_ignore_ascii_case("true")),
        ScalarKind::Number => match scalar.text.parse::<i64>() {
            Ok(number) => Value::integer(number),
            Err(_) => {
                let number = scalar.text.parse::<f64>().ok();
                number.and_then(Kind::number).map_or_else(text, Value::from)
            }
        },
    }
}

fn reference_value(reference: &SecretReference<'_>, written: Span) -> Value {
    let source = match reference.source {
        ReferenceSource::Env => SecretSource::Env,
        ReferenceSource::File => SecretSource::File,
        ReferenceSource::NomadVar => SecretSource::NomadVar,
    };
    let arguments = reference.arguments.iter().map(|argument| Rc::from(&**argument)).collect();
    let place = Some(reference.place.unwrap_or(written));
    Kind::Secret(Rc::new(EvaluatedReference { source, arguments, place })).into()
}

fn object_value(
    object: &Object<'_>,
    span: Span,
    scope: &Scope<'_>,
    budget: &mut Budget,
) -> Result<Value, NoValue> {
    let mut items = MapItems::new();
    let mut entries = object.entries.iter().peekable();
    while let Some(entry) = entries.next() {
        let value = match entry.list {
            None => node_value(&entry.value, scope, budget)?,
            Some(list) => {
                let mut values = vec![node_value(&entry.value, scope, budget)?];
                let is_same =
                    |next: &&Entry<'_>| next.list == Some(list) && next.key.text == entry.key.text;
                while let Some(next) = entries.next_if(is_same) {
                    values.push(node_value(&next.value, scope, budget)?);
                }
                Value::list(values).map_err(|limit| NoValue::limit(limit, entry.value.span))?
            }
        };
        if items.insert(Rc::from(&*entry.key.text), value).is_some() {
            let message = format!("the map has the key `{}` twice", entry.key.text);
            let problem = Diagnostic::error(Code::SpecDuplicateField, message)
                .label(entry.key.span, "repeated here");
            let mut keys = object.entries.iter().map(|entry| &entry.key);
            let first = keys.find(|key| key.text == entry.key.text);
            return Err(NoValue::Problem(Box::new(match first {
                Some(first) => problem.label(first.span, "first here"),
                None => problem,
            })));
        }
    }
    Value::map(items).map_err(|limit| NoValue::limit(limit, span))
}

/// Returns a node that has a value, as if it were written at a position.
///
/// # Errors
/// If it holds a reference to a secret whose source cannot be read yet.
pub(super) fn value_node<'a>(
    value: &Value,
    span: Span,
    budget: &mut Budget,
) -> Result<Node<'a>, NoValue> {
    let limit = |limit| NoValue::limit(limit, span);
    budget.take_values(1).map_err(limit)?;
    let of = |value| Node { value, span };
    Ok(match &value.kind {
        Kind::Null => of(NodeValue::Null),
        Kind::Bool(value) => Node::scalar(ScalarKind::Boolean, value.to_string(), span),
        Kind::Integer(_) | Kind::Float(_) => {
            let text = value.to_text().unwrap_or_default();
            Node::scalar(ScalarKind::Number, text.to_string(), span)
        }
        Kind::Text(text) => {
            budget.take_text(text.len()).map_err(limit)?;
            Node::text(text.to_string(), span)
        }
        Kind::Unknown => of(NodeValue::Unknown),
        Kind::Secret(reference) => of(NodeValue::Reference(reference_node(reference, span)?)),
        Kind::List(items, _) => {
            let items = items.iter().map(|item| value_node(item, span, budget));
            of(NodeValue::List(items.collect::<Result<_, _>>()?))
        }
        Kind::Map(items, _) => {
            let mut object = Object::default();
            for (key, item) in items.iter() {
                let key = SpannedText { text: key.to_string().into(), span };
                object.push(key, vec![], value_node(item, span, budget)?);
            }
            Node::object(object, span)
        }
    })
}

fn reference_node<'a>(
    reference: &EvaluatedReference,
    span: Span,
) -> Result<SecretReference<'a>, NoValue> {
    let source = match reference.source {
        SecretSource::Env => ReferenceSource::Env,
        SecretSource::File => ReferenceSource::File,
        SecretSource::NomadVar => ReferenceSource::NomadVar,
        SecretSource::Vault | SecretSource::Exec => {
            let name = reference.source.as_str();
            let message = format!("`{name}` is not supported yet as a source of secrets");
            let problem = Diagnostic::error(Code::SpecSecretReference, message).label(span, "");
            return Err(NoValue::Problem(Box::new(problem)));
        }
    };
    let arguments = reference.arguments.iter().map(|argument| argument.to_string().into());
    Ok(SecretReference { source, arguments: arguments.collect(), place: reference.place })
}
