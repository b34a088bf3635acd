//! Evaluates an expression: marks follow every operation, and every step is counted.
//!
//! Nothing is looked up by a text except keys of maps. A name without a value is an error that
//! callers never show, because they check names before. The depth of recursion is that of the tree,
//! which is limited.

use std::ops::Range;
use std::rc::Rc;

use super::budget::{Budget, LimitExceeded};
use super::equal_keys::equal_keys;
use super::functions::call::Failure;
use super::functions::table::{Function, Mark};
use super::operators::{self, OperatorProblem};
use super::place::TextPlace;
use super::problem::{Problem, shortened, suggestion};
use super::tree::{Expr, ExprKind, ForExpr, FunctionId, Get, Key, Operator, VolumeName};
use super::value::{Kind, MapItems, NotComparable, SecretReference, SecretSource, Value};
use nomad_csi_model::diagnostic::Code;

/// What the names in an expression mean.
#[derive(Clone, Copy, Default)]
pub(crate) struct Scope<'s> {
    /// The values of variables, by slot.
    pub(crate) variables: &'s [Option<Value>],
    /// The values of local values, by slot.
    pub(crate) locals: &'s [Option<Value>],
    /// `each.key` and `each.value`.
    pub(crate) each: Option<(&'s Value, &'s Value)>,
    /// `count.index`
    pub(crate) count_index: Option<i64>,
    /// `volume.label`, `volume.key` and `volume.id`.
    pub(crate) volume: Option<&'s VolumeNames>,
    /// The place of the expression; references to secrets keep theirs.
    pub(crate) place: Option<TextPlace>,
}

/// The names of the volume that an expression belongs to.
#[derive(Clone)]
pub(crate) struct VolumeNames {
    pub(crate) label: Rc<str>,
    pub(crate) key: Rc<str>,
    pub(crate) id: Rc<str>,
}

/// Returns the value of an expression.
///
/// # Errors
/// If an operation is not possible, or a limit is exceeded.
pub(crate) fn evaluate(
    expr: &Expr,
    scope: &Scope<'_>,
    budget: &mut Budget,
) -> Result<Value, Problem> {
    Evaluator { scope, budget, bound: vec![] }.value(expr)
}

struct Evaluator<'s, 'b> {
    scope: &'s Scope<'s>,
    budget: &'b mut Budget,
    /// The values of the names of `for` expressions, the innermost last.
    bound: Vec<Value>,
}

impl Evaluator<'_, '_> {
    fn value(&mut self, expr: &Expr) -> Result<Value, Problem> {
        let here = |limit: LimitExceeded| limit.at(expr.at.clone());
        self.budget.take_steps(1).map_err(here)?;
        match &expr.kind {
            ExprKind::Constant(value) => Ok(value.clone()),
            ExprKind::List(items) => {
                self.budget.take_values(items.len()).map_err(here)?;
                let items = items.iter().map(|item| self.value(item));
                let items: Vec<Value> = items.collect::<Result<_, _>>()?;
                Value::list(items).map_err(here)
            }
            ExprKind::Map(items) => self.map(expr, items),
            ExprKind::Template(parts) => self.template(expr, parts),
            ExprKind::Variable(slot) => found(slot_value(self.scope.variables, *slot), expr),
            ExprKind::Local(slot) => found(slot_value(self.scope.locals, *slot), expr),
            ExprKind::EachKey => found(self.scope.each.map(|(key, _)| key), expr),
            ExprKind::EachValue => found(self.scope.each.map(|(_, value)| value), expr),
            ExprKind::CountIndex => {
                let index = self.scope.count_index.map(Value::integer);
                index.ok_or_else(|| without_value(expr))
            }
            ExprKind::VolumeName(name) => {
                let volume = self.scope.volume.ok_or_else(|| without_value(expr))?;
                let text = match name {
                    VolumeName::Label => &volume.label,
                    VolumeName::Key => &volume.key,
                    VolumeName::Id => &volume.id,
                };
                Ok(Value::text(Rc::clone(text)))
            }
            ExprKind::Bound(slot) => found(self.bound.get(usize::from(*slot)), expr),
            ExprKind::Get(get) => self.get(get),
            ExprKind::Index(pair) => {
                let [of, index] = &**pair;
                let of = self.value(of)?;
                let index_value = self.value(index)?;
                item(&of, &index_value, index)
            }
            ExprKind::Condition(three) => {
                let [condition, then, otherwise] = &**three;
                let (holds, is_sensitive) = self.condition(condition)?;
                let value = self.value(if holds { then } else { otherwise })?;
                Ok(value.marked(is_sensitive))
            }
            ExprKind::Not(inner) => {
                let value = self.value(inner)?;
                match value.kind {
                    Kind::Bool(inner) => Ok(Value::boolean(!inner).marked(value.is_sensitive)),
                    Kind::Null
                    | Kind::Integer(_)
                    | Kind::Float(_)
                    | Kind::Text(_)
                    | Kind::List(..)
                    | Kind::Map(..)
                    | Kind::Secret(_)
                    | Kind::Unknown => Err(not_applicable(expr, "!", &[(inner, &value)])),
                }
            }
            ExprKind::Negate(inner) => {
                let value = self.value(inner)?;
                operators::negate(&value)
                    .map_err(|problem| operator_problem(problem, expr, "-", &[(inner, &value)]))
            }
            ExprKind::Binary(operator, sides) => self.binary(expr, *operator, sides),
            ExprKind::Call(function, args, expands) => self.call(expr, *function, args, *expands),
            ExprKind::Source(source, args) => self.source(expr, *source, args),
            ExprKind::For(each) => self.for_each(expr, each),
            ExprKind::Unknown => Ok(Kind::Unknown.into()),
        }
    }

    fn map(&mut self, expr: &Expr, items: &[(Key, Expr)]) -> Result<Value, Problem> {
        let here = |limit: LimitExceeded| limit.at(expr.at.clone());
        self.budget.take_values(items.len()).map_err(here)?;
        let mut map = MapItems::new();
        let mut has_sensitive_key = false;
        for (index, (written, value)) in items.iter().enumerate() {
            let (key, is_sensitive) = self.item_key(written)?;
            has_sensitive_key |= is_sensitive;
            self.budget.take_text(key.len()).map_err(here)?;
            let value = self.value(value)?;
            if map.contains_key(&key) {
                let before = items.iter().take(index).map(|(key, _)| key);
                let first = self.first_of_key(&key, before);
                let shown = (!has_sensitive_key).then_some(&*key);
                return Err(equal_keys(shown, written.at(), first.as_ref()));
            }
            map.insert(key, value);
        }
        Ok(Value::map(map).map_err(here)?.marked(has_sensitive_key))
    }

    /// Returns the text of the key of an item, and whether it is sensitive.
    fn item_key(&mut self, key: &Key) -> Result<(Rc<str>, bool), Problem> {
        match key {
            Key::Name(name, _) => Ok((Rc::clone(name), false)),
            Key::Evaluated(key) => self.key(key),
        }
    }

    /// Returns the position of the first of some keys that has a text.
    fn first_of_key<'k>(
        &mut self,
        text: &str,
        keys: impl Iterator<Item = &'k Key>,
    ) -> Option<Range<u32>> {
        for key in keys {
            let (other, _) = self.item_key(key).ok()?;
            if *other == *text {
                return Some(key.at());
            }
        }
        None
    }

    /// Evaluates the key of an item of a map, and returns whether it is sensitive.
    fn key(&mut self, expr: &Expr) -> Result<(Rc<str>, bool), Problem> {
        let value = self.value(expr)?;
        if let Some(problem) = late(&value, expr, "cannot be a key") {
            return Err(problem);
        }
        let text = value.to_text().ok_or_else(|| {
            let message = format!("a key is {}, not a text", value.kind_name());
            Problem::new(Code::SpecWrongType, expr.at.clone(), message).label("expected a text")
        })?;
        Ok((text, value.is_sensitive))
    }

    fn template(&mut self, expr: &Expr, parts: &[Expr]) -> Result<Value, Problem> {
        let mut text = String::new();
        let mut is_sensitive = false;
        for part in parts {
            let value = self.value(part)?;
            if let Some(problem) = late(&value, part, "cannot be part of a text") {
                return Err(problem);
            }
            is_sensitive |= value.is_sensitive;
            let part_text = value.to_text().ok_or_else(|| {
                let message = format!("{} cannot be part of a text", value.kind_name());
                Problem::new(Code::SpecWrongType, part.at.clone(), message)
                    .label("expected a text, a number or a boolean")
            })?;
            let taken = self.budget.take_text(part_text.len());
            taken.map_err(|limit| limit.at(expr.at.clone()))?;
            text.push_str(&part_text);
        }
        Ok(Value::text(text).marked(is_sensitive))
    }

    fn get(&mut self, get: &Get) -> Result<Value, Problem> {
        let of = self.value(&get.of)?;
        let Kind::Map(items, _) = &of.kind else {
            return Err(no_keys(&of, &get.of, get));
        };
        match items.get(&get.key) {
            Some(value) => Ok(value.clone().marked(of.is_sensitive)),
            None => Err(no_key(items, &get.key, of.is_sensitive, false, get.key_at.clone())),
        }
    }

    /// Evaluates a condition, and returns whether it holds and whether it is sensitive.
    fn condition(&mut self, expr: &Expr) -> Result<(bool, bool), Problem> {
        let value = self.value(expr)?;
        match &value.kind {
            Kind::Bool(holds) => Ok((*holds, value.is_sensitive)),
            Kind::Secret(secret) => Err(late_secret(secret, expr, "cannot be a condition")),
            Kind::Null
            | Kind::Integer(_)
            | Kind::Float(_)
            | Kind::Text(_)
            | Kind::List(..)
            | Kind::Map(..)
            | Kind::Unknown => {
                let message =
                    format!("the condition is {}, not `true` or `false`", value.kind_name());
                let problem = Problem::new(Code::SpecWrongType, expr.at.clone(), message)
                    .label("expected a boolean");
                Err(match value.kind {
                    Kind::Text(_) => problem.help("compare it, such as `x == \"true\"`; if it is a variable, set `type = bool`"),
                    Kind::Null => problem.help("compare it, such as `x != null`"),
                    Kind::Integer(_) | Kind::Float(_) => problem.help("compare it, such as `x > 0`"),
                    Kind::Bool(_) | Kind::List(..) | Kind::Map(..) | Kind::Secret(_) | Kind::Unknown => problem,
                })
            }
        }
    }

    fn binary(
        &mut self,
        expr: &Expr,
        operator: Operator,
        sides: &[Expr; 2],
    ) -> Result<Value, Problem> {
        let [left_expr, right_expr] = sides;
        let left = self.value(left_expr)?;
        let decides = match operator {
            Operator::And => matches!(left.kind, Kind::Bool(false)),
            Operator::Or => matches!(left.kind, Kind::Bool(true)),
            Operator::Equal
            | Operator::NotEqual
            | Operator::Less
            | Operator::LessOrEqual
            | Operator::Greater
            | Operator::GreaterOrEqual
            | Operator::Add
            | Operator::Subtract
            | Operator::Multiply
            | Operator::Divide
            | Operator::Remainder => false,
        };
        if decides {
            return Ok(left);
        }
        let right = self.value(right_expr)?;
        operators::apply(operator, &left, &right, self.budget).map_err(|problem| {
            let sides = [(left_expr, &left), (right_expr, &right)];
            operator_problem(problem, expr, operator.as_str(), &sides)
        })
    }

    fn call(
        &mut self,
        expr: &Expr,
        function: FunctionId,
        exprs: &[Expr],
        expands: bool,
    ) -> Result<Value, Problem> {
        let Some(function) = Function::get(function) else {
            return Err(without_value(expr));
        };
        let mut args = Vec::with_capacity(exprs.len());
        for arg in exprs {
            args.push(self.value(arg)?);
        }
        let mut has_sensitive_list = false;
        if expands && let (Some(last), Some(last_expr)) = (args.pop(), exprs.last()) {
            let Kind::List(items, _) = &last.kind else {
                let message = format!("`...` takes a list, not {}", last.kind_name());
                return Err(Problem::new(
                    Code::SpecFunctionArguments,
                    last_expr.at.clone(),
                    message,
                )
                .label("expected a list"));
            };
            let taken = self.budget.take_steps(items.len());
            taken.map_err(|limit| limit.at(expr.at.clone()))?;
            has_sensitive_list = last.is_sensitive;
            args.extend(items.iter().cloned());
        }
        if !function.takes(args.len()) {
            return Err(wrong_count(function, args.len(), expr.at.clone()));
        }
        let arg_at = |index: usize| {
            let expr = exprs.get(index).or(exprs.last()).unwrap_or(expr);
            expr.at.clone()
        };
        for (index, value) in args.iter().enumerate() {
            let what = format!("cannot be an argument of `{}`", function.name);
            match &value.kind {
                Kind::Secret(secret) => {
                    return Err(late_secret_at(secret, arg_at(index), &what));
                }
                Kind::Unknown => return Err(unknown_at(arg_at(index), &what)),
                Kind::Null
                | Kind::Bool(_)
                | Kind::Integer(_)
                | Kind::Float(_)
                | Kind::Text(_)
                | Kind::List(..)
                | Kind::Map(..) => {}
            }
            if let Some(expected) = function.wrong_type(index, value) {
                let (number, kind) = (index + 1, value.kind_name());
                let message =
                    format!("argument {number} of `{}` is {kind}, not {expected}", function.name);
                return Err(Problem::new(Code::SpecFunctionArguments, arg_at(index), message)
                    .label(format!("expected {expected}")));
            }
        }
        let is_sensitive = has_sensitive_list
            || args.iter().any(|value| match function.mark {
                Mark::Inner => value.holds_sensitive(),
                Mark::Outer => value.is_sensitive,
            });
        let result = (function.run)(&args, self.budget);
        let result = result.map_err(|failure| {
            self::failure(failure, function, &args, is_sensitive, expr, &arg_at)
        })?;
        Ok(result.marked(is_sensitive))
    }

    fn source(
        &mut self,
        call: &Expr,
        source: SecretSource,
        exprs: &[Expr],
    ) -> Result<Value, Problem> {
        let mut arguments = vec![];
        let mut is_sensitive = false;
        for (index, expr) in exprs.iter().enumerate() {
            let value = self.value(expr)?;
            is_sensitive |= value.holds_sensitive();
            let name = source.as_str();
            if let Some(problem) = late(&value, expr, &format!("cannot be an argument of `{name}`"))
            {
                return Err(problem);
            }
            let wrong = |expected: &str, kind: &str| {
                let message =
                    format!("argument {} of `{name}` is {kind}, not {expected}", index + 1);
                Problem::new(Code::SpecFunctionArguments, expr.at.clone(), message)
                    .label(format!("expected {expected}"))
            };
            match (&value.kind, source) {
                (Kind::List(items, _), SecretSource::Exec) => {
                    let taken = self.budget.take_steps(items.len());
                    taken.map_err(|limit| limit.at(expr.at.clone()))?;
                    for item in items.iter() {
                        let Kind::Text(text) = &item.kind else {
                            let kind = format!("a list with {}", item.kind_name());
                            return Err(wrong("a list of texts", &kind));
                        };
                        arguments.push(Rc::clone(text));
                    }
                    if arguments.is_empty() {
                        return Err(wrong("a list of texts", "an empty list"));
                    }
                }
                (_, SecretSource::Exec) => {
                    return Err(wrong("a list of texts", value.kind_name()));
                }
                (Kind::Text(text), _) => arguments.push(Rc::clone(text)),
                (_, _) => return Err(wrong("a text", value.kind_name())),
            }
        }
        let place = self.scope.place.map(|place| place.of(&call.at));
        let reference = SecretReference { source, arguments, place };
        Ok(Value { kind: Kind::Secret(Rc::new(reference)), is_sensitive })
    }

    fn for_each(&mut self, expr: &Expr, each: &ForExpr) -> Result<Value, Problem> {
        let collection = self.value(&each.collection)?;
        let mut result =
            ForResult { list: vec![], map: MapItems::new(), is_sensitive: collection.is_sensitive };
        match &collection.kind {
            Kind::List(items, _) => {
                for (index, item) in items.iter().enumerate() {
                    let index = i64::try_from(index).unwrap_or(i64::MAX);
                    let item = item.clone().marked(collection.is_sensitive);
                    self.for_item(expr, each, Value::integer(index), item, &mut result)?;
                }
            }
            Kind::Map(items, _) => {
                for (key, item) in items.iter() {
                    let key = Value::text(Rc::clone(key)).marked(collection.is_sensitive);
                    let item = item.clone().marked(collection.is_sensitive);
                    self.for_item(expr, each, key, item, &mut result)?;
                }
            }
            Kind::Secret(secret) => {
                return Err(late_secret(secret, &each.collection, "has no items for `for`"));
            }
            Kind::Null
            | Kind::Bool(_)
            | Kind::Integer(_)
            | Kind::Float(_)
            | Kind::Text(_)
            | Kind::Unknown => {
                let message =
                    format!("`for` takes a list or a map, not {}", collection.kind_name());
                let at = each.collection.at.clone();
                return Err(Problem::new(Code::SpecWrongType, at, message)
                    .label("expected a list or a map"));
            }
        }
        let made = match each.key {
            Some(_) => Value::map(result.map),
            None => Value::list(result.list),
        };
        let made = made.map_err(|limit| limit.at(expr.at.clone()))?;
        Ok(made.marked(result.is_sensitive))
    }

    fn for_item(
        &mut self,
        expr: &Expr,
        each: &ForExpr,
        key: Value,
        item: Value,
        result: &mut ForResult,
    ) -> Result<(), Problem> {
        let depth = self.bound.len();
        if each.has_key_name {
            self.bound.push(key);
        }
        self.bound.push(item);
        let added = self.add_item(expr, each, result);
        self.bound.truncate(depth);
        added
    }

    fn add_item(
        &mut self,
        expr: &Expr,
        each: &ForExpr,
        result: &mut ForResult,
    ) -> Result<(), Problem> {
        let here = |limit: LimitExceeded| limit.at(expr.at.clone());
        self.budget.take_steps(1).map_err(here)?;
        if let Some(condition) = &each.condition {
            let (holds, is_sensitive) = self.condition(condition)?;
            // Whether an item is there shows the condition.
            result.is_sensitive |= is_sensitive;
            if !holds {
                return Ok(());
            }
        }
        self.budget.take_values(1).map_err(here)?;
        let Some(key_expr) = &each.key else {
            let value = self.value(&each.value)?;
            result.list.push(value);
            return Ok(());
        };
        let (key, is_sensitive) = self.key(key_expr)?;
        result.is_sensitive |= is_sensitive;
        self.budget.take_text(key.len()).map_err(here)?;
        let value = self.value(&each.value)?;
        if result.map.contains_key(&key) {
            let message = match result.is_sensitive {
                true => "two items of `for` have the same key".to_owned(),
                false => format!("two items of `for` have the key `{}`", shortened(&key)),
            };
            let at = key_expr.at.clone();
            return Err(Problem::new(Code::SpecDuplicateField, at, message)
                .label("a key that differs for each item is required"));
        }
        result.map.insert(key, value);
        Ok(())
    }
}

/// The items of a `for` expression so far.
struct ForResult {
    list: Vec<Value>,
    map: MapItems,
    is_sensitive: bool,
}

fn slot_value(values: &[Option<Value>], slot: u32) -> Option<&Value> {
    values.get(usize::try_from(slot).ok()?)?.as_ref()
}

fn found(value: Option<&Value>, expr: &Expr) -> Result<Value, Problem> {
    value.cloned().ok_or_else(|| without_value(expr))
}

/// Returns the problem of a name that the volume does not have, in a class that others take too. Callers check all
/// other names before.
fn without_value(expr: &Expr) -> Problem {
    let message = match expr.kind {
        ExprKind::EachKey | ExprKind::EachValue => {
            "`each` is not available here: the volume has no `for_each`"
        }
        ExprKind::CountIndex => "`count` is not available here: the volume has no `count`",
        ExprKind::Constant(_)
        | ExprKind::List(_)
        | ExprKind::Map(_)
        | ExprKind::Template(_)
        | ExprKind::Variable(_)
        | ExprKind::Local(_)
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
        | ExprKind::Unknown => "the name has no value",
    };
    Problem::new(Code::SpecUnknownName, expr.at.clone(), message)
}

fn item(of: &Value, index: &Value, index_expr: &Expr) -> Result<Value, Problem> {
    let at = index_expr.at.clone();
    let is_sensitive = of.is_sensitive || index.is_sensitive;
    if let Some(problem) = late(index, index_expr, "cannot be an index") {
        return Err(problem);
    }
    match (&of.kind, &index.kind) {
        (Kind::Map(items, _), Kind::Text(key)) => match items.get(key) {
            Some(value) => Ok(value.clone().marked(is_sensitive)),
            None => Err(no_key(items, key, of.is_sensitive, index.is_sensitive, at)),
        },
        (Kind::List(items, _), Kind::Integer(number)) => {
            let value = usize::try_from(*number).ok().and_then(|number| items.get(number));
            value.map(|value| value.clone().marked(is_sensitive)).ok_or_else(|| {
                let count = match items.len() {
                    1 => "1 item".to_owned(),
                    count => format!("{count} items"),
                };
                let message = match is_sensitive {
                    true => "the index is outside of the list".to_owned(),
                    false => {
                        format!("index {number} is outside of the list, which has {count}")
                    }
                };
                Problem::new(Code::SpecNoSuchItem, at, message).label("no such item")
            })
        }
        (Kind::Map(..), _) => {
            let message = format!("the key is {}, not a text", index.kind_name());
            Err(Problem::new(Code::SpecWrongType, at, message).label("expected a text"))
        }
        (Kind::List(..), _) => {
            let kind = match index.kind {
                Kind::Float(_) => "not a whole number".to_owned(),
                Kind::Null
                | Kind::Bool(_)
                | Kind::Integer(_)
                | Kind::Text(_)
                | Kind::List(..)
                | Kind::Map(..)
                | Kind::Secret(_)
                | Kind::Unknown => format!("{}, not a number", index.kind_name()),
            };
            let message = format!("the index is {kind}");
            Err(Problem::new(Code::SpecWrongType, at, message).label("expected a whole number"))
        }
        (_, _) => Err(no_items(of, index_expr, &at)),
    }
}

/// Returns the problem of a key of a value that is no map.
fn no_keys(of: &Value, expr: &Expr, get: &Get) -> Problem {
    late(of, expr, "has no items").unwrap_or_else(|| {
        let kind = of.kind_name();
        let message = format!("{kind} has no key `{}`", shortened(&get.key));
        let problem = Problem::new(Code::SpecWrongType, get.key_at.clone(), message)
            .label(format!("the value before it is {kind}"));
        match of.kind {
            Kind::List(..) => problem.help(format!(
                "write `LIST[0].{key}` for one item, or `[for x in LIST : x.{key}]` for all",
                key = shortened(&get.key)
            )),
            Kind::Null
            | Kind::Bool(_)
            | Kind::Integer(_)
            | Kind::Float(_)
            | Kind::Text(_)
            | Kind::Map(..)
            | Kind::Secret(_)
            | Kind::Unknown => problem.help("remove the key, or give a map to the name before it"),
        }
    })
}

fn no_items(of: &Value, expr: &Expr, at: &Range<u32>) -> Problem {
    late(of, expr, "has no items").unwrap_or_else(|| {
        let message = format!("{} has no items", of.kind_name());
        Problem::new(Code::SpecWrongType, at.clone(), message)
            .label("expected a list or a map before")
    })
}

fn no_key(
    items: &MapItems,
    key: &str,
    has_sensitive_keys: bool,
    is_key_sensitive: bool,
    at: Range<u32>,
) -> Problem {
    let message = match is_key_sensitive {
        true => "the map has no such key".to_owned(),
        false => format!("the map has no key `{}`", shortened(key)),
    };
    let known = items.keys().map(|key| &**key);
    let label = match has_sensitive_keys || is_key_sensitive {
        true => "no such key".to_owned(),
        false => suggestion(key, known, "no such key"),
    };
    Problem::new(Code::SpecNoSuchItem, at, message).label(label)
}

/// Returns the problem of a value that is not known yet.
fn late(value: &Value, expr: &Expr, what: &str) -> Option<Problem> {
    match &value.kind {
        Kind::Secret(secret) => Some(late_secret(secret, expr, what)),
        Kind::Unknown => Some(unknown_at(expr.at.clone(), what)),
        Kind::Null
        | Kind::Bool(_)
        | Kind::Integer(_)
        | Kind::Float(_)
        | Kind::Text(_)
        | Kind::List(..)
        | Kind::Map(..) => None,
    }
}

fn late_secret(secret: &SecretReference, expr: &Expr, what: &str) -> Problem {
    late_secret_at(secret, expr.at.clone(), what)
}

fn late_secret_at(secret: &SecretReference, at: Range<u32>, what: &str) -> Problem {
    let name = secret.source.as_str();
    let message = format!("`{name}(…)` {what}: it is read when the volume is sent");
    Problem::new(Code::SpecLateSecret, at, message).label("a reference to a secret")
}

fn unknown_at(at: Range<u32>, what: &str) -> Problem {
    let message = format!("`unknown` {what}");
    Problem::new(Code::SpecWrongType, at, message).label("an unknown hidden value")
}

fn not_applicable(expr: &Expr, operator: &str, sides: &[(&Expr, &Value)]) -> Problem {
    let what = format!("cannot be a side of `{operator}`");
    for (side, value) in sides {
        if let Some(problem) = late(value, side, &what) {
            return problem;
        }
    }
    let kinds: Vec<&str> = sides.iter().map(|(_, value)| value.kind_name()).collect();
    let message = format!("`{operator}` does not apply to {}", kinds.join(" and "));
    Problem::new(Code::SpecWrongType, expr.at.clone(), message).label("values of a wrong type")
}

fn operator_problem(
    problem: OperatorProblem,
    expr: &Expr,
    operator: &str,
    sides: &[(&Expr, &Value)],
) -> Problem {
    let at = expr.at.clone();
    match problem {
        OperatorProblem::NotApplicable | OperatorProblem::NotComparable(NotComparable::Unknown) => {
            not_applicable(expr, operator, sides)
        }
        OperatorProblem::DivisionByZero => {
            let at = sides.last().map_or(at, |(side, _)| side.at.clone());
            Problem::new(Code::SpecArithmetic, at, "cannot divide by zero").label("zero")
        }
        OperatorProblem::TooLarge => too_large(at),
        OperatorProblem::NotComparable(NotComparable::Limit(limit)) => limit.at(at),
        OperatorProblem::NotComparable(NotComparable::Secret(secret)) => {
            late_secret_at(&secret, at, &format!("cannot be a side of `{operator}`"))
        }
    }
}

fn too_large(at: Range<u32>) -> Problem {
    Problem::new(Code::SpecArithmetic, at, "the result is too large").label("too large")
}

/// Returns the problem of a call with a wrong number of arguments.
pub(super) fn wrong_count(function: &Function, count: usize, at: Range<u32>) -> Problem {
    let message = format!("`{}` requires {}", function.name, function.requirement);
    let label = match count {
        1 => "1 argument".to_owned(),
        count => format!("{count} arguments"),
    };
    Problem::new(Code::SpecFunctionArguments, at, message).label(label)
}

fn failure(
    failure: Failure,
    function: &Function,
    args: &[Value],
    is_sensitive: bool,
    expr: &Expr,
    arg_at: &dyn Fn(usize) -> Range<u32>,
) -> Problem {
    let name = function.name;
    match failure {
        Failure::Argument { index, reason, hidden } => {
            let hides = is_sensitive || args.iter().any(Value::holds_sensitive);
            let reason = if hides { hidden } else { &reason };
            let message = format!("cannot evaluate `{name}`: {reason}");
            Problem::new(Code::SpecFunctionArguments, arg_at(index), message).label("this argument")
        }
        Failure::Secret(secret) => late_secret_at(
            &secret,
            expr.at.clone(),
            &format!("cannot be part of an argument of `{name}`"),
        ),
        Failure::Unknown => {
            unknown_at(expr.at.clone(), &format!("cannot be part of an argument of `{name}`"))
        }
        Failure::Limit(limit) => limit.at(expr.at.clone()),
        Failure::TooLarge => too_large(expr.at.clone()),
    }
}
