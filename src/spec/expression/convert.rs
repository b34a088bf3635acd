//! Makes the tree of an expression from the AST of the HCL parser, and reports everything that is
//! wrong with it whatever the values are.
//!
//! Names become slots, a call becomes a row of the table of functions. Splats, directives and
//! grouping are refused. The parser limits nesting and operators; chains such as `a.b.c` are limited
//! here, by the levels of the tree.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::rc::Rc;

use hcl_edit::Span as _;
use hcl_edit::expr::{
    BinaryOperator, Expression, ForExpr as HclFor, FuncCall, ObjectKey, Traversal,
    TraversalOperator, UnaryOperator,
};
use hcl_edit::template::{Element, Template};

use super::equal_keys::{self, equal_keys};
use super::evaluate::wrong_count;
use super::functions::table::{FUNCTIONS, Function};
use super::names::Names;
use super::other_languages;
use super::problem::{Problem, suggestion};
use super::tree::{Expr, ExprKind, ForExpr, Get, Key, Operator, VolumeName};
use super::value::{Kind, SecretSource, Value};
use crate::words::SENSITIVE;
use nomad_csi_model::diagnostic::Code;

/// Limit of the levels of a tree: those that the parser accepts, and as many again for chains.
const MAX_LEVELS: usize = 400;

/// Limit of the bytes of one expression.
pub(super) const MAX_BYTES: usize = 256 << 10;

/// The names that a `for` cannot use.
const RESERVED: [&str; 6] = ["var", "local", "each", "count", "volume", "unknown"];

/// Reads the text of one HCL2 expression.
///
/// # Errors
/// Returns everything that is wrong with it.
pub(crate) fn parse_expression(text: &str, names: &mut Names) -> Result<Rc<Expr>, Vec<Problem>> {
    if text.len() > MAX_BYTES {
        return Err(vec![too_long()]);
    }
    let parsed = hcl_edit::parser::parse_expr(text).map_err(|error| {
        let message = error.message().to_owned();
        vec![syntax(text, error.location().offset(), &message)]
    })?;
    Converter::new(text, names).finish(|converter| converter.expr(&parsed))
}

pub(super) fn too_long() -> Problem {
    Problem::new(Code::SpecSyntax, 0..0, "this expression is too long").label("more than 256 KiB")
}

/// Returns whether the parser refuses a key that its map already has.
pub(super) fn is_repeated_key(message: &str) -> bool {
    message.contains("redefined")
}

/// Returns the problem of a key at a place that is written as the first one.
pub(super) fn repeated_key((at, first): (Range<usize>, Option<Range<usize>>)) -> Problem {
    equal_keys(None, short(&at), first.map(|first| short(&first)).as_ref())
}

/// Returns the problem of a text that the parser does not accept.
pub(super) fn syntax(text: &str, offset: usize, message: &str) -> Problem {
    let mut start = offset.min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    // The parser stops before the white space that is before what it does not accept.
    if !text[start..].trim_start().is_empty() {
        start = text.len() - text[start..].trim_start().len();
    }
    let end = text[start..].chars().next().map_or(start, |c| start + c.len_utf8());
    let at = short(&(start..end));
    if message.contains("nested levels") || message.contains("chained") {
        return too_deep(at);
    }
    if is_repeated_key(message) {
        return repeated_key(equal_keys::places(text, start));
    }
    Problem::new(Code::SpecSyntax, at, "expected a value or an expression")
        .help("put text in double quotes")
}

fn too_deep(at: Range<u32>) -> Problem {
    Problem::new(Code::SpecTooDeep, at, "the expression is nested too deeply")
}

/// A text has at most 256 KiB, so its positions fit.
pub(super) fn short(range: &Range<usize>) -> Range<u32> {
    let position = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    position(range.start)..position(range.end)
}

/// What `~` removes beside a `${…}`.
#[derive(Clone, Copy)]
pub(super) enum Strip {
    /// All white space, of a text in quotes.
    Everything,
    /// White space of the same line, and the end of the line after it. Lines of a here-document are
    /// separate texts in HCL 2.
    Line,
}

impl Strip {
    fn start(self, text: &str) -> &str {
        let end = match self {
            Self::Everything => text.len(),
            Self::Line => text.find('\n').map_or(text.len(), |at| at + 1),
        };
        &text[end - text[..end].trim_start().len()..]
    }

    fn end(self, text: &str) -> &str {
        let start = match self {
            Self::Everything => 0,
            Self::Line => text.rfind('\n').map_or(0, |at| at + 1),
        };
        &text[..start + text[start..].trim_end().len()]
    }
}

pub(super) struct Converter<'t> {
    text: &'t str,
    names: &'t mut Names,
    /// The names of the `for` expressions around, the innermost last.
    bound: Vec<String>,
    levels: usize,
    problems: Vec<Problem>,
}

impl<'t> Converter<'t> {
    pub(super) fn new(text: &'t str, names: &'t mut Names) -> Self {
        Self { text, names, bound: vec![], levels: 0, problems: vec![] }
    }

    /// Returns the tree that `convert` makes, or all problems.
    pub(super) fn finish(
        mut self,
        convert: impl FnOnce(&mut Self) -> Expr,
    ) -> Result<Rc<Expr>, Vec<Problem>> {
        let expr = convert(&mut self);
        if self.problems.is_empty() { Ok(Rc::new(expr)) } else { Err(self.problems) }
    }

    fn at(&self, span: Option<Range<usize>>) -> Range<u32> {
        short(&span.unwrap_or(0..self.text.len()))
    }

    /// Adds a problem, and returns what stands for the expression that has it.
    fn refuse(&mut self, problem: Problem) -> ExprKind {
        self.problems.push(problem);
        ExprKind::Constant(Value::NULL)
    }

    fn expr(&mut self, source: &Expression) -> Expr {
        let at = self.at(source.span());
        if self.levels >= MAX_LEVELS {
            let kind = self.refuse(too_deep(at.clone()));
            return Expr { kind, at };
        }
        self.levels += 1;
        let expr = self.expr_at(source, at);
        self.levels -= 1;
        expr
    }

    fn expr_at(&mut self, source: &Expression, at: Range<u32>) -> Expr {
        let kind = match source {
            Expression::Null(_) => ExprKind::Constant(Value::NULL),
            Expression::Bool(value) => ExprKind::Constant(Value::boolean(*value.value())),
            Expression::Number(number) => {
                let number = number.value();
                match literal(number.as_i64(), number.as_u64(), number.as_f64()) {
                    Some(kind) => ExprKind::Constant(kind.into()),
                    None => self.refuse(Problem::new(
                        Code::SpecArithmetic,
                        at.clone(),
                        "the number is too large",
                    )),
                }
            }
            Expression::String(text) => ExprKind::Constant(Value::text(text.value().as_str())),
            Expression::Array(items) => {
                ExprKind::List(items.iter().map(|item| self.expr(item)).collect())
            }
            Expression::Object(items) => {
                let items = items.iter().map(|(key, value)| {
                    let key = match key {
                        ObjectKey::Ident(name) => {
                            Key::Name(name.as_str().into(), self.at(name.span()))
                        }
                        ObjectKey::Expression(key) => Key::Evaluated(self.expr(key)),
                    };
                    (key, self.expr(value.expr()))
                });
                let items: Box<[(Key, Expr)]> = items.collect();
                self.refuse_equal_keys(&items);
                ExprKind::Map(items)
            }
            Expression::Parenthesis(inner) => return self.expr(inner.inner()),
            Expression::StringTemplate(template) => {
                return self.template(template, at, Strip::Everything);
            }
            Expression::HeredocTemplate(heredoc) => {
                return self.template(&heredoc.template, at, Strip::Line);
            }
            Expression::Variable(word) => self.word(word.as_str(), &at),
            Expression::Traversal(traversal) => return self.traversal(traversal, at),
            Expression::Conditional(condition) => ExprKind::Condition(Box::new([
                self.expr(&condition.cond_expr),
                self.expr(&condition.true_expr),
                self.expr(&condition.false_expr),
            ])),
            Expression::UnaryOp(operation) => {
                let inner = Box::new(self.expr(&operation.expr));
                match operation.operator.value() {
                    UnaryOperator::Not => ExprKind::Not(inner),
                    UnaryOperator::Neg => ExprKind::Negate(inner),
                }
            }
            Expression::BinaryOp(operation) => {
                let sides = [self.expr(&operation.lhs_expr), self.expr(&operation.rhs_expr)];
                ExprKind::Binary(operator(*operation.operator.value()), Box::new(sides))
            }
            Expression::FuncCall(call) => self.call(call, &at),
            Expression::ForExpr(each) => self.for_each(each),
        };
        Expr { kind, at }
    }

    /// Reports keys of a map that are equal whatever the values are.
    fn refuse_equal_keys(&mut self, items: &[(Key, Expr)]) {
        let mut first = HashMap::new();
        for (key, _) in items {
            let Some(text) = key.constant() else {
                continue;
            };
            match first.entry(text) {
                Entry::Vacant(place) => drop(place.insert(key.at())),
                Entry::Occupied(place) => {
                    let problem = equal_keys(Some(place.key()), key.at(), Some(place.get()));
                    self.problems.push(problem);
                }
            }
        }
    }

    /// Converts a text with `${…}`. A text that is one `${…}` keeps the type of its value.
    pub(super) fn template(&mut self, template: &Template, at: Range<u32>, strip: Strip) -> Expr {
        let mut parts: Vec<Expr> = vec![];
        let mut strips_next = false;
        for element in template {
            let element_at = self.at(element.span());
            match element {
                Element::Literal(text) => {
                    let text = text.value().as_str();
                    let text = if strips_next { strip.start(text) } else { text };
                    strips_next = false;
                    let kind = ExprKind::Constant(Value::text(text));
                    parts.push(Expr { kind, at: element_at });
                }
                Element::Interpolation(inner) => {
                    if inner.strip.strip_start()
                        && let Some(Expr { kind: ExprKind::Constant(before), .. }) =
                            parts.last_mut()
                        && let Kind::Text(text) = &before.kind
                    {
                        *before = Value::text(strip.end(text));
                    }
                    strips_next = inner.strip.strip_end();
                    let part = self.expr(&inner.expr);
                    parts.push(part);
                }
                Element::Directive(_) => {
                    let problem = Problem::new(
                        Code::SpecExpression,
                        element_at,
                        "a `%{…}` directive is not supported",
                    );
                    let problem = problem
                        .label("a directive")
                        .help("write `${CONDITION ? A : B}` or `${join(\"\", [for x in LIST : x])}`, or `%%{` for a literal `%{`");
                    self.problems.push(problem);
                }
            }
        }
        if parts.is_empty() {
            return Expr { kind: ExprKind::Constant(Value::text("")), at };
        }
        if parts.len() == 1
            && let Some(part) = parts.pop()
        {
            return part;
        }
        Expr { kind: ExprKind::Template(parts.into()), at }
    }

    /// Converts a word that stands alone.
    fn word(&mut self, word: &str, at: &Range<u32>) -> ExprKind {
        if let Some(slot) = self.bound_slot(word) {
            return ExprKind::Bound(slot);
        }
        if word == "unknown" {
            return ExprKind::Unknown;
        }
        let problem = unknown_name(word, at.clone());
        self.refuse(match word {
            "var" | "local" => problem.label(format!("write `{word}.NAME`")),
            "each" => problem.label("write `each.key` or `each.value`"),
            "count" => problem.label("write `count.index`"),
            "volume" => problem.label("write `volume.id`, `volume.key` or `volume.label`"),
            _ => problem,
        })
    }

    fn bound_slot(&self, word: &str) -> Option<u16> {
        let slot = self.bound.iter().rposition(|name| name == word)?;
        u16::try_from(slot).ok()
    }

    fn traversal(&mut self, traversal: &Traversal, at: Range<u32>) -> Expr {
        let mut operators = traversal.operators.iter();
        let start = at.start;
        let mut of = match &traversal.expr {
            Expression::Variable(word) if self.bound_slot(word.as_str()).is_none() => {
                let word_at = self.at(word.span());
                let first = operators.next();
                let (name, name_at) = match first.map(hcl_edit::Decorated::value) {
                    Some(TraversalOperator::GetAttr(name)) => {
                        (Some(name.as_str()), self.at(name.span()))
                    }
                    Some(
                        TraversalOperator::Index(_)
                        | TraversalOperator::LegacyIndex(_)
                        | TraversalOperator::AttrSplat(_)
                        | TraversalOperator::FullSplat(_),
                    )
                    | None => (None, word_at.clone()),
                };
                let end = name_at.end;
                let kind = self.root(word.as_str(), &word_at, name, name_at);
                Expr { kind, at: start..end }
            }
            other => self.expr(other),
        };
        let levels = self.levels;
        for operator in operators {
            let operator_at = self.at(operator.span());
            self.levels += 1;
            if self.levels >= MAX_LEVELS {
                of.kind = self.refuse(too_deep(operator_at));
                break;
            }
            let whole = start..operator_at.end;
            let kind = match operator.value() {
                TraversalOperator::GetAttr(name) => ExprKind::Get(Box::new(Get {
                    of,
                    key: name.as_str().into(),
                    key_at: operator_at,
                })),
                TraversalOperator::Index(index) => {
                    let index = self.expr(index);
                    ExprKind::Index(Box::new([of, index]))
                }
                TraversalOperator::LegacyIndex(index) => {
                    let index = i64::try_from(**index).unwrap_or(i64::MAX);
                    let kind = ExprKind::Constant(Value::integer(index));
                    ExprKind::Index(Box::new([of, Expr { kind, at: operator_at }]))
                }
                TraversalOperator::AttrSplat(_) | TraversalOperator::FullSplat(_) => {
                    let problem =
                        Problem::new(Code::SpecExpression, operator_at, "a splat is not supported");
                    let help = "write `[for x in LIST : x.NAME]`";
                    of.kind = self.refuse(problem.label("a splat").help(help));
                    break;
                }
            };
            of = Expr { kind, at: whole };
        }
        self.levels = levels;
        of
    }

    /// Converts `var.NAME`, `each.key` and so on.
    fn root(
        &mut self,
        root: &str,
        root_at: &Range<u32>,
        name: Option<&str>,
        name_at: Range<u32>,
    ) -> ExprKind {
        let unknown_part = |message: &str| {
            Problem::new(Code::SpecUnknownName, name_at.clone(), message).label("no such name")
        };
        match (root, name) {
            ("var", Some(name)) => ExprKind::Variable(self.names.variable(name)),
            ("local", Some(name)) => ExprKind::Local(self.names.local(name)),
            ("each", Some("key")) => ExprKind::EachKey,
            ("each", Some("value")) => ExprKind::EachValue,
            ("count", Some("index")) => ExprKind::CountIndex,
            ("volume", Some("label")) => ExprKind::VolumeName(VolumeName::Label),
            ("volume", Some("key")) => ExprKind::VolumeName(VolumeName::Key),
            ("volume", Some("id")) => ExprKind::VolumeName(VolumeName::Id),
            ("each", Some(_)) => self.refuse(unknown_part("`each` has `key` and `value`")),
            ("count", Some(_)) => self.refuse(unknown_part("`count` has `index` only")),
            ("volume", Some(_)) => {
                self.refuse(unknown_part("`volume` has `id`, `key` and `label`"))
            }
            (word, _) => match self.word(word, root_at) {
                ExprKind::Unknown => self.refuse(unknown_name("unknown", root_at.clone())),
                kind => kind,
            },
        }
    }

    fn call(&mut self, call: &FuncCall, at: &Range<u32>) -> ExprKind {
        let args: Box<[Expr]> = call.args.iter().map(|arg| self.expr(arg)).collect();
        let expands = call.args.expand_final();
        let name = call.name.name.as_str();
        let name_at = at.start..self.at(call.name.name.span()).end;
        if call.name.is_namespaced() {
            let parts = call.name.namespace.iter().map(|part| part.as_str()).chain([name]);
            let name = parts.collect::<Vec<_>>().join("::");
            return self.refuse(unknown_function(&name, name_at));
        }
        if let Some(source) = SecretSource::parse(name) {
            if args.len() == source.argument_count() && !expands {
                return ExprKind::Source(source, args);
            }
            let message = format!("`{name}` requires {}", source.requirement());
            let problem = Problem::new(Code::SpecFunctionArguments, at.clone(), message);
            return self.refuse(problem.label(match (expands, args.len()) {
                (true, _) => "`...` is not possible here".to_owned(),
                (false, 1) => "1 argument".to_owned(),
                (false, count) => format!("{count} arguments"),
            }));
        }
        let Some(id) = Function::find(name) else {
            return self.refuse(unknown_function(name, name_at));
        };
        if let Some(function) = Function::get(id) {
            // A list in place of the last argument may have any number of items.
            let fixed = args.len() - usize::from(expands);
            let fits = match expands {
                true => function.most.is_none_or(|most| fixed <= most),
                false => function.takes(fixed),
            };
            if !fits {
                return self.refuse(wrong_count(function, args.len(), at.clone()));
            }
        }
        ExprKind::Call(id, args, expands)
    }

    fn for_each(&mut self, each: &HclFor) -> ExprKind {
        let collection = self.expr(&each.intro.collection_expr);
        let depth = self.bound.len();
        for name in each.intro.key_var.iter().chain([&each.intro.value_var]) {
            let word = name.as_str();
            let at = self.at(name.span());
            let message = format!("`for` cannot use the name `{word}`");
            let problem = Problem::new(Code::SpecExpression, at, message);
            if RESERVED.contains(&word) {
                self.problems.push(problem.label("a reserved name"));
            } else if self.bound.iter().any(|bound| bound == word) {
                self.problems.push(problem.label("this name is already used by a `for`"));
            }
            self.bound.push(word.to_owned());
        }
        let key = each.key_expr.as_ref().map(|key| self.expr(key));
        let value = self.expr(&each.value_expr);
        let condition = each.cond.as_ref().map(|condition| self.expr(&condition.expr));
        self.bound.truncate(depth);
        if each.grouping {
            let end = self.at(each.value_expr.span()).end;
            let message = "grouping with `...` is not supported in `for`";
            let problem = Problem::new(Code::SpecExpression, end..end.saturating_add(3), message);
            return self.refuse(problem.label("grouping").help("use keys that differ"));
        }
        let has_key_name = each.intro.key_var.is_some();
        ExprKind::For(Box::new(ForExpr { collection, has_key_name, key, value, condition }))
    }
}

/// Returns the value of a written number. A whole number is exact, or refused.
fn literal(whole: Option<i64>, positive: Option<u64>, float: Option<f64>) -> Option<Kind> {
    if let Some(whole) = whole {
        return Some(Kind::Integer(whole));
    }
    let float = float?;
    // From 2^63 on, a float is exact only for some.
    if positive.is_some_and(|number| format!("{float:.0}") != number.to_string()) {
        return None;
    }
    Kind::number(float)
}

fn operator(operator: BinaryOperator) -> Operator {
    match operator {
        BinaryOperator::Eq => Operator::Equal,
        BinaryOperator::NotEq => Operator::NotEqual,
        BinaryOperator::Less => Operator::Less,
        BinaryOperator::LessEq => Operator::LessOrEqual,
        BinaryOperator::Greater => Operator::Greater,
        BinaryOperator::GreaterEq => Operator::GreaterOrEqual,
        BinaryOperator::Plus => Operator::Add,
        BinaryOperator::Minus => Operator::Subtract,
        BinaryOperator::Mul => Operator::Multiply,
        BinaryOperator::Div => Operator::Divide,
        BinaryOperator::Mod => Operator::Remainder,
        BinaryOperator::And => Operator::And,
        BinaryOperator::Or => Operator::Or,
    }
}

fn unknown_name(word: &str, at: Range<u32>) -> Problem {
    if word == SENSITIVE {
        let message = format!("`{SENSITIVE}` stands for a value that `render` does not print");
        return Problem::new(Code::SpecUnknownName, at, message)
            .label("not a value")
            .help("write the value, or `env(…)`, `file(…)` or `nomad_var(…)`");
    }
    let problem = Problem::new(Code::SpecUnknownName, at, format!("unknown name `{word}`"))
        .label("a name, or text without quotes");
    match other_languages::root(word) {
        Some(help) => problem.help(help),
        None => problem.help("put text in double quotes"),
    }
}

fn unknown_function(name: &str, at: Range<u32>) -> Problem {
    const CHANGING: [&str; 7] =
        ["timestamp", "plantimestamp", "uuid", "uuidv4", "uuidv5", "bcrypt", "random"];
    if CHANGING.contains(&name) {
        let message = format!("`{name}` is not a function here: every plan would show a change");
        return Problem::new(Code::SpecUnknownFunction, at, message)
            .label("not a function")
            .help("give the value as a variable");
    }
    if let Some((label, help)) = other_languages::function(name) {
        let message = format!("unknown function `{name}`");
        return Problem::new(Code::SpecUnknownFunction, at, message).label(label).help(help);
    }
    let names = FUNCTIONS.iter().map(|function| function.name);
    let sources = SecretSource::ALL.into_iter().filter(|source| source.is_supported());
    let label =
        suggestion(name, names.chain(sources.map(SecretSource::as_str)), "no such function");
    Problem::new(Code::SpecUnknownFunction, at, format!("unknown function `{name}`")).label(label)
}
