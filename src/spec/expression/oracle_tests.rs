//! Compares random expressions with the evaluator of hcl-rs, which has no limits and no positions.
//!
//! A case is written twice: as it is, and for hcl-rs also so that it does what is meant here. Where
//! the two evaluators differ, the second form must agree, and it says which of the intended
//! differences it is: [`Intended`]. Everything else is a defect.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use hcl::eval::{Context, Evaluate as _, FuncArgs, FuncDef, ParamType};
use nomad_csi_testing::few_or_many;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use super::budget::Budget;
use super::convert::parse_expression;
use super::evaluate::{Scope, VolumeNames, evaluate};
use super::names::Names;
use super::problem::Problem;
use super::value::{Kind, MapItems, Value};
use nomad_csi_model::diagnostic::Code;

/// A difference to hcl-rs that is intended. `expression::evaluate` is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Intended {
    /// `false && x` and `true || x` do not evaluate `x`.
    ShortCircuit,
    /// A text has no part that is a list, a map or null, and numbers in it have no exponent.
    PartsOfTexts,
    /// Division by zero and results that are too large are refused, and whole numbers are exact.
    Arithmetic,
    /// A map is in the order of its keys.
    OrderOfMaps,
    /// A map has no key twice, also if its keys are written in different ways.
    DistinctKeys,
}

impl Intended {
    const ALL: [Self; 5] = [
        Self::ShortCircuit,
        Self::PartsOfTexts,
        Self::Arithmetic,
        Self::OrderOfMaps,
        Self::DistinctKeys,
    ];
}

/// An expression that can be written in both forms.
#[derive(Clone)]
enum Sketch {
    Written(String),
    List(Vec<Sketch>),
    Map(Vec<(Sketch, Sketch)>),
    Template(Vec<Part>),
    Condition(Box<[Sketch; 3]>),
    Unary(&'static str, Box<Sketch>),
    Binary(&'static str, Box<[Sketch; 2]>),
    /// True if the last argument is expanded.
    Call(&'static str, Vec<Sketch>, bool),
    Get(Box<Sketch>, &'static str),
    Index(Box<[Sketch; 2]>),
    For(Box<ForSketch>),
}

#[derive(Clone)]
struct ForSketch {
    names: Vec<String>,
    collection: Sketch,
    key: Option<Sketch>,
    value: Sketch,
    condition: Option<Sketch>,
}

#[derive(Clone)]
enum Part {
    Literal(&'static str),
    /// With the marks that remove the spaces before and after it.
    Value(Sketch, bool, bool),
}

impl Sketch {
    /// Writes the expression; for hcl-rs so that it does what is intended.
    #[expect(clippy::too_many_lines, reason = "one arm for each kind of expression")]
    fn write(&self, intended: &[Intended], out: &mut String) {
        let has = |one: Intended| intended.contains(&one);
        match self {
            Self::Written(text) => out.push_str(text),
            Self::List(items) => write_list("[", items, "]", intended, out),
            Self::Map(items) => {
                let is_checked = has(Intended::DistinctKeys) && items.len() > 1;
                if is_checked {
                    out.push_str("distinct([");
                    for (index, (key, _)) in items.iter().enumerate() {
                        out.push_str(if index > 0 { ", " } else { "" });
                        match key {
                            Self::Written(word) if !word.starts_with('"') => {
                                let _ = write!(out, "\"{word}\"");
                            }
                            key => write_key(key, intended, out),
                        }
                    }
                    out.push_str("], ");
                }
                out.push_str("{ ");
                for (index, (key, value)) in items.iter().enumerate() {
                    out.push_str(if index > 0 { ", " } else { "" });
                    write_key(key, intended, out);
                    out.push_str(" = ");
                    value.write(intended, out);
                }
                out.push_str(if is_checked { " })" } else { " }" });
            }
            Self::Template(parts) => {
                out.push('"');
                for part in parts {
                    match part {
                        Part::Literal(text) => out.push_str(text),
                        Part::Value(value, strips_before, strips_after) => {
                            out.push_str(if *strips_before { "${~ " } else { "${" });
                            let is_part = parts.len() > 1 && has(Intended::PartsOfTexts);
                            out.push_str(if is_part { "part(" } else { "" });
                            value.write(intended, out);
                            out.push_str(if is_part { ")" } else { "" });
                            out.push_str(if *strips_after { " ~}" } else { "}" });
                        }
                    }
                }
                out.push('"');
            }
            Self::Condition(three) => {
                let [condition, then, otherwise] = &**three;
                out.push('(');
                condition.write(intended, out);
                out.push_str(" ? ");
                then.write(intended, out);
                out.push_str(" : ");
                otherwise.write(intended, out);
                out.push(')');
            }
            Self::Unary(operator, inner) => {
                let is_checked = *operator == "-" && has(Intended::Arithmetic);
                out.push_str(if is_checked { "subtract(0, " } else { "(" });
                out.push_str(if is_checked { "" } else { operator });
                inner.write(intended, out);
                out.push(')');
            }
            Self::Binary(operator, sides) => {
                let [left, right] = &**sides;
                let (before, between, after) = match *operator {
                    "&&" if has(Intended::ShortCircuit) => {
                        ("(", " ? (", " ? true : false) : false)")
                    }
                    "||" if has(Intended::ShortCircuit) => {
                        ("(", " ? true : (", " ? true : false))")
                    }
                    "+" if has(Intended::Arithmetic) => ("add(", ", ", ")"),
                    "-" if has(Intended::Arithmetic) => ("subtract(", ", ", ")"),
                    "*" if has(Intended::Arithmetic) => ("multiply(", ", ", ")"),
                    "/" if has(Intended::Arithmetic) => ("divide(", ", ", ")"),
                    "%" if has(Intended::Arithmetic) => ("remainder(", ", ", ")"),
                    _ => ("(", *operator, ")"),
                };
                out.push_str(before);
                left.write(intended, out);
                let _ = write!(out, " {between} ");
                right.write(intended, out);
                out.push_str(after);
            }
            Self::Call(name, args, expands) => {
                out.push_str(name);
                write_list("(", args, if *expands { "...)" } else { ")" }, intended, out);
            }
            Self::Get(of, key) => {
                of.write(intended, out);
                let _ = write!(out, ".{key}");
            }
            Self::Index(pair) => {
                let [of, index] = &**pair;
                of.write(intended, out);
                write_list("[", std::slice::from_ref(index), "]", intended, out);
            }
            Self::For(each) => {
                let _ = write!(out, "{}for ", if each.key.is_some() { '{' } else { '[' });
                let _ = write!(out, "{} in ", each.names.join(", "));
                let is_ordered = has(Intended::OrderOfMaps);
                out.push_str(if is_ordered { "ordered(" } else { "" });
                each.collection.write(intended, out);
                out.push_str(if is_ordered { ") : " } else { " : " });
                if let Some(key) = &each.key {
                    write_key(key, intended, out);
                    out.push_str(" => ");
                }
                each.value.write(intended, out);
                if let Some(condition) = &each.condition {
                    out.push_str(" if ");
                    condition.write(intended, out);
                }
                out.push(if each.key.is_some() { '}' } else { ']' });
            }
        }
    }

    fn text(&self, intended: &[Intended]) -> String {
        let mut out = String::new();
        self.write(intended, &mut out);
        out
    }
}

/// Writes the key of an item of a map; a bare word stays one.
fn write_key(key: &Sketch, intended: &[Intended], out: &mut String) {
    let is_bare = matches!(key, Sketch::Written(_));
    if is_bare || !intended.contains(&Intended::PartsOfTexts) {
        return key.write(intended, out);
    }
    out.push_str("(part(");
    key.write(intended, out);
    out.push_str("))");
}

fn write_list(open: &str, items: &[Sketch], close: &str, intended: &[Intended], out: &mut String) {
    out.push_str(open);
    for (index, item) in items.iter().enumerate() {
        out.push_str(if index > 0 { ", " } else { "" });
        item.write(intended, out);
    }
    out.push_str(close);
}

/// The type that an expression should have, so that most expressions have a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    Number,
    Text,
    Bool,
    List,
    Map,
    Any,
}

/// Draws an expression from a tape of choices. An empty tape ends it soon, so shorter is simpler.
///
/// There are no escapes with a backslash and no here-documents, because hcl-rs reads a text inside
/// `${…}` a second time.
struct Author<'t> {
    tape: std::slice::Iter<'t, u8>,
    /// The names of the `for` expressions around, with their types.
    bound: Vec<(String, Want)>,
}

impl Author<'_> {
    fn choose(&mut self, count: u8) -> u8 {
        self.tape.next().map_or(0, |byte| byte % count)
    }

    fn one(&mut self, texts: &[&str]) -> Sketch {
        let index = self.choose(u8::try_from(texts.len()).unwrap());
        Sketch::Written(texts[usize::from(index)].to_owned())
    }

    fn leaf(&mut self, want: Want) -> Sketch {
        let fitting = self.bound.iter().filter(|(_, has)| *has == want || *has == Want::Any);
        let fitting: Vec<String> = fitting.map(|(name, _)| name.clone()).collect();
        if !fitting.is_empty() && self.choose(2) == 1 {
            let index = self.choose(u8::try_from(fitting.len()).unwrap());
            return Sketch::Written(fitting[usize::from(index)].clone());
        }
        match want {
            Want::Number => self.one(&[
                "1",
                "0",
                "2",
                "7",
                "3.5",
                "-4",
                "var.n",
                "0.1",
                "1e3",
                "var.l[1]",
                "count.index",
                "9007199254740993",
                "9223372036854775807",
                "-9223372036854775808",
                "1e300",
            ]),
            Want::Text => self.one(&[
                "\"a\"",
                "\"\"",
                "var.s",
                "\"k\"",
                "each.key",
                "volume.id",
                "volume.key",
                "\"$${x}\"",
                "\"é\"",
                "volume.label",
                "\"1\"",
            ]),
            Want::Bool => self.one(&["true", "false", "var.b", "local.x.a[0]"]),
            Want::List => self.one(&["var.l", "[]", "local.x.a", "[3, 1, 2]"]),
            Want::Map => self.one(&["var.m", "{}", "local.x", "each.value", "{ b = 2, a = 1 }"]),
            Want::Any => match self.choose(6) {
                0 => Sketch::Written("null".to_owned()),
                1 => self.leaf(Want::Number),
                2 => self.leaf(Want::Text),
                3 => self.leaf(Want::Bool),
                4 => self.leaf(Want::List),
                _ => self.leaf(Want::Map),
            },
        }
    }

    fn boxed(&mut self, want: Want, depth: u8) -> Box<Sketch> {
        Box::new(self.sketch(want, depth))
    }

    fn pair(&mut self, left: Want, right: Want, depth: u8) -> Box<[Sketch; 2]> {
        Box::new([self.sketch(left, depth), self.sketch(right, depth)])
    }

    fn operator(&mut self, operators: &[&'static str]) -> &'static str {
        let index = self.choose(u8::try_from(operators.len()).unwrap());
        operators[usize::from(index)]
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each type")]
    fn sketch(&mut self, want: Want, depth: u8) -> Sketch {
        // Some parts have another type than they should.
        let want = match self.choose(16) {
            15 => Want::Any,
            _ => want,
        };
        if depth == 0 {
            return self.leaf(want);
        }
        let depth = depth - 1;
        match self.choose(12) {
            0 => return self.leaf(want),
            1 => {
                let condition = self.sketch(Want::Bool, depth);
                let (then, otherwise) = (self.sketch(want, depth), self.sketch(want, depth));
                return Sketch::Condition(Box::new([condition, then, otherwise]));
            }
            2 => {
                let value = self.sketch(want, depth);
                return Sketch::Template(vec![Part::Value(value, false, false)]);
            }
            3 => {
                let items = Sketch::List(vec![self.sketch(want, depth), self.sketch(want, depth)]);
                return Sketch::Index(Box::new([items, self.one(&["0", "1", "2", "-1", "0.5"])]));
            }
            4 => {
                let value = self.sketch(want, depth);
                let of = Sketch::Map(vec![(Sketch::Written("a".to_owned()), value)]);
                return Sketch::Get(Box::new(of), if self.choose(8) == 7 { "b" } else { "a" });
            }
            _ => {}
        }
        match want {
            Want::Number => match self.choose(8) {
                0 => Sketch::Unary("-", self.boxed(Want::Number, depth)),
                1 => Sketch::Call("length", vec![self.sketch(Want::List, depth)], false),
                2 => {
                    let items = self.sketch(Want::List, depth);
                    Sketch::Call("max", vec![self.sketch(Want::Number, depth), items], true)
                }
                _ => {
                    let operator = self.operator(&["+", "-", "*", "/", "%"]);
                    Sketch::Binary(operator, self.pair(Want::Number, Want::Number, depth))
                }
            },
            Want::Text => match self.choose(4) {
                0 => Sketch::Call("upper", vec![self.sketch(Want::Text, depth)], false),
                _ => {
                    let mut parts = vec![];
                    for _ in 0..=self.choose(3) {
                        let literal = ["x", " ", " y ", "$${"][usize::from(self.choose(4))];
                        parts.push(Part::Literal(literal));
                        let want = [Want::Text, Want::Number, Want::Bool, Want::Any];
                        let want = want[usize::from(self.choose(4))];
                        let value = self.sketch(want, depth);
                        parts.push(Part::Value(value, self.choose(4) == 3, self.choose(4) == 3));
                    }
                    Sketch::Template(parts)
                }
            },
            Want::Bool => match self.choose(5) {
                0 => Sketch::Unary("!", self.boxed(Want::Bool, depth)),
                1 => {
                    let operator = self.operator(&["<", "<=", ">", ">="]);
                    Sketch::Binary(operator, self.pair(Want::Number, Want::Number, depth))
                }
                2 => {
                    let operator = self.operator(&["==", "!="]);
                    let want = [Want::Number, Want::Text, Want::List, Want::Map, Want::Any];
                    let want = want[usize::from(self.choose(5))];
                    Sketch::Binary(operator, self.pair(want, want, depth))
                }
                _ => {
                    let operator = self.operator(&["&&", "||"]);
                    Sketch::Binary(operator, self.pair(Want::Bool, Want::Bool, depth))
                }
            },
            Want::List => match self.choose(4) {
                0 => {
                    let count = self.choose(4);
                    let want = [Want::Number, Want::Text, Want::Any, Want::Map];
                    let want = want[usize::from(self.choose(4))];
                    Sketch::List((0..count).map(|_| self.sketch(want, depth)).collect())
                }
                1 => {
                    let lists =
                        vec![self.sketch(Want::List, depth), self.sketch(Want::List, depth)];
                    Sketch::Call("concat", lists, false)
                }
                _ => self.for_sketch(false, depth),
            },
            Want::Map => match self.choose(3) {
                0 => {
                    let count = self.choose(4);
                    let item = |author: &mut Self| {
                        let key = match author.choose(3) {
                            0 => Sketch::Call("", vec![author.sketch(Want::Text, depth)], false),
                            _ => author.one(&["a", "b", "\"c d\"", "k"]),
                        };
                        (key, author.sketch(Want::Any, depth))
                    };
                    Sketch::Map((0..count).map(|_| item(self)).collect())
                }
                _ => self.for_sketch(true, depth),
            },
            Want::Any => {
                let all = [Want::Number, Want::Text, Want::Bool, Want::List, Want::Map];
                let want = all[usize::from(self.choose(5))];
                self.sketch(want, depth)
            }
        }
    }

    fn for_sketch(&mut self, has_key: bool, depth: u8) -> Sketch {
        let is_map = self.choose(2) == 1;
        let collection = self.sketch(if is_map { Want::Map } else { Want::List }, depth);
        let before = self.bound.len();
        if has_key || self.choose(2) == 1 {
            let want = if is_map { Want::Text } else { Want::Number };
            self.bound.push((format!("k{before}"), want));
        }
        self.bound.push((format!("v{before}"), Want::Any));
        let names = self.bound[before..].iter().map(|(name, _)| name.clone()).collect();
        let key = has_key.then(|| match self.choose(3) {
            0 => Sketch::Written(format!("k{before}")),
            1 => Sketch::Template(vec![
                Part::Literal("x"),
                Part::Value(Sketch::Written(format!("k{before}")), false, false),
            ]),
            _ => self.sketch(Want::Text, depth),
        });
        let value = self.sketch(Want::Any, depth);
        let condition = (self.choose(3) == 2).then(|| self.sketch(Want::Bool, depth));
        self.bound.truncate(before);
        Sketch::For(Box::new(ForSketch { names, collection, key, value, condition }))
    }
}

fn draw(tape: &[u8]) -> Sketch {
    let mut author = Author { tape: tape.iter(), bound: vec![] };
    let depth = 1 + author.choose(5);
    author.sketch(Want::Any, depth)
}

/// A value without what does not matter: the order of maps, and how a number is stored.
#[derive(Clone, Debug, PartialEq)]
enum Plain {
    Null,
    Bool(bool),
    Whole(i128),
    Fraction(f64),
    Text(String),
    List(Vec<Plain>),
    Map(BTreeMap<String, Plain>),
}

fn plain(value: &Value) -> Plain {
    match &value.kind {
        Kind::Null => Plain::Null,
        Kind::Bool(value) => Plain::Bool(*value),
        Kind::Integer(number) => Plain::Whole(i128::from(*number)),
        Kind::Float(number) => plain_float(*number),
        Kind::Text(text) => Plain::Text(text.as_ref().to_owned()),
        Kind::List(items, _) => Plain::List(items.iter().map(plain).collect()),
        Kind::Map(items, _) => Plain::Map(
            items.iter().map(|(key, value)| (key.as_ref().to_owned(), plain(value))).collect(),
        ),
        Kind::Secret(_) | Kind::Unknown => panic!("no expression has it"),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the number is whole and small enough")]
fn plain_float(number: f64) -> Plain {
    match number.fract() == 0.0 && number.abs() < 1e30 {
        true => Plain::Whole(number as i128),
        false => Plain::Fraction(number),
    }
}

fn plain_of_library(value: &hcl::Value) -> Plain {
    match value {
        hcl::Value::Null => Plain::Null,
        hcl::Value::Bool(value) => Plain::Bool(*value),
        hcl::Value::Number(number) => {
            let whole = number.as_i64().map(i128::from).or(number.as_u64().map(i128::from));
            whole.map_or_else(|| plain_float(number.as_f64().unwrap()), Plain::Whole)
        }
        hcl::Value::String(text) => Plain::Text(text.clone()),
        hcl::Value::Array(items) => Plain::List(items.iter().map(plain_of_library).collect()),
        hcl::Value::Object(items) => Plain::Map(
            items.iter().map(|(key, value)| (key.clone(), plain_of_library(value))).collect(),
        ),
    }
}

const VARIABLES: &str = "{ s = \"t\", n = 5, b = true, l = [1, 2, 3], m = { a = 9, k = \"v\" } }";
const LOCALS: &str = "{ x = { a = [true] } }";
const EACH: &str = "{ key = \"eu\", value = { size = 3 } }";
const COUNT: &str = "{ index = 4 }";
const VOLUME: &str = "{ id = \"pg[4]\", key = \"pg-4\", label = \"pg\" }";

/// Evaluates here.
fn own(text: &str) -> Result<Value, Problem> {
    let mut names = Names::default();
    let mut values = |text: &str| match parse_expression(text, &mut names) {
        Ok(expr) => evaluate(&expr, &Scope::default(), &mut Budget::run()).unwrap(),
        Err(problems) => panic!("{text}: {}", problems[0].message),
    };
    let items = |value: Value| match value.kind {
        Kind::Map(items, _) => items,
        other => panic!("{other:?}"),
    };
    let (variable_items, local_items) = (items(values(VARIABLES)), items(values(LOCALS)));
    let each = items(values(EACH));
    let slots = |items: &MapItems, slot: &mut dyn FnMut(&str) -> u32| {
        let mut slots = vec![None; items.len()];
        for (name, value) in items {
            slots[slot(name) as usize] = Some(value.clone());
        }
        slots
    };
    let variables = slots(&variable_items, &mut |name| names.variable(name));
    let locals = slots(&local_items, &mut |name| names.local(name));
    let volume = VolumeNames { label: "pg".into(), key: "pg-4".into(), id: "pg[4]".into() };
    let scope = Scope {
        variables: &variables,
        locals: &locals,
        each: Some((&each["key"], &each["value"])),
        count_index: Some(4),
        volume: Some(&volume),
        place: None,
    };
    let expr = parse_expression(text, &mut names).map_err(|mut problems| problems.remove(0))?;
    evaluate(&expr, &scope, &mut Budget::run())
}

/// What hcl-rs says.
#[derive(Debug, PartialEq)]
enum Library {
    Value(Plain),
    Refuses(String),
    Panics,
}

fn library(text: &str, context: &Context<'_>) -> Library {
    let evaluated = catch_unwind(AssertUnwindSafe(|| {
        let expression: hcl::Expression = text.parse().map_err(|error| format!("{error}"))?;
        expression.evaluate(context).map_err(|error| error.to_string())
    }));
    match evaluated {
        Ok(Ok(value)) => Library::Value(plain_of_library(&value)),
        Ok(Err(reason)) => Library::Refuses(reason),
        Err(_) => Library::Panics,
    }
}

#[expect(clippy::too_many_lines, reason = "one statement for each function")]
fn library_context() -> Context<'static> {
    let mut context = Context::new();
    for (name, text) in [
        ("var", VARIABLES),
        ("local", LOCALS),
        ("each", EACH),
        ("count", COUNT),
        ("volume", VOLUME),
    ] {
        let value = text.parse::<hcl::Expression>().unwrap().evaluate(&Context::new()).unwrap();
        context.declare_var(name, value);
    }
    let any = ParamType::Any;
    let one = |function| FuncDef::builder().param(any.clone()).build(function);
    let two = |function| FuncDef::builder().params([any.clone(), any.clone()]).build(function);
    let more = |function| FuncDef::builder().variadic_param(any.clone()).build(function);
    context.declare_func(
        "upper",
        one(|args: FuncArgs| match &args[0] {
            hcl::Value::String(text) => Ok(text.to_uppercase().into()),
            _ => Err("not a text".to_owned()),
        }),
    );
    context.declare_func(
        "length",
        one(|args: FuncArgs| match &args[0] {
            hcl::Value::String(text) => Ok(text.chars().count().into()),
            hcl::Value::Array(items) => Ok(items.len().into()),
            hcl::Value::Object(items) => Ok(items.len().into()),
            _ => Err("it has no length".to_owned()),
        }),
    );
    context.declare_func(
        "max",
        more(|args: FuncArgs| {
            let mut best: Option<hcl::Number> = None;
            for value in args.iter() {
                let hcl::Value::Number(number) = value else {
                    return Err("not a number".to_owned());
                };
                if best.is_none_or(|best| *number > best) {
                    best = Some(*number);
                }
            }
            best.map(hcl::Value::Number).ok_or_else(|| "no number".to_owned())
        }),
    );
    context.declare_func(
        "concat",
        more(|args: FuncArgs| {
            let mut all = vec![];
            for value in args.iter() {
                let hcl::Value::Array(items) = value else { return Err("not a list".to_owned()) };
                all.extend(items.iter().cloned());
            }
            Ok(all.into())
        }),
    );
    context.declare_func(
        "part",
        one(|args: FuncArgs| match &args[0] {
            hcl::Value::Null | hcl::Value::Array(_) | hcl::Value::Object(_) => {
                Err("no text".to_owned())
            }
            hcl::Value::Number(number) if number.as_i64().is_none() => {
                Ok(number.as_f64().unwrap().to_string().into())
            }
            other => Ok(other.clone()),
        }),
    );
    context.declare_func(
        "ordered",
        one(|args: FuncArgs| match &args[0] {
            hcl::Value::Object(items) => {
                let items: BTreeMap<_, _> = items.clone().into_iter().collect();
                Ok(hcl::Value::Object(items.into_iter().collect()))
            }
            other => Ok(other.clone()),
        }),
    );
    context.declare_func(
        "distinct",
        two(|args: FuncArgs| match &args[0] {
            hcl::Value::Array(keys) => {
                let texts: BTreeSet<String> = keys
                    .iter()
                    .map(|key| match key {
                        hcl::Value::String(text) => text.clone(),
                        other => other.to_string(),
                    })
                    .collect();
                match texts.len() == keys.len() {
                    true => Ok(args[1].clone()),
                    false => Err("a key twice".to_owned()),
                }
            }
            _ => Err("no list".to_owned()),
        }),
    );
    context.declare_func("add", two(|args: FuncArgs| checked('+', &args[0], &args[1])));
    context.declare_func("subtract", two(|args: FuncArgs| checked('-', &args[0], &args[1])));
    context.declare_func("multiply", two(|args: FuncArgs| checked('*', &args[0], &args[1])));
    context.declare_func("divide", two(|args: FuncArgs| checked('/', &args[0], &args[1])));
    context.declare_func("remainder", two(|args: FuncArgs| checked('%', &args[0], &args[1])));
    context
}

/// Calculates with 128 bits where both numbers are whole.
fn checked(operator: char, left: &hcl::Value, right: &hcl::Value) -> Result<hcl::Value, String> {
    let (hcl::Value::Number(left), hcl::Value::Number(right)) = (left, right) else {
        return Err("not a number".to_owned());
    };
    let (x, y) = (left.as_f64().unwrap(), right.as_f64().unwrap());
    if y == 0.0 && matches!(operator, '/' | '%') {
        return Err("zero".to_owned());
    }
    let whole = |number: &hcl::Number| number.as_i64().map(i128::from);
    if let (Some(a), Some(b)) = (whole(left), whole(right)) {
        let exact = match operator {
            '+' => Some(a + b),
            '-' => Some(a - b),
            '*' => Some(a * b),
            '%' => Some(a % b),
            _ => (a % b == 0).then(|| a / b),
        };
        if let Some(exact) = exact {
            let small = i64::try_from(exact).map_err(|_| "too large".to_owned())?;
            return Ok(small.into());
        }
    }
    let result = match operator {
        '+' => x + y,
        '-' => x - y,
        '*' => x * y,
        '/' => x / y,
        _ => x % y,
    };
    hcl::Number::from_f64(result).map(hcl::Value::Number).ok_or_else(|| "too large".to_owned())
}

fn agrees(own: &Result<Value, Problem>, library: &Library) -> bool {
    match (own, library) {
        (Ok(value), Library::Value(other)) => plain(value) == *other,
        (Err(_), Library::Refuses(_)) => true,
        _ => false,
    }
}

/// What a comparison found.
#[derive(Debug, Default)]
struct Counts {
    equal: usize,
    both_refuse: usize,
    library_panics: usize,
    intended: BTreeMap<Vec<Intended>, usize>,
}

fn is_refused_for_equal_keys(text: &str) -> bool {
    let parsed = parse_expression(text, &mut Names::default());
    let problems = parsed.err().unwrap_or_default();
    problems.iter().any(|problem| problem.code == Code::SpecDuplicateField)
}

/// Compares one expression; an error says how the evaluators differ without intent.
fn compare(sketch: &Sketch, context: &Context<'_>, counts: &mut Counts) -> Result<(), String> {
    let text = sketch.text(&[]);
    let own = own(&text);
    let as_written = library(&text, context);
    if agrees(&own, &as_written) {
        *if own.is_ok() { &mut counts.equal } else { &mut counts.both_refuse } += 1;
        return Ok(());
    }
    counts.library_panics += usize::from(as_written == Library::Panics);
    // Keys that are equal whatever the values are, also in a branch that is not taken: nothing is evaluated.
    if is_refused_for_equal_keys(&text) {
        *counts.intended.entry(vec![Intended::DistinctKeys]).or_default() += 1;
        return Ok(());
    }
    let as_intended = library(&sketch.text(&Intended::ALL), context);
    if !agrees(&own, &as_intended) {
        let own = own.map(|value| plain(&value)).map_err(|problem| problem.message);
        return Err(format!(
            "{text}\n  here: {own:?}\n  hcl-rs: {as_written:?}\n  intended: {as_intended:?}"
        ));
    }
    let one =
        Intended::ALL.iter().find(|one| agrees(&own, &library(&sketch.text(&[**one]), context)));
    *counts.intended.entry(one.map_or_else(Vec::new, |one| vec![*one])).or_default() += 1;
    Ok(())
}

fn run_cases(cases: u32) -> Counts {
    let context = library_context();
    let counts = RefCell::new(Counts::default());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let tapes = proptest::collection::vec(any::<u8>(), 0..120);
    let result = TestRunner::new(config).run(&tapes, |tape| {
        let sketch = draw(&tape);
        compare(&sketch, &context, &mut counts.borrow_mut()).map_err(TestCaseError::fail)
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, _)) => panic!("{reason}"),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
    counts.into_inner()
}

#[expect(clippy::print_stdout, reason = "the counts are a result")]
fn assert_agreement(cases: u32) {
    let counts = run_cases(cases);
    println!("{cases} cases: {counts:?}");
    let is_many = cases >= 20_000;
    let cases = usize::try_from(cases).unwrap();
    assert!(counts.equal > cases / 3, "too few expressions have a value: {counts:?}");
    for one in Intended::ALL {
        let occurred = counts.intended.contains_key(&vec![one]);
        assert!(occurred || !is_many, "{one:?} did not occur: {counts:?}");
    }
}

#[test]
fn random_expressions_have_the_values_of_hcl_rs_or_differ_as_intended() {
    assert_agreement(few_or_many(2_000, 20_000));
}

#[test]
#[ignore = "takes a minute in release, more without"]
fn random_expressions_have_the_values_of_hcl_rs_in_many_cases() {
    assert_agreement(200_000);
}

#[test]
fn each_intended_difference_to_hcl_rs_is_one() {
    let context = library_context();
    let text = |text: &str| Ok(Plain::Text(text.to_owned()));
    for (expression, expected) in [
        ("false && 1", Ok(Plain::Bool(false))),
        ("true || 5 % 0 == 1", Ok(Plain::Bool(true))),
        ("\"x${[1]}\"", Err("a list cannot be part of a text")),
        ("\"x${{ a = 1 }}\"", Err("a map cannot be part of a text")),
        ("\"x${null}\"", Err("null cannot be part of a text")),
        ("\"x${0.5e-7}\"", text("x0.00000005")),
        ("5 % 0", Err("cannot divide by zero")),
        ("9223372036854775807 + 1", Err("the result is too large")),
        ("-(-9223372036854775807 - 1)", Err("the result is too large")),
        ("18446744073709551615", Err("the number is too large")),
        ("{ a = 1, \"a\" = 2 }", Err("the map has the key `a` twice")),
        ("{ (upper(\"a\")) = 1, A = 2 }", Err("the map has the key `A` twice")),
        (
            "[for k, v in { b = 1, a = 2 } : k]",
            Ok(Plain::List(vec![Plain::Text("a".to_owned()), Plain::Text("b".to_owned())])),
        ),
    ] {
        let own = own(expression);
        assert!(!agrees(&own, &library(expression, &context)), "{expression}");
        let own = own.map(|value| plain(&value)).map_err(|problem| problem.message);
        assert_eq!(own, expected.map_err(ToOwned::to_owned), "{expression}");
    }
}

#[test]
fn operators_bind_as_in_hcl2() {
    let context = library_context();
    for expression in [
        "1 + 2 * 3",
        "10 - 4 - 3",
        "2 * 3 % 4",
        "-2 + 3",
        "!true || true",
        "1 + 1 == 2 && 3 > 2",
        "1 < 2 == true",
        "true || false && false",
        "true ? 1 : false ? 2 : 3",
        "1 == 1 ? 2 + 3 : 4",
        "100 / 10 / 5",
        "-var.l[0]",
        "7 - 3 + 2",
        "12 / 2 * 3",
    ] {
        let (own, library) = (own(expression), library(expression, &context));
        assert!(own.is_ok() && agrees(&own, &library), "{expression}: {own:?} {library:?}");
    }
}
